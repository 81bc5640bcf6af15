"""Read batches as the engine does: in exact order, by sample number, or with a transform."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, repeat
from typing import Any

import numpy as np

from mdstorm_backend.format.values.batch import Batch, as_arrow
from mdstorm_backend.order.chunk import Chunk
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.plan import Batching, Position, Samples
from mdstorm_backend.order.row_plan import RowPlan
from mdstorm_backend.read import Reading, SampleSource, Steps
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.reader import BlockReader
from mdstorm_backend.read.refill import Refill

IN_ORDER = ExactOrder()


def reader_of(
    dataset: SampleSource,
    batch_size: int,
    *,
    columns: Sequence[str] | None = None,
    transform: Any = None,
    exact_nulls: bool = False,
    **options: Any,
) -> BlockReader:
    """Return a reader of a dataset's columns, with a transform."""
    steps = Steps(transform=transform)
    reading = Reading(dataset, columns, steps, keeps_nulls=exact_nulls)
    return BlockReader(reading=reading, batch_size=batch_size, **options)


def exact(
    dataset: SampleSource,
    order: ExactOrder = IN_ORDER,
    batch_size: int = 4,
    num_epochs: int | None = 1,
    *,
    part: tuple[int, int] = (0, 1),
    place: Position = Position(),  # noqa: B008  # frozen
    drop_last: bool = False,
    unread: bool = False,
    **options: Any,
) -> Iterator[Block]:
    """Return a rank's blocks in exact order, for part `part[0]` out of `part[1]` parts."""
    number, parts = part
    batching = Batching(batch_size, drop_last=drop_last, num_epochs=num_epochs, num_parts=parts)
    plan = order.resolved().plan(batching, dataset.bounds, place, "")
    reader = reader_of(dataset, batch_size, **options)
    return (reader.planned if unread else reader.blocks)(plan.samples(number))


def numbered(
    dataset: SampleSource, numbers: Chunk | Sequence[int], batch_size: int = 4, **options: Any
) -> Iterator[Block]:
    """Return blocks of the samples with the given numbers, read in two chunks."""
    chunk = numbers if isinstance(numbers, range) else np.array(numbers, np.int64)
    full, rest = divmod(len(chunk), batch_size)
    sizes = chain(repeat(batch_size, full), [rest] if rest else [])
    half = len(chunk) // 2
    chunks: Iterator[Chunk] = iter([chunk[:half], chunk[half:]])
    samples = Samples(chunks, sizes, count(1))
    return reader_of(dataset, batch_size, **options).blocks(samples)


def pieces(
    dataset: SampleSource,
    order: ExactOrder = IN_ORDER,
    batch_size: int = 4,
    *,
    start: Position = Position(),  # noqa: B008  # frozen
    num_epochs: int | None = 1,
    part: tuple[int, int] = (0, 1),
    slices: bool = False,
    **options: Any,
) -> Iterator[Block]:
    """Return blocks of results from a transform that gets a rank's rows shard by shard."""
    batching = Batching(batch_size, "as returned", num_epochs=num_epochs, num_parts=part[1])
    plan = RowPlan(order.resolved(), dataset.bounds, batching=batching, start=start)
    reader = reader_of(dataset, batch_size, **options)
    return reader.refilled(Refill(plan, dataset, slices), part[0])


def batches(blocks: Iterable[Block]) -> Iterator[Batch]:
    """Return the batches in some blocks."""
    return chain.from_iterable(block.batches() for block in blocks)


def values(blocks: Iterable[Block], column: str = "number") -> list[list[Any]]:
    """Return the values of one column in each batch."""
    return [as_arrow(batch[column]).to_pylist() for batch in batches(blocks)]


def flat(blocks: Iterable[Block], column: str = "number") -> list[Any]:
    """Return the values of one column in all batches."""
    return list(chain.from_iterable(values(blocks, column)))


class OnNumbers:
    """A transform that applies a function to the numbers and records the row count of each call."""

    columns = ("number",)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.calls: list[int] = []

    def __call__(self, batch: Batch) -> Batch:
        self.calls.append(len(batch["number"]))
        return {"number": self._function(batch["number"])}
