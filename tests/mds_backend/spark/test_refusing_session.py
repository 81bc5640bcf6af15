"""The session of the tests that refuses what serverless compute refuses really does."""

from typing import Any

import pytest
from tests.conftest import IS_REFUSING

from mdstorm_backend.spark import read_conf

pytestmark = pytest.mark.skipif(not IS_REFUSING, reason="this session refuses nothing")

KEY = "spark.sql.execution.arrow.maxRecordsPerBatch"


def test_configuration_and_the_jvm_are_refused(spark: Any, set_conf: Any) -> None:
    for call in (lambda: spark.conf.get(KEY, "default"), lambda: spark.conf.set(KEY, "1")):
        with pytest.raises(Exception, match=r"^\[CONFIG_NOT_AVAILABLE\] Configuration"):
            call()
    assert read_conf(spark, KEY) is None
    for name in ("sparkContext", "_jvm", "_jsparkSession", "_jsc"):
        assert not hasattr(spark, name)
    for call in (spark.range(1).cache, lambda: spark.catalog.cacheTable("x")):
        with pytest.raises(Exception, match=r"^\[NOT_SUPPORTED_WITH_SERVERLESS\]"):
            call()
    set_conf("spark.sql.session.timeZone", "Asia/Tokyo")  # which is on the list
    assert read_conf(spark, "spark.sql.session.timeZone") == "Asia/Tokyo"
