"""Conversion of nested Arrow values to JSON text and back.

``json.loads`` can read the text: structs become objects, and lists become arrays. Other types are
written without loss: decimals, dates and timestamps (UTC) as strings, durations as integers,
binaries as base64 strings, and maps as arrays of ``[key, value]`` pairs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.format.values.arrow_types import is_number
from mdstorm_backend.format.values.nested_lists import children_of, element_type
from mdstorm_backend.format.values.python_objects import check_years

_TEXT = pa.large_string()
_MUST_ESCAPE = r'[\x00-\x1f"\\]'
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def json_text(values: pa.Array) -> pa.Array:
    """Return the JSON text of every value.

    Parameters
    ----------
    values : pyarrow.Array
        Values of any type that Spark passes to Arrow.

    Returns
    -------
    pyarrow.Array
        ``large_string`` of the same length, without nulls: a null is the string ``null``.

    Raises
    ------
    OverflowError
        If a date or timestamp is not in the years 1 to 9999.
    """
    if pa.types.is_null(values.type):
        return pa.array(["null"] * len(values), _TEXT)
    return pc.fill_null(_text_or_null(values), pa.scalar("null", _TEXT))


def _text_or_null(values: pa.Array) -> pa.Array:
    type_ = values.type
    if pa.types.is_struct(type_):
        return _struct(values)
    if pa.types.is_map(type_):
        keys, items = map(json_text, children_of(values).flatten())
        return _list_of(values, _join("[", keys, ",", items, "]"))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _list_of(values, json_text(values.flatten()))
    if pa.types.is_boolean(type_):
        return pc.if_else(values, pa.scalar("true", _TEXT), pa.scalar("false", _TEXT))
    if pa.types.is_floating(type_):
        return _floating(values)
    if pa.types.is_integer(type_):
        return values.cast(_TEXT)
    if pa.types.is_duration(type_):
        return values.cast(pa.int64()).cast(_TEXT)
    return _join('"', _unquoted(values), '"')


def _unquoted(values: pa.Array) -> pa.Array:
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        encoded = [None if v is None else base64.b64encode(v).decode() for v in values.to_pylist()]
        return pa.array(encoded, _TEXT)
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        check_years(values)
    if pa.types.is_timestamp(values.type) and values.type.tz:
        return values.cast(pa.timestamp("us", tz="UTC")).cast(_TEXT)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return _escape(values.cast(_TEXT))
    return values.cast(_TEXT)


def _escape(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, _MUST_ESCAPE)).as_py():
        return texts
    escaped = texts
    for plain, replacement in _ESCAPES:
        escaped = pc.replace_substring(escaped, plain, replacement)
    rare = pc.fill_null(pc.match_substring_regex(escaped, r"[\x00-\x1f]"), False)
    if pc.any(rare).as_py():
        rest = [json.dumps(text)[1:-1] for text in texts.filter(rare).to_pylist()]
        escaped = pc.replace_with_mask(escaped, rare, pa.array(rest, _TEXT))
    return escaped


def _floating(values: pa.Array) -> pa.Array:
    if pa.types.is_float16(values.type):  # old Arrow versions cannot cast it
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float32)
        values = pa.array(numbers, mask=np.asarray(values.is_null()))
    texts = values.cast(_TEXT)
    whole = pc.match_substring_regex(texts, r"^-?\d+$")
    texts = pc.if_else(whole, _join(texts, ".0"), texts)
    if pc.all(pc.fill_null(pc.is_finite(values), True)).as_py():
        return texts
    for found, replacement in (("nan", "NaN"), ("inf", "Infinity")):
        texts = pc.replace_substring(texts, found, replacement)
    return texts


def _struct(values: pa.StructArray) -> pa.Array:
    pieces: list[pa.Array | str] = ["{"]
    for i, (field, child) in enumerate(zip(values.type, values.flatten(), strict=True)):
        pieces += [("," if i else "") + json.dumps(field.name) + ":", json_text(child)]
    if len(pieces) == 1:
        return pc.if_else(values.is_valid(), pa.scalar("{}", _TEXT), pa.scalar(None, _TEXT))
    return pc.if_else(values.is_valid(), _join(*pieces, "}"), pa.scalar(None, _TEXT))


def _list_of(values: pa.Array, elements: pa.Array) -> pa.Array:
    """Join the strings of each row's elements in brackets; a null row stays null."""
    offsets = np.zeros(len(values) + 1, np.int32)
    if pa.types.is_map(values.type):
        offsets = np.asarray(values.offsets) - values.offsets[0].as_py()
    else:
        np.cumsum(pc.fill_null(pc.list_value_length(values), 0), out=offsets[1:])
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), elements)
    texts = _join("[", pc.binary_join(lists, pa.scalar(",", _TEXT)), "]")
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, _TEXT))


