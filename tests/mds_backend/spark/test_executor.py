"""What runs on an executor, here with a stand-in for Spark's task context."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from tests.mds_backend.small_datasets import plan

from mdstorm_backend.spark.executor import make_task, write_partition
from mdstorm_backend.storage import Location


@pytest.fixture
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 17)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)


JOB = "0123abcd"


def task_arguments(target: Path, **changes: Any) -> dict[str, Any]:
    return {
        "job": JOB,
        "url": Location.of(str(target)).url,
        "storage_options": {},
        "schema": plan({"id": "long", "text": "string"}).to_json(),
        "shard_size": 1 << 20,
        "compression": None,
        **changes,
    }


def rows(*numbers: int, names: tuple[str, str] = ("id", "text")) -> pa.RecordBatch:
    texts = [str(number) for number in numbers]
    arrays = [pa.array(numbers, pa.int64()), pa.array(texts, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def reports(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    (batch,) = batches
    return [json.loads(text) for text in batch.column("report").to_pylist()]


@pytest.mark.usefixtures("in_a_task")
@pytest.mark.parametrize("batches", [[], [rows()], [rows(), rows()]], ids=len)
def test_a_partition_without_rows_writes_nothing(
    target: Path, batches: list[pa.RecordBatch]
) -> None:
    target.mkdir()
    assert reports(list(write_partition(iter(batches), **task_arguments(target)))) == []
    assert list(target.iterdir()) == []


@pytest.mark.usefixtures("in_a_task")
def test_the_shards_do_not_depend_on_how_spark_cuts_batches(target: Path) -> None:
    contents = []
    for cut in (1, 7, 20_000):
        directory = target / str(cut)
        directory.mkdir(parents=True)
        batches = [rows(*range(i, min(i + cut, 20_000))) for i in range(0, 20_000, cut)]
        list(write_partition(iter(batches), **task_arguments(directory)))
        contents.append([path.read_bytes() for path in sorted(directory.iterdir())])
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 1


def test_a_worker_that_cannot_import_mdstorm_says_what_to_do(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_task(task_arguments(target))
    monkeypatch.setitem(sys.modules, "mdstorm_backend.spark.executor", None)
    with pytest.raises(ImportError, match="Install it on the workers") as caught:
        list(task(iter([])))
    assert isinstance(caught.value.__cause__, ImportError)


def test_the_task_travels_by_value(target: Path) -> None:
    from pyspark import cloudpickle

    pickled = cloudpickle.dumps(make_task(task_arguments(target)))
    modules = {"mdstorm", "mdstorm_backend", "mdstorm_backend.spark.executor"}
    saved = {name: sys.modules.pop(name) for name in modules & set(sys.modules)}
    try:
        cloudpickle.loads(pickled)
        assert not modules & set(sys.modules)
    finally:
        sys.modules.update(saved)
