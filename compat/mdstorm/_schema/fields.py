"""Fields of a schema, and how their values are encoded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mdstorm._petastorm_names import public
from mdstorm.errors import EncodingTypeError, InvalidArgumentError


@public("mdstorm.unischema")
class UnischemaField(NamedTuple):
    """A schema field. Fields that differ only in their codec compare equal.

    Attributes
    ----------
    name : str
        Name of the field.
    numpy_dtype : type
        Type of a value, or of the elements of an array: ``np.int64``, ``np.str_``, `Decimal`, …
    shape : tuple of (int or None)
        Shape of a value: ``()`` for a scalar, None for a dimension of any size.
    codec : DataframeColumnCodec or None
        How values are stored; None for values that Spark stores unchanged.
    nullable : bool
        Whether a value may be None.
    """

    name: str
    numpy_dtype: Any
    shape: tuple[int | None, ...]
    codec: Any = None
    nullable: bool = False

    def _mdstorm_identity(self) -> tuple[Any, ...]:
        return (self.name, self.numpy_dtype, self.shape, self.nullable)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UnischemaField)
            and self._mdstorm_identity() == other._mdstorm_identity()
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._mdstorm_identity())


def check_field(field: UnischemaField) -> None:
    """Raise InvalidArgumentError unless a field has a valid type, shape and codec."""
    try:
        np.dtype(field.numpy_dtype)
    except TypeError as error:
        raise _invalid(field, f"numpy_dtype {field.numpy_dtype!r}: pass a NumPy type") from error
    if not isinstance(field.shape, (tuple, list)):
        raise _invalid(field, f"shape {field.shape!r}: pass a tuple, () for a scalar")
    if field.codec is not None and (
        isinstance(field.codec, type) or not hasattr(field.codec, "decode")
    ):
        raise _invalid(field, f"codec {field.codec!r}: pass an object, such as NdarrayCodec()")


def _invalid(field: UnischemaField, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"field {field.name!r} has the {what}")


def encoded(field: UnischemaField, value: Any) -> Any:
    """Encode a field's value for a Spark DataFrame.

    Raises
    ------
    EncodingError
        If the value does not fit the field; also a ValueError.
    """
    if value is None:
        if not field.nullable:
            raise EncodingTypeError(
                f'Field {field.name!r} is not "nullable", but got a None value: give it a value, '
                "or declare it nullable",
                column=field.name,
            )
        return None
    if field.codec is not None:
        return field.codec.encode(field, value)
    return value.item() if isinstance(value, np.generic) else value
