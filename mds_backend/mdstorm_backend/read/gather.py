"""Gathering the rows of a block out of their shards.

Where all shards share one fixed-size layout, rows are copied whole, as opaque records, and split
into columns afterwards, some thousand at a time so that they stay in the processor's cache.
Otherwise each shard decodes its rows and the columns are joined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.batch import Batch, concat_values, take_values
from mdstorm_backend.read.logical import to_logical
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.window import Positions, Selection, Window
from mdstorm_backend.schema import Column, Schema

__all__ = ["Range", "gather", "gather_columns"]

#: Records that are split into columns at a time.
_CHUNK_ROWS = 8192


@dataclass(frozen=True)
class Range:
    """The rows `start` to `stop` of a window."""

    window: Window
    start: int
    stop: int


def gather(ranges: Sequence[Range], schema: Schema, *, exact_nulls: bool = False) -> Batch:
    """Copy the rows of `ranges`, one after the other, into one batch.

    Parameters
    ----------
    ranges : sequence of Range
        What to read.
    schema : Schema
        The columns to read, in the order of the batch.
    exact_nulls : bool
        Deliver nulls of floating-point columns as nulls, not as NaN.

    Returns
    -------
    Batch
        Freshly allocated, writable where it is NumPy.
    """
    dtype = _common_record(ranges)
    if dtype is not None and all(column.name in (dtype.names or ()) for column in schema):
        return _gather_records(ranges, schema, dtype, exact_nulls)
    return gather_columns(ranges, schema.names, exact_nulls=exact_nulls)


def _common_record(ranges: Sequence[Range]) -> np.dtype[np.void] | None:
    dtype = None
    for range_ in ranges:
        for source in range_.window.sources:
            shard = source.shard
            if not isinstance(shard, MDSShard) or shard.records is None:
                return None
            if dtype is not None and shard.record_dtype != dtype:
                return None
            dtype = shard.record_dtype
    return dtype


def _gather_records(
    ranges: Sequence[Range], schema: Schema, dtype: np.dtype[np.void], exact_nulls: bool
) -> Batch:
    total = sum(range_.stop - range_.start for range_ in ranges)
    stored = {column.name: _empty(total, dtype[column.name]) for column in schema}
    masked = [column for column in schema if not column.is_numpy(exact_nulls=exact_nulls)]
    masks = {column.name: _Masks(column, stored[column.name].shape) for column in masked}
    position = 0
    for range_ in ranges:
        for start in range(range_.start, range_.stop, _CHUNK_ROWS):
            stop = min(start + _CHUNK_ROWS, range_.stop)
            selections = list(range_.window.select(start, stop, position))
            _split(selections, dtype, stored, position, stop - start)
            for mask in masks.values():
                mask.fill(selections)
            position += stop - start
    return {
        column.name: to_logical(
            column,
            stored[column.name],
            *(masks[column.name].found if column.name in masks else (None, None)),
            exact_nulls=exact_nulls,
        )
        for column in schema
    }


def _empty(rows: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    base, shape = dtype.subdtype or (dtype, ())
    return np.empty((rows, *shape), base)


def _split(
    selections: Sequence[Selection],
    dtype: np.dtype[np.void],
    stored: dict[str, npt.NDArray[Any]],
    position: int,
    count: int,
) -> None:
    """Copy the records of some selections, which fill `count` rows from `position` on."""
    if len(selections) == 1 or isinstance(selections[0].positions, slice):
        for selection in selections:
            records = _records(selection).view(dtype)
            for name, column in stored.items():
                column[selection.positions] = records[name]
        return
    scratch = np.empty(count, f"V{dtype.itemsize}")
    for selection in selections:
        assert not isinstance(selection.positions, slice)
        scratch[selection.positions - position] = _records(selection)
    records = scratch.view(dtype)
    for name, column in stored.items():
        column[position : position + count] = records[name]


def _records(selection: Selection) -> npt.NDArray[np.void]:
    assert isinstance(selection.shard, MDSShard)
    assert selection.shard.records is not None
    if isinstance(selection.rows, slice):
        return selection.shard.records[selection.rows]
    return np.take(selection.shard.records, selection.rows, mode="clip")


class _Masks:
    """The validity of one column over a block of values of some `shape`."""

    def __init__(self, column: Column, shape: tuple[int, ...]) -> None:
        self._name = column.name
        self._valid = np.ones(shape[0], np.bool_) if column.null_count else None
        self._elements = (
            np.ones((shape[0], math.prod(shape[1:])), np.bool_)
            if column.element_null_count
            else None
        )

    def fill(self, selections: Sequence[Selection]) -> None:
        for selection in selections:
            assert isinstance(selection.shard, MDSShard)
            validity = selection.shard.validity
            if self._valid is not None and self._name in validity.rows:
                self._valid[selection.positions] = validity.rows[self._name][selection.rows]
            if self._elements is not None and self._name in validity.elements:
                bits = validity.elements[self._name].reshape(selection.shard.num_samples, -1)
                self._elements[selection.positions] = bits[selection.rows]

    @property
    def found(self) -> tuple[npt.NDArray[np.bool_] | None, npt.NDArray[np.bool_] | None]:
        elements = None if self._elements is None else self._elements.reshape(-1)
        return self._valid, elements


def gather_columns(
    ranges: Sequence[Range], columns: Sequence[str], *, exact_nulls: bool = False
) -> Batch:
    """Do what `gather` does for shards of any kind: each decodes its own rows."""
    parts: list[Batch] = []
    places: list[npt.NDArray[np.int64]] = []
    position, in_order = 0, True
    for range_ in ranges:
        for selection in range_.window.select(range_.start, range_.stop, position):
            rows = _as_array(selection.rows)
            filled = _as_array(selection.positions)
            if not isinstance(selection.rows, slice):
                ascending = np.argsort(rows)
                rows, filled, in_order = rows[ascending], filled[ascending], False
            parts.append(selection.shard.read(rows, columns, exact_nulls=exact_nulls))
            places.append(filled)
        position += range_.stop - range_.start
    joined = {name: concat_values([part[name] for part in parts]) for name in columns}
    if in_order:
        return joined
    inverse = np.argsort(np.concatenate(places))
    return {name: take_values(values, inverse) for name, values in joined.items()}


def _as_array(positions: Positions) -> npt.NDArray[np.int64]:
    if isinstance(positions, slice):
        return np.arange(positions.start, positions.stop)
    return positions
