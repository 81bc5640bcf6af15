"""Unischemas, datasets with one, and the migration of code."""

from collections import OrderedDict

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType
from typing_extensions import assert_type

from mdstorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from mdstorm_migrate import Result, migrate

SCHEMA = Unischema(
    "Hello",
    [
        UnischemaField("id", np.int32, (), ScalarCodec(IntegerType()), False),
        UnischemaField("image", np.uint8, (128, 256, 3), CompressedImageCodec("png"), False),
        UnischemaField("array", np.float32, (None, 30), NdarrayCodec(), True),
    ],
)


def write(spark: SparkSession, url: str) -> None:
    assert_type(SCHEMA.fields, OrderedDict[str, UnischemaField])
    print(SCHEMA.id.name, SCHEMA.image.shape)
    with materialize_dataset(spark, url, SCHEMA, row_group_size_mb=64):
        rows = [dict_to_spark_row(SCHEMA, {"id": 1, "image": None, "array": None})]
        frame = spark.createDataFrame(rows, SCHEMA.as_spark_schema())
        frame.write.mode("overwrite").parquet(url)


def rewrite(source: str) -> str:
    result = migrate(source, unsafe=True)
    assert_type(result, Result)
    return str(result.source)
