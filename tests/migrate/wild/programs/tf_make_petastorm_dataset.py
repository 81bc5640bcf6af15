import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
from petastorm import make_reader
from petastorm.tf_utils import make_petastorm_dataset, tf_tensors
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from petastorm.codecs import ScalarCodec, CompressedImageCodec
import numpy as np
from pyspark.sql.types import IntegerType

MnistSchema = Unischema('MnistSchema', [
    UnischemaField('idx', np.int_, (), ScalarCodec(IntegerType()), False),
    UnischemaField('digit', np.int_, (), ScalarCodec(IntegerType()), False),
    UnischemaField('image', np.uint8, (4, 4), CompressedImageCodec('png'), False),
])


def train_and_test(dataset_url):
    with make_reader(dataset_url, num_epochs=1, shuffle_row_groups=False) as train_reader:
        train_dataset = make_petastorm_dataset(train_reader) \
            .apply(tf.data.experimental.shuffle_and_repeat(1, count=1)) \
            .map(lambda x: (tf.cast(tf.reshape(x.image, (16,)), tf.float32) / 255, tf.one_hot(x.digit, 10))) \
            .batch(4)
        return [[list(i.shape), list(l.shape), float(tf.reduce_sum(i)), tf.argmax(l, 1).numpy().tolist()] for i, l in train_dataset]


def main(spark, directory):
    url = 'file://' + directory + '/mnist'
    with materialize_dataset(spark, url, MnistSchema, 1):
        rows = [dict_to_spark_row(MnistSchema, {'idx': i, 'digit': i % 10, 'image': np.full((4, 4), 51 * (i % 5), np.uint8)}) for i in range(6)]
        spark.createDataFrame(rows, MnistSchema.as_spark_schema()).coalesce(1).write.parquet(url)
    return [[a, b, round(c, 4), d] for a, b, c, d in train_and_test(url)]
