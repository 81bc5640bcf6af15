"""A state taken after an error or interrupt in a loop resumes after the last received item."""

import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pytest
from tests.kit.interrupting import interrupts
from tests.kit.readers import write_parquet

from mdstorm import TransformSpec
from mdstorm.predicates import PredicateBase
from mdstorm.pytorch import BatchedDataLoader, DataLoader, decimal_friendly_collate
from mdstorm.reader import make_batch_reader, make_reader

pytestmark = [
    pytest.mark.filterwarnings("ignore:Currently make_reader"),
    pytest.mark.filterwarnings("ignore:.*leave out rows:UserWarning"),
]

ROWS, SIZE = 120, 7
#: Functions that hand a batch to the user. Interrupts are delayed until they return.
HANDING_OVER = ("_batches_of", "_items_of")


class StopError(Exception):
    """An error raised by a user's function."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_parquet(tmp_path_factory.mktemp("interrupted"), {"id": range(ROWS)}, 11)


@pytest.fixture(autouse=True)
def _ctrl_c(ctrl_c_raises: None) -> Iterator[None]:
    """Make SIGINT raise KeyboardInterrupt, but not in functions that hand over a batch."""
    with interrupts(HANDING_OVER, signal.ITIMER_VIRTUAL):  # the real timer limits the test's time
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGVTALRM))
        yield


@dataclass
class Moment:
    """Interrupts or raises an error once, at a given row, in any thread or process."""

    marker: Path
    row: int
    error: type[BaseException]
    process: int

    def __call__(self, rows: Any) -> None:
        if self.row in rows and not self.marker.exists():
            self.marker.touch()
            if self.error is StopError:
                raise StopError
            os.kill(self.process, signal.SIGINT)


@dataclass
class Same:
    """A transform that calls `moment` and changes nothing."""

    moment: Moment

    def __call__(self, given: Any) -> Any:
        self.moment(np.atleast_1d(given["id"]))
        return given


class All(PredicateBase):
    """A predicate that calls `moment` and keeps all rows."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment

    def get_fields(self) -> set[str]:
        return {"id"}

    def do_include(self, values: Any) -> bool:
        self.moment([values["id"]])
        return True


def opened(url: str, kind: str, where: str, pool: str, moment: Moment) -> Any:
    """Return a reader, or a loader over one, that calls `moment` in a user function."""
    options: dict[str, Any] = {
        "num_epochs": 1,
        "seed": 4,
        "shuffle_rows": True,
        "reader_pool_type": pool,
        "workers_count": 2,
    }
    if where == "transform":
        options["transform_spec"] = TransformSpec(Same(moment))
    if where == "predicate":
        options["predicate"] = All(moment)
    make = make_reader if kind in ("rows", "DataLoader") else make_batch_reader
    reader = make(url, **options)
    if kind == "DataLoader":

        def collate(rows: Any) -> Any:
            moment([row["id"] for row in rows])
            return decimal_friendly_collate(rows)

        how = {"collate_fn": collate} if where == "collate" else {}
        return DataLoader(reader, SIZE, **how)
    if kind == "BatchedDataLoader":

        def to_tensor(values: Any) -> Any:
            if where == "collate":
                moment(values)
            return values

        return BatchedDataLoader(reader, SIZE, transform_fn=to_tensor)
    return reader


def values(item: Any) -> list[int]:
    found = item["id"] if isinstance(item, dict) else item.id
    return [int(value) for value in np.atleast_1d(np.asarray(found))]


def taken(loader: Any, stop: int | None, error: type[BaseException]) -> list[int]:
    """Return the rows that need not come again, read before an error.

    If `stop` is given, raise it after that many items. If an error ends a loop over a loader before
    its second batch, the first one comes again.
    """
    items: list[Any] = []
    is_over = False
    with suppress(error):
        # `extend` keeps the items before an error, and no Python code runs between them, in which
        # an interrupt could lose an item.
        items.extend(islice(loader, stop))
        is_over = stop is None or len(items) < stop
        if stop is not None:
            raise error
    is_peek = len(items) == 1 and not is_over and hasattr(loader, "reader")
    return [] if is_peek else [number for item in items for number in values(item)]


