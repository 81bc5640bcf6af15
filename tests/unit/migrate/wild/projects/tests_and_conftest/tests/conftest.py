import pytest
from petastorm.spark import SparkDatasetConverter


@pytest.fixture
def converter_cache(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("petastorm.spark.spark_dataset_converter._FILE_AVAILABILITY_WAIT_TIMEOUT_SECS", 2)
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, tmp_path.as_uri())
    yield
    spark.conf.unset(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF)
