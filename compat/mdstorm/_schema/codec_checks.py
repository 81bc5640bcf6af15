"""Checks that a value matches its field before a codec encodes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm._schema.unischema_field import UnischemaField, fits_shape
from mdstorm.errors import EncodingError, EncodingTypeError


def has_length(value: Any) -> bool:
    """Whether it is a list, an array with an axis, bytes, …: anything but a scalar or a string."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(value, str)


def check_array(field: UnischemaField, value: Any) -> None:
    """Require an array of the dtype and shape of `field`.

    Raises
    ------
    EncodingTypeError
        If it is not an array, or of another dtype.
    EncodingError
        If its shape is another one.
    """
    if not isinstance(value, np.ndarray):
        raise EncodingTypeError(
            f"Unexpected type of {field.name} feature. Expected ndarray of {field.numpy_dtype}. "
            f"Got {type(value)}",
            column=field.name,
        )
    if not _is_of_type(value.dtype, np.dtype(field.numpy_dtype)):
        raise EncodingTypeError(
            f"Unexpected type of {field.name} feature. Expected {field.numpy_dtype}. "
            f"Got {value.dtype}; convert it with .astype()",
            column=field.name,
        )
    if value.dtype.hasobject:
        raise EncodingTypeError(
            f"Unexpected type of {field.name} feature. Arrays of objects can be written only as "
            "pickles, which no reader loads; use an array of numbers or of fixed-size strings",
            column=field.name,
        )
    if not fits_shape(value.shape, field.shape):
        raise EncodingError(
            f"Unexpected dimensions of {field.name} feature. Expected {field.shape}. "
            f"Got {value.shape}; reshape it, or declare None for a dimension of any size",
            column=field.name,
        )


def _is_of_type(found: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether a dtype is the wanted one, in any byte order; strings and times may have any size."""
    if wanted.kind in "SUMm":
        return found.kind == wanted.kind
    return bool(found.newbyteorder("=") == wanted.newbyteorder("="))


def no_image(field: UnischemaField, value: npt.NDArray[Any]) -> EncodingError:
    """Return the error for an array that is not a grey or RGB image."""
    return EncodingError(
        f"Unexpected image dimensions. Supported dimensions are (H, W) or (H, W, 3). Field "
        f"{field.name!r} got {value.shape}",
        column=field.name,
    )
