"""Convert a table and train on it, both on the executors of one Spark application."""

import pytest
from tests.slow.cluster.conftest import EACH_ROW_ONCE, EXAMPLES, epochs
from tests.slow.cluster.standalone import Standalone
from tests.slow.cluster.store import Store

pytestmark = pytest.mark.cluster


def test_executors_train_on_each_row_once_and_copy_is_deleted_at_exit(
    store: Store, spark_cluster: Standalone
) -> None:
    store.forget()
    out = spark_cluster.submit(EXAMPLES / "train_spark.py", "s3://bucket/cache").finish()
    assert epochs(out) == [EACH_ROW_ONCE] * 3
    assert store.objects("cache/") == {}
