"""Code in TensorFlow 1 style, with a graph, a session and an iterator for one pass."""
import tensorflow as tf
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    conv = make_spark_converter(spark.range(6).toDF("n").coalesce(1))
    values = []
    with tf.Graph().as_default():
        with conv.make_tf_dataset(batch_size=4, num_epochs=1, shuffle_row_groups=False) as dataset:
            tensor = dataset.make_one_shot_iterator().get_next()
            with tf.compat.v1.Session() as session:
                while True:
                    try:
                        values.append(session.run(tensor).n.tolist())
                    except tf.errors.OutOfRangeError:
                        return values
