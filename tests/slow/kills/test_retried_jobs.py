"""Spark jobs with overwrite=True whose tasks and stages run more than once."""

import random
from pathlib import Path

import pytest
from tests.kit.programs import run_program
from tests.slow.kills.killing import ids_of, leftovers

pytestmark = pytest.mark.long

ROWS = 40_000

#: A program that overwrites a dataset once for each row number in its arguments. The first task
#: that reads that row kills its worker or removes Spark's shuffle files.
ROUNDS = """
import glob, os, signal, sys
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
from mdstorm_backend.spark import materialize

target, kind, *rows = sys.argv[1:]
here = os.getcwd()
builder = SparkSession.builder.master("local[2,4]")
for key, value in {
    "ui.enabled": "false",
    "local.dir": f"{here}/spark",
    "sql.adaptive.enabled": "false",
    "sql.execution.arrow.maxRecordsPerBatch": "1000",
}.items():
    builder = builder.config(f"spark.{key}", value)
spark = builder.getOrCreate()

def reader(row, place):
    def copied(batches):
        task = TaskContext.get()
        Path(place, f"attempt-{task.partitionId()}-{task.taskAttemptId()}").touch()
        begin = seen = task.partitionId() * 10_000
        for batch in batches:
            seen += batch.num_rows
            if begin <= row < seen and not Path(place, "once").exists():
                Path(place, "once").touch()
                happen()
            yield batch

    def happen():
        if kind == "task":
            os.kill(os.getpid(), signal.SIGKILL)
        for path in glob.glob(f"{here}/spark/**/shuffle_*", recursive=True):
            os.unlink(path)

    return copied

for number, row in enumerate(map(int, rows)):
    place = Path(here, f"round-{number}")
    place.mkdir()
    first = number * 40_000
    df = spark.range(first, first + 40_000, 1, 4)
    if kind == "stage":
        df = df.repartition(4)
    df = df.mapInArrow(reader(row, str(place)), "id long")
    dataset = materialize(df, target, shard_size=16_000, overwrite=True, progress=False)
    found = dataset.to_table()["id"].to_pylist()
    assert sorted(found) == list(range(first, first + 40_000)), number
    assert len(list(place.glob("attempt-*"))) > 4, number
"""


@pytest.mark.parametrize("kind", ["task", "stage"])
def test_tasks_that_run_twice_write_each_row_once_and_leave_no_extra_files(
    kind: str, tmp_path: Path
) -> None:
    draw, count = random.Random(kind), 3
    # Only later tasks need the shuffle files, so one of the first two tasks removes them.
    rows = [draw.randrange(ROWS // 2 if kind == "stage" else ROWS) for _ in range(count)]
    target = tmp_path / "mds"
    run_program(ROUNDS, target, kind, *rows, cwd=tmp_path)
    assert sorted(ids_of(target)) == list(range((count - 1) * ROWS, count * ROWS))
    assert leftovers(target) == set()
