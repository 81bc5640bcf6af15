"""Read decimals as floating-point numbers, whatever they are stored as."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from mdstorm._datasets.field_decoders import Decode, DecodedField
from mdstorm._schema.unischema_field import UnischemaField
from mdstorm.unischema import Unischema
from mdstorm_backend.format import (
    Column,
    Values,
    as_arrow,
    decimals_to_floats,
    holds_decimals,
    with_nan_elements,
)


def with_floats(field: DecodedField, dtype: str) -> DecodedField:
    """Return a field whose decimals, or arrays of decimals, are numbers of a dtype.

    Parameters
    ----------
    field : DecodedField
        Any field; others than of decimals are returned unchanged.
    dtype : {"float64", "float32"}
        The dtype. Nulls inside of arrays are NaN.
    """
    column, decode = field.column, field.decode
    is_text = column.encoding == "str_decimal" and column.spark_type is None
    if column.parsed_encoding.is_opaque or not (is_text or holds_decimals(column.arrow_type)):
        return field
    target = _float_column(column, dtype)

    def to_floats(values: Values) -> Values:
        found = as_arrow(values if decode is None else decode(values))
        if is_text:
            return found.cast(pa.float64()).cast(target.arrow_type)
        floats = decimals_to_floats(found, target.arrow_type)
        return with_nan_elements(floats) if target.is_array else floats

    convert: Decode = to_floats
    return DecodedField(target, convert)


def _float_column(column: Column, dtype: str) -> Column:
    if pa.types.is_list(column.arrow_type):
        # Only the arrays of a batch tell whether they have one length.
        origin = replace(column.origin, lengths="unknown")
        return replace(column, encoding=f"ndarray:{dtype}", spark_type=None, origin=origin)
    return replace(column, encoding=dtype, spark_type=None)


def schema_with_floats(unischema: Unischema, dtype: str) -> Unischema:
    """Return the schema of what is read by `with_floats`; its numbers have no codec."""
    fields = [_float_field(field, dtype) for field in unischema.fields.values()]
    return Unischema(unischema._name, fields)


def _float_field(field: UnischemaField, dtype: str) -> UnischemaField:
    if field.numpy_dtype is not Decimal:
        return field
    return field._replace(numpy_dtype=np.dtype(dtype).type, codec=None)
