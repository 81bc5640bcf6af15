from pathlib import Path

import pytest
from tests.mds_backend import small_datasets
from tests.mds_backend.small_datasets import array_of, plan, write_dataset, write_numbers

from mdstorm_backend.errors import CredentialsError, StorageError, WriteError
from mdstorm_backend.format.index import Index
from mdstorm_backend.storage import Location
from mdstorm_backend.write.commit import clean_up, publish, remove_dataset, write_index

FIELDS = {"number": "long"}


def names(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*"))


def numbers_of(directory: Path) -> list[int]:
    return small_datasets.numbers_in(directory, "number")


def write_attempt(directory: Path, numbers: range, prefix: str) -> list:
    return small_datasets.write_shards(directory, {"number": numbers}, FIELDS, prefix=prefix)


@pytest.mark.parametrize("is_listed", [True, False])
def test_rows_come_in_the_order_of_the_reports_whatever_a_mount_lists(
    is_listed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing of a mount of remote storage may be from before the job."""
    if not is_listed:
        monkeypatch.setattr(Location, "list_sizes", lambda self: [("index.json", 2)])
    first = write_attempt(tmp_path, range(3), "part-00000-1")
    second = write_attempt(tmp_path, range(3, 5), "part-00001-0")
    publish(Location.of(str(tmp_path)), plan(FIELDS), [*second, *first])
    assert numbers_of(tmp_path) == [3, 4, 0, 1, 2]


def test_shards_of_attempts_that_lost_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    write_attempt(tmp_path, range(3), "part-00000-0")
    winner = write_attempt(tmp_path, range(3), "part-00000-7")
    half = "part-00000-3.00000.mds.0123456789abcdef0123456789abcdef.tmp"
    (tmp_path / half).write_bytes(b"half a shard")
    (tmp_path / "part-00000-3.00000.mds.zstd").write_bytes(b"compressed")
    (tmp_path / "part-00000.parquet").write_bytes(b"of somebody else")
    publish(Location.of(str(tmp_path)), plan(FIELDS), winner)
    kept = ["part-00000-7.00000.mds", "part-00000.parquet"]
    assert names(tmp_path) == ["_mdstorm", "index.json", *kept]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_shard_that_the_driver_cannot_see_whole_fails_the_commit(
    tmp_path: Path, is_there: bool
) -> None:
    reports = write_attempt(tmp_path, range(3), "part-00000-0")
    (tmp_path / "part-00000-0.00000.mds").unlink()
    if is_there:
        (tmp_path / "part-00000-0.00000.mds").write_bytes(b"cut off")
    message = r"1 of 1 shards .* cannot be seen .*part-00000-0\.00000\.mds.* executors share"
    with pytest.raises(WriteError, match=message):
        publish(Location.of(str(tmp_path)), plan(FIELDS), reports)
    assert not (tmp_path / "index.json").exists()


def test_nulls_are_counted_over_all_shards(tmp_path: Path) -> None:
    dataset = write_dataset(
        tmp_path,
        {"a": [1, None] * 300, "b": [[1, None], None, []] * 200, "c": [0] * 600},
        {"a": "long", "b": array_of("integer"), "c": "long"},
        shard_size=3000,
        tasks=2,
    )
    assert len(dataset.index.shards) > 3
    counts = {c.name: (c.null_count, c.element_null_count) for c in dataset.schema}
    assert counts == {"a": (300, 0), "b": (200, 200), "c": (0, 0)}
    assert dataset.index.extra["num_rows"] == 600


@pytest.mark.parametrize(
    ("second", "length"), [([3, 4], 2), ([3, 4, 5], None), ([], None), (None, 2)]
)
def test_the_form_of_arrays_is_known_if_all_shards_agree(
    second: list[int] | None, length: int | None, tmp_path: Path
) -> None:
    rows = {"a": [[1, 2], second], "b": [[[1, 2]], [second] if second else second]}
    types = {"a": array_of("long"), "b": array_of(array_of("long"))}
    schema = write_dataset(tmp_path, rows, types, tasks=2).schema
    assert (schema["a"].length, schema["b"].shape) == (length, (1, length) if length else None)


def test_no_rows_make_a_dataset_that_knows_its_columns(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, {"number": []}, FIELDS)
    assert len(dataset) == 0
    assert dataset.schema.names == ("number",)
    assert names(tmp_path) == ["_mdstorm", "index.json"]


def test_removal_takes_everything_that_was_written_even_by_a_killed_process(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    dataset = write_numbers(directory, 1000)
    assert len(dataset.index.shards) > 1
    for name in ("index.json", "_mdstorm"):
        (directory / f"{name}.{'0' * 32}.tmp").write_bytes(b"half")
    assert remove_dataset(dataset.location) == []
    assert not directory.exists()
    assert remove_dataset(dataset.location) == []


def test_a_removal_that_is_interrupted_leaves_no_dataset(
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


def test_removal_leaves_the_files_of_others_and_names_them(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.json").write_text("also mine")
    assert remove_dataset(dataset.location) == ["notes.txt", "sub/index.json"]
    assert names(tmp_path) == ["notes.txt", "sub", "sub/index.json"]


def test_a_directory_without_our_marker_is_left_alone(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    (tmp_path / "_mdstorm").unlink()
    before = names(tmp_path)
    assert remove_dataset(dataset.location) == before
    assert names(tmp_path) == before


def test_writing_an_index_elsewhere_is_tried_again(failures: list[Exception]) -> None:
    location = Location.of("memory://index/again")
    failures += [OSError("one"), StorageError("two")]
    write_index(location, Index((), {}))
    assert location.list_names() == ["index.json"]


@pytest.mark.parametrize(("url", "count"), [("memory://index/down", 3), ("", 1)])
def test_an_index_that_cannot_be_written_is_an_error(
    url: str, count: int, tmp_path: Path, failures: list[Exception]
) -> None:
    failures += [OSError("down")] * count
    with pytest.raises(WriteError, match=r"index\.json could not be written .*down"):
        write_index(Location.of(url or str(tmp_path)), Index((), {}))
    assert failures == []


@pytest.mark.parametrize("found", [b"", Index((), {"of": "another"}).to_bytes()])
def test_an_index_that_reads_back_as_something_else_is_an_error(
    found: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Location.write
    monkeypatch.setattr(Location, "write", lambda self, name, _: write(self, name, [found]))
    with pytest.raises(WriteError, match=r"index\.json does not read back as it was written"):
        write_index(Location.of(str(tmp_path)), Index((), {}))


def test_refused_credentials_stay_what_they_are(failures: list[Exception]) -> None:
    failures.append(CredentialsError("who are you?"))
    with pytest.raises(CredentialsError, match="who are you"):
        write_index(Location.of("memory://index/refused"), Index((), {}), retry=0)


#: Two jobs that write to one directory.
FIRST, SECOND = "aaaaaaaa", "bbbbbbbb"


def shards_of(job: str, directory: Path, numbers: range) -> list[object]:
    return write_attempt(directory, numbers, f"part-00000-{job}-0")


def test_the_second_job_to_commit_is_refused_and_the_first_dataset_stays(tmp_path: Path) -> None:
    first = shards_of(FIRST, tmp_path, range(3))
    second = shards_of(SECOND, tmp_path, range(5))
    location = Location.of(str(tmp_path))
    publish(location, plan(FIELDS), first, FIRST)
    assert len(list(tmp_path.glob(f"*{SECOND}*"))) == len(second)
    with pytest.raises(WriteError, match="another job has written a dataset"):
        publish(location, plan(FIELDS), second, SECOND)
    clean_up(location, SECOND)
    clean_up(location, FIRST)  # whose shards were published
    assert numbers_of(tmp_path) == [0, 1, 2]
    assert not list(tmp_path.glob(f"*{SECOND}*"))


@pytest.mark.parametrize("others", [[], [SECOND]])
def test_a_job_that_is_abandoned_leaves_what_another_needs(
    tmp_path: Path, others: list[str]
) -> None:
    directory = tmp_path / "target"
    for job in (FIRST, *others):
        shards_of(job, directory, range(3))
    clean_up(Location.of(str(directory)), FIRST)
    assert [path.name.split("-")[2] for path in directory.glob("part-*")] == others
    assert directory.exists() == bool(others)
