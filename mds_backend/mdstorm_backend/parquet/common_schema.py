"""One schema for files whose columns differ in order or in the width of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mdstorm_backend.errors import (
    UnsupportedTableError,
)
from mdstorm_backend.format import numpy_dtype, plain_type


def common_schema(schemas: Sequence[pa.Schema], urls: Sequence[str]) -> pa.Schema:
    """Return the first file's schema, with columns widened to fit all files.

    Files may differ in column order and the width of numbers; a column without values may have type
    null. A column with several types gets a plain type: see `plain_type`.

    Parameters
    ----------
    schemas : sequence of pyarrow.Schema
        One schema per file, at least one.
    urls : sequence of str
        The files, for error messages.

    Raises
    ------
    UnsupportedTableError
        If a file has different columns than the first one, or a column has an incompatible type.
    """
    first = schemas[0]
    types = {field.name: field.type for field in first}
    known = [first]
    for schema, url in zip(schemas, urls, strict=True):
        if any(schema.equals(other) for other in known):
            continue
        known.append(schema)
        found = {field.name: field.type for field in schema}
        for has, lacks, of_first in ((types, found, True), (found, types, False)):
            missing = next((name for name in has if name not in lacks), None)
            if missing is not None:
                there, here = (urls[0], url) if of_first else (url, urls[0])
                raise _mixed(
                    f"{here} has no column {missing!r}, but {there} has it, as {has[missing]}", url
                )
        for name, type_ in found.items():
            wider = _wider(types[name], type_)
            if wider is None:
                raise _mixed(
                    f"column {name!r} is {type_} in {url} and {types[name]} in {urls[0]}", url
                )
            types[name] = wider
    fields = [field.with_type(types[field.name]) for field in first]
    return pa.schema(fields, first.metadata)


def _mixed(what: str, url: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{what}: all files in a dataset need the same columns. Pass the matching files as a list, "
        "or rewrite the others",
        url=url,
    )


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return whichever of two types exactly holds all values of both, or None if neither does.

    Fixed-size lists become lists, because lengths may differ. There is no such type for tensors
    with different shapes.
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if any(isinstance(type_, pa.FixedShapeTensorType) for type_ in (one, other)):
        return None
    return _wider_plain(plain_type(one), plain_type(other))


def _wider_plain(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the result of `_wider` for plain types, by the same rules at every depth."""
    types = pa.types
    if types.is_null(one) or types.is_null(other):
        return one if types.is_null(other) else other
    if types.is_list(one) and types.is_list(other):
        element = _wider_plain(one.value_type, other.value_type)
        return None if element is None else pa.list_(element)
    if types.is_map(one) and types.is_map(other):
        key = _wider_plain(one.key_type, other.key_type)
        item = _wider_plain(one.item_type, other.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_struct(one) and types.is_struct(other):
        parts = {field.name: field.type for field in other}
        if sorted(field.name for field in one) != sorted(parts):
            return None
        fields = [(field.name, _wider_plain(field.type, parts[field.name])) for field in one]
        return None if any(type_ is None for _, type_ in fields) else pa.struct(fields)
    if _holds(one, other):
        return one
    return other if _holds(other, one) else None


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    types = pa.types
    if wide == narrow:
        return True
    if types.is_decimal128(wide) and types.is_decimal128(narrow):
        return bool(wide.scale == narrow.scale and wide.precision >= narrow.precision)
    if not all(types.is_integer(type_) or types.is_floating(type_) for type_ in (wide, narrow)):
        return False
    if types.is_floating(wide) and types.is_integer(narrow) and narrow.bit_width == 64:
        return False  # not exact, although NumPy considers the cast to float64 safe
    return bool(np.can_cast(numpy_dtype(narrow), numpy_dtype(wide), "safe"))
