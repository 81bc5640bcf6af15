"""Where the programs keep their converted DataFrames."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mdstorm.spark import SparkDatasetConverter


@pytest.fixture
def cache_dir(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Configure a parent cache directory of the test's own."""
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, tmp_path.as_uri())
    yield tmp_path
    spark.conf.unset(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF)
