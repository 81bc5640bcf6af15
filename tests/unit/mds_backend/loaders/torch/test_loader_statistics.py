"""Waiting times reported by PyTorch loaders, and their verdicts on known bottlenecks."""

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.kit.clocks import Clock
from torch.utils.data import default_collate

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.cache import shard_cache
from mdstorm_backend.loaders import Recorder, Statistics
from mdstorm_backend.loaders.passes import Pass
from mdstorm_backend.loaders.torch import batch_workers, torch_tensors
from mdstorm_backend.read import reader
from mdstorm_backend.read.gather_rows import Gatherer
from mdstorm_backend.storage import Location

ROWS, SHARDS, BATCH = 60, 6, 10


@pytest.fixture
def remote(numbers: Dataset, tmp_path: Path) -> Callable[..., StreamingDataset]:
    """Return a function that makes datasets whose shards are downloaded to `tmp_path`."""

    def make(**options: Any) -> StreamingDataset:
        given = {"batch_size": BATCH, "local": str(tmp_path / "local"), **options}
        return StreamingDataset(remote=numbers.url, **given)

    return make


def waited_for(found: Statistics) -> float:
    return sum(
        getattr(found, f"waited_for_{cause}")
        for cause in ("downloads", "decoding", "transforms", "batching")
    )


@pytest.fixture
def stored(numbers: Dataset) -> int:
    """The stored bytes of all shards."""
    return sum(numbers.shard_bytes)


def test_statistics_cover_all_passes_or_only_the_last_pass(remote: Any, stored: int) -> None:
    loader = StreamingDataLoader(remote(), BATCH)
    for _ in range(3):
        assert len(list(loader)) == SHARDS
    every, last = loader.statistics(), loader.statistics(last_pass=True)
    assert (every.batches, every.rows, every.downloaded_bytes) == (3 * SHARDS, 3 * ROWS, stored)
    assert (last.batches, last.rows, last.downloaded_bytes) == (SHARDS, ROWS, 0)
    assert every.seconds > last.seconds > 0
    assert every.download_seconds > last.download_seconds == 0


@pytest.mark.parametrize(
    ("num_workers", "seconds", "warnings"), [(0, 10, 0), (2, 10, 1), (2, 0.01, 0)]
)
def test_loader_warns_once_if_workers_take_noticeably_longer_to_send_than_to_read(
    num_workers: int,
    seconds: float,
    warnings: int,
    remote: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch_workers.log_slow_workers.cache_clear()  # other tests read the same URL
    options = {"num_workers": num_workers, "persistent_workers": num_workers > 0}
    loader = StreamingDataLoader(remote(batch_size=2), 2, **options)
    clock = Clock()

    def slow_here() -> float:
        clock.advance(seconds)
        return clock()

    loader._mdstorm.recorder = Recorder(slow_here)  # worker processes have clocks of their own
    for _ in range(3):
        list(loader)
    told = sum("num_workers=0" in record.getMessage() for record in caplog.records)
    assert told == warnings


def test_download_of_an_evicted_shard_counts_again(
    remote: Any, numbers: Dataset, stored: int
) -> None:
    index = Path(numbers.location.path, "index.json").stat().st_size
    limit = 3 * max(numbers.shard_bytes) + index
    loader = StreamingDataLoader(remote(cache_limit=limit, workers=0), BATCH)
    for _ in range(2):
        list(loader)
        loader.dataset._mdstorm.dataset.release()  # type: ignore[attr-defined]
    assert loader.statistics().downloaded_bytes > stored


def test_second_loader_finds_the_first_loaders_shards_in_the_cache(
    remote: Any, stored: int
) -> None:
    first, second = (StreamingDataLoader(remote(), BATCH) for _ in range(2))
    list(first), list(second)
    assert first.statistics().downloaded_bytes == stored
    assert second.statistics().downloaded_bytes == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("is_persistent", "method"),
    [(False, "fork"), (True, "fork"), (True, "spawn")],
)
def test_statistics_include_worker_processes(
    remote: Any, stored: int, is_persistent: bool, method: str
) -> None:
    how: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": method}
    loader = StreamingDataLoader(remote(), BATCH, persistent_workers=is_persistent, **how)
    with loader:
        for _ in range(2):
            assert sum(len(batch["number"]) for batch in loader) == ROWS
        found = loader.statistics()
    assert (found.batches, found.rows) == (2 * SHARDS, 2 * ROWS)
    assert found.downloaded_bytes == stored
    assert found.download_seconds > 0
    assert waited_for(found) == pytest.approx(found.waited_seconds)


def test_statistics_start_at_zero_for_copies_and_loaded_states(remote: Any) -> None:
    loader = StreamingDataLoader(remote(), BATCH)
    batches = iter(loader)
    next(batches), next(batches)  # two batches, because a single batch would be a peek
    state = loader.state_dict()
    for other in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):  # noqa: S301
        assert other.statistics() == Statistics()
        assert other.state_dict() == state
        assert len(list(other)) == SHARDS - 2
        assert other.statistics().batches == SHARDS - 2
    assert loader.statistics().batches == 2
    assert "statistics" not in str(state)


def test_statistics_count_batches_made_by_pytorch(remote: Any, stored: int) -> None:
    loader = StreamingDataLoader(remote(), batch_size=None)
    assert len(list(loader)) == ROWS
    found = loader.statistics()
    assert (found.batches, found.rows) == (ROWS, ROWS)
    assert found.downloaded_bytes == stored
    assert waited_for(found) == pytest.approx(found.waited_seconds)


