"""Generate random rows of a schema for tests: the mirror of ``petastorm.generator``."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm.errors import InvalidArgumentError
from mdstorm.unischema import Unischema, UnischemaField

__all__ = ["generate_datapoint"]

#: Largest size of a free dimension.
_LARGEST = 16
_DAYS = 20_000


def generate_datapoint(schema: Unischema) -> dict[str, Any]:
    """Return a row of random values, none of them None.

    Parameters
    ----------
    schema : Unischema
        The schema. Dimensions of any size get one from 1 to 16, the same in all fields.

    Returns
    -------
    dict of str to object
        NumPy scalars, `Decimal` and NumPy arrays, of the dtypes and shapes of the fields.

    Raises
    ------
    InvalidArgumentError
        If a field has a type without random values; also ValueError.
    """
    rng = np.random.default_rng()
    free = int(rng.integers(1, _LARGEST, endpoint=True))
    return {name: _value(rng, field, free) for name, field in schema.fields.items()}


def _value(rng: np.random.Generator, field: UnischemaField, free: int) -> Any:
    shape = tuple(free if size is None else size for size in field.shape)
    if field.numpy_dtype is Decimal:
        cents = rng.integers(0, 10_000, shape or 1)
        decimals = np.array([Decimal(int(c)).scaleb(-2) for c in cents.reshape(-1)], object)
        return decimals.reshape(shape) if shape else decimals[0]
    values = _numbers(rng, np.dtype(field.numpy_dtype), shape, field.name)
    return values if shape else values[()]


def _numbers(
    rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], name: str
) -> Any:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if dtype.kind in "SU":
        return np.asarray(rng.integers(0, 1_000_000, shape)).astype(dtype)
    if dtype.kind == "M":
        return np.asarray(rng.integers(0, _DAYS, shape)).astype("datetime64[D]")
    raise InvalidArgumentError(
        f"cannot generate random values for field {name!r} of {dtype}: add its values yourself"
    )
