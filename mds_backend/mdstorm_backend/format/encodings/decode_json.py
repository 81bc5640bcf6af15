"""Parse JSON text into nested Arrow values: the inverse of `encode_json`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.format.values.arrow_types import is_number
from mdstorm_backend.format.values.nested_lists import element_type

_Restore: TypeAlias = Callable[[Any], Any] | None


def parse_json(texts: pa.Array) -> list[Any]:
    """Parse one JSON text per row into Python values; a null row is None.

    All texts are parsed in one call.
    """
    joined = ",".join("null" if text is None else text for text in texts.to_pylist())
    return json.loads(f"[{joined}]")  # type: ignore[no-any-return]


def decode_json(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Parse one JSON text per row into Arrow values of `type_`.

    Raises
    ------
    ValueError
        If a text does not hold a value of that type.
    """
    rows = parse_json(texts)
    restore = _restore(type_)
    try:
        values = pa.array([restore(row) for row in rows] if restore else rows, type_)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"a text is no value of type {type_} ({error!r})") from error
    if len(values) != len(texts):
        raise ValueError(f"{len(texts)} texts hold {len(values)} values of type {type_}")
    return values


def decode_lists(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Parse nested lists, one text per row, by Arrow where it has a parser for their elements.

    Raises
    ------
    ValueError
        If a text does not hold a value of that type.
    """
    element = element_type(type_)
    if pa.types.is_string(element):
        return _parsed_by_arrow(texts, type_)
    if not is_number(element) or pa.types.is_float16(element):
        return decode_json(texts, type_)
    try:
        return _parsed_by_arrow(texts, type_)
    except pa.ArrowInvalid:  # it knows neither NaN nor Infinity
        return decode_json(texts, type_)


def _parsed_by_arrow(texts: pa.Array, type_: pa.DataType) -> pa.ListArray:
    """Parse nested lists of strings, or of numbers; a null row stays null."""
    import pyarrow.json as pj

    if len(texts) == 0:
        return pa.array([], type_)
    lines = pc.binary_join_element_wise('{"v":', pc.fill_null(texts, "null"), "}\n", "")
    text = pa.py_buffer(b"".join([lines.buffers()[2]]))
    schema = pa.schema([("v", type_)])
    table = pj.read_json(
        pa.BufferReader(text),
        # One block: a row may be longer than any block size one could guess.
        read_options=pj.ReadOptions(use_threads=False, block_size=max(len(text), 1)),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    values = table.column("v").combine_chunks()
    if len(values) != len(texts):
        raise ValueError(f"{len(texts)} texts hold {len(values)} values of type {type_}")
    return values


def _restore(type_: pa.DataType) -> _Restore:
    """Return the function from JSON's stand-in to the value, or None where JSON has the type."""
    if pa.types.is_struct(type_):
        fields = {field.name: _restore(field.type) for field in type_}
        return _struct(fields) if any(fields.values()) else None
    if pa.types.is_map(type_):
        return _pairs(_restore(type_.key_type), _restore(type_.item_type))
    if pa.types.is_list(type_):
        element = _restore(type_.value_type)
        return _nullable(lambda row: [element(value) for value in row]) if element else None
    if pa.types.is_decimal(type_):
        return _nullable(Decimal)
    if pa.types.is_binary(type_):
        return _nullable(base64.b64decode)
    if pa.types.is_date(type_):
        return _nullable(date.fromisoformat)
    if pa.types.is_timestamp(type_):
        return _nullable(lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")))
    return None


def _nullable(restore: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else restore(value)


def _struct(fields: dict[str, _Restore]) -> Callable[[Any], Any]:
    restores = {name: function or _unchanged for name, function in fields.items()}

    def restore(row: dict[str, Any]) -> dict[str, Any]:
        return {name: restores[name](row[name]) for name in row}

    return _nullable(restore)


def _unchanged(value: Any) -> Any:
    return value


def _pairs(key: _Restore, item: _Restore) -> Callable[[Any], Any]:
    def restore(row: list[list[Any]]) -> list[tuple[Any, Any]]:
        return [(key(k) if key else k, item(v) if item else v) for k, v in row]

    return _nullable(restore)
