"""Storing shards and committing a dataset: failures, and the files that remain."""

import errno
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kit import small_datasets
from tests.kit.small_datasets import array_of, plan, write_dataset, write_numbers

from mdstorm_backend import open_dataset
from mdstorm_backend.errors import CredentialsError, DatasetExistsError, StorageError, WriteError
from mdstorm_backend.format.index import Index
from mdstorm_backend.storage import Location
from mdstorm_backend.write import directories
from mdstorm_backend.write.commit import publish, write_index
from mdstorm_backend.write.directories import Claim
from mdstorm_backend.write.full_shard import FullShard, ShardFormat, ShardStore
from mdstorm_backend.write.job_files import clean_up

FIELDS = {"number": "long"}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, in seconds, which are recorded instead of waited for."""
    seconds: list[float] = []
    monkeypatch.setattr(directories, "time", SimpleNamespace(sleep=seconds.append))
    return seconds


@pytest.fixture
def failures(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Errors that attempts to write a file raise, one per attempt, until none is left."""
    left: list[Exception] = []
    write = Location.write

    def fail(self: Location, name: str, buffers: Any) -> None:
        if left:
            raise left.pop(0)
        write(self, name, buffers)

    monkeypatch.setattr(Location, "write", fail)
    return left


def names(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*"))


def numbers_of(directory: Path) -> list[int]:
    return small_datasets.numbers_in(directory, "number")


def write_attempt(directory: Path, numbers: range, prefix: str) -> list:
    return small_datasets.write_shards(directory, {"number": numbers}, FIELDS, prefix=prefix)


@pytest.mark.parametrize("is_listed", [True, False])
def test_committed_rows_are_in_the_order_of_the_shard_reports(
    is_listed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where remote storage is mounted, the listing of a directory may be older than the shards."""
    if not is_listed:
        monkeypatch.setattr(Location, "list_sizes", lambda self: [("index.json", 2)])
    first = write_attempt(tmp_path, range(3), "part-00000-1")
    second = write_attempt(tmp_path, range(3, 5), "part-00001-0")
    publish(Location.of(str(tmp_path)), plan(FIELDS), [*second, *first])
    assert numbers_of(tmp_path) == [3, 4, 0, 1, 2]


def test_commit_removes_only_shards_from_lost_attempts(tmp_path: Path) -> None:
    write_attempt(tmp_path, range(3), "part-00000-0")
    winner = write_attempt(tmp_path, range(3), "part-00000-7")
    half = "part-00000-3.00000.mds.0123456789abcdef0123456789abcdef.tmp"
    (tmp_path / half).write_bytes(b"half a shard")
    (tmp_path / "part-00000-3.00000.mds.zstd").write_bytes(b"compressed")
    (tmp_path / "part-00000.parquet").write_bytes(b"of somebody else")
    publish(Location.of(str(tmp_path)), plan(FIELDS), winner)
    kept = ["part-00000-7.00000.mds", "part-00000.parquet"]
    assert names(tmp_path) == ["_mdstorm", "index.json", *kept]


@pytest.mark.parametrize("attempt", [None, "7"])
@pytest.mark.parametrize("kind", ["file tree", "store"])
def test_commit_removes_notes_that_exist(
    kind: str, attempt: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount may not list new notes; a store lists all, so that no others are requested."""
    if kind == "store":
        monkeypatch.setattr(Location, "is_in_file_tree", False)
    elif attempt is not None:
        monkeypatch.setattr(Location, "list_sizes", lambda self: [("index.json", 2)])
    removed: list[str] = []
    remove = Location.remove

    def note_and_remove(self: Location, name: str) -> None:
        removed.append(name)
        remove(self, name)

    monkeypatch.setattr(Location, "remove", note_and_remove)
    noted, other = (write_attempt(tmp_path, range(3), f"part-0000{n}-7") for n in (0, 1))
    (tmp_path / "part-00000-7.done").touch()
    publish(Location.of(str(tmp_path)), plan(FIELDS), [*noted, *other], None, None, attempt)
    assert [name for name in names(tmp_path) if name.endswith(".done")] == []
    is_unlisted = kind == "file tree" and attempt is not None
    notes = ["part-00000-7.done", *(["part-00001-7.done"] if is_unlisted else [])]
    assert sorted(removed) == notes


@pytest.mark.parametrize("is_there", [True, False])
def test_shard_missing_or_incomplete_on_the_driver_fails_the_commit(
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
def test_array_shape_is_in_the_schema_if_all_shards_agree(
    second: list[int] | None, length: int | None, tmp_path: Path
) -> None:
    rows = {"a": [[1, 2], second], "b": [[[1, 2]], [second] if second else second]}
    types = {"a": array_of("long"), "b": array_of(array_of("long"))}
    schema = write_dataset(tmp_path, rows, types, tasks=2).schema
    assert (schema["a"].length, schema["b"].shape) == (length, (1, length) if length else None)


def test_writing_an_index_removes_temporary_files_of_killed_writers(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    before = names(tmp_path)
    for name in ("index.json", "_mdstorm"):
        (tmp_path / f"{name}.{'0' * 32}.tmp").write_bytes(b"half")
    (tmp_path / "_mdstorm.mine.tmp").touch()
    write_index(dataset.location, dataset.index)
    assert names(tmp_path) == sorted([*before, "_mdstorm.mine.tmp"])


@pytest.mark.parametrize(("url", "count"), [("memory://index/down", 3), ("", 1)])
def test_index_that_cannot_be_written_raises_error(
    url: str, count: int, tmp_path: Path, failures: list[Exception]
) -> None:
    failures += [OSError("down")] * count
    with pytest.raises(WriteError, match=r"index\.json could not be written .*down"):
        write_index(Location.of(url or str(tmp_path)), Index((), {}))
    assert failures == []


@pytest.mark.parametrize("found", [b"", Index((), {"of": "another"}).to_bytes()])
def test_index_that_reads_back_differently_raises_error(
    found: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Location.write
    monkeypatch.setattr(Location, "write", lambda self, name, _: write(self, name, [found]))
    with pytest.raises(WriteError, match=r"index\.json does not read back as it was written"):
        write_index(Location.of(str(tmp_path)), Index((), {}))


def test_credentials_error_during_commit_is_raised_unchanged(failures: list[Exception]) -> None:
    failures.append(CredentialsError("who are you?"))
    with pytest.raises(CredentialsError, match="who are you"):
        write_index(Location.of("memory://index/refused"), Index((), {}), retry=0)


#: Two jobs that write to the same directory.
FIRST, SECOND = "aaaaaaaa", "bbbbbbbb"


def shards_of(job: str, directory: Path, numbers: range) -> list[object]:
    return write_attempt(directory, numbers, f"part-00000-{job}-0")


def test_second_job_to_commit_raises_error_and_keeps_the_first_dataset(tmp_path: Path) -> None:
    first = shards_of(FIRST, tmp_path, range(3))
    second = shards_of(SECOND, tmp_path, range(5))
    location = Location.of(str(tmp_path))
    publish(location, plan(FIELDS), first, FIRST)
    assert len(list(tmp_path.glob(f"*{SECOND}*"))) == len(second)
    with pytest.raises(WriteError, match="another job has written a dataset"):
        publish(location, plan(FIELDS), second, SECOND)
    claim = Claim(location)
    clean_up(location, claim, SECOND)
    clean_up(location, claim, FIRST)  # keeps the shards that it has published
    assert numbers_of(tmp_path) == [0, 1, 2]
    assert not list(tmp_path.glob(f"*{SECOND}*"))


def store_at(place: Path | str, prefix: str = "shard", **options: Any) -> ShardStore:
    return ShardStore((Location.of(place),), ShardFormat(None), prefix, **options)


def store_shards(store: ShardStore, count: int = 1) -> None:
    for _ in range(count):
        store.put(FullShard((), (), 1, [b"content"]))
    store.finish()


def failed(store: ShardStore, count: int = 1) -> WriteError:
    with pytest.raises(WriteError) as caught:
        store_shards(store, count)
    return caught.value


def test_concurrent_uploads_are_limited_to_max_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way: list[int] = []
    lock, count, pack = threading.Lock(), 0, FullShard.pack

    def counted(shard: FullShard, *arguments: Any) -> Any:
        nonlocal count
        with lock:
            count += 1
            under_way.append(count)
        packed = pack(shard, *arguments)
        with lock:
            count -= 1
        return packed

    monkeypatch.setattr(FullShard, "pack", counted)
    store_shards(store_at(tmp_path, max_workers=2), 20)
    assert len(list(tmp_path.iterdir())) == 20
    assert max(under_way) <= 2


def test_error_for_failed_upload_names_file_and_cause(
    tmp_path: Path, failures: list[Exception]
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    failures.append(full)
    error = failed(store_at(tmp_path))
    where = f"{tmp_path.as_uri()}/shard.00000.mds could not be written"
    for text in (where, "No space left on device", "No index is written"):
        assert text in str(error)
    assert error.__cause__ is full


@pytest.mark.parametrize(
    "write",
    [store_shards, lambda store: write_index(store.locations[0], Index((), {}))],
    ids=["shard", "index"],
)
def test_error_for_failed_overwrite_states_that_the_old_dataset_is_kept(
    write: Any, tmp_path: Path, failures: list[Exception]
) -> None:
    dataset = write_numbers(tmp_path, 10)
    failures.append(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(WriteError) as caught:
        write(store_at(tmp_path))
    assert "The dataset that was there before is not replaced" in str(caught.value)
    assert "counts as a dataset" not in str(caught.value)
    assert len(open_dataset(dataset.url).to_table()) == 10


def test_failed_write_raises_the_cause_even_if_checking_the_index_fails(
    failures: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Location, name: str) -> bool:
        raise StorageError("down as well") if name == "index.json" else FileNotFoundError

    failures.append(OSError("down"))
    monkeypatch.setattr(Location, "stat", fail)
    error = failed(store_at("memory://down", retry=0))
    assert "('down')" in str(error)
    assert "nothing there counts as a dataset unless one was there before" in str(error)


def test_failed_background_upload_stops_the_job_at_a_later_file(
    tmp_path: Path, failures: list[Exception]
) -> None:
    failures.append(OSError("down"))
    error = failed(store_at(tmp_path, max_workers=1), 100)
    assert "down" in str(error)
    assert len(list(tmp_path.iterdir())) < 99


def test_failed_remote_write_is_retried(failures: list[Exception], pauses: list[float]) -> None:
    failures += [OSError("one"), StorageError("two")]
    store_shards(store_at("memory://again", retry=2))
    failures += [OSError("one"), StorageError("two")]
    write_index(Location.of("memory://again"), Index((), {}))
    assert Location.of("memory://again").list_names() == ["index.json", "shard.00000.mds"]
    assert len(pauses) == 4
    assert 0.5 <= pauses[0] <= 1.0 <= pauses[1] <= 2.0


@pytest.mark.parametrize(
    ("url", "retry", "error"),
    [("memory://never", 0, OSError("down")), ("file:///tmp", 2, OSError("down")),
     ("memory://denied", 2, PermissionError("denied")), ("memory://down", 0, StorageError("down"))],
)  # fmt: skip
def test_permanent_write_error_is_not_retried(
    url: str, retry: int, error: Exception, failures: list[Exception], pauses: list[float]
) -> None:
    failures.append(error)
    failed(store_at(url, prefix="never-written", retry=retry))
    assert pauses == []


def test_abandoning_a_job_keeps_foreign_files(tmp_path: Path) -> None:
    (tmp_path / "shard.00000.mds").write_bytes(b"somebody's")
    store = store_at(tmp_path)
    assert isinstance(failed(store, 2), DatasetExistsError)
    store.remove_all()
    assert [path.name for path in tmp_path.iterdir()] == ["shard.00000.mds"]
    assert (tmp_path / "shard.00000.mds").read_bytes() == b"somebody's"


def test_failure_to_remove_a_file_after_an_error_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_at(tmp_path)
    store.write("a", [b""])

    def refuse(self: Location, name: str) -> None:
        raise PermissionError(name)

    monkeypatch.setattr(Location, "remove", refuse)
    store.remove_all()
    assert "could not clean up" in caplog.text
