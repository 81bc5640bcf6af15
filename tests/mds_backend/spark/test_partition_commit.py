"""The end of `dataframe_to_mds`: which files become datasets, and which go."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.mds_backend.small_datasets import files_in, numbers_in, plan

from mdstorm_backend.errors import DatasetExistsError
from mdstorm_backend.spark.dataframe_to_mds import abandon_partitions, publish_partitions
from mdstorm_backend.storage import Location
from mdstorm_backend.write.batch_shards import write_shards
from mdstorm_backend.write.commit import write_index
from mdstorm_backend.write.directories import make_directory
from mdstorm_backend.write.full_shard import ShardFormat
from mdstorm_backend.write.tasks import PartitionJob, report_texts

SCHEMA = plan({"n": "long"})


def make_job(*targets: Path | str, name: str = "0123abcd") -> PartitionJob:
    locations = tuple(Location.of(str(target)) for target in targets)
    return PartitionJob(name, locations, ShardFormat(1000), by_partition=True, retry=0)


def write(job: PartitionJob, partition: int, *numbers: int | None, attempt: int = 0) -> list[str]:
    """Write the shards of a partition and return the reports of its task."""
    reports: list[Any] = []
    for location in job.locations:
        directory = location.child(f"{partition:05}")
        if location.is_local_disk:
            directory.make_directory()
        prefix = f"part-{partition:05}-{job.name}-{attempt}"
        batch = pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], ["n"])
        reports = write_shards([batch], directory, SCHEMA, ShardFormat(1000), prefix)
    return report_texts(partition, reports)


def test_attempts_that_lost_are_removed_and_other_files_stay(target: Path) -> None:
    job, other = make_job(target), make_job(target, name="89abcdef")
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


def test_a_copy_that_is_not_whole_gets_no_index_and_a_warning(target: Path) -> None:
    job = make_job(target, "memory://whole")
    reports = write(job, 0, 1) + write(job, 1, 2)
    (target / "00001" / "part-00001-0123abcd-0.00000.mds").unlink()
    with pytest.warns(UserWarning, match="has no index"):
        publish_partitions(job, SCHEMA, reports, merged=True)
    assert numbers_in("memory://whole") == [1, 2]
    assert not (target / "index.json").exists()


def test_a_dataset_of_another_job_is_left_as_it_is(target: Path) -> None:
    first, second = make_job(target), make_job(target, name="89abcdef")
    publish_partitions(first, SCHEMA, write(first, 0, 1), merged=False)
    reports = write(second, 0, 2)
    with pytest.raises(DatasetExistsError, match="another job has written a dataset"):
        publish_partitions(second, SCHEMA, reports, merged=True)
    abandon_partitions(second, [])
    assert numbers_in(target / "00000") == [1]
    assert len(files_in(target)) == 2


def test_an_index_that_cannot_be_written_takes_the_others_with_it(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(target)
    reports = write(job, 0, 1) + write(job, 1, 2)

    def full(location: Location, index: Any, **options: Any) -> None:
        if location.url.endswith("dataset"):
            raise OSError("disk full")
        write_index(location, index, **options)

    monkeypatch.setattr("mdstorm_backend.write.commit.write_index", full)
    with pytest.raises(OSError, match="disk full"):
        publish_partitions(job, SCHEMA, reports, merged=True)
    assert "index.json" not in {path.name for path in target.rglob("*")}


def test_what_a_failed_job_has_written_goes_and_the_files_of_others_stay(target: Path) -> None:
    job, other = make_job(target, "memory://failed"), make_job(target, name="89abcdef")
    made = [location for location in job.locations if make_directory(location)]
    write(job, 0, 1)
    write(job, 1, 2)
    write(other, 0, 2)
    abandon_partitions(job, made)
    assert files_in(target) == ["00000/part-00000-89abcdef-0.00000.mds"]
    assert not (target / "00001").exists()
    assert Location.of("memory://failed").list_names() == []
    abandon_partitions(other, made)
    assert not target.exists()
