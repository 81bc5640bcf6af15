"""Fixtures: the parent cache directory, and small converters that do not need Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import IS_REFUSING
from tests.kit.parquet_files import write
from tests.unit.compat.spark.converters import TABLE, converter_of

from mdstorm.spark import SparkDatasetConverter
from mdstorm.spark.spark_dataset_converter import register_delete_dir_handler


@pytest.fixture
def cache_dir(tmp_path: Path, set_conf: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent cache directory, set in the session's conf or in an environment variable."""
    directory = tmp_path / "cache"
    if IS_REFUSING:
        monkeypatch.setenv("MDSTORM_PARENT_CACHE_DIR_URL", f"file://{directory}")
    else:
        set_conf(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{directory}")
    return directory


@pytest.fixture
def ten(tmp_path: Path) -> SparkDatasetConverter:
    """The numbers from 0 to 9 in two shards."""
    return converter_of(tmp_path / "ten", {"number": range(10)}, {"number": "long"}, tasks=2)


@pytest.fixture(scope="session")
def small_shards(tmp_path_factory: pytest.TempPathFactory) -> SparkDatasetConverter:
    """The numbers from 0 to 210 in shards of a few rows. Tests must not change it."""
    directory = tmp_path_factory.mktemp("small_shards") / "mds"
    return converter_of(directory, {"number": range(211)}, {"number": "long"}, shard_size=256)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two Parquet files and the marker file that Spark writes alongside them."""
    write(tmp_path / "data", TABLE.slice(0, 4), TABLE.slice(4))
    (tmp_path / "data" / "_SUCCESS").touch()
    return tmp_path / "data"


@pytest.fixture
def default_delete_handler() -> Iterator[None]:
    """Restore the default deletion handler after the test."""
    yield
    register_delete_dir_handler(None)


@pytest.fixture
def thousand(tmp_path: Path) -> SparkDatasetConverter:
    """The numbers from 0 to 999 in eight shards."""
    columns = {"number": range(1_000)}
    return converter_of(tmp_path / "thousand", columns, {"number": "long"}, tasks=8)
