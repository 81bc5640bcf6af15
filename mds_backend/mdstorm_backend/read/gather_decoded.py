"""Gather rows of shards that are decoded in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format.values.batch import (
    Batch,
    Values,
    concat_stored,
    concat_values,
    copy_values,
    take_values,
)
from mdstorm_backend.read.shard import MemoryShard
from mdstorm_backend.read.window import Positions, Selection


def gather_decoded(
    selections: Sequence[Selection], decoded: Sequence[Batch], columns: Sequence[str], total: int
) -> Batch:
    """Copy rows a column at a time.

    Parameters
    ----------
    selections : sequence of Selection
        Which rows of which shards, and their places; at least one.
    decoded : sequence of Batch
        All samples of the shard of each selection.
    columns : sequence of str
        The columns to copy.
    total : int
        Rows of all selections.
    """
    batch: Batch = {}
    for name in columns:
        parts = [whole[name] for whole in decoded]
        batch[name] = (
            _filled(selections, parts, total)
            if _are_alike(parts)
            else _joined(selections, parts, total, name)
        )
    return batch


def joiner(selections: Sequence[Selection]) -> Callable[[Sequence[Values], str], Values]:
    """Return what joins pieces of a column: what transforms returned may differ in their types."""
    made = any(isinstance(selection.shard, MemoryShard) for selection in selections)
    return concat_values if made else concat_stored


def as_array(positions: Positions) -> npt.NDArray[np.int64]:
    """Return positions as an array of them."""
    if isinstance(positions, slice):
        return np.arange(positions.start, positions.stop)
    return positions


def _are_alike(parts: Sequence[Values]) -> bool:
    kinds = {
        (part.dtype, part.shape[1:]) if isinstance(part, np.ndarray) else None for part in parts
    }
    return len(kinds) == 1 and None not in kinds


def _filled(
    selections: Sequence[Selection], parts: Sequence[npt.NDArray[Any]], total: int
) -> npt.NDArray[Any]:
    """Copy rows straight to their places."""
    first = parts[0]
    filled: npt.NDArray[Any] = np.empty((total, *first.shape[1:]), first.dtype)
    for selection, part in zip(selections, parts, strict=True):
        rows, places = selection.rows, selection.positions
        if isinstance(rows, slice):
            filled[places] = part[rows]
        elif isinstance(places, slice):
            part.take(rows, axis=0, out=filled[places], mode="clip")
        else:
            filled[places] = part.take(rows, axis=0, mode="clip")
    return filled


def _joined(
    selections: Sequence[Selection], parts: Sequence[Values], total: int, name: str
) -> Values:
    """Copy the rows of each shard, join them, and put them in their places."""
    copies = [
        copy_values(part, selection.rows.start, selection.rows.stop)
        if isinstance(selection.rows, slice)
        else take_values(part, selection.rows)
        for selection, part in zip(selections, parts, strict=True)
    ]
    joined = joiner(selections)(copies, name)
    if all(isinstance(selection.positions, slice) for selection in selections):
        return joined
    chosen = np.empty(total, np.int64)
    gathered = 0
    for selection, copy in zip(selections, copies, strict=True):
        chosen[selection.positions] = np.arange(gathered, gathered + len(copy))
        gathered += len(copy)
    return take_values(joined, chosen)
