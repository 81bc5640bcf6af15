"""TensorFlow loops that end early: the state resumes after the last batch the user received."""

import _thread
import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tests.kit.interrupting import interrupts

from mdstorm import TransformSpec, make_batch_reader
from mdstorm.spark import make_spark_converter
from mdstorm.tf_utils import make_petastorm_dataset

pytestmark = [
    pytest.mark.usefixtures("ctrl_c_raises"),
    pytest.mark.filterwarnings("ignore:the number of batches in an epoch of this dataset"),
]

ROWS = 400
#: Rows of the largest item that a dataset yields.
LARGEST = 20
READ: dict[str, Any] = {"num_epochs": 1, "seed": 3, "shuffle_row_groups": True}


class StopError(Exception):
    """Raised by a user's loop or function."""


class Moment:
    """Calls `cause` when the transform receives a given row."""

    def __init__(self) -> None:
        self.row: int | None = None
        self.cause: Callable[[], None] = _thread.interrupt_main

    def pass_by(self, frame: Any) -> None:
        if self.row in frame["number"].to_numpy():
            self.row = None
            self.cause()


MOMENT = Moment()


def watched(frame: Any) -> Any:
    MOMENT.pass_by(frame)
    return frame


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("interrupted") / "rows.parquet"
    pq.write_table(pa.table({"number": range(ROWS)}), path, row_group_size=20)
    return f"file://{path}"


def of_converter(url: str) -> Any:
    return make_spark_converter(url).make_tf_dataset(
        13, transform_spec=TransformSpec(watched), shuffling_queue_capacity=50, **READ
    )


def of_batches(url: str) -> Any:
    return make_petastorm_dataset(
        make_batch_reader(url, transform_spec=TransformSpec(watched), **READ)
    )


def of_rows(url: str) -> Any:
    return make_petastorm_dataset(make_batch_reader(url, shuffle_rows=True, **READ)).unbatch()


def numbers(items: Any) -> list[int]:
    return [n for item in items for n in item.number.numpy().reshape(-1).tolist()]


def taken_until(
    dataset: Any,
    error: Any,
    stop: int | None = None,
    interrupt_after: Callable[[float], None] = lambda seconds: None,
    seconds: float = 0.0,
) -> list[int]:
    """Return the rows read before an error. If `stop` is given, raise it at that item."""
    items: list[Any] = []
    item = None
    with suppress(error):
        interrupt_after(seconds)
        for item in dataset:
            items.append(item)
            if len(items) == stop:
                raise error
        interrupt_after(0.0)
    if item is not None and (not items or item is not items[-1]):
        items.append(item)  # received, but the loop ended before it recorded the item
    return numbers(items)


def remaining_after(
    seen: list[int], dataset: Any, make: Callable[[str], Any], url: str
) -> list[int]:
    """Return the rows after a state, or none if all rows were seen and the next epoch would begin.

    All rows are seen if a TensorFlow finalizer receives Ctrl-C, because the loop then continues. If
    an error ends the first loop in its first item, that item comes again: it is left out here.
    """
    if len(seen) == ROWS:
        return []
    state = json.loads(json.dumps(dataset.state_dict()))
    resumed = make(url)
    resumed.load_state_dict(state)
    found = numbers(resumed)
    is_first = len(seen) <= LARGEST and found[: len(seen)] == seen
    return found[len(seen) :] if is_first else found


@pytest.mark.long
@pytest.mark.parametrize("error", [StopError, KeyboardInterrupt])
@pytest.mark.parametrize("make", [of_converter, of_batches, of_rows])
@pytest.mark.parametrize("stop", [1, 5])
def test_state_after_exception_in_loop_resumes_with_next_batch(
    url: str, make: Callable[[str], Any], error: type[BaseException], stop: int
) -> None:
    dataset = make(url)
    seen = taken_until(dataset, error, stop)
    assert sorted(seen + remaining_after(seen, dataset, make, url)) == list(range(ROWS))


@pytest.mark.long
@pytest.mark.parametrize("row", [7, 200, 390])
@pytest.mark.parametrize("make", [of_converter, of_batches])
def test_state_after_error_in_transform_resumes_with_next_batch(
    url: str, make: Callable[[str], Any], row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise StopError

    monkeypatch.setattr(MOMENT, "cause", fail)
    monkeypatch.setattr(MOMENT, "row", row)
    dataset = make(url)
    seen = taken_until(dataset, tf.errors.OpError)
    assert MOMENT.row is None
    assert len(seen) < ROWS
    assert sorted(seen + remaining_after(seen, dataset, make, url)) == list(range(ROWS))


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a finalizer
@pytest.mark.parametrize("row", [7, 200, 390])
@pytest.mark.parametrize("make", [of_converter, of_batches])
def test_state_after_interrupt_while_reading_resumes_with_next_batch(
    url: str, make: Callable[[str], Any], row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MOMENT, "row", row)
    dataset = make(url)
    seen = taken_until(dataset, KeyboardInterrupt)
    assert MOMENT.row is None
    assert sorted(seen + remaining_after(seen, dataset, make, url)) == list(range(ROWS))


@pytest.fixture
def interrupt_after() -> Iterator[Callable[[float], None]]:
    """A function that raises KeyboardInterrupt after the given amount of CPU time."""
    with interrupts(("take", "_mdstorm_take"), signal.ITIMER_VIRTUAL) as arm:
        yield arm


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a finalizer
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("make", [of_converter, of_batches, of_rows])
def test_states_after_interrupts_at_random_moments_lose_no_rows(
    url: str, make: Callable[[str], Any], seed: int, interrupt_after: Callable[[float], None]
) -> None:
    draw, dataset = random.Random(seed), make(url)
    seen: list[int] = []
    for _ in range(3):
        seconds = draw.uniform(1e-4, 0.08)
        # TensorFlow may raise a RuntimeError whose message mentions the KeyboardInterrupt.
        errors = (KeyboardInterrupt, RuntimeError)
        seen += taken_until(dataset, errors, None, interrupt_after, seconds)
        if len(seen) == ROWS:
            break
        state = json.loads(json.dumps(dataset.state_dict()))
        dataset = make(url)
        dataset.load_state_dict(state)
    seen += [] if len(seen) == ROWS else numbers(dataset)
    assert sorted(seen) == list(range(ROWS))
