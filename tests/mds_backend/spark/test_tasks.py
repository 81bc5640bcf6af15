"""What runs on an executor, here with a stand-in for Spark's task context."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark
import pytest
from tests.mds_backend.small_datasets import plan

from mdstorm_backend.errors import ArgumentTypeError, EncodingError, WriteError
from mdstorm_backend.storage import Location
from mdstorm_backend.write.full_shard import ShardFormat
from mdstorm_backend.write.tasks import PartitionJob, write_batches, write_frames

ROWS = 20_000


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 17)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)


def test_the_shards_do_not_depend_on_how_spark_cuts_batches(target: Path) -> None:
    schema = plan({"id": "long", "text": "string"})
    table = pa.table({"id": range(ROWS), "text": [str(n) for n in range(ROWS)]})
    contents = []
    for cut in (1, 7, ROWS):
        directory = target / str(cut)
        directory.mkdir(parents=True)
        batches = iter(table.to_batches(max_chunksize=cut))
        job = PartitionJob("0123abcd", (Location.of(directory),), ShardFormat(1 << 20))
        list(write_batches(batches, job=job, schema=schema))
        contents.append([path.read_bytes() for path in sorted(directory.iterdir())])
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 1


def write_samples(target: Path, to_samples: Any) -> None:
    place = (Location.of(str(target)),)
    job = PartitionJob("0123abcd", place, ShardFormat(400), max_workers=2, retry=0)
    frames = iter([pd.DataFrame({"c0": range(99)})])
    columns = {"names": ["n"], "columns": {"x": "int"}}
    list(write_frames(frames, job=job, **columns, to_samples=to_samples, arguments={}))


def test_an_attempt_that_fails_leaves_nothing(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
        for n in frame["n"]:
            yield {"x": "bad" if n == 90 else int(n)}

    with pytest.raises(EncodingError, match="column 'x'"):
        write_samples(target, failing)
    assert list(target.rglob("*")) == []
    monkeypatch.delattr(Location, "write")  # noticed when all is written
    with pytest.raises(WriteError):
        write_samples(target, lambda frame: [{"x": 1}])
    assert list(target.rglob("*")) == []


@pytest.mark.parametrize("result", [None, 5, {"x": 1}, "text"], ids=str)
def test_a_function_that_returns_no_samples_is_refused(target: Path, result: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="needs to return an iterable of samples"):
        write_samples(target, lambda frame: result)
    assert not target.exists()
