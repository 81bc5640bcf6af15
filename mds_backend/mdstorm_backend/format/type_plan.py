"""The type plan: the MDS encoding of each column, chosen before any Spark job runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeGuard

import pyarrow as pa

from mdstorm_backend.errors import InvalidArgumentError, MissingColumnError, UnsupportedTypeError
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.format.encodings.numbers import DTYPES, is_same_dtype, stored_dtype
from mdstorm_backend.format.encodings.registry import encoding_names, parse_encoding
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values import arrow_types, nested_lists
from mdstorm_backend.format.values.arrow_types import SparkType

#: Regular expressions for the names of unsupported types → what to do with such a column.
_REMEDIES = {
    "void": "it has no values to store; drop it or give it a type with CAST(… AS STRING)",
    "variant": "convert it with to_json(column) or variant_get(column, path, type)",
    "interval (year|month)(?! to)": "convert it to a number with CAST(column AS INT)",
    "interval": "convert it to months: extract(YEAR FROM column) * 12 + extract(MONTH FROM column)",
    "time": "convert it to text with CAST(column AS STRING), or to a number with extract(…)",
    "geometry": "convert it to well-known binary with st_asbinary(column)",
    "geography": "convert it to well-known binary with st_asbinary(column)",
}
#: Excludes words that are not the name of an unsupported type: a colon follows a field name, and
#: the other words follow "interval" in day-time intervals, which are supported.
_NOT_STORED = "(?!:| day| hour| minute| second)"

#: Number of dimensions that all versions of NumPy support. Deeper arrays are stored as JSON.
_MAX_DEPTH = 32


#: dtypes that decimals may be converted to → their Spark types.
_FLOATS = {"float64": "double", "float32": "float"}
_CHOICES = (*_FLOATS, "decimal")


def check_float_dtype(dtype: object) -> None:
    """Raise InvalidArgumentError unless `dtype` is ``"float32"``, ``"float64"`` or None."""
    if dtype not in ("float32", "float64", None) or not isinstance(dtype, (str, type(None))):
        raise InvalidArgumentError(
            f"dtype {dtype} is not supported. Use 'float32' or float64, or None to keep "
            "every floating-point column as it is"
        )


def check_decimals(decimals: object) -> None:
    """Raise InvalidArgumentError unless `decimals` is a valid target type, or None."""
    if decimals is not None and not (isinstance(decimals, str) and decimals in _CHOICES):
        raise InvalidArgumentError(
            f"decimals must be one of {', '.join(map(repr, _CHOICES))}, found {decimals!r}: "
            "models can train on floating-point numbers, and 'decimal' keeps every digit"
        )


def become_floats(decimals: str | None) -> TypeGuard[str]:
    """Whether decimals are converted to floating-point numbers, of the dtype `decimals`."""
    return decimals in _FLOATS


def plan_types(
    fields: list[dict[str, Any]], dtype: str | None = "float32", decimals: str | None = None
) -> Schema:
    """Return the schema in which a DataFrame's columns are stored.

    Parameters
    ----------
    fields : list of dict
        ``df.schema.jsonValue()["fields"]``.
    dtype : {"float32", "float64", None}
        Dtype of scalar, array (also nested) and vector columns of floating-point numbers; None
        keeps their types, and stores vectors as float64. Values inside structs and maps keep their
        types.
    decimals : {"float64", "float32", "decimal", None}
        Type to store scalars and arrays of decimals in; None and ``"decimal"`` keep every digit.

    Raises
    ------
    UnsupportedTypeError
        If any column cannot be stored; the message lists all of them, each with a remedy.
    InvalidArgumentError
        If there is no column, a name is empty or used twice, or `dtype` or `decimals` is unknown.
    """
    check_float_dtype(dtype)
    check_decimals(decimals)
    _check_names([field["name"] for field in fields])
    refused = {field["name"]: refusal for field in fields if (refusal := _refusal(field["type"]))}
    if refused:
        reasons = "; ".join(f"{name!r}: {reason}" for name, reason in refused.items())
        raise UnsupportedTypeError(
            f"{len(refused)} of {len(fields)} columns cannot be stored in MDS shards, and none is "
            f"dropped silently. {reasons}",
            columns=refused,
        )
    return Schema(tuple(_column(field, dtype, decimals) for field in fields))


def _column(field: dict[str, Any], dtype: str | None, decimals: str | None) -> Column:
    type_ = _without_decimals(field["type"], decimals)
    return Column(
        name=field["name"],
        encoding=_encoding(type_, dtype if type_ == field["type"] else decimals),
        spark_type=type_,
        nullable=bool(field.get("nullable", True)),
    )


def _without_decimals(spark_type: SparkType, decimals: str | None) -> SparkType:
    """Return the Spark type with decimal scalars or elements replaced by floating-point numbers.

    Parameters
    ----------
    spark_type : str or dict
        Type of a column. Decimals inside structs, maps and nested arrays are kept.
    decimals : {"float64", "float32", "decimal", None}
        Target type; for the last two, the type is returned unchanged.
    """
    value = spark_type.get("elementType") if isinstance(spark_type, dict) else spark_type
    if not become_floats(decimals) or not str(value).startswith("decimal("):
        return spark_type
    found = _FLOATS[decimals]
    return {**spark_type, "elementType": found} if isinstance(spark_type, dict) else found


def _check_names(names: list[str]) -> None:
    if not names:
        raise InvalidArgumentError("the data has no columns: there is nothing to write")
    if "" in names:
        raise InvalidArgumentError(
            "a DataFrame column has an empty name: give it one, for example with df.toDF(…)"
        )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidArgumentError(
            f"the column names {repeated} occur more than once: rename the columns, for example "
            "with df.toDF(…), so that each has its own name"
        )


def _refusal(spark_type: SparkType) -> str | None:
    """Return the reason why a type cannot be stored, and a remedy; None if it can be stored."""
    name = arrow_types.simple_name(spark_type)
    with suppress(KeyError):
        if arrow_types.repeats_field(arrow_types.arrow_type(spark_type)):
            return f"type {name} has two fields with the same name; rename one of them"
        return None
    remedies = (
        text for word, text in _REMEDIES.items() if re.search(rf"\b{word}\b{_NOT_STORED}", name)
    )
    remedy = next(remedies, "drop the column or convert it first")
    return f"type {name} has no MDS encoding; {remedy}"


def _encoding(spark_type: SparkType, dtype: str | None) -> str:
    if arrow_types.is_vector(spark_type):
        return f"ndarray:{dtype or 'float64'}"
    type_ = arrow_types.arrow_type(spark_type)
    if pa.types.is_decimal(type_):
        return "str_decimal"
    if pa.types.is_string(type_):
        return "str"
    if pa.types.is_binary(type_):
        return "bytes"
    if pa.types.is_list(type_):
        element, depth = nested_lists.element_type(type_), nested_lists.depth_of(type_)
        stored = _scalar_encoding(element, dtype)
        is_array = depth == 1 or (arrow_types.is_number(element) and depth <= _MAX_DEPTH)
        return f"ndarray:{stored}" if stored and is_array else "json"
    return _scalar_encoding(type_, dtype) or "json"


def _scalar_encoding(type_: pa.DataType, dtype: str | None) -> str | None:
    """Return the encoding of a fixed-size scalar, or None if the type has none."""
    return dtype if dtype and pa.types.is_floating(type_) else stored_dtype(type_)


_FLOAT = re.compile(r"float\d+")


def check_columns(columns: Mapping[str, str]) -> None:
    """Check the encodings given by a user.

    Raises
    ------
    UnsupportedTypeError
        If there is no column, a name is not a string, or an encoding is unknown; the message
        lists all of them.
    """
    if not isinstance(columns, Mapping) or not columns:
        raise UnsupportedTypeError(
            f"columns must be a dict from column to encoding with at least one entry, found "
            f"{columns!r}"
        )
    for name in columns:
        if not isinstance(name, str):
            raise UnsupportedTypeError(f"the name of a column must be a string, found {name!r}")
    refused = {name: text for name, text in columns.items() if not _is_encoding(text)}
    if refused:
        advice = {_other_encoding(text) for text in refused.values()}
        raise UnsupportedTypeError(
            f"unknown encodings {refused}: {'; '.join(sorted(advice))}",
            columns={name: str(text) for name, text in refused.items()},
        )


def _is_encoding(text: object) -> bool:
    try:
        return isinstance(text, str) and not parse_encoding(text).is_opaque
    except NotImplementedError:
        return False


def _other_encoding(text: object) -> str:
    """Return which encoding somebody may have meant, also by a Python or NumPy type."""
    known = [*encoding_names()]
    name = text.__name__ if isinstance(text, type) else str(text)
    if name in known:
        return f"use {name!r}"
    nearest = sorted(get_close_matches(name, known))
    if not nearest:
        return f"encodings are {', '.join(known)}"
    return f"did you mean {' or '.join(filter(None, [', '.join(nearest[:-1]), nearest[-1]]))}?"


def plan_batch(
    schema: pa.Schema,
    columns: Mapping[str, str] | None,
    dtype: str | None = None,
    decimals: str | None = None,
) -> Schema:
    """Return the schema in which Arrow data is stored.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the data.
    columns : dict of str to str, optional
        Encodings given by the user; other columns are omitted. By default every column gets the
        encoding that keeps its type.
    dtype : {"float32", "float64", None}
        Without `columns`: dtype of floating-point scalars and array elements; None keeps theirs.
    decimals : {"float64", "float32", "decimal", None}
        Without `columns`: type to store decimals in, see `plan_types`.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored, or not in the given encoding; the message lists all of them.
    MissingColumnError
        If the data does not have one of `columns`.
    """
    fields = {field.name: field for field in schema}
    missing = [name for name in columns or () if name not in fields]
    if missing:
        raise MissingColumnError(
            f"the data has no column {missing[0]!r}: it has {list(fields)}. Leave it out of "
            "columns, or add it to the data",
            column=missing[0],
        )
    if columns is None:
        return _default_plan(schema, dtype, decimals)
    repeated = [name for name in columns if schema.names.count(name) > 1]
    if repeated:
        raise InvalidArgumentError(
            f"the data has several columns {repeated[0]!r}: give each its own name"
        )
    planned = {n: fitted_column(f, columns[n]) for n, f in fields.items() if n in columns}
    refused = {n: f"{fields[n].type} as {columns[n]!r}" for n, c in planned.items() if c is None}
    if refused:
        raise UnsupportedTypeError(
            "; ".join(f"column {name!r} cannot be stored: {how}" for name, how in refused.items())
            + ". Convert the column first, or choose an encoding for its type",
            columns=refused,
        )
    return Schema(tuple(column for column in planned.values() if column is not None))


def _default_plan(schema: pa.Schema, dtype: str | None, decimals: str | None) -> Schema:
    beyond_spark = {f.name: text for f in schema if (text := _beyond_spark(f.type))}
    types = {f.name: arrow_types.spark_type_of(f.type) or str(f.type) for f in schema}
    types.update(dict.fromkeys(beyond_spark, "long"))  # stands in for a type that Spark lacks
    fields = [{"name": f.name, "type": types[f.name], "nullable": f.nullable} for f in schema]
    plan = plan_types(fields, dtype, decimals)
    return plan.with_columns(
        replace(plan[name], encoding=_FLOAT.sub(dtype, text) if dtype else text, spark_type=None)
        for name, text in beyond_spark.items()
    )


def _beyond_spark(type_: pa.DataType) -> str | None:
    """Return the encoding of a type unknown to Spark; None for other types.

    These are unsigned integers, float16, flat lists of them, and tensors.
    """
    if isinstance(type_, pa.FixedShapeTensorType):
        names = {arrow_types.arrow_type_of(dtype): name for name, dtype in DTYPES.items()}
        name, order = names.get(type_.value_type), list(type_.permutation or ())
        # Tensors whose dimensions are permuted in storage have no encoding.
        if name is None or not type_.shape or 0 in type_.shape or order != sorted(order):
            return None
        return f"ndarray:{name}:{','.join(map(str, type_.shape))}"
    type_ = arrow_types.plain_type(type_)
    element = nested_lists.element_type(type_)
    is_number = pa.types.is_unsigned_integer(element) or pa.types.is_float16(element)
    if not is_number or arrow_types.spark_type_of(type_) is not None:
        return None
    return f"ndarray:{stored_dtype(element)}" if pa.types.is_list(type_) else stored_dtype(element)


def fitted_column(field: pa.Field, text: str, spark_type: SparkType | None = None) -> Column | None:
    """Return the column for a field; None if the encoding `text` cannot store the field's values.

    The Spark type is recorded only if `text` is the type's default encoding, so that readers may
    rely on it.
    """
    type_, encoding = arrow_types.plain_type(field.type), parse_encoding(text)
    spark_type = spark_type or arrow_types.spark_type_of(type_)
    column = Column(field.name, text, nullable=field.nullable)
    is_as_deep = not encoding.shape or len(encoding.shape) == nested_lists.depth_of(type_)
    if spark_type is not None and is_as_deep and _is_own_encoding(spark_type, encoding):
        return replace(column, spark_type=spark_type)
    return column if encoding.can_store(type_) else None


def _is_own_encoding(spark_type: SparkType, encoding: Encoding) -> bool:
    try:
        (own,) = plan_types([{"name": "_", "type": spark_type}], None)
    except UnsupportedTypeError:
        return False
    wanted = parse_encoding(own.encoding)
    if encoding.kind == "json" and wanted.is_array:
        # Earlier versions stored nested arrays as JSON.
        return nested_lists.depth_of(own.arrow_type) > 1
    return wanted.kind == encoding.kind and is_same_dtype(wanted.dtype, encoding.dtype)
