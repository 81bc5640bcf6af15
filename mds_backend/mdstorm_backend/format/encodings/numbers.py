"""Encodings of integers and floating-point numbers of a fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.format.encodings.dtypes import DTYPES, STRUCT_CODES
from mdstorm_backend.format.encodings.encode_numbers import encode_number, fit_numbers, to_numpy
from mdstorm_backend.format.encodings.encoding import EncodedColumn, Encoding, validity
from mdstorm_backend.format.values.arrow_types import (
    arrow_type_of,
    is_number,
    numpy_dtype,
    plain_values,
)


class Number(Encoding):
    """A number, stored as the dtype that is its name, such as ``float32``."""

    names = tuple(DTYPES)
    late = "never"
    rows_per_batch = 10_000

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Return the encoding of that text."""
        dtype = DTYPES.get(text.partition(":")[0], DTYPES["int64"])
        return None if parameters else cls(text, dtype, ())

    @property
    def stored(self) -> np.dtype[np.generic]:
        """Little-endian dtype of the values."""
        assert self.dtype is not None
        return self.dtype

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the smallest number that holds all of them, integers or floating-point numbers."""
        if {encoding.kind for encoding in encodings} == {self.kind}:
            return self.text
        dtypes = {encoding.stored for encoding in encodings if isinstance(encoding, Number)}
        if not all(isinstance(encoding, Number) for encoding in encodings):
            return None
        common = np.result_type(*dtypes)
        same_kind = {dtype.kind == "f" for dtype in dtypes} == {common.kind == "f"}
        return str(common.name) if same_kind else None

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the dtype."""
        return arrow_type_of(self.stored)

    def delivered_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the Spark type, but that floating-point numbers may have been cast."""
        return self.arrow_type if pa.types.is_floating(declared) else declared

    def can_carry(self, declared: pa.DataType) -> bool:
        """Whether values of the type are stored as the dtype."""
        return is_stored_as(declared, self.stored.name)

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether they are numbers."""
        return is_number(type_) or bool(pa.types.is_decimal(type_) or pa.types.is_null(type_))

    @property
    def struct_code(self) -> str:
        """What `struct` calls the number."""
        return STRUCT_CODES[self.stored.name]

    def encode(self, value: Any) -> bytes:
        """Encode anything that stands for one number, see `encode_number`."""
        return encode_number(self.stored, value)

    def encode_column(
        self, name: str, values: pa.Array, *, cast: bool = False, ragged: bool = False
    ) -> EncodedColumn:
        """Encode a column of numbers."""
        values = plain_values(values)
        fixed = (to_numpy if cast else fit_numbers)(values, self.stored)
        return EncodedColumn(name, self.text, fixed=fixed, valid=validity(values))

    def decode(self, stored: Any) -> Any:
        """Return the number as a scalar of NumPy."""
        return np.frombuffer(stored, self.stored)[0]


class PythonInteger(Number):
    """The encoding ``int``: an int64 that is a Python integer in a sample."""

    names = ("int",)

    def decode(self, stored: Any) -> Any:
        """Return the number as a Python integer."""
        return int(super().decode(stored))


def stored_dtype(type_: pa.DataType) -> str | None:
    """Return the name of the dtype that stores values of an Arrow type, None if there is none."""
    if pa.types.is_boolean(type_):
        return "uint8"
    if pa.types.is_floating(type_):
        return str(numpy_dtype(type_).name)
    if pa.types.is_integer(type_):
        return str(type_)
    if pa.types.is_date(type_):
        return "int32"
    return "int64" if pa.types.is_temporal(type_) else None


def is_stored_as(declared: pa.DataType, dtype: str) -> bool:
    """Whether values of a type are stored as `dtype`; floating-point numbers may have been cast."""
    if pa.types.is_floating(declared):
        return dtype.startswith("float")
    return stored_dtype(declared) == dtype
