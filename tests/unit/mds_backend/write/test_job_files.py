"""The files of jobs in a directory: which ones are removed, and which are kept."""

import re
from pathlib import Path

import pytest
from tests.kit import small_datasets
from tests.kit.small_datasets import write_numbers

from mdstorm_backend.errors import DatasetExistsError, StorageError
from mdstorm_backend.storage import Location
from mdstorm_backend.write import job_files
from mdstorm_backend.write.directories import Claim
from mdstorm_backend.write.job_files import (
    claim_directory,
    clean_up,
    list_unfinished,
    mark_directory,
    remove_dataset,
    shards_of,
)

FIRST, SECOND = "aaaaaaaa", "bbbbbbbb"


def names(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*"))


def test_removing_a_dataset_deletes_temporary_files_of_a_killed_process(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    dataset = write_numbers(directory, 1000)
    assert len(dataset.index.shards) > 1
    for name in ("index.json", "_mdstorm"):
        (directory / f"{name}.{'0' * 32}.tmp").write_bytes(b"half")
    assert remove_dataset(dataset.location) == []
    assert not directory.exists()
    assert remove_dataset(dataset.location) == []


def test_removing_a_dataset_removes_the_index_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = write_numbers(tmp_path, 10)
    before = set(names(tmp_path))
    remove = Location.remove
    left = iter([True])

    def remove_one(self: Location, name: str) -> None:
        if not next(left, False):
            raise StorageError("down")
        remove(self, name)

    monkeypatch.setattr(Location, "remove", remove_one)
    with pytest.raises(StorageError):
        remove_dataset(dataset.location)
    assert set(names(tmp_path)) == before - {"index.json"}


def test_removing_a_dataset_keeps_and_lists_foreign_files(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.json").write_text("also mine")
    assert remove_dataset(dataset.location) == ["notes.txt", "sub/index.json"]
    assert names(tmp_path) == ["notes.txt", "sub", "sub/index.json"]


def test_dataset_without_marker_file_is_not_removed(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    (tmp_path / "_mdstorm").unlink()
    before = names(tmp_path)
    assert remove_dataset(dataset.location) == before
    assert names(tmp_path) == before


@pytest.mark.parametrize("others", [[], [SECOND]])
def test_abandoned_job_keeps_the_shards_of_another_job(tmp_path: Path, others: list[str]) -> None:
    directory = tmp_path / "target"
    for job in (FIRST, *others):
        small_datasets.write_shards(
            directory, {"number": range(3)}, {"number": "long"}, prefix=f"part-00000-{job}-0"
        )
    location = Location.of(str(directory))
    clean_up(location, Claim(location), FIRST)
    assert [path.name.split("-")[2] for path in directory.glob("part-*")] == others
    assert directory.exists() == bool(others)


KILLED = "part-00000-0123abcd-0.00000.mds"


@pytest.fixture
def unfinished(volume: Path) -> Location:
    """A directory where a job was just killed, on a file system without locks."""
    job = Location.of(str(volume / "job"))
    mark_directory(job)
    job.write(KILLED, [b"1234"])
    return job


def test_job_without_locks_counts_as_active_for_a_day(
    unfinished: Location, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, names = str(volume), re.compile("job")
    assert list(list_unfinished(parent, names)) == []
    claim_directory(unfinished).release()
    assert KILLED in unfinished.list_names()
    monkeypatch.setattr(job_files, "PATIENCE", 0)
    (found,) = list_unfinished(parent, names)
    assert (found.shards, found.bytes) == (1, 4)
    claim_directory(unfinished).release()
    assert not unfinished.exists(KILLED)


def test_directory_with_a_stale_listing_can_be_claimed(volume: Path) -> None:
    job = Location.of(str(volume / "stale"))
    job.make_directory()
    assert job.list_names() == []  # the mount now caches this listing
    mark_directory(job)
    claim_directory(job).release()


def test_claim_removes_shards_of_killed_jobs_alongside_a_dataset(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    before = names(tmp_path)
    for name in (KILLED, KILLED.replace("0123", "4567"), f"{KILLED}.{'0' * 32}.tmp"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / KILLED).write_bytes(b"of another dataset")
    claim_directory(dataset.location).release()
    assert names(tmp_path) == sorted([*before, "notes.txt", "sub", f"sub/{KILLED}"])


def test_shards_are_kept_if_another_writer_has_a_claim(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    (tmp_path / KILLED).write_bytes(b"x")
    claim = Claim(dataset.location)
    with pytest.raises(DatasetExistsError, match="another writer is using the same directory"):
        claim_directory(dataset.location)
    claim.release()
    assert KILLED in names(tmp_path)


def test_failed_job_keeps_other_jobs_directory_on_disk_without_locks(
    tmp_path: Path, without_locks: None
) -> None:
    location = Location.of(str(tmp_path / "target"))
    failed = claim_directory(location)
    _ = claim_directory(location)
    clean_up(location, failed, FIRST)
    assert location.list_names() == ["_mdstorm"]


@pytest.mark.parametrize(
    ("attempt", "numbers"), [(None, "123"), ("1", "12"), ("2", "3"), ("4", "")]
)
def test_shards_of_a_job_are_those_of_an_attempt_if_it_is_given(
    attempt: str | None, numbers: str
) -> None:
    ours = {
        "1": f"part-00000-{FIRST}-1.00000.mds",
        "2": f"sub/part-00001-{FIRST}-1.done",
        "3": f"part-00000-{FIRST}-2.00000.mds.zstd",
    }
    others = [f"part-00000-{SECOND}-1.00000.mds", "part-00000-1.00000.mds", "notes.txt"]
    found = shards_of(FIRST, [*others, *ours.values()], attempt)
    assert found == [ours[number] for number in numbers]
