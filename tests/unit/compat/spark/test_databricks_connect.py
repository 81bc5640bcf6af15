"""databricks-connect instead of pyspark, connected to Spark's own Connect server."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.kit.servers.spark_connect import SparkConnectServer

_ROOT = Path(__file__).parents[4]
_DIRECTORY = Path(os.environ.get("MDSTORM_DATABRICKS_CONNECT", _ROOT / ".venv-databricks"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (_DIRECTORY / "bin/python").exists(),
        reason="run `make test-databricks` first",
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnectServer]:
    with closing(SparkConnectServer(tmp_path_factory.mktemp("server"))) as found:
        yield found


def run(program: str, directory: Path, remote: str = "") -> list[str]:
    """Run a program with databricks-connect, and with SPARK_REMOTE set to `remote` if given."""
    foreign = ("SPARK_", "DATABRICKS_", "PYSPARK_SUBMIT", "PYSPARK_GATEWAY")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    packages = ":".join(str(_ROOT / name) for name in ("compat", "mds_backend", "migrate"))
    own = {"HOME": str(directory), "PYTHONPATH": packages}
    done = subprocess.run(
        [_DIRECTORY / "bin/python", "-W", "ignore", "-c", program],
        cwd=directory,
        env={**kept, **own, **({"SPARK_REMOTE": remote} if remote else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


WAYS = {
    "SparkSession": "from pyspark.sql import SparkSession as S; spark = S.builder.remote({!r})",
    "DatabricksSession": "from databricks.connect import DatabricksSession as S; "
    "spark = S.builder.remote({!r})",
    "SPARK_REMOTE": "from databricks.connect import DatabricksSession as S; spark = S.builder",
}

CONVERT = """.getOrCreate()
import os
from mdstorm.spark import make_spark_converter
from mdstorm.spark_utils import dataset_as_rdd
from mdstorm_backend import open_dataset
from mdstorm_backend.spark import start_session
from mdstorm_backend.spark.sessions import is_local

print(start_session() is spark, is_local(spark))
parent = "file://" + os.getcwd() + "/cache"
for options in ({}, {"staging": True}):
    frames = [spark.range(0, 100, 1, 4) for _ in range(2)]
    first, again = (make_spark_converter(f, parent_cache_dir_url=parent, **options) for f in frames)
    rows = open_dataset(first.cache_dir_url).to_table()["id"].to_pylist()
    print(sorted(rows) == list(range(100)), first.cache_dir_url == again.cache_dir_url)
    first.delete()
    print(os.listdir("cache"))
try:
    dataset_as_rdd(parent, spark)
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("way", WAYS)
def test_databricks_connect_frame_is_converted_once(
    way: str, server: SparkConnectServer, tmp_path: Path
) -> None:
    program = WAYS[way].format(server.url) + CONVERT
    *found, refusal = run(program, tmp_path, server.url if way == "SPARK_REMOTE" else "")
    assert found == ["True False", *("True True", "[]") * 2]
    assert "needs a classic Spark session: Spark Connect" in refusal


START = """
from mdstorm_backend.spark import start_session
try:
    start_session()
except ValueError as error:
    print(error)
"""


def test_session_without_address_raises_databricks_error(tmp_path: Path) -> None:
    assert "cannot configure default credentials" in run(START, tmp_path)[0]
