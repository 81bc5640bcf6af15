"""`petastorm.reader_impl`: the buffers that copies of Petastorm's loaders are made of."""

import itertools
from typing import Any

import numpy as np
import torch
from petastorm.reader_impl.pytorch_shuffling_buffer import (
    BatchedNoopShufflingBuffer,
    BatchedRandomShufflingBuffer,
)
from petastorm.reader_impl.shuffling_buffer import NoopShufflingBuffer, RandomShufflingBuffer
from tests.conformance.describing import error_of
from tests.conformance.place import Place


def _drained(buffer: Any) -> list[Any]:
    """Take all that a buffer gives at present."""
    found = []
    while buffer.can_retrieve():
        taken = buffer.retrieve()
        found.append([column.tolist() for column in taken] if isinstance(taken, list) else taken)
    return found


def _state(buffer: Any) -> list[Any]:
    return [buffer.size, buffer.can_add(), buffer.can_retrieve()]


def _fed(buffer: Any, parts: list[Any]) -> list[Any]:
    """Add parts, take after each what can be taken, then finish and take the rest."""
    found = []
    for part in parts:
        buffer.add_many(part)
        found += [_drained(buffer), _state(buffer)]
    buffer.finish()
    return [*found, _state(buffer), _drained(buffer), _state(buffer)]


def _columns(*bounds: int) -> list[list[Any]]:
    """Two columns of ascending numbers, in parts."""
    ranges = [np.arange(*part) for part in itertools.pairwise(bounds)]
    return [[ids, ids.astype(np.float32) / 2] for ids in ranges]


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


def batches_in_order(place: Place) -> Any:
    return _fed(BatchedNoopShufflingBuffer(batch_size=4), _columns(0, 3, 10, 11, 13))


def batches_drawn_with_the_seed_of_torch(place: Place) -> Any:
    torch.manual_seed(5)
    buffer = BatchedRandomShufflingBuffer(12, 6, extra_capacity=100, batch_size=3)
    return _fed(buffer, _columns(0, 5, 14, 20, 22))


def a_batch_is_tensors(place: Place) -> Any:
    found = []
    for buffer in (BatchedNoopShufflingBuffer(2), BatchedRandomShufflingBuffer(4, 1, 100, 2)):
        buffer.add_many([[True, True], np.ones((2, 3), np.int16), torch.ones(2, 1)])
        found.append(buffer.retrieve())
    return found


def how_much_batches_may_grow(place: Place) -> Any:
    buffer = BatchedRandomShufflingBuffer(2, 1, extra_capacity=3, batch_size=2)
    wide = [np.arange(6)]
    too_many = error_of(lambda: buffer.add_many(wide), "more elements than the capacity allows")
    buffer.add_many([np.arange(4)])
    full = error_of(lambda: buffer.add_many([np.arange(1)]), "Can not enqueue")
    buffer.finish()
    finished = error_of(lambda: buffer.add_many([np.arange(1)]), "Can not call add_many after")
    return [too_many, full, finished, _state(buffer)]


def batches_that_are_too_few(place: Place) -> Any:
    buffer = BatchedRandomShufflingBuffer(10, 3, batch_size=2)
    buffer.add_many([[1, 2, 3]])
    return [error_of(buffer.retrieve, "Can not dequeue"), _state(buffer)]
