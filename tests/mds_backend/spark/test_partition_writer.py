"""What runs on an executor for `dataframe_to_mds`, with a stand-in for Spark's task context."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark
import pytest
from tests.mds_backend.small_datasets import plan

from mdstorm_backend.errors import ArgumentTypeError, EncodingError
from mdstorm_backend.spark.partition_writer import PartitionJob, write_batches, write_frames
from mdstorm_backend.storage import Location
from mdstorm_backend.write.shard_format import ShardFormat, ShardReport

JOB = "0123abcd"


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 17)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)


def job(*targets: Path | str, **format_: Any) -> dict[str, Any]:
    locations = tuple(Location.of(str(target)) for target in targets)
    described = PartitionJob(JOB, locations, ShardFormat(400, **format_), max_workers=2, retry=0)
    assert PartitionJob.from_json(json.loads(json.dumps(described.to_json()))) == described
    return described.to_json()


def batches_of(*numbers: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], ["c0"])


def run_batches(job: dict[str, Any], batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    (batch,) = write_batches(batches, job=job, schema=plan({"n": "long"}).to_json())
    return [json.loads(text) for text in batch.column("report").to_pylist()]


def run_frames(
    job: dict[str, Any], frames: list[pd.DataFrame], to_samples: Any, **arguments: Any
) -> list[dict[str, Any]]:
    (frame,) = write_frames(
        iter(frames),
        job=job,
        names=["n"],
        columns={"x": "int"},
        to_samples=to_samples,
        arguments=arguments,
    )
    return [json.loads(text) for text in frame["report"]]


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_a_partition_becomes_a_directory_of_its_number(target: Path) -> None:
    reports = run_batches(job(target, compression="zstd", hashes=("md5",)), batches_of(*range(99)))
    infos = [ShardReport.from_json(report).info for report in reports]
    assert len(infos) > 1
    assert [(r["partition"], r["sequence"]) for r in reports] == [(3, i) for i in range(len(infos))]
    assert [i.raw_data.basename for i in infos] == [
        f"part-00003-{JOB}-17.{i:05}.mds" for i in range(len(infos))
    ]
    stored = [f"00003/{info.zip_data.basename}" for info in infos if info.zip_data]
    assert files(target) == ["00003", *stored]
    assert sum(info.samples for info in infos) == 99


def test_frames_become_the_samples_that_the_function_makes(target: Path) -> None:
    def multiplied(frame: pd.DataFrame, factor: int) -> Iterator[dict[str, Any]]:
        return ({"x": int(n) * factor} for n in frame["n"])

    frames = [pd.DataFrame({"c0": range(start, start + 20)}) for start in (0, 20)]
    reports = run_frames(job(target), frames, multiplied, factor=10)
    assert sum(report["info"]["samples"] for report in reports) == 40
    assert "mdstorm" not in (target / "00003").glob("*.mds").__next__().read_text("latin-1")


def test_every_directory_gets_every_shard(target: Path) -> None:
    remote = Location.of("memory://partition")
    run_batches(job(target, remote.url), batches_of(*range(99)))
    assert [name for name in files(target) if "/" in name] == remote.list_names()


def test_an_attempt_that_fails_leaves_nothing(target: Path) -> None:
    def failing(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
        for n in frame["n"]:
            yield {"x": "bad" if n == 90 else int(n)}

    with pytest.raises(EncodingError, match="column 'x'"):
        run_frames(job(target), [pd.DataFrame({"c0": range(99)})], failing)
    assert files(target) == []


@pytest.mark.parametrize("result", [None, 5, {"x": 1}, "text"], ids=str)
def test_a_function_that_returns_no_samples_is_refused(target: Path, result: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="needs to return an iterable of samples"):
        run_frames(job(target), [pd.DataFrame({"c0": [1]})], lambda frame: result)
    assert not target.exists()
