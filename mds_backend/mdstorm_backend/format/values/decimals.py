"""Decimals as floating-point numbers, which can be trained on."""

from __future__ import annotations

from typing import TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.values.arrow_types import SparkType, is_decimal

#: What decimals may become, and the Spark types of those that are floating-point numbers.
_FLOATS = {"float64": "double", "float32": "float"}
_CHOICES = (*_FLOATS, "decimal")


def check_decimals(decimals: object) -> None:
    """Raise InvalidArgumentError unless it names what decimals may become, or is None."""
    if decimals is not None and not (isinstance(decimals, str) and decimals in _CHOICES):
        raise InvalidArgumentError(
            f"decimals must be one of {', '.join(map(repr, _CHOICES))}, found {decimals!r}: "
            "floating-point numbers can be trained on, and 'decimal' keeps every digit"
        )


def become_floats(decimals: str | None) -> TypeGuard[str]:
    """Whether decimals become floating-point numbers, of the dtype that `decimals` names."""
    return decimals in _FLOATS


def without_decimals(spark_type: SparkType, decimals: str | None) -> SparkType:
    """Return the type that has floating-point numbers where scalars, or elements, are decimals.

    Parameters
    ----------
    spark_type : str or dict
        Type of a column. Decimals inside structs, maps and nested arrays are left alone.
    decimals : {"float64", "float32", "decimal", None}
        What they become; for the last two the type itself is returned.
    """
    if not become_floats(decimals):
        return spark_type
    if isinstance(spark_type, str):
        return _FLOATS[decimals] if is_decimal(spark_type) else spark_type
    element = spark_type.get("elementType")
    return {**spark_type, "elementType": _FLOATS[decimals]} if is_decimal(element) else spark_type


def holds_decimals(type_: pa.DataType) -> bool:
    """Whether values are decimals, or arrays of decimals."""
    element = type_.value_type if pa.types.is_list(type_) else type_
    return bool(pa.types.is_decimal(element))


def decimals_to_floats(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return decimals, or arrays of them, as the nearest float64, or what that is in `type_`.

    By way of their digits: Arrow's own cast is off by a unit in the last place for many values.

    Raises
    ------
    OverflowError
        If one is out of the range of `type_`.
    """
    is_list = pa.types.is_list(type_)
    digits, exact = pa.large_string(), pa.float64()
    if is_list:
        digits, exact = pa.list_(digits), pa.list_(exact)
    floats = values.cast(digits).cast(exact).cast(type_)
    flat = floats.flatten() if is_list else floats
    if pc.any(pc.is_inf(flat)).as_py():
        raise OverflowError(f"it is out of the range of {flat.type}")
    return floats
