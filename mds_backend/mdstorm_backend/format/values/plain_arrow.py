"""Reduce the Arrow types that hold the same values to one type each."""

from __future__ import annotations

import pyarrow as pa


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries, extensions, views and 64-bit offsets, at any depth.

    Dates are ``date32``; timestamps and durations are in microseconds.
    """
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if types.is_dictionary(type_) or _named(type_, "run_end_encoded"):
        return plain_type(type_.value_type)
    if types.is_large_string(type_) or _named(type_, "string_view"):
        return pa.string()
    if types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return pa.binary()
    if _named(type_, "binary_view"):
        return pa.binary()
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return pa.list_(plain_type(type_.value_type))
    if types.is_struct(type_):
        return pa.struct([(field.name, plain_type(field.type)) for field in type_])
    if types.is_map(type_):
        return pa.map_(plain_type(type_.key_type), plain_type(type_.item_type))
    if types.is_date64(type_):
        return pa.date32()
    if types.is_timestamp(type_):
        return pa.timestamp("us", tz=type_.tz and "UTC")
    return pa.duration("us") if types.is_duration(type_) else type_


def plain_values(values: pa.Array) -> pa.Array:
    """Return the values in the form that `plain_type` names.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a value would be lost, such as the nanoseconds of a timestamp.
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    wanted = plain_type(values.type)
    try:
        return values if _same(values.type, wanted) else values.cast(wanted)
    except pa.ArrowIndexError:  # Arrow does not cast nested dictionaries that are empty
        return pa.array(values.to_pylist(), wanted)


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are equal but for the names and nullability of what is inside."""
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _same(found.value_type, wanted.value_type)
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return _same(found.key_type, wanted.key_type) and _same(found.item_type, wanted.item_type)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        pairs = zip(found, wanted, strict=True)
        return all(a.name == b.name and _same(a.type, b.type) for a, b in pairs)
    return bool(found == wanted)


def _named(type_: pa.DataType, name: str) -> bool:
    """Whether a type, which older versions of Arrow do not have, is the one of that name."""
    return str(type_).startswith(name)
