"""Encodings of integers and floating-point numbers, and the dtypes of numbers and arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.format.encodings.encoding import EncodedColumn, Encoding
from mdstorm_backend.format.values import arrow_types

#: dtype → its code, a byte in arrays that state their own dtype, and its `struct` format
#: character.
_CODES = {
    "uint8": (8, "B"),
    "int8": (9, "b"),
    "uint16": (16, "H"),
    "int16": (17, "h"),
    "float16": (18, "e"),
    "uint32": (32, "I"),
    "int32": (33, "i"),
    "float32": (34, "f"),
    "uint64": (64, "Q"),
    "int64": (65, "q"),
    "float64": (66, "d"),
}
DTYPE_CODES = {name: code for name, (code, _) in _CODES.items()}
STRUCT_CODES = {name: code for name, (_, code) in _CODES.items()}

_TEXT = (str, bytes, bytearray, memoryview)

#: Code → name of the dtype.
ARRAY_CODES = {code: name for name, code in DTYPE_CODES.items()}

#: The dtypes by name, little-endian as stored.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<") for name in sorted(_CODES)
}


def is_same_dtype(one: np.dtype[np.generic] | None, other: np.dtype[np.generic] | None) -> bool:
    """Whether two dtypes are equal, or both are None, which NumPy takes for float64."""
    return (one is None) == (other is None) and one == other


def array_encoding(dtype: np.dtype[np.generic], shape: tuple[int, ...] | None) -> str:
    """Return the encoding for arrays of the given shape, or of any shape if `shape` is None."""
    stated = ",".join(map(str, shape or ()))
    return f"ndarray:{dtype.name}:{stated}" if stated else f"ndarray:{dtype.name}"


class Number(Encoding):
    """The encodings of numbers, each named after its dtype, such as ``float32``."""

    names = tuple(DTYPES)
    is_number = True
    stores = (arrow_types.is_number, pa.types.is_decimal, pa.types.is_null)
    rows_per_batch = 10_000

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Parse the name of an encoding; return None if it has parameters."""
        dtype = DTYPES.get(text.partition(":")[0], DTYPES["int64"])
        return None if parameters else cls(text, dtype, ())

    @property
    def stored(self) -> np.dtype[np.generic]:
        """Little-endian dtype of the values, never None."""
        assert self.dtype is not None
        return self.dtype

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the smallest dtype for all `encodings`, if all are integers or all are floats."""
        if {encoding.kind for encoding in encodings} == {self.kind}:
            return self.text
        dtypes = {encoding.stored for encoding in encodings if isinstance(encoding, Number)}
        if not all(isinstance(encoding, Number) for encoding in encodings):
            return None
        common = np.result_type(*dtypes)
        same_kind = {dtype.kind == "f" for dtype in dtypes} == {common.kind == "f"}
        return str(common.name) if same_kind else None

    def output_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the Spark type, or for floating-point numbers the type of the stored dtype."""
        return self.arrow_type if pa.types.is_floating(declared) else declared

    def can_carry(self, declared: pa.DataType) -> bool:
        """Whether values of the Spark type are stored as the encoding's dtype."""
        return is_stored_as(declared, self.stored.name)

    @property
    def struct_code(self) -> str:
        """`struct` format character for the number."""
        return STRUCT_CODES[self.stored.name]

    def encode(self, value: Any) -> bytes:
        """Encode a number or a one-element array; text and bytes are refused.

        ``None`` is stored as NaN in floating-point columns, as by MosaicML Streaming's writer. A
        float is rounded to the dtype's nearest value; everything else must fit exactly.

        Raises
        ------
        TypeError
            If the value is not a single number.
        OverflowError
            If the number is out of the range of the dtype.
        ValueError
            If a fraction, an infinity or NaN is given for an integer dtype.
        """
        number = _plain(value)
        if self.stored.kind == "f":
            return _encode_float(self.stored, math.nan if number is None else number)
        limits, whole = np.iinfo(self.stored), _whole(number)  # type: ignore[type-var]
        if not limits.min <= whole <= limits.max:
            raise OverflowError(f"{self.stored.name} ranges from {limits.min} to {limits.max}")
        return np.array(whole, self.stored).tobytes()

    def encode_column(
        self, name: str, values: pa.Array, *, cast: bool = False, ragged: bool = False
    ) -> EncodedColumn:
        """Encode a column of numbers."""
        values = arrow_types.plain_values(values)
        fixed = (to_numpy if cast else fit_numbers)(values, self.stored)
        return EncodedColumn(name, self.text, fixed=fixed, valid=arrow_types.validity(values))

    def decode(self, stored: Any) -> Any:
        """Return the number as a NumPy scalar."""
        return np.frombuffer(stored, self.stored)[0]


class PythonInteger(Number):
    """The encoding ``int``: an int64, returned as a Python integer in samples."""

    names = ("int",)

    def encode(self, value: Any) -> bytes:
        """Encode an integer of Python or NumPy.

        Raises
        ------
        TypeError
            If the value is not an integer.
        OverflowError
            If it does not fit into 64 bits.
        """
        check_no_mask(value)
        try:
            return super().encode(operator.index(value))
        except TypeError as error:
            found = type(value).__name__
            raise TypeError(f"expected an integer, found {found}: use int(…)") from error

    def decode(self, stored: Any) -> Any:
        """Return the number as a Python integer."""
        return int(super().decode(stored))


