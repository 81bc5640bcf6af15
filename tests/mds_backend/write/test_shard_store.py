import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from mdstorm_backend.errors import DatasetExistsError, StorageError, WriteError
from mdstorm_backend.storage import Location
from mdstorm_backend.write.full_shard import FullShard, ShardFormat, ShardStore


def store_at(place: Path | str, **options: Any) -> ShardStore:
    return ShardStore([Location.of(place)], ShardFormat(None), "shard", **options)


def store_shards(store: ShardStore, count: int = 1) -> None:
    for _ in range(count):
        store.put(FullShard((), (), 1, [b"content"]))
    store.finish()


def failed(store: ShardStore, count: int = 1) -> WriteError:
    with pytest.raises(WriteError) as caught:
        store_shards(store, count)
    return caught.value


def test_no_more_shards_are_under_way_than_there_are_threads(
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


def test_a_failure_says_where_and_why(tmp_path: Path, failures: list[Exception]) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    failures.append(full)
    error = failed(store_at(tmp_path))
    assert f"{tmp_path.as_uri()}/shard.00000.mds could not be written" in str(error)
    assert "No space left on device" in str(error)
    assert "No index is written" in str(error)
    assert error.__cause__ is full


def test_a_failure_is_raised_by_the_next_file_as_well(
    tmp_path: Path, failures: list[Exception]
) -> None:
    failures.append(OSError("down"))
    error = failed(store_at(tmp_path, max_workers=1), 100)
    assert "down" in str(error)
    assert len(list(tmp_path.iterdir())) < 99


def test_writing_elsewhere_is_tried_again(failures: list[Exception], pauses: list[float]) -> None:
    failures += [OSError("one"), StorageError("two")]
    store_shards(store_at("memory://again", retry=2))
    assert Location.of("memory://again").list_names() == ["shard.00000.mds"]
    assert len(pauses) == 2
    assert 0.5 <= pauses[0] <= 1.0 <= pauses[1] <= 2.0


@pytest.mark.parametrize(
    ("url", "retry", "error"),
    [
        ("memory://never", 0, OSError("down")),
        ("file:///tmp", 2, OSError("down")),
        ("memory://denied", 2, PermissionError("denied")),
        ("memory://failed", 0, StorageError("down")),
    ],
)
def test_what_will_not_get_better_is_not_tried_again(
    url: str, retry: int, error: Exception, failures: list[Exception], pauses: list[float]
) -> None:
    failures.append(error)
    store = ShardStore([Location.of(url)], ShardFormat(None), "never-written", retry=retry)
    failed(store)
    assert pauses == []


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shard.00000.mds").write_bytes(b"somebody's")
    store = store_at(tmp_path)
    assert isinstance(failed(store, 2), DatasetExistsError)
    store.remove_all()
    assert [path.name for path in tmp_path.iterdir()] == ["shard.00000.mds"]
    assert (tmp_path / "shard.00000.mds").read_bytes() == b"somebody's"


def test_what_cannot_be_taken_back_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_at(tmp_path)
    store.write("a", [b""])

    def refuse(self: Location, name: str) -> None:
        raise PermissionError(name)

    monkeypatch.setattr(Location, "remove", refuse)
    store.remove_all()
    assert "could not clean up" in caplog.text
