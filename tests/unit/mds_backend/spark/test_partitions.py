"""Files written by tasks with a fake Spark context, and the datasets made from them."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark
import pytest
from tests.kit.small_datasets import files_in, numbers_in, plan

from mdstorm_backend import errors
from mdstorm_backend.spark.dataframe_to_mds import abandon_partitions, publish_partitions
from mdstorm_backend.storage import Location
from mdstorm_backend.write import commit, directories
from mdstorm_backend.write.full_shard import ShardFormat
from mdstorm_backend.write.tasks import PartitionJob, write_batches, write_frames

SCHEMA = plan({"n": "long"})
OTHER = "89abcdef"


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The numbers of the partition and the attempt that are being written."""
    numbers = {"partition": 3, "attempt": 17}
    context = SimpleNamespace(
        partitionId=lambda: numbers["partition"], taskAttemptId=lambda: numbers["attempt"]
    )
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)
    return numbers


@pytest.fixture
def write(task: dict[str, int]) -> Any:
    """Write the shards of a partition and return the reports of its task."""

    def write(job: PartitionJob, partition: int, *numbers: int, attempt: int = 0) -> list[str]:
        task.update(partition=partition, attempt=attempt)
        batch = pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], ["n"])
        (result,) = write_batches(iter([batch]), job=job, schema=SCHEMA)
        return result["report"].to_pylist()  # type: ignore[no-any-return]

    return write


def make_job(*targets: Path | str, name: str = "0123abcd", **options: Any) -> PartitionJob:
    locations = tuple(Location.of(str(target)) for target in targets)
    options = {"by_partition": True, "retry": 0, **options}
    return PartitionJob(name, locations, ShardFormat(1000), **options)


def test_shards_do_not_depend_on_how_spark_splits_batches(target: Path) -> None:
    schema = plan({"id": "long", "text": "string"})
    table = pa.table({"id": range(20_000), "text": [str(n) for n in range(20_000)]})
    contents = []
    for cut in (1, 7, 20_000):
        (target / str(cut)).mkdir(parents=True)
        job = PartitionJob("0123abcd", (Location.of(target / str(cut)),), ShardFormat(1 << 20))
        list(write_batches(iter(table.to_batches(max_chunksize=cut)), job=job, schema=schema))
        contents.append([path.read_bytes() for path in sorted((target / str(cut)).iterdir())])
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 1


def write_samples(target: Path, to_samples: Any) -> None:
    frames = iter([pd.DataFrame({"c0": range(99)})])
    columns = {"names": ["n"], "columns": {"x": "int"}}
    job = make_job(target, max_workers=2)
    list(write_frames(frames, job=job, **columns, to_samples=to_samples, arguments={}))


def test_failed_attempt_removes_its_shards(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
        for n in frame["n"]:
            yield {"x": "bad" if n == 90 else int(n)}

    with pytest.raises(errors.EncodingError, match="column 'x'"):
        write_samples(target, failing)
    assert list(target.rglob("*")) == []
    monkeypatch.delattr(Location, "write")  # the shard is written at the end of the task
    with pytest.raises(errors.WriteError):
        write_samples(target, lambda frame: [{"x": 1}])
    assert list(target.rglob("*")) == []


def test_task_does_not_create_the_dataset_directory(target: Path, write: Any) -> None:
    """The directory would be on the executor's own disk, where nothing removes its files."""
    with pytest.raises(errors.WriteError, match="could not be written"):
        write(make_job(target, by_partition=False), 0, 1)
    assert not target.exists()


@pytest.mark.parametrize("result", [None, 5, {"x": 1}, "text"], ids=str)
def test_udf_that_does_not_return_an_iterable_of_samples_raises_error(
    target: Path, result: Any
) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="must return an iterable of samples"):
        write_samples(target, lambda frame: result)
    assert not target.exists()


def test_files_from_lost_attempts_are_removed_and_other_files_are_kept(
    target: Path, write: Any
) -> None:
    job, other = make_job(target), make_job(target, name=OTHER)
    write(job, 0, 1, 2, attempt=1)
    reports = write(job, 0, 1, 2, attempt=2)
    write(other, 0, 3)
    (target / "00000" / "notes.txt").write_text("mine")
    publish_partitions(job, SCHEMA, reports, merged=True)
    assert set(files_in(target)) == {
        "index.json",
        "00000/index.json",
        "00000/notes.txt",
        "00000/part-00000-0123abcd-2.00000.mds",
        "00000/part-00000-89abcdef-0.00000.mds",
    }


def test_incomplete_local_copy_causes_warning_and_gets_no_index(target: Path, write: Any) -> None:
    job = make_job(target, "memory://whole")
    reports = write(job, 0, 1) + write(job, 1, 2)
    (target / "00001" / "part-00001-0123abcd-0.00000.mds").unlink()
    with pytest.warns(UserWarning, match="has no index"):
        publish_partitions(job, SCHEMA, reports, merged=True)
    assert numbers_in("memory://whole") == [1, 2]
    assert not (target / "index.json").exists()


def test_dataset_written_by_another_job_is_not_changed(target: Path, write: Any) -> None:
    first, second = make_job(target), make_job(target, name=OTHER)
    publish_partitions(first, SCHEMA, write(first, 0, 1), merged=False)
    reports = write(second, 0, 2)
    with pytest.raises(errors.DatasetExistsError, match="another job has written a dataset"):
        publish_partitions(second, SCHEMA, reports, merged=True)
    abandon_partitions(second, [])
    assert numbers_in(target / "00000") == [1]
    assert len(files_in(target)) == 2


def test_failure_to_write_one_index_removes_the_other_indexes(
    target: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(target)
    reports = write(job, 0, 1) + write(job, 1, 2)
    write_index = commit.write_index

    def full(location: Location, index: Any, **options: Any) -> None:
        if location.url.endswith("dataset"):
            raise OSError("disk full")
        write_index(location, index, **options)

    monkeypatch.setattr(commit, "write_index", full)
    with pytest.raises(OSError, match="disk full"):
        publish_partitions(job, SCHEMA, reports, merged=True)
    assert "index.json" not in {path.name for path in target.rglob("*")}


def test_failed_job_removes_its_files_and_keeps_other_jobs_files(target: Path, write: Any) -> None:
    job, other = make_job(target, "memory://failed"), make_job(target, name=OTHER)
    made = [location for location in job.locations if directories.make_directory(location)]
    write(job, 0, 1)
    write(job, 1, 2)
    write(other, 0, 2)
    abandon_partitions(job, made)
    assert files_in(target) == ["00000/part-00000-89abcdef-0.00000.mds"]
    assert not (target / "00001").exists()
    assert Location.of("memory://failed").list_names() == []
    abandon_partitions(other, made)
    assert not target.exists()
