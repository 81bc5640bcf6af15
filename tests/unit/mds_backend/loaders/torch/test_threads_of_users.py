"""Two threads that use the same iterator concurrently, or have an iterator each."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import ConcurrentIterationError

ROWS, SIZE = 60, 10


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("numbers")
    write_numbers(path, ROWS)
    return str(path)


class Held:
    """A `batch_map` that blocks on the first batch until released."""

    def __init__(self) -> None:
        self.is_in, self.may_continue = threading.Event(), threading.Event()

    def __call__(self, batch: dict[str, Any]) -> list[int]:
        self.is_in.set()
        assert self.may_continue.wait(60)
        numbers: list[int] = batch["number"].tolist()
        return numbers


@pytest.mark.parametrize("use", ["next", "close"])
def test_iterator_in_use_by_another_thread_raises_error_and_loses_no_rows(
    url: str, use: str
) -> None:
    held = Held()
    loader = StreamingDataLoader(StreamingDataset(local=url), SIZE, batch_map=held)
    iterator = iter(loader)
    call = {"next": lambda: next(iterator), "close": loader.close}[use]
    with ThreadPoolExecutor(1) as thread:
        rows = thread.submit(lambda: [n for numbers in iterator for n in numbers])
        try:
            assert held.is_in.wait(60)
            with pytest.raises(ConcurrentIterationError, match=r"hold a threading\.Lock"):
                call()
        finally:
            held.may_continue.set()
        assert sorted(rows.result()) == list(range(ROWS))


def test_value_error_in_batch_map_is_raised_unchanged(url: str) -> None:
    def fail(batch: dict[str, Any]) -> None:
        raise ValueError("bad rows")

    loader = StreamingDataLoader(StreamingDataset(local=url), SIZE, batch_map=fail)
    with pytest.raises(ValueError, match="bad rows") as caught:
        next(iter(loader))
    assert not isinstance(caught.value, ConcurrentIterationError)


def test_two_threads_with_separate_iterators_read_all_rows(url: str) -> None:
    loader = StreamingDataLoader(StreamingDataset(local=url), SIZE)
    both = threading.Barrier(2)

    def rows(_: int) -> list[int]:
        both.wait(60)
        return [n for batch in loader for n in batch["number"].tolist()]

    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(rows, range(2)):
            assert sorted(found) == list(range(ROWS))
