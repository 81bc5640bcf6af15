"""If a loop ends with an error, the state is after the last batch that the user received."""

import json
import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.kit.interrupting import CtrlC, interrupts
from tests.kit.loaders import Own, in_either_order
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.read import reader

pytestmark = pytest.mark.usefixtures("ctrl_c_raises")

ROWS, SIZE = 200, 7
#: The number whose batch triggers an interrupt or error; an empty list triggers nothing.
FAILS_AT: list[int] = []


class StopError(Exception):
    """An error in a user's loop or function."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("interrupted")
    write_numbers(path, ROWS)
    return str(path)


@pytest.fixture(params=[True, False], ids=["small", "large"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the table like a small table, without threads, or like a large one."""
    if not request.param:
        monkeypatch.setattr(reader, "SMALL", 0)


def watched(batch: dict[str, Any]) -> dict[str, Any]:
    """Interrupt this process when a batch contains the number in FAILS_AT."""
    if FAILS_AT and FAILS_AT[0] in batch["number"].tolist():
        FAILS_AT.clear()
        signal.raise_signal(signal.SIGINT)
    return batch


def failing(batch: dict[str, Any]) -> dict[str, Any]:
    if FAILS_AT and FAILS_AT[0] in batch["number"].tolist():
        raise StopError
    return batch


