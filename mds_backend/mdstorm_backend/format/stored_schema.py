"""Parse and check the logical schema in an index or a shard header."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.errors import CorruptDatasetError, UnsupportedEncodingError
from mdstorm_backend.format.encodings.numbers import is_same_dtype
from mdstorm_backend.format.encodings.registry import parse_encoding, sized_encoding
from mdstorm_backend.format.index import (
    Index,
    ShardInfo,
    check_count,
    check_object,
    check_text,
    shown,
)
from mdstorm_backend.format.layout import parse_header
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values.arrow_types import arrow_type, repeats_field
from mdstorm_backend.format.values.nested_lists import depth_of
from mdstorm_backend.storage import Buffer


def schema_of(index: Index, *, url: str, restored: bool = False) -> Schema:
    """Return the schema of a dataset: from its index, or else derived from its shards.

    Parameters
    ----------
    index : Index
        The index of the dataset.
    url : str
        Where the index came from, for error messages.
    restored : bool
        Whether the schema is that of one shard, from which others may differ.

    Raises
    ------
    CorruptDatasetError
        If the schema in the index is invalid, or does not match the shards.
    """
    if not index.extra.get("columns"):
        return Schema.from_shards(index.shards)
    try:
        schema = parse_columns(index.extra["columns"])
        if restored:
            schema = _agreeing(schema, index.shards)
        else:
            kinds = _kinds_of(index.shards)
            for column in schema:
                _check_shards(column, kinds)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptDatasetError(
            f"{url} holds a schema that does not match its shards ({error}). Write the dataset "
            "again, or copy this file again from the original dataset",
            url=url,
        ) from error
    return _with_redefined(schema, index.shards)


def parse_columns(value: Any) -> Schema:
    """Parse the result of `Schema.to_json`, and check it.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the value has a different form.
    """
    if type(value) is not list:
        raise TypeError(f"columns must be a list, found {shown(value)}")
    for column in value:
        _check_column(check_object(column, "a column"))
    schema = Schema.from_json(value)
    if len(set(schema.names)) < len(schema):
        raise ValueError("two columns have the same name")
    for column in schema:
        _check_type(column)
    return schema.with_columns(map(_without_stated_type, schema))


def _without_stated_type(column: Column) -> Column:
    """Return a column without the Spark type that earlier versions recorded for plain arrays.

    Such arrays state their own dtypes.
    """
    is_plain = column.is_array and column.parsed_encoding.dtype is None
    return replace(column, spark_type=None) if is_plain else column


def _check_column(value: dict[str, Any]) -> None:
    name = shown(check_text(value["name"], "the name of a column"))
    check_text(value["encoding"], f"the encoding of column {name}")
    if not isinstance(value.get("spark_type"), (str, dict, type(None))):
        raise TypeError(f"the Spark type of column {name} is {shown(value['spark_type'])}")
    for key in ("nullable", "uneven"):
        if not isinstance(value.get(key, False), bool):
            raise TypeError(
                f"{key} of column {name} must be true or false, found {shown(value[key])}"
            )
    for key in ("null_count", "element_null_count"):
        check_count(value.get(key, 0), f"the {key} of column {name}")
    if value.get("length") is not None:
        check_count(value["length"], f"the length of column {name}", 2**31 - 1)
    if value.get("shape") is not None:
        if type(value["shape"]) is not list or len(value["shape"]) < 2:
            raise TypeError(
                f"the shape of column {name} is {shown(value['shape'])}, not a list of sizes"
            )
        for size in value["shape"]:
            check_count(size, f"a dimension of column {name}", 2**31 - 1)


def _check_type(column: Column) -> None:
    """Raise ValueError unless the column's encoding fits its declared type, length and shape."""
    name = shown(column.name)
    try:
        encoding = parse_encoding(column.encoding)
    except UnsupportedEncodingError as error:
        raise ValueError(f"column {name}: {error}") from error
    has_form = column.length is not None or column.shape is not None or column.uneven
    if has_form and (not encoding.is_array or encoding.shape is not None):
        raise ValueError(
            f"column {name} of encoding {column.encoding!r} cannot have a length or a shape"
        )
    if column.element_null_count and not encoding.is_array:
        raise ValueError(f"column {name} of encoding {column.encoding!r} cannot have null elements")
    if column.spark_type is None or encoding.is_opaque:
        return
    try:
        declared = arrow_type(column.spark_type)
        if repeats_field(declared):
            raise ValueError(f"{declared} has two fields with the same name")
    except (AttributeError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"column {name} has no valid Spark type ({error})") from error
    if not encoding.can_carry(declared):
        raise ValueError(
            f"column {name} of type {shown(str(declared))} has encoding {column.encoding!r}"
        )


