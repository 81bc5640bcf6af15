"""Spark Connect without a Py4J gateway, as in environment versions 5 and 6 of Databricks."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.kit.programs import run_program
from tests.kit.servers.spark_connect import SparkConnectServer

pytestmark = [pytest.mark.long, pytest.mark.newest]

#: Everything that needs a gateway raises an error, also in PySpark, and names what was used.
WITHOUT_GATEWAY = """
import builtins
from py4j import java_gateway
from pyspark.sql.connect.session import SparkSession

def refused(name):
    def refuse(*args, **kwargs):
        raise RuntimeError(f"there is no Py4J gateway, but {name} was used")
    return refuse

class DBUtils:
    entry_point = notebook = property(refused("dbutils.entry_point"))

builtins.dbutils = DBUtils()
for client in (java_gateway.JavaGateway, java_gateway.GatewayClient):
    client.__init__ = refused(client.__name__)
for name in ("_jvm", "_jsc", "_sc", "sparkContext", "_jsparkSession"):
    setattr(SparkSession, name, property(refused(name)))
"""
PROGRAM = """
import os, sys
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
for name in ("_jvm", "_jsc", "sparkContext"):
    try:
        getattr(spark, name)
    except RuntimeError:
        print("refused")

from mdstorm.doctor import check_setup
from mdstorm.spark import make_spark_converter

print(len(check_setup(spark=spark).problems), "problems")
cache = f"file://{os.getcwd()}/cache"
for staging in (False, True):
    df = spark.range(0, 100, 1, 4)
    converter = make_spark_converter(df, parent_cache_dir_url=cache, staging=staging)
    with converter.make_torch_dataloader(10, num_epochs=1) as loader:
        rows = sorted(number for batch in loader for number in batch["id"].tolist())
    converter.delete()
    print(rows == list(range(100)), os.listdir("cache"))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnectServer]:
    with closing(SparkConnectServer(tmp_path_factory.mktemp("server"))) as found:
        yield found


def test_session_without_gateway_converts_reads_and_deletes(
    server: SparkConnectServer, tmp_path: Path
) -> None:
    done = run_program(WITHOUT_GATEWAY + PROGRAM, server.url, cwd=tmp_path)
    found = done.stdout.splitlines()
    assert found == ["refused"] * 3 + ["0 problems"] + ["True []"] * 2
    assert not os.listdir(tmp_path / "cache")
