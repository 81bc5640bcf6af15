"""Hosts that differ in what is installed on them, in their clocks, disks and links."""

import pytest
from tests.cluster.conftest import EXAMPLES
from tests.cluster.hosts import Host, Network
from tests.cluster.pythons import PYTHON, install_python, install_python_without
from tests.cluster.standalone import Standalone
from tests.cluster.store import Store

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("pyarrow", "Python on the Spark worker two has no pyarrow"),
        ("mdstorm", "mdstorm cannot be imported on the Spark worker two (No module named"),
    ],
    ids=["pyarrow", "mdstorm"],
)
def test_an_error_names_the_host_and_what_it_lacks(
    network: Network,
    hosts: list[Host],
    store: Store,
    spark_cluster: Standalone,
    lacking: str,
    said: str,
) -> None:
    for host in (hosts[0], network["driver"]):
        install_python(host)
    install_python_without(hosts[1], lacking)
    conf = {"spark.pyspark.python": PYTHON, "spark.task.maxFailures": "1"}
    program = EXAMPLES / "train_spark.py"
    out = spark_cluster.submit(program, "s3://bucket/lacking", conf=conf).finish(fails=True)
    assert f"MissingDependencyError: {said}" in out
    assert "Spark writes Parquet instead" not in out
    assert store.objects("lacking/") == {}
