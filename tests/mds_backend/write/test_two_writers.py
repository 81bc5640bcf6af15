"""Two jobs that write to one directory do not harm each other."""

from pathlib import Path

import pytest
from tests.mds_backend.small_datasets import plan, write_shards

from mdstorm_backend.datasets.dataset import open_dataset
from mdstorm_backend.errors import WriteError
from mdstorm_backend.storage import Location
from mdstorm_backend.write.commit import abandon, commit, remove_dataset

FIELDS = {"x": "long"}
FIRST, SECOND = "aaaaaaaa", "bbbbbbbb"


def shards_of(job: str, directory: Path, numbers: range) -> list[object]:
    return list(write_shards(directory, {"x": list(numbers)}, FIELDS, prefix=f"part-00000-{job}-0"))


def test_the_second_job_to_commit_is_refused_and_the_first_dataset_stays(tmp_path: Path) -> None:
    first = shards_of(FIRST, tmp_path, range(3))
    second = shards_of(SECOND, tmp_path, range(5))
    location = Location.of(str(tmp_path))
    commit(location, plan(FIELDS), first, FIRST)  # type: ignore[arg-type]
    with pytest.raises(WriteError, match="another job has written a dataset"):
        commit(location, plan(FIELDS), second, SECOND)  # type: ignore[arg-type]
    abandon(location, SECOND)
    assert [open_dataset(str(tmp_path))[i]["x"] for i in range(3)] == [0, 1, 2]
    assert not list(tmp_path.glob(f"*{SECOND}*"))


def test_a_commit_leaves_the_shards_of_another_job_alone(tmp_path: Path) -> None:
    other = shards_of(SECOND, tmp_path, range(5))
    commit(Location.of(str(tmp_path)), plan(FIELDS), shards_of(FIRST, tmp_path, range(3)), FIRST)  # type: ignore[arg-type]
    assert len(list(tmp_path.glob(f"*{SECOND}*"))) == len(other)


def test_a_job_that_is_abandoned_alone_leaves_no_directory(tmp_path: Path) -> None:
    directory = tmp_path / "target"
    shards_of(FIRST, directory, range(3))
    abandon(Location.of(str(directory)), FIRST)
    assert not directory.exists()


def test_a_job_that_is_abandoned_beside_another_leaves_the_directory(tmp_path: Path) -> None:
    shards_of(FIRST, tmp_path, range(3))
    shards_of(SECOND, tmp_path, range(3))
    abandon(Location.of(str(tmp_path)), FIRST)
    assert [path.name.split("-")[2] for path in tmp_path.glob("part-*")] == [SECOND]


def test_what_a_killed_process_left_is_removed_with_the_dataset(tmp_path: Path) -> None:
    directory = tmp_path / "target"
    write_shards(directory, {"x": [1]}, FIELDS)
    for name in ("index.json", "_mdstorm"):
        (directory / f"{name}.{'0' * 32}.tmp").write_bytes(b"half")
    assert remove_dataset(Location.of(str(directory))) == []
    assert not directory.exists()