def stored_dtype(type_: pa.DataType) -> str | None:
    """Return the name of the dtype that stores values of an Arrow type, or None."""
    if pa.types.is_boolean(type_):
        return "uint8"
    if pa.types.is_floating(type_):
        return str(arrow_types.numpy_dtype(type_).name)
    if pa.types.is_integer(type_):
        return str(type_)
    if pa.types.is_date(type_):
        return "int32"
    return "int64" if pa.types.is_temporal(type_) else None


def is_stored_as(declared: pa.DataType, dtype: str) -> bool:
    """Whether values of a type are stored as `dtype`; floats may be cast to any float dtype."""
    if pa.types.is_floating(declared):
        return dtype.startswith("float")
    return stored_dtype(declared) == dtype


def check_no_mask(value: Any) -> None:
    """Raise ValueError if `value` is a NumPy array with masked elements."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            "the array has masked elements, which the format cannot store: use .filled(…), or "
            "store the mask in a separate column"
        )


def _plain(value: Any) -> Any:
    """Convert one value with NumPy; return it as a Python number or other object."""
    check_no_mask(value)
    array = np.asarray(value)
    if array.size != 1:
        raise TypeError(f"expected one number, found {array.size} values")
    if array.dtype.kind in "mM":
        if np.isnat(array).any():
            raise ValueError("it is not a time (NaT)")
        array = array.view(np.int64)
    number = array.reshape(-1)[0] if array.dtype == object else array.item()
    for each in (value, number):  # NumPy converts a bytearray to integers
        if isinstance(each, _TEXT):
            raise TypeError(f"expected a number, found {type(each).__name__}: convert it first")
    return number


def _encode_float(dtype: np.dtype[np.generic], number: Any) -> bytes:
    if isinstance(number, complex) or not hasattr(number, "__float__"):
        raise TypeError(f"expected a number, found {type(number).__name__}")
    exact = float(number)
    with np.errstate(over="ignore"):
        stored = np.array(exact, dtype)
    if np.isinf(stored) and not math.isinf(exact):
        raise OverflowError(f"the value is out of the range of {dtype.name}")
    return stored.tobytes()


def _whole(number: Any) -> int:
    if hasattr(number, "__index__"):
        return operator.index(number)
    if not hasattr(number, "__float__"):
        raise TypeError(f"expected an integer, found {type(number).__name__}")
    try:
        whole = int(number)
    except (OverflowError, ValueError) as error:  # infinity or NaN
        raise ValueError("the value is not an integer") from error
    if whole != number:
        raise ValueError("the value is not an integer: round it first")
    return whole


def to_numpy(values: pa.Array, dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
    """Return the stored form of fixed-size values: nulls become NaN in floats, 0 elsewhere.

    Floats are cast as in Spark: to the nearest value, with overflow to infinity. Decimals must fit.
    """
    if pa.types.is_decimal(values.type):
        return fit_numbers(values, dtype)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    if values.null_count:
        values = pc.fill_null(values, float("nan") if pa.types.is_floating(values.type) else 0)
    with np.errstate(over="ignore"):
        return _as_numpy(values).astype(dtype, copy=False)


def _as_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """Return an Arrow array of numbers without nulls as a NumPy view.

    Arrow's own conversions import pandas if it is installed, which takes as long as reading.
    """
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    memory = values.buffers()[1] if is_number else None
    if memory is None:
        return np.asarray(values)
    dtype = arrow_types.numpy_dtype(values.type)
    return np.frombuffer(memory, dtype, len(values), values.offset * dtype.itemsize)


def fit_numbers(values: pa.Array, dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
    """Return the stored form of values that must fit the dtype; nulls are stored as in `to_numpy`.

    A float is rounded to the dtype's nearest value; everything else must fit exactly.

    Raises
    ------
    OverflowError
        If a value is out of the range of the dtype.
    ValueError
        If a fraction, an infinity or NaN is given for an integer dtype.
    """
    if pa.types.is_decimal(values.type) and dtype.kind == "f":
        values = arrow_types.decimals_to_floats(values, pa.float64())
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_null(values.type):
        values = values.cast(arrow_types.arrow_type_of(dtype))
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    present = pc.fill_null(values, 0) if values.null_count else values
    numbers = to_numpy(present, np.dtype(stored_dtype(values.type)))
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            # Convert integers through float64, as the encoder for single Python integers does.
            exact = numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)
            stored = exact.astype(dtype, copy=False)
        if (np.isinf(stored) & ~np.isinf(exact)).any():
            raise OverflowError(f"the value is out of the range of {dtype.name}")
        if values.null_count:
            stored = np.where(np.asarray(values.is_valid()), stored, np.array(np.nan, dtype))
        return stored
    limits = np.iinfo(dtype)  # type: ignore[type-var]
    if numbers.dtype.kind == "f":
        if not (np.isfinite(numbers) & (np.trunc(numbers) == numbers)).all():
            raise ValueError("the value is not an integer: round it first")
        # A power of two, which floats hold exactly: the largest int64 itself rounds to 2.0 ** 63.
        fits = (numbers >= float(limits.min)) & (numbers < float(limits.max + 1))
    elif len(numbers) == 0:
        return numbers.astype(dtype)
    else:
        smallest, largest = int(numbers.min()), int(numbers.max())
        fits = np.array([smallest >= limits.min, largest <= limits.max])
    if not fits.all():
        raise OverflowError(f"{dtype.name} ranges from {limits.min} to {limits.max}")
    return numbers.astype(dtype, copy=False)
