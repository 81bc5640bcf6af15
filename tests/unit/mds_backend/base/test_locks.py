"""A lock has one holder at a time across all processes, and is released when its holder exits."""

import fcntl
import os
import signal
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.mds_backend.cache.shards import locked

from mdstorm_backend.base import locks
from mdstorm_backend.base.locks import share_lock, try_lock, wait_for_lock
from mdstorm_backend.errors import StorageError


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def test_locking_is_retried_or_raises_error_if_the_lock_file_is_removed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, removed = fcntl.flock, []

    def removing(fd: int, operation: int) -> None:
        if not removed:
            removed.append(os.unlink(path))
        flock(fd, operation)

    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    monkeypatch.setattr(fcntl, "flock", removing)
    with locked(path):
        assert try_lock(path) is None
    removed.clear()
    with pytest.raises(FileNotFoundError, match=path):
        share_lock(path)
    assert len(os.listdir("/proc/self/fd") if before else []) == len(before)


def test_releasing_a_removed_lock_does_not_release_later_locks(path: str) -> None:
    first = locked(path)
    first.remove_file()
    second = locked(path)
    assert Path(path).exists()
    first.release()
    other = locked(f"{path} of another file")  # reuses the descriptor of `first`
    first.release()
    assert try_lock(path) is try_lock(f"{path} of another file") is None
    second.release()
    other.release()


def test_shorter_line_in_a_lock_file_replaces_a_longer_line(path: str) -> None:
    with locked(path) as lock:
        lock.write(b"a longer line")
        lock.write(b"short")
        assert lock.read() == b"short\n"
        lock.write(b"")
        assert lock.read() == b""


def test_replaced_lock_file_is_locked_and_the_former_file_unchanged(path: str) -> None:
    former = f"{path} of another user"
    Path(former).write_bytes(b"not ours")
    os.link(former, path)
    with locked(path) as lock:
        lock.replace(b"ours", f"{path}.part")
        assert try_lock(path) is None
        assert lock.read() == b"ours\n"
        locked(former).release()
    locked(path).release()
    assert (Path(path).read_bytes(), Path(former).read_bytes()) == (b"ours\n", b"not ours")
    assert not Path(f"{path}.part").exists()


def test_lock_wait_times_out_only_if_owner_makes_no_progress(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = locked(path)
    now = count()  # each check takes one second
    seen = iter([*range(50), *[50] * 100])
    looks: list[int] = []

    def progress() -> int:
        looks.append(next(seen))
        return looks[-1]

    clock = SimpleNamespace(sleep=lambda seconds: None, monotonic=lambda: float(next(now)))
    monkeypatch.setattr(locks, "time", clock)
    with pytest.raises(StorageError, match=f"has held {path} for 10 s without progress"):
        wait_for_lock(path, patience=10, progress=progress)
    assert 55 < len(looks) < 65
    held.release()


def test_forked_child_neither_keeps_nor_releases_parents_lock(path: str) -> None:
    started, ended = os.pipe(), os.pipe()
    parent = os.fork()
    if parent == 0:
        held = locked(path)
        if os.fork() == 0:
            held.release()
            os.write(started[1], b"x")
            os.read(ended[0], 1)
            os._exit(0)
        signal.pause()
    os.read(started[0], 1)
    during = try_lock(path)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    after = try_lock(path)
    os.write(ended[1], b"x")
    for end in (*started, *ended):
        os.close(end)
    assert during is None
    assert after is not None
    after.release()
