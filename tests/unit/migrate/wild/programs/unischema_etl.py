"""Write-side ETL, the way petastorm's README teaches it."""
from decimal import Decimal

import numpy as np
from petastorm import make_reader
from petastorm.codecs import (CompressedImageCodec, CompressedNdarrayCodec,
                              NdarrayCodec, ScalarCodec)
from petastorm.etl.dataset_metadata import materialize_dataset, get_schema_from_dataset_url
from petastorm.unischema import (Unischema,
                                 UnischemaField, dict_to_spark_row)
from pyspark.sql.types import DecimalType, IntegerType, StringType

HelloWorldSchema = Unischema('HelloWorldSchema', [
    UnischemaField('id', np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField('name', np.str_, (), ScalarCodec(StringType()), True),
    UnischemaField('price', Decimal, (), ScalarCodec(DecimalType(10, 2)), False),
    UnischemaField('image1', np.uint8, (8, 16, 3), CompressedImageCodec('png'), False),
    UnischemaField('array_4d', np.uint8, (None, 2, None), NdarrayCodec(), False),
    UnischemaField('zipped', np.float64, (4,), CompressedNdarrayCodec(), False),
])


def row_generator(x):
    """Returns a single entry in the generated dataset."""
    return {'id': x,
            'name': None if x % 3 == 0 else 'näme %d' % x,
            'price': Decimal('1.50') * x,
            'image1': np.full((8, 16, 3), x, dtype=np.uint8),
            'array_4d': np.full((x + 1, 2, 3), x, dtype=np.uint8),
            'zipped': np.arange(4) * float(x)}


def generate(spark, output_url, rows_count=6):
    sc = spark.sparkContext
    with materialize_dataset(spark, output_url, HelloWorldSchema, row_group_size_mb=1):
        rows_rdd = sc.parallelize(range(rows_count), 2) \
            .map(row_generator) \
            .map(lambda x: dict_to_spark_row(HelloWorldSchema, x))
        spark.createDataFrame(rows_rdd, HelloWorldSchema.as_spark_schema()) \
            .coalesce(2) \
            .write \
            .mode('overwrite') \
            .parquet(output_url)


def main(spark, directory):
    url = 'file://' + directory + '/hello_world_dataset'
    generate(spark, url)
    schema = get_schema_from_dataset_url(url)
    found = []
    with make_reader(url) as reader:
        for row in reader:
            found.append([int(row.id), row.name, str(row.price), int(row.image1.sum()),
                          list(row.array_4d.shape), row.zipped.tolist(), str(row.image1.dtype)])
    return {'rows': sorted(found), 'fields': sorted(schema.fields), 'name': schema._name}
