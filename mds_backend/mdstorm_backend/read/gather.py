"""Gathering the rows of a block out of their shards.

Where all shards share one fixed-size layout their records are gathered whole, see `record_gather`.
Otherwise each shard decodes its rows and the columns are joined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mdstorm_backend.batch import Batch, concat_stored, concat_values, take_values
from mdstorm_backend.read.logical import no_values
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.record_gather import RecordGatherer
from mdstorm_backend.read.window import Positions, Range
from mdstorm_backend.schema import Schema

__all__ = ["Gatherer", "gather_columns"]


class Gatherer:
    """Copies rows of some windows into one batch. Safe to share between threads.

    Parameters
    ----------
    schema : Schema
        The columns to read, in the order of the batch.
    exact_nulls : bool
        Deliver nulls of floating-point columns as nulls, not as NaN.
    """

    def __init__(self, schema: Schema, *, exact_nulls: bool = False) -> None:
        self._schema = schema
        self._exact_nulls = exact_nulls
        self._of_records: dict[np.dtype[np.void], RecordGatherer] = {}

    def __call__(self, ranges: Sequence[Range]) -> Batch:
        """Copy the rows of `ranges`, one after the other.

        Returns
        -------
        Batch
            Freshly allocated, writable where it is NumPy.
        """
        if not ranges:
            return {c.name: no_values(c, exact_nulls=self._exact_nulls) for c in self._schema}
        dtype = _common_record(ranges)
        if dtype is None or not RecordGatherer.accepts(self._schema, dtype):
            return gather_columns(ranges, self._schema.names, exact_nulls=self._exact_nulls)
        if dtype not in self._of_records:
            gatherer = RecordGatherer(self._schema, dtype, exact_nulls=self._exact_nulls)
            self._of_records[dtype] = gatherer
        return self._of_records[dtype](ranges)


def _common_record(ranges: Sequence[Range]) -> np.dtype[np.void] | None:
    """Return the dtype of a record if all shards share one, else None."""
    dtypes = {range_.window.record_dtype for range_ in ranges}
    return dtypes.pop() if len(dtypes) == 1 else None


def gather_columns(
    ranges: Sequence[Range], columns: Sequence[str], *, exact_nulls: bool = False
) -> Batch:
    """Copy rows of shards of any kind: each decodes its own, and the columns are joined."""
    parts: list[Batch] = []
    places: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    position = gathered = 0
    in_order = are_stored = True
    for range_ in ranges:
        for selection in range_.window.select(range_.start, range_.stop, position):
            rows, filled = _as_array(selection.rows), _as_array(selection.positions)
            found = np.arange(len(rows))
            if not isinstance(selection.rows, slice) and not _ascends(rows):
                # A shard reads ascending rows, each of them once.
                rows, found = np.unique(rows, return_inverse=True)
                in_order = False
            elif not isinstance(selection.positions, slice):
                in_order = False
            are_stored &= isinstance(selection.shard, MDSShard)
            parts.append(selection.shard.read(rows, columns, exact_nulls=exact_nulls))
            places.append((filled, found.reshape(-1) + gathered))
            gathered += len(rows)
        position += range_.stop - range_.start
    join = concat_stored if are_stored else concat_values
    joined = {name: join([part[name] for part in parts], name) for name in columns}
    if in_order:
        return joined
    chosen = np.empty(position, np.int64)
    for filled, found in places:
        chosen[filled] = found
    return {name: take_values(values, chosen) for name, values in joined.items()}


def _ascends(rows: npt.NDArray[np.int64]) -> bool:
    return bool((rows[1:] > rows[:-1]).all())


def _as_array(positions: Positions) -> npt.NDArray[np.int64]:
    if isinstance(positions, slice):
        return np.arange(positions.start, positions.stop)
    return positions