def loader_of(
    url: str,
    order: str,
    workers: int,
    batch_map: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> StreamingDataLoader:
    exact = ExactOrder(shuffle_rows=True, seed=3)
    options: dict[str, Any] = {"order": exact} if order == "exact" else {"shuffle": True}
    dataset = StreamingDataset(local=url, batch_size=SIZE, **options)
    return StreamingDataLoader(dataset, SIZE, num_workers=workers, batch_map=batch_map)


def taken(loader: StreamingDataLoader, stop: int | None, error: type[BaseException]) -> list[int]:
    """Return the numbers that a loop read before `error` was raised, at batch `stop` or earlier."""
    found: list[int] = []
    with suppress(error):
        for number, batch in enumerate(loader, 1):
            found += batch["number"].tolist()
            if number == stop:
                raise error
    return found


def remaining_after(loader: StreamingDataLoader, url: str, order: str, workers: int) -> list[int]:
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = loader_of(url, order, workers)
    resumed.load_state_dict(state)
    return [n for batch in resumed for n in batch["number"].tolist()]


def counted(seen: list[int], order: str, size: int = SIZE) -> list[int]:
    """Return what a state counts: a first loop that an error ended in its first batch is a peek."""
    return [] if order == "exact" and len(seen) == size else seen


def check_each_row_once(seen: list[int], rest: list[int]) -> None:
    assert set(seen + rest) == set(range(ROWS))
    assert len(seen) + len(rest) in range(ROWS, ROWS + SIZE)  # elastic order may repeat some


@pytest.mark.matrix
@pytest.mark.parametrize("error", [StopError, KeyboardInterrupt])
@pytest.mark.parametrize("order", ["exact", "elastic"])
@pytest.mark.parametrize("stop", [1, 2, 11])
@pytest.mark.usefixtures("small")
def test_state_after_exception_in_loop_resumes_with_next_batch(
    url: str, order: str, error: type[BaseException], stop: int
) -> None:
    loader = loader_of(url, order, 0)
    seen = taken(loader, stop, error)
    assert len(seen) == stop * SIZE
    check_each_row_once(counted(seen, order), remaining_after(loader, url, order, 0))


@pytest.mark.matrix
@pytest.mark.parametrize("order", ["exact", "elastic"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.usefixtures("small")
def test_state_after_interrupt_while_reading_resumes_with_next_batch(
    url: str, order: str, workers: int
) -> None:
    loader = loader_of(url, order, workers, watched if workers == 0 else None)
    if workers:
        found: list[int] = []
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            for batch in loader:
                found += batch["number"].tolist()
                if len(found) == 6 * SIZE:
                    signal.raise_signal(signal.SIGINT)
    else:
        FAILS_AT[:] = [100]
        found = taken(loader, None, KeyboardInterrupt)
        assert not FAILS_AT
        assert len(found) < ROWS
    check_each_row_once(counted(found, order), remaining_after(loader, url, order, 0))


class InterruptedCount(StreamingDataLoader):
    """A loader that is interrupted right after it counts the rows in a batch."""

    def _get_batch_size(self, batch: Any) -> int:
        rows = super()._get_batch_size(batch)
        if 100 in batch["number"].tolist():
            -CtrlC()  # type: ignore[operator]
        return rows


def test_state_after_interrupt_while_counting_pytorch_batch_resumes_with_that_batch(
    url: str,
) -> None:
    def dataset() -> StreamingDataset:
        return Own(local=url, batch_size=SIZE, order=ExactOrder())

    loader = InterruptedCount(dataset(), SIZE)
    seen = taken(loader, None, KeyboardInterrupt)
    assert len(seen) == 14 * SIZE
    resumed = StreamingDataLoader(dataset(), SIZE)
    resumed.load_state_dict(loader.state_dict() or {})
    check_each_row_once(seen, [n for batch in resumed for n in batch["number"].tolist()])


@pytest.mark.parametrize("workers", [0, 2])
def test_state_after_error_in_batch_map_resumes_with_next_batch(url: str, workers: int) -> None:
    FAILS_AT[:] = [100]
    loader = loader_of(url, "exact", workers, failing)
    try:
        seen = taken(loader, None, StopError)
    finally:
        FAILS_AT.clear()
    assert len(seen) < ROWS
    rest = remaining_after(loader, url, "exact", workers)
    check_each_row_once(counted(seen, "exact"), rest)


def test_state_after_killed_worker_resumes_with_next_batch(url: str) -> None:
    loader = loader_of(url, "exact", 2, killed_at)
    FAILS_AT[:] = [100]
    try:
        seen = taken(loader, None, RuntimeError)
    finally:
        FAILS_AT.clear()
    assert len(seen) < ROWS
    check_each_row_once(counted(seen, "exact"), remaining_after(loader, url, "exact", 0))


def killed_at(batch: dict[str, Any]) -> dict[str, Any]:
    if FAILS_AT and FAILS_AT[0] in batch["number"].tolist():
        os.kill(os.getpid(), signal.SIGKILL)
    return batch


#: Row counts of a small table, which is read without threads, and of a large one.
SMALL, LARGE = 20_000, 300_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    paths = {rows: tmp_path_factory.mktemp(f"{rows}") for rows in (SMALL, LARGE)}
    for rows, path in paths.items():
        write_numbers(path, rows, shard_size=1 << 18)
    return {rows: str(path) for rows, path in paths.items()}


def taken_until_interrupt(
    loader: StreamingDataLoader, interrupt_after: Callable[[float], None], seconds: float
) -> list[int]:
    """Return the numbers a loop read before it was interrupted or finished."""
    batches: list[Any] = []
    batch = None
    with suppress(KeyboardInterrupt):
        interrupt_after(seconds)
        for batch in loader:
            batches.append(batch)
        interrupt_after(0)
    if batch is not None and (not batches or batch is not batches[-1]):
        batches.append(batch)  # interrupted before the loop could append its batch
    return [n for one in batches for n in one["number"].tolist()]


@pytest.mark.long
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # raised for interrupts in finalizers
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("order", ["exact", "elastic"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("rows", [SMALL, LARGE])
def test_resuming_after_interrupts_at_random_points_loses_no_rows(
    rows: int, workers: int, order: str, seed: int, tables: dict[int, str]
) -> None:
    draw, size = random.Random(seed), rows // 2000

    def new() -> StreamingDataLoader:
        exact = ExactOrder(shuffle_rows=True, seed=3)
        options: dict[str, Any] = {"order": exact} if order == "exact" else {"shuffle": True}
        dataset = StreamingDataset(local=tables[rows], batch_size=size, **options)
        return StreamingDataLoader(dataset, size, num_workers=workers)

    loader, seen = new(), list[int]()
    for _ in range(3):
        with interrupts() as interrupt_after:
            found = taken_until_interrupt(loader, interrupt_after, draw.uniform(1e-4, 0.1))
        seen += counted(found, order, size)
        if len(seen) >= rows:
            break
        state = json.loads(json.dumps(loader.state_dict()))
        loader = new()
        loader.load_state_dict(state)
    if len(seen) < rows:
        seen += [n for batch in loader for n in batch["number"].tolist()]
    assert sorted(seen) == list(range(rows))


@pytest.mark.long
@in_either_order
@pytest.mark.parametrize("num_epochs", [2, None])
@pytest.mark.parametrize("batch_size", [7, 10])
def test_state_after_failed_read_of_second_epoch_resumes_with_next_batch(
    tmp_path: Path, order: str, num_epochs: int | None, batch_size: int
) -> None:
    """The cache cannot hold all shards, so the second epoch downloads the first shard again."""
    rows, remote = 60, tmp_path / "remote"
    columns = {"number": "int", "padding": "bytes"}
    with MDSWriter(out=str(remote), columns=columns, size_limit=250_000) as writer:
        for number in range(rows):
            writer.write({"number": number, "padding": bytes(200_000)})
    first, absent = remote / "shard.00000.mds", tmp_path / "absent"

    def made(name: str) -> StreamingDataLoader:
        dataset = StreamingDataset(
            remote=str(remote),
            local=str(tmp_path / name),
            cache_limit=2_500_000,
            batch_size=batch_size,
            num_epochs=num_epochs,
            workers=0,
            **({"order": ExactOrder()} if order == "exact" else {}),  # type: ignore[arg-type]
        )
        return StreamingDataLoader(dataset, batch_size)

    def read(batches: Any) -> list[list[int]]:
        return [batch["number"].tolist() for batch in batches]

    loader, resumed = made("one"), made("two")
    whole = read(islice(made("three"), 2 * rows // batch_size))
    seen: list[list[int]] = []
    with pytest.raises(DatasetNotFoundError):  # noqa: PT012
        for batch in loader:
            seen.append(batch["number"].tolist())
            if len(seen) == 2:
                first.rename(absent)
    absent.rename(first)
    assert 2 < len(seen) < len(whole)
    resumed.load_state_dict(loader.state_dict() or {})
    assert seen + read(islice(resumed, len(whole) - len(seen))) == whole