def stopped(loader: Any) -> dict[str, Any]:
    """Return the state of a loader or reader, and stop the reader."""
    state = json.loads(json.dumps(loader.state_dict()))
    getattr(loader, "reader", loader).stop()
    return state  # type: ignore[no-any-return]


IN_PROCESS = [
    (kind, where, pool)
    for kind in ("rows", "batches", "DataLoader", "BatchedDataLoader")
    for where in ("loop", "transform", "predicate", "collate")
    for pool in ("dummy", "thread")
    if where != "collate" or kind.endswith("Loader")
]
#: Only a few combinations, because each worker process takes seconds to import mdstorm.
IN_WORKERS = [
    (kind, where, "process")
    for kind in ("rows", "BatchedDataLoader")
    for where in ("transform", "predicate")
]


def chain(url: str, seed: int, place: tuple[str, str, str], tmp_path: Path) -> list[int]:
    """Return the rows of an epoch that is interrupted a few times and resumed by new readers."""
    draw, (kind, where, pool) = random.Random(seed), place
    seen: list[int] = []
    state: dict[str, Any] | None = None
    for turn in range(draw.randint(1, 3)):
        error = draw.choice([StopError, KeyboardInterrupt])
        marker = tmp_path / f"{turn}"
        row = -1 if where == "loop" else draw.choice(sorted({*range(ROWS)} - {*seen}))
        loader = opened(url, kind, where, pool, Moment(marker, row, error, os.getpid()))
        if state is not None:
            loader.load_state_dict(state)
        stop = draw.randint(1, 9) if where == "loop" else None
        seen += taken(loader, stop, error)
        assert where == "loop" or marker.exists()
        state = stopped(loader)
        if len(seen) >= ROWS:
            return seen
    never = Moment(tmp_path / "never", -1, StopError, os.getpid())
    loader = opened(url, kind, where, pool, never)
    loader.load_state_dict(state)
    seen += taken(loader, None, StopError)
    stopped(loader)
    return seen


@pytest.mark.parametrize(
    "place",
    [*IN_PROCESS, *(pytest.param(place, marks=pytest.mark.long) for place in IN_WORKERS)],
    ids="-".join,
)
def test_state_after_interrupts_resumes_with_next_item(
    url: str, place: tuple[str, str, str], tmp_path: Path
) -> None:
    assert sorted(chain(url, 1, place, tmp_path)) == list(range(ROWS))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_state_after_random_interrupts_does_not_lose_rows(
    url: str, seed: int, tmp_path: Path
) -> None:
    place = random.Random(-seed).choice(IN_PROCESS)
    assert sorted(chain(url, seed, place, tmp_path)) == list(range(ROWS)), place


class InterruptedLock:
    """A lock that raises KeyboardInterrupt when it is released for the `times`-th time."""

    def __init__(self, times: int) -> None:
        self._lock, self._times = RLock(), times

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._times -= 1
        if not self._times:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("make", [make_reader, make_batch_reader])
@pytest.mark.parametrize("times", [1, 5, 11, 12])
def test_reader_interrupted_after_lock_release_does_not_lose_items(
    url: str, make: Any, times: int
) -> None:
    def ids(items: Any) -> list[int]:
        return [int(n) for item in items for n in np.atleast_1d(item.id)]

    with make(url, num_epochs=1, seed=1) as reader, make(url, num_epochs=1, seed=1) as whole:
        reader._mdstorm_lock = InterruptedLock(times)
        found: list[Any] = []
        with pytest.raises(KeyboardInterrupt):
            found.extend(reader)
        assert len(found) == times - 1
        assert ids(found) + ids(reader) == ids(whole)
