from functools import partial, wraps

import numpy as np
import pyspark.sql.types as sql_types

from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import get_schema_from_dataset_url, materialize_dataset
from petastorm.tools.copy_dataset import copy_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row, match_unischema_fields

COMMANDS = {}


def command(f):
    COMMANDS[f.__name__.rstrip('_')] = f
    return f


ToolSchema = Unischema('ToolSchema', [
    UnischemaField('id', np.int32, (), ScalarCodec(sql_types.IntegerType()), False),
    UnischemaField('val_a', np.float32, (), ScalarCodec(sql_types.FloatType()), True),
    UnischemaField('val_b', np.float32, (), ScalarCodec(sql_types.FloatType()), True),
    UnischemaField('other', np.str_, (), ScalarCodec(sql_types.StringType()), True),
])


@command
def make(spark, args):
    to_row = partial(dict_to_spark_row, ToolSchema)
    with materialize_dataset(spark, args.url, ToolSchema, 1):
        rows = [{'id': i, 'val_a': float(i), 'val_b': None, 'other': 'x' * i} for i in range(args.rows)]
        spark.createDataFrame(list(map(to_row, rows)), ToolSchema.as_spark_schema()).write.parquet(args.url)
    return args.rows


@command
def copy(spark, args):
    copy_dataset(spark, args.url, args.target, args.field_regex, ['val_a'], False, 2, 16, hdfs_driver='libhdfs')
    return sorted(f.name for f in match_unischema_fields(ToolSchema, args.field_regex))


@command
def describe(spark, args):
    schema = get_schema_from_dataset_url(args.url)
    return [str(schema).splitlines()[0], sorted((f.name, f.numpy_dtype.__name__, f.nullable) for f in schema.fields.values())]


@command
def count(spark, args):
    import petastorm.reader as R
    with R.make_reader(args.url, reader_pool_type=args.pool) as reader:
        return sum(1 for _ in reader)
