import errno
import threading
from pathlib import Path

import pytest

from mdstorm_backend.errors import DatasetExistsError, StorageError, WriteError
from mdstorm_backend.storage import Buffer, Location
from mdstorm_backend.write.shard_writer import FileSink


def file(name: str, content: bytes = b"content") -> tuple[str, list[Buffer]]:
    return name, [content]


def test_no_more_files_are_under_way_than_there_are_threads(tmp_path: Path) -> None:
    under_way: list[int] = []
    lock, count = threading.Lock(), 0

    def make() -> tuple[str, list[Buffer]]:
        nonlocal count
        with lock:
            count += 1
            under_way.append(count)
            name = str(len(under_way))
        result = file(name)
        with lock:
            count -= 1
        return result

    sink = FileSink([Location.of(str(tmp_path))], max_workers=2)
    for _ in range(20):
        sink.submit(make)
    sink.wait()
    assert len(list(tmp_path.iterdir())) == 20
    assert max(under_way) <= 2


def submit_all(sink: FileSink, *names: str) -> None:
    for name in names:
        sink.submit(lambda name=name: file(name))
    sink.wait()


def failed(sink: FileSink, *names: str) -> WriteError:
    with pytest.raises(WriteError) as caught:
        submit_all(sink, *names)
    return caught.value


def test_a_failure_says_where_and_why(tmp_path: Path, failures: list[Exception]) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    failures.append(full)
    error = failed(FileSink([Location.of(str(tmp_path))]), "a")
    assert f"{tmp_path.as_uri()}/a could not be written" in str(error)
    assert "No space left on device" in str(error)
    assert "No index is written" in str(error)
    assert error.__cause__ is full


def test_a_failure_is_raised_by_the_next_file_as_well(
    tmp_path: Path, failures: list[Exception]
) -> None:
    failures.append(OSError("down"))
    sink = FileSink([Location.of(str(tmp_path))], max_workers=1)
    error = failed(sink, *map(str, range(100)))
    assert "down" in str(error)
    assert len(list(tmp_path.iterdir())) < 99


def test_writing_elsewhere_is_tried_again(failures: list[Exception], pauses: list[float]) -> None:
    failures += [OSError("one"), StorageError("two")]
    location = Location.of("memory://again")
    sink = FileSink([location], retry=2)
    sink.submit(lambda: file("a"))
    sink.wait()
    assert location.list_names() == ["a"]
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
    failed(FileSink([Location.of(url)], retry=retry), "a-file-that-is-never-written")
    assert pauses == []


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"somebody's")
    sink = FileSink([Location.of(str(tmp_path))])
    error = failed(sink, "a", "b")
    assert isinstance(error, DatasetExistsError)
    sink.remove_all()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"somebody's"


def test_what_cannot_be_taken_back_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = FileSink([Location.of(str(tmp_path))])
    sink.write("a", [b""])

    def refuse(self: Location, name: str) -> None:
        raise PermissionError(name)

    monkeypatch.setattr(Location, "remove", refuse)
    sink.remove_all()
    assert "could not clean up" in caplog.text
