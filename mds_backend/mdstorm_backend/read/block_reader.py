"""Fill blocks with the rows of their shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from mdstorm_backend.base.prefetch import Prefetcher
from mdstorm_backend.base.recorded_work import Cause, work
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.gather_rows import Gatherer
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.read.source import SampleSource
from mdstorm_backend.read.window import Range

#: A block has about so many rows, or bytes if that is less, but at least one batch.
BLOCK_ROWS = 65536
_BLOCK_BYTES = 8 << 20
#: A block of a wide table has more, so that a column has enough values for what it costs by itself.
_COLUMN_BYTES = 16 << 10
_WIDE_BLOCK_BYTES = 64 << 20

_Planned = TypeVar("_Planned")


class BlockFiller:
    """Gathers rows and prepares them. Safe to share between threads.

    Parameters
    ----------
    schema : Schema
        The columns to read, in the order of a batch.
    prepare : callable, optional
        Called with rows as they are read; must keep their number.
    exact_nulls : bool
        Deliver nulls of floating-point columns as nulls, not as NaN.
    """

    def __init__(
        self,
        schema: Schema,
        prepare: Callable[[Batch], Batch] | None = None,
        *,
        exact_nulls: bool = False,
    ) -> None:
        self._columns = schema.names
        self._exact_nulls = exact_nulls
        self._gather = Gatherer(schema, exact_nulls=exact_nulls)
        self._prepare = prepare
        #: Whether rows are no more than copied.
        self.only_copies = prepare is None and all(column.is_numpy() for column in schema)

    def make_ready(self, shard: Shard) -> None:
        """Do ahead of `read` what takes more than copying."""
        with work(Cause.DECODING):
            shard.make_ready(self._columns, exact_nulls=self._exact_nulls)

    def read(self, ranges: Sequence[Range]) -> Batch:
        """Return the rows of `ranges`, one after the other."""
        with work(Cause.DECODING):
            batch = self._gather(ranges)
            return batch if self._prepare is None else self._prepare(batch)

    @staticmethod
    def batches_per_block(dataset: SampleSource, rows: int, batch_size: int) -> int:
        """Whole batches of a block that is to have about `rows` rows."""
        per_row = max(dataset.nbytes // max(len(dataset), 1), 1)
        wide = min(_COLUMN_BYTES * len(dataset.schema), _WIDE_BLOCK_BYTES)
        return max(1, min(rows, max(_BLOCK_BYTES, wide) // per_row) // batch_size)


def copied_ahead(
    fill: Callable[[_Planned], Block],
    plan: Iterator[_Planned],
    workers: int,
    recorder: Recorder | None = None,
) -> Iterator[Block]:
    """Fill blocks whose rows are no more than copied, one of them ahead of use.

    One thread does it, however many `workers` there may be: more of them would wait for the
    interpreter's lock rather than copy. Without any it is done here, as it is for the first block,
    which so does not wait for the plan of another.
    """
    with Prefetcher(0, 1, recorder) as here:
        yield from here.map(fill, islice(plan, 1))
    with Prefetcher(min(workers, 1), 2, recorder) as thread:
        yield from thread.map(fill, plan)
