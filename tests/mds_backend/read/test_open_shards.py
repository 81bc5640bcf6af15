import gc
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.read.shard import OpenShards


class Shard:
    """Stands for a shard; so large that only the last few are kept."""

    memory = 1 << 30


class Opener:
    """Opens shards and counts them."""

    def __init__(self) -> None:
        self.opened: list[int] = []

    def __call__(self, number: int) -> Any:
        self.opened.append(number)
        return Shard()


def test_the_last_few_are_kept_and_those_in_use_are_found() -> None:
    shards, opener = OpenShards(), Opener()
    held = shards.get(0, opener)
    for number in range(1, 8):
        shards.get(number, opener)
    gc.collect()
    assert shards.get(0, opener) is held
    shards.get(7, opener)
    assert opener.opened == list(range(8))
    shards.get(1, opener)
    assert opener.opened == [*range(8), 1]


def test_released_shards_are_opened_again_but_those_in_use() -> None:
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


def test_what_was_asked_for_again_counts_among_the_last() -> None:
    shards, opener = OpenShards(), Opener()
    held = shards.get(0, opener)
    for number in range(1, 8):
        shards.get(number, opener)
    assert shards.get(0, opener) is held
    del held
    gc.collect()
    assert shards.find(0) is not None
    assert shards.find(3) is None


def test_thousands_of_small_shards_stay_open() -> None:
    class Small(Shard):
        memory = 1 << 10

    def open_shard(number: int) -> Any:
        return Small()

    shards = OpenShards()
    for number in range(3000):
        shards.get(number, open_shard)
    gc.collect()
    assert all(shards.find(number) is not None for number in range(3000))


def test_different_shards_are_opened_at_the_same_time() -> None:
    shards, together = OpenShards(), threading.Barrier(3)

    def open_shard(number: int) -> Any:
        together.wait(10)
        return Shard()

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(lambda n: shards.get(n, open_shard), range(3)))) == 3


def test_threads_that_want_the_same_shard_wait_for_one() -> None:
    shards, opener, together = OpenShards(), Opener(), threading.Barrier(2)

    def open_shard(number: int) -> Any:
        with pytest.raises(threading.BrokenBarrierError):
            together.wait(0.1)  # for a thread that opens it as well
        return opener(number)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: shards.get(0, open_shard), range(4)))) == 1
    assert opener.opened == [0]


def test_an_error_is_raised_and_the_next_try_opens_again(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 5)
    file = Path(dataset.location.path, dataset.index.shards[0].raw_data.basename)
    data = file.read_bytes()
    file.unlink()
    for _ in range(2):
        with pytest.raises(DatasetNotFoundError, match="is gone"):
            dataset.shard(0)
    file.write_bytes(data)
    assert dataset.shard(0).num_samples == 5


def _read(dataset: Dataset) -> None:
    assert dataset[0] == {"number": 0}


def test_a_forked_child_reads_while_a_thread_of_the_parent_opens(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 5)
    opened = dataset._open_shards
    opening, done = threading.Event(), threading.Event()

    def wait(number: int) -> Any:
        opening.set()
        done.wait(30)
        return Shard()

    thread = threading.Thread(target=opened.get, args=(0, wait))
    thread.start()
    opening.wait(10)
    with opened._lock:
        child = multiprocessing.get_context("fork").Process(target=_read, args=(dataset,))
        child.start()
    child.join(20)
    alive = child.is_alive()
    child.kill()
    done.set()
    thread.join()
    assert not alive
    assert child.exitcode == 0
