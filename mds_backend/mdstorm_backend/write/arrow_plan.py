"""Plan how the columns of Arrow data are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from mdstorm_backend.errors import (
    InvalidArgumentError,
    MissingColumnError,
    UnsupportedTypeError,
)
from mdstorm_backend.format.encodings import Encoding, parse_encoding
from mdstorm_backend.format.encodings.numbers import DTYPES
from mdstorm_backend.format.encodings.registry import encoding_names
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.type_plan import plan_types
from mdstorm_backend.format.values.arrow_types import (
    SparkType,
    arrow_type_of,
    plain_type,
    spark_type_of,
)
from mdstorm_backend.format.values.nested_lists import depth_of, element_type

_FLOAT = re.compile(r"float\d+")


def check_columns(columns: Mapping[str, str]) -> None:
    """Check the encodings that a user gives.

    Raises
    ------
    UnsupportedTypeError
        If there is no column, or the format has no such encoding; names all of them.
    """
    if not isinstance(columns, Mapping) or not columns:
        raise UnsupportedTypeError(
            f"columns must be a dict from column to encoding with at least one entry, found "
            f"{columns!r}"
        )
    refused = {name: text for name, text in columns.items() if not _is_encoding(name, text)}
    if refused:
        raise UnsupportedTypeError(
            f"{refused} is unsupported: names of columns must be strings, and encodings must be "
            f"among {', '.join(encoding_names())}",
            columns={str(name): str(text) for name, text in refused.items()},
        )


def _is_encoding(name: object, text: object) -> bool:
    if not (isinstance(name, str) and isinstance(text, str)):
        return False
    try:
        return not parse_encoding(text).is_opaque
    except NotImplementedError:
        return False


def plan_batch(
    schema: pa.Schema,
    columns: Mapping[str, str] | None,
    dtype: str | None = None,
    decimals: str | None = None,
) -> Schema:
    """Plan how Arrow data is stored.

    Parameters
    ----------
    schema : pyarrow.Schema
        That of the data.
    columns : dict of str to str, optional
        The encodings that the user gives; columns not named are left out. Without it every column
        gets the encoding that keeps its type.
    dtype : {"float32", "float64", None}
        Without `columns`: what floating-point scalars and the elements of arrays become; None keeps
        them.
    decimals : {"float64", "float32", "decimal", None}
        Without `columns`: what decimals become, see `plan_types`.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored, or not in the encoding that is given; names all of them.
    MissingColumnError
        If the data lack one of `columns`.
    """
    fields = {field.name: field for field in schema}
    missing = [name for name in columns or () if name not in fields]
    if missing:
        raise MissingColumnError(
            f"the data have no column {missing[0]!r}: they have {list(fields)}. Leave it out of "
            "columns, or add it to the data",
            column=missing[0],
        )
    if columns is None:
        return _default_plan(schema, dtype, decimals)
    repeated = [name for name in columns if schema.names.count(name) > 1]
    if repeated:
        raise InvalidArgumentError(
            f"the data have several columns {repeated[0]!r}: give each its own name"
        )
    planned = {n: fitted_column(f, columns[n]) for n, f in fields.items() if n in columns}
    refused = {n: f"{fields[n].type} as {columns[n]!r}" for n, c in planned.items() if c is None}
    if refused:
        raise UnsupportedTypeError(
            "; ".join(f"column {name!r} cannot be stored: {how}" for name, how in refused.items())
            + ". Convert the column before, or choose an encoding for its type",
            columns=refused,
        )
    return Schema(tuple(column for column in planned.values() if column is not None))


def _default_plan(schema: pa.Schema, dtype: str | None, decimals: str | None) -> Schema:
    fields = [
        {"name": f.name, "type": spark_type_of(f.type) or str(f.type), "nullable": f.nullable}
        for f in schema
    ]
    beyond_spark = {
        f.name: _FLOAT.sub(dtype, text) if dtype else text
        for f in schema
        if (text := _beyond_spark(f.type))
    }
    plan = plan_types(
        [{**f, "type": "long"} if f["name"] in beyond_spark else f for f in fields],
        dtype,
        decimals,
    )
    return Schema(
        tuple(
            replace(column, encoding=beyond_spark[column.name], spark_type=None)
            if column.name in beyond_spark
            else column
            for column in plan
        )
    )


def _beyond_spark(type_: pa.DataType) -> str | None:
    """Encoding of what Spark does not have: unsigned numbers, floats of 16 bits, tensors."""
    if isinstance(type_, pa.FixedShapeTensorType):
        return _tensor_encoding(type_)
    type_ = plain_type(type_)
    if pa.types.is_list(type_):
        element = _beyond_spark(element_type(type_))
        return element and f"ndarray:{element}"
    if pa.types.is_unsigned_integer(type_):
        return str(type_)
    return "float16" if pa.types.is_float16(type_) else None


def _tensor_encoding(type_: pa.FixedShapeTensorType) -> str | None:
    types = {arrow_type_of(dtype): name for name, dtype in DTYPES.items()}
    name = types.get(type_.value_type)
    if name is None or not type_.shape or 0 in type_.shape or _is_permuted(type_):
        return None
    return f"ndarray:{name}:{','.join(map(str, type_.shape))}"


def _is_permuted(type_: pa.FixedShapeTensorType) -> bool:
    """Whether the dimensions of tensors are stored in another order than they are meant."""
    order = list(type_.permutation or ())
    return order != sorted(order)


def fitted_column(field: pa.Field, text: str, spark_type: SparkType | None = None) -> Column | None:
    """Plan a column in the encoding `text`; None if its values have no form in it.

    The Spark type is recorded where it tells more than the encoding, and readers may rely on it:
    where the encoding is the one that the type has by itself.
    """
    type_, encoding = plain_type(field.type), parse_encoding(text)
    spark_type = spark_type or spark_type_of(type_)
    column = Column(field.name, text, nullable=field.nullable)
    is_as_deep = not encoding.shape or len(encoding.shape) == depth_of(type_)
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
        return depth_of(own.arrow_type) > 1  # that is how nested arrays were stored before
    return (wanted.kind, wanted.dtype) == (encoding.kind, encoding.dtype)
