"""The parent cache directory: which settings apply, in which order, and which URLs are valid."""

import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import of_values, runs_python_on_executors
from tests.unit.compat.spark.converters import IN_ORDER

from mdstorm import make_batch_reader
from mdstorm._spark.copies import parent_cache_dir
from mdstorm.errors import InvalidArgumentError, UnsupportedURLError
from mdstorm.spark import make_spark_converter
from mdstorm_backend.storage import normalize_url

MDSTORM = "mdstorm.spark.converter.parentCacheDirUrl"
PETASTORM = "petastorm.spark.converter.parentCacheDirUrl"
VARIABLE = "MDSTORM_PARENT_CACHE_DIR_URL"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)


def session(**conf: str) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: conf.get(key, default)))


def test_cache_dir_urls_and_paths_are_normalized() -> None:
    """Other spellings are covered by tests/unit/mds_backend/storage/test_location.py."""
    normalized = {"file:/tmp/c//": "file:///tmp/c", "dbfs:/Volumes/a/b": "file:///Volumes/a/b"}
    normalized |= {"/Workspace/a": "file:///Workspace/a", "s3://bucket/x/": "s3://bucket/x"}
    for url, expected in normalized.items():
        assert parent_cache_dir(session(**{PETASTORM: url})) == expected
    assert parent_cache_dir(session(), Path("/tmp")) == "file:///tmp"


@pytest.mark.parametrize("url", ["/tmp/x", "tmp/x", "/", "C"])
def test_cache_dir_without_scheme_raises_unsupported_url(url: str) -> None:
    remedy = f'Please prepend "file://" for local filesystem: write {normalize_url(url)}'
    message = f"ERROR! A scheme-less directory url ({url}) is no longer supported. {remedy}"
    with pytest.raises(UnsupportedURLError, match=f"^{re.escape(message)}$"):
        parent_cache_dir(session(**{PETASTORM: url}))


@pytest.mark.parametrize("conf", [{}, {PETASTORM: ""}, {MDSTORM: "", PETASTORM: ""}], ids=str)
def test_missing_cache_dir_setting_raises_error(conf: dict[str, str]) -> None:
    remedies = "SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF.*parent_cache_dir_url"
    message = f"Please set the spark config {PETASTORM}.*{remedies}.*{VARIABLE}"
    with pytest.raises(InvalidArgumentError, match=message):
        parent_cache_dir(session(**conf))


def test_cache_dir_settings_have_documented_precedence(
    spark: Any, set_conf: Any, monkeypatch: Any
) -> None:
    for argument, mdstorm, petastorm, variable, wins in (
        ("", "", "file:/p", None, "file:///p"),
        ("file:/a", "file:/m", "file:/p", "file:/v", "file:///a"),
        (None, "file:/m", "file:/p", "file:/v", "file:///m"),
        (None, None, "file:/p", "file:/v", "file:///p"),
        (None, None, None, "file:/v", "file:///v"),
    ):
        set_conf(MDSTORM, mdstorm)
        set_conf(PETASTORM, petastorm)
        if variable is not None:
            monkeypatch.setenv(VARIABLE, variable)
        assert parent_cache_dir(spark, argument) == wins
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ValueError, match="Please set the spark config"):  # checked first
        make_spark_converter(spark.range(1), compression_codec="no such codec")


def test_local_cache_dir_on_databricks_cluster_warns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, there = "spark://master:7077", ("file:///tmp/x", "file:///dbfsx/y")
    seen = ("file:///dbfs/x", "dbfs:/x", "/Volumes/a/b", "s3://bucket/x")
    given = [(url, cluster) for url in (*there, *seen)]
    given += [("file:///tmp/x", "yarn"), ("file:///tmp/x", "local[8]"), ("file:///tmp/x", "LOCAL")]
    with caplog.at_level(logging.WARNING):
        for _ in ("elsewhere", "on Databricks"):
            assert not caplog.records
            for url, master in given:
                parent_cache_dir(session(**{PETASTORM: url, "spark.master": master}))
            monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "16.4")
    assert [r.args[-1] for r in caplog.records] == [*there, "file:///tmp/x"]
    assert {r.name for r in caplog.records} == {"mdstorm.spark.spark_dataset_converter"}
    assert all("you should specify a dbfs fuse path" in r.getMessage() for r in caplog.records)


@pytest.mark.matrix
@of_values
@pytest.mark.parametrize(
    "staging",
    [
        pytest.param(False, id="executors write", marks=runs_python_on_executors),
        pytest.param(True, id="staged"),
    ],
)
def test_converter_on_mounted_volume_writes_reads_and_deletes(
    spark: Any, volume: Path, staging: bool
) -> None:
    options: dict[str, Any] = {"parent_cache_dir_url": f"file://{volume}/cache", "staging": staging}
    options |= {"parquet_row_group_size_bytes": 1000, "cache_key": "numbers"}
    df = spark.range(200).repartition(2)
    converter = make_spark_converter(df, **options)
    assert len(converter.file_urls) > 2
    (batch,) = converter.make_torch_dataloader(batch_size=200, **IN_ORDER)
    assert sorted(batch["id"].tolist()) == [*range(200)]
    with make_batch_reader(converter.file_urls) as reader:
        assert sum(len(item.id) for item in reader) == 200
    again = make_spark_converter(df, **options)
    assert again.cache_dir_url == converter.cache_dir_url
    again.delete()
    assert not Path(str(converter.cache_dir_url).removeprefix("file://")).exists()
