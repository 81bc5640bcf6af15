import gc
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.kit.small_datasets import write_numbers

from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.read.shard import OpenShards


class Shard:
    """A fake shard, by default so large that only the last few shards are kept open."""

    def __init__(self, memory: int = 1 << 30) -> None:
        self.memory = memory


class Opener:
    """Opens shards with a given size and records their numbers."""

    def __init__(self, memory: int = 1 << 30) -> None:
        self.memory = memory
        self.opened: list[int] = []

    def __call__(self, number: int) -> Any:
        self.opened.append(number)
        return Shard(self.memory)


def test_latest_shards_stay_open_and_shards_in_use_are_reused() -> None:
    shards, opener = OpenShards(), Opener()
    held = shards.get(0, opener)
    for number in range(1, 8):
        shards.get(number, opener)
    gc.collect()
    assert shards.get(0, opener) is held  # shard 0 is now one of the latest
    shards.get(7, opener)
    assert opener.opened == list(range(8))
    shards.get(1, opener)
    assert opener.opened == [*range(8), 1]
    del held
    gc.collect()
    assert [number for number in range(8) if shards.find(number) is not None] == [0, 1, 6, 7]


def test_released_shards_are_reopened_unless_in_use() -> None:
    shards, opener = OpenShards(), Opener()
    held = shards.get(0, opener)
    for number in range(3):
        shards.get(number, opener)
    shards.release()
    gc.collect()
    assert [shards.find(number) for number in range(3)] == [held, None, None]
    for number in range(3):
        shards.get(number, opener)
    assert opener.opened == [0, 1, 2, 1, 2]


def test_thousands_of_small_shards_stay_open() -> None:
    shards, opener = OpenShards(), Opener(memory=1 << 10)
    for number in range(3000):
        shards.get(number, opener)
    gc.collect()
    assert all(shards.find(number) is not None for number in range(3000))


def test_different_shards_are_opened_at_the_same_time() -> None:
    shards, together = OpenShards(), threading.Barrier(3)

    def open_shard(number: int) -> Any:
        together.wait(60)
        return Shard()

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(lambda n: shards.get(n, open_shard), range(3)))) == 3


def test_threads_that_request_the_same_shard_open_it_once() -> None:
    shards, opener, together = OpenShards(), Opener(), threading.Barrier(2)

    def open_shard(number: int) -> Any:
        with pytest.raises(threading.BrokenBarrierError):
            together.wait(0.1)  # times out because no other thread opens it
        return opener(number)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: shards.get(0, open_shard), range(4)))) == 1
    assert opener.opened == [0]


def test_failed_open_raises_error_and_next_request_retries(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 5)
    file = Path(dataset.location.path, dataset.index.shards[0].raw_data.basename)
    moved = file.rename(tmp_path / "moved")
    for _ in range(2):
        with pytest.raises(DatasetNotFoundError, match="is gone"):
            dataset.shard(0)
    moved.rename(file)
    assert dataset.shard(0).num_samples == 5


def test_forked_child_opens_a_shard_that_a_parent_thread_is_opening() -> None:
    opening, done, lock = threading.Event(), threading.Event(), threading.Lock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "Lock", lambda: lock)
        shards = OpenShards()

    def wait(number: int) -> Any:
        opening.set()
        done.wait(60)
        return Shard()

    thread = threading.Thread(target=shards.get, args=(0, wait))
    thread.start()
    opening.wait(60)
    with lock:
        child = multiprocessing.get_context("fork").Process(target=shards.get, args=(0, Opener()))
        child.start()
    child.join(60)
    alive = child.is_alive()
    child.kill()
    done.set()
    thread.join()
    assert not alive
    assert child.exitcode == 0