def _check_shards(column: Column, shards: Iterable[Mapping[str, str]]) -> None:
    """Raise ValueError unless every shard has a column, in a compatible encoding.

    Parameters
    ----------
    column : Column
        The column.
    shards : iterable of mapping
        The encodings of the columns in each kind of shard.
    """
    name = shown(column.name)
    for stored in shards:
        encoding = stored.get(column.name)
        if encoding is None:
            raise ValueError(f"a shard has no column {name}")
        if encoding != column.encoding and not _is_form(encoding, column):
            raise ValueError(
                f"column {name} has encoding {shown(column.encoding)}, but a shard has "
                f"{shown(encoding)}"
            )
        shape = column.shape or (column.length is not None and (column.length,))
        has_nulls_alone = column.null_count > 0 and encoding == column.encoding
        if shape and parse_encoding(encoding).shape != shape and not has_nulls_alone:
            size = ",".join(map(str, shape))
            raise ValueError(
                f"column {name} has arrays of length {size}, but in a shard it has encoding "
                f"{shown(encoding)}"
            )


def _kinds_of(shards: Iterable[ShardInfo]) -> list[dict[str, str]]:
    """Return the encodings of columns in shards, each combination once: most have the same."""
    seen = dict.fromkeys((shard.column_names, shard.column_encodings) for shard in shards)
    return [dict(zip(*kind, strict=True)) for kind in seen]


def _agreeing(schema: Schema, shards: Sequence[ShardInfo]) -> Schema:
    """Return a schema in which columns that some shards do not have, or store otherwise, are plain.

    They can be left out, and in a plain column an error names the shard that differs.
    """
    plain, kinds = Schema.from_shards(shards), _kinds_of(shards)

    def agreeing(column: Column) -> Column:
        try:
            _check_shards(column, kinds)
        except ValueError:
            return plain[column.name]
        return column

    return Schema(tuple(map(agreeing, schema)))


def _with_redefined(schema: Schema, shards: Iterable[ShardInfo]) -> Schema:
    """Return the schema with `Redefined` encodings for columns whose size differs in the index."""
    seen = dict.fromkeys((s.column_names, s.column_encodings, s.column_sizes) for s in shards)
    redefined = {
        name: Column(name, encoding.text)
        for columns in seen
        for name, text, size in zip(*columns, strict=True)
        for encoding in [sized_encoding(text, size)]
        if encoding.text != text
    }
    return schema.with_columns(redefined.values()) if redefined else schema


def _is_form(found: str, column: Column) -> bool:
    """Whether `found` is a form in which a shard may store arrays of `column`, such as JSON."""
    if found == "json":
        is_nested = column.spark_type and depth_of(arrow_type(column.spark_type)) > 1
        return column.uneven and bool(is_nested)
    stated, general = parse_encoding(found), column.parsed_encoding
    is_ragged = general.kind == "ndarray" and general.shape is None
    is_of_dtype = general.dtype is None or is_same_dtype(general.dtype, stated.dtype)
    return is_ragged and stated.kind == "ndarray" and is_of_dtype


def with_form(column: Column, encodings: Iterable[str]) -> Column:
    """Return a column with the length or shape that its arrays have in all shards.

    Parameters
    ----------
    column : Column
        The column.
    encodings : iterable of str
        Encodings of the column in the shards.
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
    """Return a column without the attributes that only its shards determine."""
    return Column(column.name, column.encoding, column.spark_type, column.nullable)


def joined_form(columns: Iterable[Column]) -> Column:
    """Return the first column, with a length and shape that fit all columns, and summed nulls."""
    first, *others = columns
    return replace(
        first,
        length=first.length if all(c.length == first.length for c in others) else None,
        shape=first.shape if all(c.shape == first.shape for c in others) else None,
        uneven=first.uneven or any(column.uneven for column in others),
        null_count=first.null_count + sum(column.null_count for column in others),
        element_null_count=first.element_null_count + sum(c.element_null_count for c in others),
    )


def restored(index: Index, info: ShardInfo, content: Buffer, *, url: str) -> Index:
    """Return the index, extended by the columns in a shard's header, if there are any.

    Parameters
    ----------
    index : Index
        An index without a schema.
    info : ShardInfo
        Index entry of the shard.
    content : bytes-like
        The uncompressed shard.
    url : str
        Where the shard came from, for error messages.

    Raises
    ------
    CorruptDatasetError
        If the shard does not match the index.
    """
    _, extra = parse_header(np.frombuffer(content, np.uint8), info, url=url)
    columns: Any = extra.get("columns")
    if isinstance(columns, list) and all(isinstance(column, dict) for column in columns):
        columns = [_with_common_form(column, index) for column in columns]
    return replace(index, extra={**index.extra, "columns": columns}) if columns else index


def _with_common_form(column: dict[str, Any], index: Index) -> dict[str, Any]:
    """Return a column with the length and shape that hold for all shards together."""
    bare = {**column, "length": None, "shape": None, "uneven": False}
    try:
        (parsed,) = parse_columns([bare])
    except (KeyError, TypeError, ValueError):
        return bare  # the error is raised when the whole schema is parsed
    encodings = {
        encoding
        for shard in index.shards
        for name, encoding in zip(shard.column_names, shard.column_encodings, strict=True)
        if name == parsed.name
    }
    return Schema((with_form(parsed, encodings),)).to_json()[0]
