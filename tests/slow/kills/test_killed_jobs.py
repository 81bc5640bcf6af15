"""Spark jobs with overwrite=True whose processes are killed at random points."""

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.kit.programs import SESSION, run_program
from tests.kit.servers.spark_connect import SparkConnectServer
from tests.slow.kills.killing import KILLS_ITSELF, ids_of, leftovers

pytestmark = pytest.mark.long

#: Rows in a dataset, written by four tasks. Each task writes shards once it has read 8192 rows.
ROWS = 40_000
OLD, NEW = list(range(ROWS)), list(range(ROWS, 2 * ROWS))
#: The maximum number of files that a job may leave behind.
MOST_FILES = 50
#: The minimum number of times that the driver process changes the directory.
CHANGES = 40

#: A program that runs a job, whose workers kill a process when they read row `kill_row`, if any.
JOB = """
import os, signal, sys
from mdstorm_backend.spark import materialize

victim, kill_row, first = sys.argv[3], *map(int, sys.argv[4:6])
process = os.getpid()
if victim == "jvm":
    process = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()

def read(batches):
    for batch in batches:
        if kill_row in batch.column(0).to_pylist():
            os.kill(process, signal.SIGKILL)
        yield batch

spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
df = spark.range(first, first + 40_000, 1, 4).mapInArrow(read, "id long")
materialize(df, watched, shard_size=16_000, overwrite=True, progress=False)
"""
CLASSIC = f"{SESSION}spark = builder.getOrCreate()\n{KILLS_ITSELF}{JOB}"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect client's program; the server continues its job if the client is killed."""
    with closing(SparkConnectServer(tmp_path_factory.mktemp("server"))) as server:
        head = "from pyspark.sql import SparkSession\nspark = SparkSession.builder"
        yield f"{head}.remote({server.url!r}).getOrCreate()\n{KILLS_ITSELF}{JOB}"


@pytest.fixture(scope="module")
def old(client: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset that the jobs overwrite."""
    target = tmp_path_factory.mktemp("old") / "mds"
    run_program(client, target, 0, "none", -1, 0, cwd=target.parent)
    assert ids_of(target) == OLD
    return target


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("victim", ["driver", "jvm", "client"])
def test_jobs_killed_while_overwriting_leave_old_or_new_dataset(
    victim: str, seed: int, old: Path, client: str, tmp_path: Path
) -> None:
    draw, target = random.Random(seed), tmp_path / "mds"
    shutil.copytree(old, target)
    for _ in range(2):
        # The JVM itself does not change any files, so it is killed when a worker reads a row.
        at_row = victim == "jvm" or draw.random() < 0.5
        kill_at, row = (0, draw.choice(NEW)) if at_row else (draw.randint(1, CHANGES), -1)
        program, arguments = client if victim == "client" else CLASSIC, (victim, row, ROWS)
        done = run_program(program, target, kill_at, *arguments, cwd=tmp_path, expect_success=False)
        assert done.returncode == (1 if victim == "jvm" else -9), done.stderr
        assert ids_of(target) in (OLD, NEW)
        assert len(leftovers(target)) <= 2 * MOST_FILES
    # The server may still be running a killed client's job when the first of these jobs begins.
    for _ in range(2 if victim == "client" else 1):
        run_program(client, target, 0, "none", -1, ROWS, cwd=tmp_path)
        assert ids_of(target) == NEW
    assert leftovers(target) == set()
