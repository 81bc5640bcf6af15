"""Nested Arrow values as JSON text, built level by level with Arrow's string kernels.

The text is what ``json.loads`` gives back to anybody: structs are objects, lists are arrays. What
JSON has no type for is written so that nothing is lost: decimals, dates and timestamps (UTC) as
strings, binaries as base64 strings, maps as arrays of ``[key, value]`` pairs.
"""

from __future__ import annotations

import base64
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TEXT = pa.large_string()
_MUST_ESCAPE = r'[\x00-\x1f"\\]'
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def json_text(values: pa.Array) -> pa.Array:
    """Return the JSON text of every value.

    Parameters
    ----------
    values : pyarrow.Array
        Any array of the types that Spark hands to Arrow.

    Returns
    -------
    pyarrow.Array
        ``large_string`` of the same length, without nulls: a null reads ``null``.
    """
    if pa.types.is_null(values.type):
        return pa.array(["null"] * len(values), _TEXT)
    return pc.fill_null(_text_or_null(values), pa.scalar("null", _TEXT))


def _text_or_null(values: pa.Array) -> pa.Array:
    type_ = values.type
    if pa.types.is_struct(type_):
        return _struct(values)
    if pa.types.is_map(type_):
        entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
        return _list_of(
            values,
            _join(
                "[",
                json_text(_child(values, entries, 0)),
                ",",
                json_text(_child(values, entries, 1)),
                "]",
            ),
        )
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


def _child(values: pa.MapArray, entries: pa.StructArray, which: int) -> pa.Array:
    """Keys (0) or items (1) of the rows of a possibly sliced map array."""
    start, stop = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return entries.field(which).slice(start, stop - start)


def _list_of(values: pa.Array, elements: pa.Array) -> pa.Array:
    """Bracket the texts of the elements row by row; a null row stays null."""
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
