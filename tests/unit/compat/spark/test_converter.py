"""`make_spark_converter` and the converter it returns."""

import logging
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import of_values, runs_python_on_executors
from tests.kit.naming import value_id
from tests.unit.compat.spark.converters import IN_ORDER, with_torch

from mdstorm._spark.make_converter import mds_compression, warn_of_dtype
from mdstorm.errors import CompressionCodecError, NotADataFrameError, NotOnDriverError
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import open_dataset
from mdstorm_backend.spark import read_conf


def test_converter_attributes_and_directory_match_petastorm(spark: Any, cache_dir: Path) -> None:
    converter = make_spark_converter(spark.range(0, 10, 1, 3))
    parent, _, name = converter.cache_dir_url.rpartition("/")
    assert parent == f"file://{cache_dir}"
    uuid = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    application = re.escape(read_conf(spark, "spark.app.id") or "unknown")
    assert re.fullmatch(rf"\d{{14}}-appid-{application}-{uuid}", name)
    assert (len(converter), converter.dataset_size) == (10, 10)
    shards = sorted((cache_dir / name).glob("*.mds"))
    assert converter.file_urls == [path.as_uri() for path in shards]
    assert len(converter.file_urls) == 3


def test_column_names_with_dots_or_different_case_are_converted(
    spark: Any, cache_dir: Path
) -> None:
    df = spark.sql("SELECT 1.5D AS `a.b`, array(2.5D) AS `c.d`, 1 AS x, 2 AS X")
    (batch,) = with_torch(make_spark_converter(df), **IN_ORDER)
    assert batch == {"a.b": [1.5], "c.d": [[2.5]], "x": [1], "X": [2]}


def test_first_four_arguments_may_be_positional(spark: Any, cache_dir: Path) -> None:
    df = spark.range(0, 2000, 1, 1).selectExpr("id", "CAST(id AS DOUBLE) AS x")
    converter = make_spark_converter(df, 8000, "gzip", "float64")
    dataset = open_dataset(converter.cache_dir_url)
    assert len(converter.file_urls) > 2
    assert all(url.endswith(".mds.gz") for url in converter.file_urls)
    assert all(shard.raw_data.bytes <= 8000 for shard in dataset.index.shards)
    assert dataset.schema["x"].encoding == "float64"


def test_parquet_row_group_size_is_used_as_shard_size(spark: Any, cache_dir: Path) -> None:
    for given, limit in (({}, 32 << 20), ({"parquet_row_group_size_bytes": None}, 64 << 20)):
        dataset = open_dataset(make_spark_converter(spark.range(1), **given).cache_dir_url)
        assert dataset.index.shards[0].size_limit == limit


@of_values
def test_float_conversion_is_logged_once_per_process(
    spark: Any, cache_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_dtype.cache_clear()  # earlier tests have already triggered the warning
    with caplog.at_level(logging.WARNING, "mdstorm"):
        make_spark_converter(spark.range(3))
        assert not [text for text in caplog.messages if text.startswith("Converting")]
        floats = [spark.range(rows).selectExpr("id * 0.5D AS x") for rows in (3, 3, 4)]
        for frame in floats:
            make_spark_converter(frame)
        make_spark_converter(spark.range(3).selectExpr("array(0.5D) AS x"), dtype="float64")
        make_spark_converter(floats[0], dtype=None)
    assert [text for text in caplog.messages if text.startswith("Converting")] == [
        f"Converting floating-point columns to {dtype}" for dtype in ("float32", "float64")
    ]
    assert {record.name for record in caplog.records} == {"mdstorm.spark.spark_dataset_converter"}


class NotAFrame:
    """An object that has a `schema` but is not a DataFrame."""

    schema = None


@pytest.mark.parametrize(
    "thing", [None, 7, NotAFrame(), SimpleNamespace(sparkSession=1)], ids=value_id
)
def test_converting_other_objects_raises_not_a_data_frame(thing: Any) -> None:
    message = f"takes a Spark DataFrame, .* found .*{type(thing).__name__}: make"
    with pytest.raises(NotADataFrameError, match=message) as caught:
        make_spark_converter(thing)
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, TypeError)


class TestPickling:
    """A converter is pickled as its three attributes."""

    def test_pickled_converter_holds_its_three_attributes(self, ten: SparkDatasetConverter) -> None:
        pickled = pickle.dumps(ten)
        assert b"mdstorm.spark.spark_dataset_converter" in pickled
        assert len(pickled) < 1000
        copy = pickle.loads(pickled)  # noqa: S301
        assert (
            vars(copy)
            == vars(ten)
            == {"cache_dir_url": ten.cache_dir_url, "file_urls": ten.file_urls, "dataset_size": 10}
        )

    @runs_python_on_executors
    def test_conversion_inside_spark_task_raises_error(self, spark: Any) -> None:
        def convert(batches: Any) -> Any:
            import pyarrow as pa

            from mdstorm.spark import make_spark_converter

            try:
                make_spark_converter(None)
            except RuntimeError as error:
                text = f"{type(error).__name__}: {error}"
            yield pa.RecordBatch.from_arrays([pa.array([text])], names=["text"])

        (row,) = spark.range(0, 1, 1, 1).mapInArrow(convert, "text string").collect()
        assert row["text"].startswith(NotOnDriverError.__name__)
        assert "should not be invoked from executor side" in row["text"]


def test_petastorm_codecs_map_to_mds_compression(caplog: pytest.LogCaptureFixture) -> None:
    """Codecs that have no MDS equivalent are logged."""
    known = {None: None, "": None, "UNCOMPRESSED": None, "Snappy": "snappy", "bzip2": "bz2"}
    known |= {"uncompressed": None, "gzip": "gz", "lz4": "zstd:1", "deflate": "zstd:1"}
    with caplog.at_level(logging.INFO):
        assert [mds_compression(codec) for codec in known] == [*known.values()]
    assert [r.args[0] for r in caplog.records] == ["lz4", "deflate"]


@pytest.mark.parametrize("codec", ["zstd", "none", "gz", 7, b"gzip"], ids=str)
def test_unknown_codec_raises_compression_codec_error(codec: Any) -> None:
    message = "compression_codec should be None or one of the following values: .*'snappy'"
    with pytest.raises(CompressionCodecError, match=message) as caught:
        mds_compression(codec)
    assert isinstance(caught.value, (RuntimeError, ValueError))
    assert repr(codec) in str(caught.value)
