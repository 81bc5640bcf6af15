"""The session of the tests that refuses what serverless compute refuses really does."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import IS_REFUSING

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


def test_the_jvm_and_caching_are_refused(spark: Any, set_conf: Any) -> None:
    from pyspark.errors import PySparkException

    for name in ("sparkContext", "_jvm", "_jsparkSession", "_jsc"):
        with pytest.raises(AttributeError, match=r"JVM_ATTRIBUTE_NOT_SUPPORTED"):
            getattr(spark, name)
        assert not hasattr(spark, name)
    df = spark.range(1)
    for name in ("_jdf", "rdd"):
        with pytest.raises((AttributeError, PySparkException), match=name):
            getattr(df, name)
    for call in (df.cache, df.persist, lambda: spark.catalog.cacheTable("x")):
        with pytest.raises(Exception, match=r"^\[NOT_SUPPORTED_WITH_SERVERLESS\]"):
            call()
    set_conf("spark.sql.session.timeZone", "Asia/Tokyo")  # which is on the list
    assert read_conf(spark, "spark.sql.session.timeZone") == "Asia/Tokyo"


def test_a_frame_becomes_a_dataset(spark: Any, target: Path) -> None:
    materialize(spark.range(10), str(target))
    assert len(open_dataset(str(target))) == 10
