"""Datasets that a program writes with Spark and reads back."""

from decimal import Decimal
from typing import Any

import numpy as np
from petastorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import get_schema_from_dataset_url, materialize_dataset
from petastorm.spark_utils import dataset_as_rdd
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql import types as T  # noqa: N812
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import rows

_SCHEMA = Unischema(
    "Written",
    [
        UnischemaField("id", np.int32, (), ScalarCodec(T.IntegerType()), False),
        UnischemaField("name", np.str_, (), ScalarCodec(T.StringType()), True),
        UnischemaField("price", Decimal, (), ScalarCodec(T.DecimalType(10, 2)), False),
        UnischemaField("matrix", np.float32, (2, 2), NdarrayCodec(), False),
        UnischemaField("ragged", np.int16, (None,), CompressedNdarrayCodec(), True),
        UnischemaField("image", np.uint8, (2, 2, 3), CompressedImageCodec("png"), False),
    ],
)


def _row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "name": None if i == 1 else f"row {i}",
        "price": Decimal(i) / 2,
        "matrix": np.full((2, 2), i, np.float32),
        "ragged": None if i == 2 else np.arange(i, dtype=np.int16),
        "image": np.full((2, 2, 3), 10 * i, np.uint8),
    }


def _write(place: Place, spark: Any, count: int = 4) -> str:
    url = place.url("written")
    with materialize_dataset(spark, url, _SCHEMA, 1):
        found = [dict_to_spark_row(_SCHEMA, _row(i)) for i in range(count)]
        frame = spark.createDataFrame(found, _SCHEMA.as_spark_schema())
        frame.coalesce(1).write.mode("overwrite").parquet(url)
    return url


def written_rows_are_read(place: Place, spark: Any) -> Any:
    return rows(_write(place, spark))


def rows_of_a_dataset_in_spark(place: Place, spark: Any) -> Any:
    url = place.dataset("places")
    schema = get_schema_from_dataset_url(url)
    found = dataset_as_rdd(url, spark, schema_fields=[schema.id, schema.city]).collect()
    return sorted([int(row.id), str(row.city)] for row in found)
