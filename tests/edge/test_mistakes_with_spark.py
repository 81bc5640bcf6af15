"""Common mistakes with DataFrames and sessions: each message names the remedy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType
from tests.kit.mistakes import Mistake, Row, check, each_mistake
from tests.kit.programs import SESSION, run_program

from mdstorm.codecs import ScalarCodec
from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.etl.rowgroup_indexers import SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import build_rowgroup_index
from mdstorm.spark import make_spark_converter
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend import dataframe_to_mds

SCHEMA = Unischema("S", [UnischemaField("id", np.int64, (), ScalarCodec(LongType()), False)])


def convert(frame: Any, url: str, **arguments: Any) -> Any:
    return make_spark_converter(frame, parent_cache_dir_url=url, **arguments)


def materialized(spark: Any, url: str, *arguments: Any, **options: Any) -> None:
    with materialize_dataset(spark, url, *arguments, **options):
        pass


def write(frame: Any, url: str, columns: dict[str, str]) -> None:
    dataframe_to_mds(frame, mds_kwargs={"out": f"{url}/out", "columns": columns})


#: Each row has an invalid call (given a session and a target URL), its built-in error and message.
MISTAKES: list[Row] = [
    (lambda s, u: make_spark_converter(s.range(1)), ValueError, "pass parent_cache_dir_url=… or s"),
    (lambda s, u: convert(s.range(1), "cache"), ValueError, "write file:///"),
    (lambda s, u: convert(s.range(1), "s3://"), ValueError, "write s3://bucket/directory"),
    (lambda s, u: convert(s.range(1), "flie:///x"), ValueError, "or another scheme that fsspec kn"),
    (lambda s, u: convert(s.range(1), u, dtype="half"), ValueError, "Use 'float32' or float64"),
    (lambda s, u: convert(s.range(1), u, compression_codec="zip"), ValueError, "'snappy', 'lz4'"),
    (lambda s, u: convert(s.range(1), u, staging="yes"), TypeError, "staging must be True or Fals"),
    (lambda s, u: convert(s.range(1), u, version=3), ValueError, "spark.read.option('versionAsOf'"),
    (lambda s, u: convert(s.range(1).id, u), TypeError, "found pyspark.Column"),
    (lambda s, u: convert([s.range(1)], u), ValueError, "pass a URL or a list of them"),
    (
        lambda s, u: convert(s.range(1).groupBy("id"), u),
        TypeError,
        "takes a Spark DataFrame, a path",
    ),
    (lambda s, u: convert(s.range(1).select(), u), ValueError, "there is nothing to write"),
    (lambda s, u: convert(s.range(1).selectExpr("id", "id"), u), ValueError, "with df.toDF(…)"),
    (lambda s, u: convert(s.sql("SELECT NULL AS n"), u), TypeError, "CAST(… AS STRING)"),
    (lambda s, u: convert(s.readStream.format("rate").load(), u), TypeError, "convert the table"),
    (lambda s, u: convert("no.such.table", u), OSError, "spark.table('no.such.table'))"),
    (lambda s, u: materialized(s, "data", SCHEMA), ValueError, "write file:///"),
    (lambda s, u: materialized(u, s, SCHEMA), ValueError, "directory url must be a string, found"),
    (lambda s, u: materialized(s, u, [1]), TypeError, "schema must be a Unischema, found list"),
    (lambda s, u: materialized(s, u, SCHEMA, "32"), ValueError, "row_group_size_mb must be a non-"),
    (lambda s, u: materialized(s, f"{u}/n", SCHEMA), OSError, "nor a directory of Parquet files"),
    (lambda s, u: build_rowgroup_index(u, s, INDEXER), TypeError, "put it in a list"),
    (lambda s, u: write(s.range(1), u, {"no": "int64"}), ValueError, "Leave it out of columns, or"),
    (lambda s, u: write(s.range(1), u, {"id": "str"}), ValueError, "Convert the column first, or"),
]
INDEXER: Any = SingleFieldIndexer("of id", "id")


@each_mistake(MISTAKES)
def test_mistake_raises_error_with_remedy(
    mistake: Mistake, builtin: type[Exception], words: str, spark: SparkSession, tmp_path: Path
) -> None:
    check(mistake, builtin, words, (spark, tmp_path.as_uri()))


@pytest.mark.long
@pytest.mark.parametrize(
    "remote",
    # Older versions need a package of Spark's from the internet to start a server.
    [False, pytest.param(True, marks=[pytest.mark.newest, pytest.mark.long])],
    ids=["classic", "connect"],
)
def test_stopped_session_raises_error_with_remedy(remote: bool, tmp_path: Path) -> None:
    kind = "remote" if remote else "master"
    program = f"""{SESSION}
from mdstorm.errors import NotADataFrameError
from mdstorm.spark import make_spark_converter

spark = SparkSession.builder.{kind}("local[1]").getOrCreate()
frame = spark.range(3)
spark.stop()
try:
    make_spark_converter(frame, parent_cache_dir_url="{tmp_path.as_uri()}")
except NotADataFrameError as error:
    print(error)
"""
    done = run_program(program, cwd=tmp_path)
    assert "session of the DataFrame was stopped" in done.stdout
    assert "getOrCreate()" in done.stdout
