"""Reading the rows of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mdstorm_backend.batch import Batch
from mdstorm_backend.read.gather import Gatherer
from mdstorm_backend.read.window import Range
from mdstorm_backend.schema import Schema

__all__ = ["BLOCK_ROWS", "BlockFiller"]

#: A block has about so many rows, or bytes if that is less, but at least one batch.
BLOCK_ROWS = 8192
_BLOCK_BYTES = 8 << 20


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...

    def __len__(self) -> int: ...


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
        self._gather = Gatherer(schema, exact_nulls=exact_nulls)
        self._prepare = prepare
        #: Whether rows are no more than copied. Then another thread gains nothing: it would wait
        #: for the interpreter's lock more often than it copies.
        self.only_copies = prepare is None and all(column.is_numpy() for column in schema)

    def read(self, ranges: Sequence[Range]) -> Batch:
        """Return the rows of `ranges`, one after the other."""
        batch = self._gather(ranges)
        return batch if self._prepare is None else self._prepare(batch)

    @staticmethod
    def batches_per_block(dataset: _Sized, rows: int, batch_size: int) -> int:
        """Whole batches of a block that is to have about `rows` rows."""
        per_row = dataset.nbytes // max(len(dataset), 1)
        return max(1, min(rows, _BLOCK_BYTES // max(per_row, 1)) // batch_size)
