"""Use Petastorm to write the datasets in this folder, and the rows that its reader returns.

Run by hand, in an environment with petastorm 0.13.1, pyspark 3.5 and opencv-python-headless, from
this folder: ``python make_golden.py``.
"""

import json
import shutil
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
from petastorm import make_reader
from petastorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.etl.rowgroup_indexers import FieldNotNullIndexer, SingleFieldIndexer
from petastorm.etl.rowgroup_indexing import build_rowgroup_index
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql import SparkSession, types

HERE = Path(__file__).parent
ROWS = 12

CODECS = Unischema(
    "Codecs",
    [
        UnischemaField("id", np.int64, (), ScalarCodec(types.LongType()), False),
        UnischemaField("name", np.str_, (), ScalarCodec(types.StringType()), True),
        UnischemaField("flag", np.bool_, (), ScalarCodec(types.BooleanType()), False),
        UnischemaField("tiny", np.int8, (), ScalarCodec(types.ByteType()), True),
        UnischemaField("u8", np.uint8, (), ScalarCodec(types.ShortType()), False),
        UnischemaField("u16", np.uint16, (), ScalarCodec(types.IntegerType()), False),
        UnischemaField("f32", np.float32, (), ScalarCodec(types.FloatType()), True),
        UnischemaField("f64", np.float64, (), ScalarCodec(types.DoubleType()), False),
        UnischemaField("price", Decimal, (), ScalarCodec(types.DecimalType(10, 2)), True),
        UnischemaField("at", np.datetime64, (), ScalarCodec(types.TimestampType()), False),
        UnischemaField("day", np.datetime64, (), ScalarCodec(types.DateType()), False),
        UnischemaField("plain", np.int32, (), None, False),
        UnischemaField("vec", np.float32, (3,), NdarrayCodec(), False),
        UnischemaField("mat", np.int16, (None, None), NdarrayCodec(), True),
        UnischemaField("fort", np.float64, (2, None), NdarrayCodec(), False),
        UnischemaField("big", np.float32, (2,), NdarrayCodec(), False),
        UnischemaField("mask", np.bool_, (None,), NdarrayCodec(), False),
        UnischemaField("words", np.str_, (None,), NdarrayCodec(), False),
        UnischemaField("point", np.int64, (), NdarrayCodec(), False),
        UnischemaField("zipped", np.uint8, (4, 4), CompressedNdarrayCodec(), True),
        UnischemaField("png", np.uint8, (None, None, 3), CompressedImageCodec("png"), False),
        UnischemaField("jpeg", np.uint8, (8, 8, 3), CompressedImageCodec("jpeg", 90), True),
        UnischemaField("grey", np.uint8, (4, 6), CompressedImageCodec("png"), False),
        UnischemaField("grey16", np.uint16, (3, 5), CompressedImageCodec("png"), False),
        UnischemaField("rgb16", np.uint16, (3, 5, 3), CompressedImageCodec("png"), False),
    ],
)

PARTS = Unischema(
    "Parts",
    [
        UnischemaField("id", np.int32, (), ScalarCodec(types.IntegerType()), False),
        UnischemaField("vec", np.float32, (2,), NdarrayCodec(), False),
        UnischemaField("split", np.str_, (), ScalarCodec(types.StringType()), False),
        UnischemaField("shard", np.int32, (), ScalarCodec(types.IntegerType()), False),
    ],
)


def codecs_row(i: int) -> dict:
    rng = np.random.RandomState(i)
    blocks = np.kron(rng.randint(0, 255, (2, 2, 3)), np.ones((4, 4, 1))).astype(np.uint8)
    return {
        "id": i,
        "name": None if i % 4 == 1 else f"näme {i}",
        "flag": i % 2 == 0,
        "tiny": None if i % 5 == 2 else i - 6,
        "u8": 250 + i % 6,
        "u16": 65000 + i,
        "f32": None if i % 3 == 0 else i / 10,
        "f64": i / 7,
        "price": None if i == 4 else Decimal(i).scaleb(-2),
        "at": datetime(2020, 1, 1, i) + timedelta(microseconds=i),
        "day": date(2019, 12, 25) + timedelta(days=i),
        "plain": np.int32(i * i),
        "vec": rng.rand(3).astype(np.float32),
        "mat": None if i == 6 else rng.randint(-9, 9, (i % 3, 2)).astype(np.int16),
        "fort": np.asfortranarray(rng.rand(2, 1 + i % 2)),
        "big": np.array([i, i / 2], ">f4"),
        "mask": np.arange(i % 4) % 2 == 0,
        "words": np.array(["ä" * (j + 1) for j in range(i % 3)], "<U5"),
        "point": np.array(i * 3),
        "zipped": None if i == 8 else rng.randint(0, 255, (4, 4)).astype(np.uint8),
        "png": rng.randint(0, 255, (2 + i % 3, 4, 3)).astype(np.uint8),
        "jpeg": None if i == 9 else blocks,
        "grey": rng.randint(0, 255, (4, 6)).astype(np.uint8),
        "grey16": rng.randint(0, 65535, (3, 5)).astype(np.uint16),
        "rgb16": rng.randint(0, 65535, (3, 5, 3)).astype(np.uint16),
    }


def parts_row(i: int) -> dict:
    return {
        "id": i,
        "vec": np.array([i, -i], np.float32),
        "split": ["train", "va l"][i % 2],
        "shard": i % 3,
    }


def write(spark, name, schema, make_row, *, partition_by=(), summary=False):
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    url = f"file://{path}"
    with materialize_dataset(spark, url, schema, 1, use_summary_metadata=summary):
        rows = spark.sparkContext.parallelize([make_row(i) for i in range(ROWS)], 2)
        encoded = rows.map(lambda row: dict_to_spark_row(schema, row))
        frame = spark.createDataFrame(encoded, schema.as_spark_schema())
        frame.write.mode("overwrite").partitionBy(*partition_by).parquet(url)
    if name == "codecs":
        indexers = [
            SingleFieldIndexer("by_id", "id"),
            SingleFieldIndexer("by_name", "name"),
            FieldNotNullIndexer("with_mat", "mat"),
        ]
        build_rowgroup_index(url, spark.sparkContext, indexers)
    for checksum in path.rglob(".*.crc"):
        checksum.unlink()
    with make_reader(url, reader_pool_type="dummy", shuffle_row_groups=False) as reader:
        rows = sorted((row._asdict() for row in reader), key=lambda row: row["id"])
        text = [{key: as_json(value) for key, value in row.items()} for row in rows]
    (HERE / f"{name}.json").write_text(json.dumps(text, ensure_ascii=False) + "\n")


def as_json(value):
    """Return a value as JSON, together with its class, dtype and shape."""
    if value is None:
        return None
    if isinstance(value, Decimal):
        return ["Decimal", str(value)]
    kind = "ndarray" if isinstance(value, np.ndarray) else "scalar"
    array = np.asarray(value)
    plain = array.astype(str) if array.dtype.kind == "M" else array
    return [kind, array.dtype.str, list(array.shape), plain.reshape(-1).tolist()]


if __name__ == "__main__":
    conf = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    write(session, "codecs", CODECS, codecs_row)
    write(session, "partitioned", PARTS, parts_row, partition_by=["split", "shard"])
    write(session, "summary", PARTS, parts_row, summary=True)
    session.stop()
