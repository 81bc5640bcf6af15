"""One schema for files whose columns differ, and how they differ in those that have no one type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mdstorm_backend.format import numpy_dtype, plain_type


class CommonSchema(NamedTuple):
    """The columns of several files.

    Attributes
    ----------
    schema : pyarrow.Schema
        The first file's columns, widened to fit all files, then those that it does not have.
    differing : dict of str to str
        How the files differ in the columns that no type fits, or that some of them do not have.
    """

    schema: pa.Schema
    differing: dict[str, str]


def common_schema(schemas: Sequence[pa.Schema], urls: Sequence[str]) -> CommonSchema:
    """Return the columns of files, which may differ in order and in the width of numbers.

    A column without values may have type null. A column with several types gets a plain type: see
    `plain_type`.

    Parameters
    ----------
    schemas : sequence of pyarrow.Schema
        One schema per file, at least one.
    urls : sequence of str
        The files, for messages.
    """
    first = schemas[0]
    fields = {field.name: field for field in first}
    further: dict[str, pa.Field] = {}
    differing: dict[str, str] = {}
    known = [first]
    for schema, url in zip(schemas, urls, strict=True):
        if any(schema.equals(other) for other in known):
            continue
        known.append(schema)
        for name in fields.keys() - set(schema.names):
            there = fields[name].type
            differing.setdefault(
                name, f"{url} has no column {name!r}, but {urls[0]} has it, as {there}"
            )
        for field in schema:
            name, type_ = field.name, field.type
            if name not in fields:
                further.setdefault(name, field)
                differing.setdefault(
                    name, f"{urls[0]} has no column {name!r}, but {url} has it, as {type_}"
                )
                continue
            wider = _wider(fields[name].type, type_)
            if wider is None:
                differing.setdefault(
                    name,
                    f"column {name!r} is {type_} in {url} and {fields[name].type} in {urls[0]}",
                )
            else:
                fields[name] = fields[name].with_type(wider)
    common = [field.with_type(fields[field.name].type) for field in first]
    return CommonSchema(pa.schema([*common, *further.values()], first.metadata), differing)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return whichever of two types holds all values of both, or None if neither does.

    Fixed-size lists become lists, because lengths may differ. There is no such type for tensors
    with different shapes. 64-bit integers and double become double, because pandas writes integers
    with nulls as double; reading an integer that a double cannot hold raises an error.
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
    return bool(np.can_cast(numpy_dtype(narrow), numpy_dtype(wide), "safe"))
