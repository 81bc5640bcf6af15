"""Write the datasets in data/ with Petastorm and Spark, and those in data_of_mdstorm/ with mdstorm.

::

    benchmarks/.environments/petastorm/bin/python -m tests.contract.conformance.make_data
    .venv/bin/mdstorm run -m tests.contract.conformance.make_data

Running it again changes the files, but not the values in them.
"""

import datetime
import os
import shutil
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import petastorm
from petastorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.etl.rowgroup_indexers import FieldNotNullIndexer, SingleFieldIndexer
from petastorm.etl.rowgroup_indexing import build_rowgroup_index
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812
from tests.contract.conformance.place import DATA, DATA_OF_MDSTORM

CODECS = Unischema(
    "Codecs",
    [
        UnischemaField("id", np.int64, (), ScalarCodec(T.LongType()), False),
        UnischemaField("small", np.int8, (), ScalarCodec(T.ByteType()), False),
        UnischemaField("byte", np.uint8, (), ScalarCodec(T.ShortType()), False),
        UnischemaField("half", np.float32, (), ScalarCodec(T.FloatType()), False),
        UnischemaField("flag", np.bool_, (), ScalarCodec(T.BooleanType()), False),
        UnischemaField("name", np.str_, (), ScalarCodec(T.StringType()), False),
        UnischemaField("price", Decimal, (), ScalarCodec(T.DecimalType(10, 4)), False),
        UnischemaField("day", np.datetime64, (), ScalarCodec(T.DateType()), False),
        UnischemaField("time", np.datetime64, (), ScalarCodec(T.TimestampType()), False),
        UnischemaField("maybe", np.int32, (), ScalarCodec(T.IntegerType()), True),
        UnischemaField("word", np.str_, (), None, True),
        UnischemaField("matrix", np.float32, (2, 3), NdarrayCodec(), False),
        UnischemaField("ragged", np.int32, (None,), NdarrayCodec(), False),
        UnischemaField("zipped", np.float64, (None, 2), CompressedNdarrayCodec(), False),
        UnischemaField("hole", np.uint8, (2,), NdarrayCodec(), True),
        UnischemaField("png", np.uint8, (2, 3, 3), CompressedImageCodec("png"), False),
        UnischemaField("grey", np.uint16, (3, 2), CompressedImageCodec("png"), False),
    ],
)

SERIES = Unischema(
    "Series",
    [
        UnischemaField("time", np.int64, (), ScalarCodec(T.LongType()), False),
        UnischemaField("value", np.float32, (), ScalarCodec(T.FloatType()), False),
        UnischemaField("label", np.str_, (), ScalarCodec(T.StringType()), False),
    ],
)

PLACES = Unischema(
    "Places",
    [
        UnischemaField("id", np.int64, (), ScalarCodec(T.LongType()), False),
        UnischemaField("city", np.str_, (), ScalarCodec(T.StringType()), False),
        UnischemaField("tag", np.str_, (), ScalarCodec(T.StringType()), True),
        UnischemaField("vector", np.float64, (2,), NdarrayCodec(), False),
    ],
)


def indexers_of_places() -> list[Any]:
    return [
        SingleFieldIndexer("by_id", "id"),
        SingleFieldIndexer("by_city", "city"),
        FieldNotNullIndexer("has_tag", "tag"),
    ]


def codecs_row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "small": np.int8(i - 3),
        "byte": np.uint8(250 + i % 5),
        "half": np.float32(i / 2),
        "flag": i % 2 == 0,
        "name": f"näme {i}",
        "price": Decimal(i) / 4,
        "day": datetime.date(2020, 1, 1 + i),
        "time": datetime.datetime(2020, 1, 1, 12, 30, i, 250),
        "maybe": None if i % 3 == 0 else i * 100,
        "word": None if i % 2 else f"w{i}",
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3) + i,
        "ragged": np.arange(i % 3, dtype=np.int32),
        "zipped": np.arange(2 * (1 + i % 2), dtype=np.float64).reshape(-1, 2) - i,
        "hole": None if i == 1 else np.array([i, 2 * i], np.uint8),
        "png": (np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 3 + i),
        "grey": (np.arange(6, dtype=np.uint16).reshape(3, 2) * 1000 + i),
    }


def write(
    spark: SparkSession,
    target: Path,
    schema: Unischema,
    rows: list[dict[str, Any]],
    *,
    per_file: int,
    partition_by: tuple[str, ...] = (),
) -> str:
    """Write files with `per_file` rows and one row group each."""
    shutil.rmtree(target, ignore_errors=True)
    with materialize_dataset(spark, target.as_uri(), schema, row_group_size_mb=1):
        for start in range(0, len(rows), per_file):
            part = [dict_to_spark_row(schema, row) for row in rows[start : start + per_file]]
            frame = spark.createDataFrame(part, schema.as_spark_schema()).coalesce(1)
            writer = frame.write.mode("append")
            (writer.partitionBy(*partition_by) if partition_by else writer).parquet(target.as_uri())
            # Readers sort files by name, so names have to follow the order of the rows.
            for file in target.rglob("part-00000-*.parquet"):
                file.rename(file.with_name(f"part-{start // per_file}.snappy.parquet"))
    for leftover in [*target.rglob("*.crc"), *target.rglob("_SUCCESS")]:
        leftover.unlink()
    return target.as_uri()


def main(data: Path) -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()

    write(spark, data / "codecs", CODECS, [codecs_row(i) for i in range(6)], per_file=4)

    times = [0, 1, 2, 3, 7, 8, 20, 21, 22, 23]
    series = [{"time": time, "value": np.float32(time) / 2, "label": f"t{time}"} for time in times]
    write(spark, data / "series", SERIES, series, per_file=6)

    places = [
        {
            "id": i,
            "city": ["Bern", "Rome", "Oslo"][i // 2],
            "tag": None if i < 2 else f"tag{i % 2}",
            "vector": np.array([i, -i], np.float64),
        }
        for i in range(6)
    ]
    url = write(spark, data / "places", PLACES, places, per_file=2)
    build_rowgroup_index(url, spark.sparkContext, indexers_of_places())
    for leftover in (data / "places").rglob("*.crc"):
        leftover.unlink()

    write(spark, data / "cities", PLACES, places, per_file=6, partition_by=("city",))
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["TZ"] = "UTC"
    library = Path(petastorm.__file__).parent.name
    main(DATA_OF_MDSTORM if library == "mdstorm" else DATA)
