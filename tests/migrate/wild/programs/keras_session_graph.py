import tensorflow.compat.v1 as tf
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, 'file://' + directory)
    conv = make_spark_converter(spark.range(0, 4, 1, 1).selectExpr("id", "float(id) f"))
    got = []
    with conv.make_tf_dataset(batch_size=2, num_epochs=1, workers_count=1) as dataset:
        with tf.Graph().as_default():
            pass
        for b in dataset:
            got.append([b.id.numpy().tolist(), b.f.numpy().tolist(), b.f.dtype.name, sorted(b._fields)])
    return got
