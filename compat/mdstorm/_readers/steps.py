"""Chain the transforms of a reader, and select columns without a function."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mdstorm._transforms.declared_fields import DeclaredTransform
from mdstorm_backend.format import Batch, num_rows
from mdstorm_backend.read import Transform


class ColumnSelection(DeclaredTransform):
    """A `TransformSpec` that changes no value: it has no function, and declares nothing."""

    @property
    def unchanged(self) -> frozenset[str]:
        """Columns that are as they are stored: all."""
        return frozenset(self.columns)

    def __call__(self, batch: Batch) -> Batch:
        """Return the columns that stay."""
        return {name: batch[name] for name in self.columns}


class Steps:
    """Filters of rows, and then what changes columns, one after the other.

    Parameters
    ----------
    filters : sequence of Transform
        They leave out rows and change no value.
    change : Transform or None
        What changes columns: the user's function.
    columns : sequence of str
        The columns that go into `change`: the others are there for the filters alone.

    Attributes
    ----------
    columns : tuple of str
        The columns that come out.
    unchanged : frozenset of str
        Those of them whose values are as they are stored.
    leaves_out_rows : bool
        Whether there are filters.
    """

    def __init__(
        self, filters: Sequence[Transform], change: Transform | None, columns: Sequence[str]
    ) -> None:
        self._filters = tuple(filters)
        self._change = change
        self._read = tuple(columns)
        self.columns = self._read if change is None else tuple(change.columns)
        kept = self._read if change is None else getattr(change, "unchanged", ())
        self.unchanged = frozenset(kept)
        self.leaves_out_rows = bool(self._filters)

    def __call__(self, batch: Batch) -> Batch:
        """Return what is left of a batch, changed. The function never sees a batch of no rows."""
        for step in self._filters:
            batch = step(batch)
        batch = {name: batch[name] for name in self._read}
        if self._change is None:
            return batch
        if num_rows(batch) == 0:
            return {name: pa.nulls(0) for name in self.columns}
        return self._change(batch)