def test_loader_over_any_dataset_counts_its_batches() -> None:
    clock = Clock()

    class Slow(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            for item in range(4):
                clock.advance(1)
                yield item

    loader = StreamingDataLoader(Slow(), batch_size=2)
    loader._mdstorm.recorder = Recorder(clock)
    assert len(list(loader)) == 2
    found = loader.statistics()
    assert (found.batches, found.waited_seconds) == (2, 4)


class Case:
    """A loader with one slow part, on a clock that the test controls.

    Only the slow part advances the clock. Threads that open shards take turns, and threads that
    work ahead only advance the clock while training waits for them. Training therefore waits only
    for the slow part.
    """

    def __init__(self, url: str, local: Path, patch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self._url, self._local, self._patch = url, local, patch
        #: Whether training is waiting for a thread; always True if no threads work ahead.
        self._is_waiting, self._changed = True, threading.Condition()

    def _stop_clock_between_waits(self) -> None:
        """From now on, time passes in threads only while training is waiting for a result."""
        result = Future.result

        def waited_for(future: Future[Any], timeout: float | None = None) -> Any:
            if not _is_training():
                return result(future, timeout)
            self._set_waiting(True)
            try:
                return result(future, timeout)
            finally:
                self._set_waiting(False)

        self._patch.setattr(Future, "result", waited_for)
        self._set_waiting(False)

    def _set_waiting(self, is_waiting: bool) -> None:
        with self._changed:
            self._is_waiting = is_waiting
            self._changed.notify_all()

    def _pass_time(self, seconds: float) -> None:
        """Advance the clock; threads that work ahead first wait until training waits for them."""
        with self._changed:
            self._changed.wait_for(lambda: _is_training() or self._is_waiting)
            self.clock.advance(seconds)

    def slow(self, owner: Any, name: str) -> None:
        """Make each call to a method take ten seconds."""
        method = getattr(owner, name)

        def slowly(*arguments: Any, **keywords: Any) -> Any:
            self._pass_time(10)
            return method(*arguments, **keywords)

        self._patch.setattr(owner, name, slowly)

    def read(
        self, *, training: float = 1, of: Any = StreamingDataset, passes: int = 1, **options: Any
    ) -> Statistics:
        """Read some passes, where training takes `training` seconds per batch."""
        arguments = {"batch_size": BATCH, "order": ExactOrder(), "workers": 0}
        if options.get("workers"):
            self._stop_clock_between_waits()
        names = ("batch_map", "collate_fn", "num_workers", "persistent_workers")
        of_loader = {name: options.pop(name) for name in names if name in options}
        self.dataset = of(remote=self._url, local=str(self._local), **{**arguments, **options})
        loader = StreamingDataLoader(self.dataset, BATCH, **of_loader)
        loader._mdstorm.recorder = Recorder(self.clock)
        for _ in range(passes):
            for _ in loader:
                self.clock.advance(training)
            self.dataset._mdstorm.dataset.release()
        return loader.statistics()


def _is_training() -> bool:
    return threading.current_thread() is threading.main_thread()


@pytest.fixture
def case(numbers: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(reader, "BLOCK_ROWS", BATCH)  # one block per shard
    monkeypatch.setattr(reader, "OPENING_THREADS", 1)
    return Case(numbers.url, tmp_path / "local", monkeypatch)


class Items(StreamingDataset):
    """A dataset with its own `__getitem__`."""

    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(at)


class Functions:
    """Functions passed to a loader."""

    batch_map = staticmethod(lambda batch: batch)
    collate = staticmethod(default_collate)


BATCH_MAP = {"batch_map": lambda batch: Functions.batch_map(batch)}
COLLATE = {"collate_fn": lambda samples: Functions.collate(samples)}
DOWNLOAD, GATHER = (Location, "download"), (Gatherer, "__call__")


@pytest.mark.parametrize(
    ("slow", "options", "cause"),
    [
        ((), {"training": 10}, "nothing"),
        (DOWNLOAD, {"training": 5}, "downloads"),
        (DOWNLOAD, {"training": 0, "workers": 2}, "downloads"),
        (DOWNLOAD, {"passes": 3, "cache_limit": 3400}, "downloads"),
        ((shard_cache, "wait_for_lock"), {}, "downloads"),
        ((shard_cache.space, "reserve"), {}, "downloads"),
        (GATHER, {}, "decoding"),
        (GATHER, {"training": 0, "workers": 1}, "decoding"),
        ((Items, "__getitem__"), {"of": Items}, "decoding"),
        ((Functions, "batch_map"), BATCH_MAP, "transforms"),
        ((Functions, "collate"), COLLATE, "transforms"),
        ((torch_tensors, "split_values"), {}, "batching"),
        ((Pass, "segments"), {}, "batching"),
    ],
)
def test_statistics_name_the_bottleneck(
    slow: Any, options: dict[str, Any], cause: str, case: Case
) -> None:
    if slow:
        case.slow(*slow)
    found = case.read(**options)
    assert found.cause == cause, str(found)
    assert found.seconds == pytest.approx(case.clock.now)


def test_statistics_distinguish_a_slow_batch_map_from_training(case: Case) -> None:
    case.slow(Functions, "batch_map")
    found = case.read(**BATCH_MAP)
    assert found.waited_seconds == found.waited_for_transforms == 10 * SHARDS
    assert found.training_seconds == SHARDS
