"""What all shards together say of the arrays of a column: one length, one shape, or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.schema import Column


def with_form(column: Column, encodings: Iterable[str]) -> Column:
    """Return a column with the length, or the shape, that its arrays have in all shards.

    Parameters
    ----------
    column : Column
        The column.
    encodings : iterable of str
        Its encodings in the shards.
    """
    length, shape, uneven = None, None, False
    found = {parse_encoding(text) for text in encodings}
    if column.is_array and not column.parsed_encoding.shape:
        uneven = any(not encoding.is_array for encoding in found)
        stated = {encoding.shape for encoding in found}
        shape = stated.pop() if len(stated) == 1 else None
    if shape is not None and len(shape) == 1:
        length, shape = shape[0], None
    return replace(column, length=length, shape=shape, uneven=uneven)


def without_form(column: Column) -> Column:
    """Return a column without what only all shards together say of its arrays."""
    return replace(column, length=None, shape=None, uneven=False)


def joined_form(columns: Iterable[Column]) -> Column:
    """Return the first of some columns with the form that the arrays of all of them have."""
    first, *others = columns
    return replace(
        first,
        length=first.length if all(c.length == first.length for c in others) else None,
        shape=first.shape if all(c.shape == first.shape for c in others) else None,
        uneven=first.uneven or any(column.uneven for column in others),
    )
