"""The type plan: the MDS encoding of each column, chosen before any job runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.format.encodings.numbers import stored_dtype
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values.arrow_types import (
    SparkType,
    arrow_type,
    check_decimals,
    is_number,
    is_vector,
    simple_name,
    without_decimals,
)
from mdstorm_backend.format.values.nested_lists import depth_of, element_type

_REMEDIES = {
    "void": "it has no values to store; drop it or give it a type with CAST(… AS STRING)",
    "variant": "convert it with to_json(column) or variant_get(column, path, type)",
    "interval": "convert it to months or to a number with extract(…)",
}


#: So many dimensions all versions of NumPy have. Deeper arrays are JSON.
_MAX_DEPTH = 32


def check_float_dtype(dtype: object) -> None:
    """Raise InvalidArgumentError unless `dtype` is ``"float32"``, ``"float64"`` or None."""
    if dtype not in ("float32", "float64", None) or not isinstance(dtype, (str, type(None))):
        raise InvalidArgumentError(
            f"dtype {dtype} is not supported. Use 'float32' or float64, or None to keep "
            "every floating-point column as it is"
        )


def plan_types(
    fields: list[dict[str, Any]], dtype: str | None = "float32", decimals: str | None = None
) -> Schema:
    """Plan how the columns of a DataFrame are stored.

    Parameters
    ----------
    fields : list of dict
        ``df.schema.jsonValue()["fields"]``.
    dtype : {"float32", "float64", None}
        What scalar, array and vector columns of floating-point numbers become, nested arrays among
        them; None keeps each as it is, and vectors float64. Values inside structs and maps are left
        alone.
    decimals : {"float64", "float32", "decimal", None}
        What scalars and arrays of decimals become; None and ``"decimal"`` keep every digit.

    Raises
    ------
    UnsupportedTypeError
        If any column cannot be carried: the message names all of them, each with a way out.
    InvalidArgumentError
        If there is no column, one has no name, two have the same, or `dtype` or `decimals` is
        unknown.
    """
    check_float_dtype(dtype)
    check_decimals(decimals)
    _check_names([field["name"] for field in fields])
    refused = {
        field["name"]: _refusal(field["type"])
        for field in fields
        if not _is_storable(field["type"])
    }
    if refused:
        reasons = "; ".join(f"{name!r}: {reason}" for name, reason in refused.items())
        raise UnsupportedTypeError(
            f"{len(refused)} of {len(fields)} columns cannot be stored in MDS shards, and none is "
            f"dropped silently. {reasons}",
            columns=refused,
        )
    return Schema(tuple(_column(field, dtype, decimals) for field in fields))


def _column(field: dict[str, Any], dtype: str | None, decimals: str | None) -> Column:
    type_ = without_decimals(field["type"], decimals)
    return Column(
        name=field["name"],
        encoding=_encoding(type_, dtype if type_ == field["type"] else decimals),
        spark_type=type_,
        nullable=bool(field.get("nullable", True)),
    )


def _check_names(names: list[str]) -> None:
    if not names:
        raise InvalidArgumentError("the DataFrame has no columns: there is nothing to write")
    if "" in names:
        raise InvalidArgumentError(
            "a column of the DataFrame has an empty name: give it one, for example with df.toDF(…)"
        )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidArgumentError(
            f"the column names {repeated} occur more than once: rename the columns, for example "
            "with df.toDF(…), so that each has a name of its own"
        )


def _is_storable(spark_type: SparkType) -> bool:
    try:
        arrow_type(spark_type)
    except KeyError:
        return False
    return not (_holds_vector(spark_type) or _repeats_field(spark_type))


def _children(spark_type: SparkType) -> list[SparkType]:
    """Types inside an array, map or struct."""
    if not isinstance(spark_type, dict) or is_vector(spark_type):
        return []
    inner = [spark_type.get(key) for key in ("elementType", "keyType", "valueType")]
    inner += [field["type"] for field in spark_type.get("fields", [])]
    return [type_ for type_ in inner if type_ is not None]


def _holds_vector(spark_type: SparkType) -> bool:
    """Whether a vector is nested inside."""
    return any(is_vector(type_) or _holds_vector(type_) for type_ in _children(spark_type))


def _repeats_field(spark_type: SparkType) -> bool:
    """Whether a struct, also a nested one, has two fields of one name."""
    fields = spark_type.get("fields", []) if isinstance(spark_type, dict) else []
    names = [field["name"] for field in fields]
    return len(set(names)) < len(names) or any(map(_repeats_field, _children(spark_type)))


def _refusal(spark_type: SparkType) -> str:
    name = simple_name(spark_type)
    if _repeats_field(spark_type):
        return f"type {name} has two fields of one name; rename one of them"
    for word, remedy in _REMEDIES.items():
        if word in name:
            return f"type {name} has no MDS encoding; {remedy}"
    return f"type {name} has no MDS encoding; drop the column or convert it before"


def _encoding(spark_type: SparkType, dtype: str | None) -> str:
    if is_vector(spark_type):
        return f"ndarray:{dtype or 'float64'}"
    type_ = arrow_type(spark_type)
    if pa.types.is_decimal(type_):
        return "str_decimal"
    if pa.types.is_string(type_):
        return "str"
    if pa.types.is_binary(type_):
        return "bytes"
    if pa.types.is_list(type_):
        element, depth = element_type(type_), depth_of(type_)
        stored = _scalar_encoding(element, dtype)
        is_array = depth == 1 or (is_number(element) and depth <= _MAX_DEPTH)
        return f"ndarray:{stored}" if stored and is_array else "json"
    return _scalar_encoding(type_, dtype) or "json"


def _scalar_encoding(type_: pa.DataType, dtype: str | None) -> str | None:
    """Encoding of a fixed-size value, or None if the type has none."""
    return dtype if dtype and pa.types.is_floating(type_) else stored_dtype(type_)
