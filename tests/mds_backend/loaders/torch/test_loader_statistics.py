"""What PyTorch's loaders say they have waited for."""

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.mds_backend.clocks import Clock

from mdstorm_backend import Dataset, StreamingDataLoader, StreamingDataset
from mdstorm_backend.loaders import PassRecorders, Statistics

ROWS, SHARDS, BATCH = 60, 6, 10


@pytest.fixture
def remote(numbers: Dataset, tmp_path: Path) -> Callable[..., StreamingDataset]:
    """Makes datasets whose shards have to be downloaded, to a directory of the test's own."""

    def make(**options: Any) -> StreamingDataset:
        given = {"batch_size": BATCH, "local": str(tmp_path / "local"), **options}
        return StreamingDataset(remote=numbers.url, **given)

    return make


@pytest.fixture
def clock() -> Clock:
    return Clock()


def with_clock(loader: StreamingDataLoader, clock: Clock) -> StreamingDataLoader:
    loader._mdstorm.recorders = PassRecorders(clock)
    return loader


def waited_for(found: Statistics) -> float:
    return sum(
        getattr(found, f"waited_for_{cause}")
        for cause in ("downloads", "cache", "decoding", "transforms", "batching")
    )


def test_a_slow_function_is_told_from_training(remote: Any, clock: Clock) -> None:
    def slow(batch: Any) -> Any:
        clock.advance(4)
        return batch

    loader = with_clock(StreamingDataLoader(remote(), BATCH, batch_map=slow), clock)
    for _ in loader:
        clock.advance(1)
    found = loader.statistics()
    assert found.startup_seconds == 4
    assert found.waited_seconds == found.waited_for_transforms == 4 * (SHARDS - 1)
    assert found.transform_seconds == 4 * SHARDS
    assert found.verdict.cause == "transforms"


def test_passes_are_summed_and_the_last_one_is_there_alone(remote: Any) -> None:
    loader = StreamingDataLoader(remote(), BATCH)
    for _ in range(3):
        assert len(list(loader)) == SHARDS
    every, last = loader.statistics(), loader.statistics(last_pass=True)
    assert (every.passes, every.batches, every.downloads) == (3, 3 * SHARDS, SHARDS)
    assert (last.passes, last.batches, last.rows, last.downloads) == (1, SHARDS, ROWS, 0)
    assert every.order == "elastic"
    assert every.seconds > last.seconds > 0


def test_what_was_evicted_is_downloaded_again(remote: Any, numbers: Dataset) -> None:
    index = Path(numbers.location.path, "index.json").stat().st_size
    limit = 3 * max(numbers.shard_bytes) + index
    loader = StreamingDataLoader(remote(cache_limit=limit, workers=0), BATCH)
    for _ in range(2):
        list(loader)
        loader.dataset._mdstorm.dataset.release()  # type: ignore[attr-defined]
    found = loader.statistics()
    assert found.evictions > 0
    assert found.downloads == SHARDS + found.downloaded_again > SHARDS


def test_a_second_loader_finds_what_the_first_one_downloaded(remote: Any) -> None:
    first, second = (StreamingDataLoader(remote(), BATCH) for _ in range(2))
    list(first), list(second)
    assert (first.statistics().downloads, first.statistics().cache_hits) == (SHARDS, 0)
    assert (second.statistics().downloads, second.statistics().cache_hits) == (0, SHARDS)
    assert second.statistics().shards == SHARDS


@pytest.mark.parametrize(
    ("is_persistent", "method"),
    [(False, "fork"), (True, "fork"), pytest.param(True, "spawn", marks=pytest.mark.long)],
)
def test_worker_processes_send_what_they_count(
    remote: Any, is_persistent: bool, method: str
) -> None:
    how: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": method}
    loader = StreamingDataLoader(remote(), BATCH, persistent_workers=is_persistent, **how)
    with loader:
        for _ in range(2):
            assert sum(len(batch["number"]) for batch in loader) == ROWS
        found = loader.statistics()
    assert (found.workers, found.passes, found.batches, found.rows) == (2, 2, 2 * SHARDS, 2 * ROWS)
    assert found.downloads == SHARDS
    assert found.downloaded_bytes > 0
    assert found.shards >= SHARDS
    assert waited_for(found) == pytest.approx(found.waited_seconds)


def test_a_copy_begins_at_nothing_and_a_state_says_nothing(remote: Any) -> None:
    loader = StreamingDataLoader(remote(), BATCH)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    for other in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):  # noqa: S301
        assert other.statistics() == Statistics()
        assert other.state_dict() == state
        assert len(list(other)) == SHARDS - 1
        assert other.statistics().batches == SHARDS - 1
    assert loader.statistics().batches == 1
    assert "statistics" not in str(state)


def test_batches_that_pytorch_makes_are_counted_with_what_the_dataset_reads(remote: Any) -> None:
    loader = StreamingDataLoader(remote(), batch_size=None)
    assert len(list(loader)) == ROWS
    found = loader.statistics()
    assert (found.batches, found.rows, found.downloads, found.shards) == (
        ROWS,
        ROWS,
        SHARDS,
        SHARDS,
    )
    assert waited_for(found) == pytest.approx(found.waited_seconds)


def test_a_loader_over_any_dataset_counts_its_batches(clock: Clock) -> None:
    class Slow(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            for item in range(4):
                clock.advance(1)
                yield item

    loader = with_clock(StreamingDataLoader(Slow(), batch_size=2), clock)
    assert len(list(loader)) == 2
    found = loader.statistics()
    assert (found.batches, found.startup_seconds, found.waited_seconds) == (2, 2, 2)
