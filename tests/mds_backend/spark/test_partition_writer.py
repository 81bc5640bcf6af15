"""What a task of `dataframe_to_mds` refuses, with a stand-in for Spark's task context."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyspark
import pytest

from mdstorm_backend.errors import ArgumentTypeError, EncodingError
from mdstorm_backend.spark.partition_writer import PartitionJob, write_frames
from mdstorm_backend.storage import Location
from mdstorm_backend.write.shard_format import ShardFormat


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 17)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)


def write(target: Path, to_samples: Any) -> None:
    place = (Location.of(str(target)),)
    job = PartitionJob("0123abcd", place, ShardFormat(400), max_workers=2, retry=0).to_json()
    frames = iter([pd.DataFrame({"c0": range(99)})])
    columns = {"names": ["n"], "columns": {"x": "int"}}
    list(write_frames(frames, job=job, **columns, to_samples=to_samples, arguments={}))


def test_an_attempt_that_fails_leaves_nothing(target: Path) -> None:
    def failing(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
        for n in frame["n"]:
            yield {"x": "bad" if n == 90 else int(n)}

    with pytest.raises(EncodingError, match="column 'x'"):
        write(target, failing)
    assert list(target.rglob("*")) == []


@pytest.mark.parametrize("result", [None, 5, {"x": 1}, "text"], ids=str)
def test_a_function_that_returns_no_samples_is_refused(target: Path, result: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="needs to return an iterable of samples"):
        write(target, lambda frame: result)
    assert not target.exists()
