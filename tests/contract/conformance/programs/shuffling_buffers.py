"""`petastorm.reader_impl`: the shuffling buffers, which programs with custom loaders use."""

from typing import Any

import numpy as np
from petastorm.reader_impl.shuffling_buffer import NoopShufflingBuffer, RandomShufflingBuffer
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place


def _drained(buffer: Any) -> list[Any]:
    """Retrieve items until the buffer is empty."""
    found = []
    while buffer.can_retrieve():
        taken = buffer.retrieve()
        found.append([column.tolist() for column in taken] if isinstance(taken, list) else taken)
    return found


def _state(buffer: Any) -> list[Any]:
    return [buffer.size, buffer.can_add(), buffer.can_retrieve()]


def _fed(buffer: Any, parts: list[Any]) -> list[Any]:
    """Add parts, retrieving all available items after each, then finish and retrieve the rest."""
    found = []
    for part in parts:
        buffer.add_many(part)
        found += [_drained(buffer), _state(buffer)]
    buffer.finish()
    return [*found, _state(buffer), _drained(buffer), _state(buffer)]


def rows_in_order(place: Place) -> Any:
    return _fed(NoopShufflingBuffer(), [[3, 1], [], [2, {"a": 1}]])


def rows_drawn_with_the_seed_of_numpy(place: Place) -> Any:
    np.random.seed(11)  # noqa: NPY002
    return _fed(RandomShufflingBuffer(8, 5, 100), [list(range(4)), list(range(4, 12)), [12, 13]])


def how_much_rows_may_grow(place: Place) -> Any:
    buffer = RandomShufflingBuffer(2, 1, extra_capacity=3)
    too_many = error_of(lambda: buffer.add_many(range(6)), "more elements than the capacity allows")
    buffer.add_many([1, 2, 3, 4])
    full = error_of(lambda: buffer.add_many([5]), "Can not enqueue")
    buffer.finish()
    finished = error_of(lambda: buffer.add_many([6]), "Can not call add_many after")
    return [too_many, full, finished, _state(buffer)]


def rows_that_are_too_few(place: Place) -> Any:
    buffer = RandomShufflingBuffer(10, 3)
    buffer.add_many(["a", "b"])
    return [error_of(buffer.retrieve, "Can not dequeue"), _state(buffer)]
