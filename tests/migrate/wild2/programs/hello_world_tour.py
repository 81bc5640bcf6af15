"""Minimal hello world, one process: generate with Spark, read back in plain python, pytorch and tensorflow."""
from __future__ import division, print_function

import numpy as np
from pyspark.sql.types import IntegerType

from petastorm import make_reader
from petastorm.codecs import ScalarCodec, CompressedImageCodec, NdarrayCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import dict_to_spark_row, Unischema, UnischemaField

# The schema defines how the dataset schema looks like
HelloWorldSchema = Unischema('HelloWorldSchema', [
    UnischemaField('id', np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField('image1', np.uint8, (16, 32, 3), CompressedImageCodec('png'), False),
    UnischemaField('array_4d', np.uint8, (None, 4, 6, None), NdarrayCodec(), False),
])


def row_generator(x):
    """Returns a single entry in the generated dataset. Return a bunch of deterministic values as an example."""
    rng = np.random.RandomState(x)
    return {'id': x,
            'image1': rng.randint(0, 255, dtype=np.uint8, size=(16, 32, 3)),
            'array_4d': rng.randint(0, 255, dtype=np.uint8, size=(4, 4, 6, 3))}


def generate_petastorm_dataset(spark, output_url):
    rowgroup_size_mb = 256
    sc = spark.sparkContext
    rows_count = 10
    with materialize_dataset(spark, output_url, HelloWorldSchema, rowgroup_size_mb):
        rows_rdd = sc.parallelize(range(rows_count), 2)\
            .map(row_generator)\
            .map(lambda x: dict_to_spark_row(HelloWorldSchema, x))

        spark.createDataFrame(rows_rdd, HelloWorldSchema.as_spark_schema()) \
            .coalesce(2) \
            .write \
            .mode('overwrite') \
            .parquet(output_url)


def python_hello_world(dataset_url):
    with make_reader(dataset_url) as reader:
        # Pure python
        return sorted((int(s.id), str(s.image1.shape), int(s.array_4d.astype(int).sum())) for s in reader)


def pytorch_hello_world(dataset_url):
    from petastorm.pytorch import DataLoader
    out = []
    with DataLoader(make_reader(dataset_url, schema_fields=['id', 'image1'])) as train_loader:
        for sample in train_loader:
            out.append((int(sample['id'][0]), str(tuple(sample['image1'].shape))))
    return sorted(out)


def tensorflow_hello_world(dataset_url):
    import tensorflow as tf
    from petastorm.tf_utils import make_petastorm_dataset

    with make_reader(dataset_url, num_epochs=1) as reader:
        dataset = make_petastorm_dataset(reader)
        assert isinstance(dataset, tf.data.Dataset)
        return sorted(int(t.id.numpy()) for t in dataset)


def main(spark, directory):
    url = 'file://' + directory + '/hello_world_dataset'
    generate_petastorm_dataset(spark, url)
    return [python_hello_world(url), pytorch_hello_world(url), tensorflow_hello_world(url)]


if __name__ == '__main__':
    from pyspark.sql import SparkSession
    main(SparkSession.builder.master('local[2]').getOrCreate(), '/tmp')