def _join(*pieces: pa.Array | str) -> pa.Array:
    scalars = [pa.scalar(piece, _TEXT) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*scalars, pa.scalar("", _TEXT))


_Restore: TypeAlias = Callable[[Any], Any] | None


def decode_json(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Parse one JSON string per row, all in one call, into Arrow values of `type_`.

    Raises
    ------
    ValueError
        If a string does not hold a value of that type.
    """
    joined = ",".join("null" if text is None else text for text in texts.to_pylist())
    rows = json.loads(f"[{joined}]")
    restore = _restore(type_)
    try:
        values = pa.array([restore(row) for row in rows] if restore else rows, type_)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"a JSON string is not a value of type {type_} ({error!r})") from error
    if len(values) != len(texts):
        raise ValueError(f"{len(texts)} JSON strings hold {len(values)} values of type {type_}")
    return values


def decode_lists(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Parse nested lists, one JSON string per row, with Arrow if it supports the element type.

    Raises
    ------
    ValueError
        If a string does not hold a value of that type.
    """
    element = element_type(type_)
    if pa.types.is_string(element):
        return _parsed_by_arrow(texts, type_)
    if not is_number(element) or pa.types.is_float16(element):
        return decode_json(texts, type_)
    try:
        return _parsed_by_arrow(texts, type_)
    except pa.ArrowInvalid:  # Arrow supports neither NaN nor Infinity
        return decode_json(texts, type_)


def _parsed_by_arrow(texts: pa.Array, type_: pa.DataType) -> pa.ListArray:
    """Parse nested lists of strings or numbers with Arrow; a null row stays null."""
    import pyarrow.json as pj

    if len(texts) == 0:
        return pa.array([], type_)
    lines = pc.binary_join_element_wise('{"v":', pc.fill_null(texts, "null"), "}\n", "")
    text = pa.py_buffer(b"".join([lines.buffers()[2]]))
    schema = pa.schema([("v", type_)])
    table = pj.read_json(
        pa.BufferReader(text),
        # One block, since a row may be longer than any fixed block size.
        read_options=pj.ReadOptions(use_threads=False, block_size=max(len(text), 1)),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    values = table.column("v").combine_chunks()
    if len(values) != len(texts):
        raise ValueError(f"{len(texts)} JSON strings hold {len(values)} values of type {type_}")
    return values


def _restore(type_: pa.DataType) -> _Restore:
    """Return the function that converts parsed JSON to a Python value; None to keep it as it is."""
    if pa.types.is_struct(type_):
        fields = {field.name: _restore(field.type) for field in type_}
        return _restored_struct(fields) if any(fields.values()) else None
    if pa.types.is_map(type_):
        return _pairs(_restore(type_.key_type), _restore(type_.item_type))
    if pa.types.is_list(type_):
        element = _restore(type_.value_type)
        return _nullable(lambda row: [element(value) for value in row]) if element else None
    if pa.types.is_decimal(type_):
        return _nullable(Decimal)
    if pa.types.is_float16(type_):
        return _nullable(np.float16)
    if pa.types.is_binary(type_):
        return _nullable(base64.b64decode)
    if pa.types.is_date(type_):
        return _nullable(date.fromisoformat)
    if pa.types.is_timestamp(type_):
        return _nullable(lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")))
    return None


def _nullable(restore: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else restore(value)


def _restored_struct(fields: dict[str, _Restore]) -> Callable[[Any], Any]:
    restores = {name: function or (lambda value: value) for name, function in fields.items()}

    def restore(row: dict[str, Any]) -> dict[str, Any]:
        return {name: restores[name](row[name]) for name in row}

    return _nullable(restore)


def _pairs(key: _Restore, item: _Restore) -> Callable[[Any], Any]:
    def restore(row: list[list[Any]]) -> list[tuple[Any, Any]]:
        return [(key(k) if key else k, item(v) if item else v) for k, v in row]

    return _nullable(restore)
