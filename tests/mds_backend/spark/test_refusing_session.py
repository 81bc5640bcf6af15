"""The session of the tests that refuses what serverless compute refuses really does."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import IS_CONNECT, IS_REFUSING

from mdstorm_backend.datasets.dataset import open_dataset
from mdstorm_backend.spark import materialize, read_conf

pytestmark = pytest.mark.skipif(not IS_REFUSING, reason="this session refuses nothing")

KEY = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.mark.parametrize("key", [KEY, "petastorm.spark.converter.parentCacheDirUrl"])
def test_configuration_outside_of_the_list_is_refused(spark: Any, key: str) -> None:
    from pyspark.errors import AnalysisException

    for call in (
        lambda: spark.conf.get(key),
        lambda: spark.conf.get(key, "default"),
        lambda: spark.conf.set(key, "1"),
        lambda: spark.conf.unset(key),
    ):
        with pytest.raises(AnalysisException, match=r"^\[CONFIG_NOT_AVAILABLE\] Configuration"):
            call()
    assert read_conf(spark, key) is None


def test_configuration_of_the_list_is_not_refused(set_conf: Any, spark: Any) -> None:
    set_conf("spark.sql.session.timeZone", "Asia/Tokyo")
    assert read_conf(spark, "spark.sql.session.timeZone") == "Asia/Tokyo"


@pytest.mark.parametrize("name", ["sparkContext", "_jvm", "_jsparkSession", "_jsc"])
def test_the_jvm_behind_a_session_is_refused(spark: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=r"JVM_ATTRIBUTE_NOT_SUPPORTED"):
        getattr(spark, name)
    assert not hasattr(spark, name)


@pytest.mark.parametrize("name", ["_jdf", "rdd"])
def test_the_jvm_behind_a_frame_is_refused(spark: Any, name: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises((AttributeError, PySparkException), match=name):
        getattr(spark.range(1), name)


def test_caching_is_refused(spark: Any) -> None:
    df = spark.range(1)
    for call in (df.cache, df.persist, lambda: spark.catalog.cacheTable("x")):
        with pytest.raises(Exception, match=r"^\[NOT_SUPPORTED_WITH_SERVERLESS\]"):
            call()


@pytest.mark.skipif(IS_CONNECT, reason="a client of Spark Connect has no JVM to look at")
def test_only_tests_that_ask_for_it_see_the_jvm(classic_spark: Any) -> None:
    assert classic_spark.sparkContext.master == "local[2]"
    assert read_conf(classic_spark, "spark.master") is None


def test_spark_goes_on_working(spark: Any, target: Path) -> None:
    from pyspark.sql.functions import col

    df = spark.range(0, 6, 1, 2).join(spark.range(3), "id").select(col("id") * 2)
    assert sorted(row[0] for row in df.collect()) == [0, 2, 4]
    assert df.toPandas().shape == (3, 1)
    df.write.parquet(str(target))
    assert spark.read.parquet(str(target)).count() == 3


def test_a_frame_becomes_a_dataset(spark: Any, target: Path) -> None:
    materialize(spark.range(10), str(target))
    assert len(open_dataset(str(target))) == 10
