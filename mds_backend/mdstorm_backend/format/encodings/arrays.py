"""The encoding of numeric arrays, with or without a fixed dtype and shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.decode_arrays import array_decoder, decode_arrays
from mdstorm_backend.format.encodings.dtypes import DTYPES, array_encoding
from mdstorm_backend.format.encodings.encode_arrays import (
    array_encoder,
    encode_arrays,
    encode_as_json,
)
from mdstorm_backend.format.encodings.encode_numbers import fit_numbers, to_numpy
from mdstorm_backend.format.encodings.encoding import (
    Decode,
    DecodeSpan,
    Encode,
    EncodedColumn,
    Encoding,
    passing_bytes,
    stored_bytes,
    validity,
)
from mdstorm_backend.format.encodings.gather_values import Positions
from mdstorm_backend.format.encodings.numbers import is_stored_as
from mdstorm_backend.format.values.arrow_types import (
    arrow_type_of,
    holds_vectors,
    is_number,
    plain_values,
    vectors_to_lists,
)
from mdstorm_backend.format.values.batch import Values
from mdstorm_backend.format.values.nested_lists import depth_of, element_type, list_type

#: Offsets in a shard have 32 bits, and NumPy's dtypes no more than 31.
_LARGEST_VALUE = np.iinfo(np.int32).max


class Array(Encoding):
    """The encodings ``ndarray``, ``ndarray:<dtype>`` and ``ndarray:<dtype>:<shape>``."""

    names = ("ndarray",)
    is_array = True
    late = "never"

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Return the encoding of that text, None for another dtype."""
        if not parameters:
            return cls(text)
        dtype, _, shape = parameters.partition(":")
        if dtype not in DTYPES:
            return None
        encoding = cls(text, DTYPES[dtype], _parse_shape(text, shape))
        if (encoding.size or 0) > _LARGEST_VALUE:
            raise UnsupportedEncodingError(
                f"encoding {text!r} has no valid shape: a value would take {encoding.size} "
                "bytes, and a shard holds less than 4 GiB"
            )
        return encoding

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the encoding of arrays of any shape, and of any dtype if theirs differ."""
        if not all(isinstance(encoding, Array) for encoding in encodings):
            return None
        same_dtype = {encoding.dtype for encoding in encodings} == {self.dtype}
        return array_encoding(self.dtype, None) if same_dtype and self.dtype else "ndarray"

    def is_form_of(self, general: Encoding) -> bool:
        """Whether a shard may store arrays of the encoding `general` in this one."""
        return (
            isinstance(general, Array)
            and general.shape is None
            and general.dtype in (None, self.dtype)
        )

    @property
    def arrow_type(self) -> pa.DataType:
        """Lists, of an unknown type, ``list<null>``, where values state their own dtype."""
        return pa.list_(pa.null() if self.dtype is None else arrow_type_of(self.dtype))

    def delivered_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the Spark type, but that floating-point numbers may have been cast."""
        if self.dtype is None or not pa.types.is_floating(element_type(declared)):
            return declared
        return list_type(arrow_type_of(self.dtype), depth_of(declared))

    def can_carry(self, declared: pa.DataType) -> bool:
        """Whether it is an array of values that are stored as the dtype."""
        if not pa.types.is_list(declared) or not self._has_depth(declared):
            return False
        element = element_type(declared)
        if depth_of(declared) > 1 and not is_number(element):
            return False
        return self.dtype is None or is_stored_as(element, self.dtype.name)

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether they are lists of numbers, or stored arrays."""
        if not pa.types.is_list(type_):
            return self.size is None and super().can_store(type_)
        if not self._has_depth(type_):
            return False
        element = element_type(type_)
        if pa.types.is_boolean(element):
            return self.dtype is not None
        return any(element == arrow_type_of(dtype) for dtype in DTYPES.values())

    def _has_depth(self, type_: pa.DataType) -> bool:
        """Whether lists are as deep as a shape that is stated, or flat."""
        depth = depth_of(type_)
        return depth == 1 or self.shape is None or depth == len(self.shape)

    def encode(self, value: Any) -> bytes:
        """Encode an array of NumPy."""
        return array_encoder(self.dtype, self.shape)(value)

    def encoder(self) -> Encode:
        """Return the function that encodes one array."""
        return passing_bytes(array_encoder(self.dtype, self.shape), self.size)

    def encode_column(
        self, name: str, values: pa.Array, *, cast: bool = False, ragged: bool = False
    ) -> EncodedColumn:
        """Encode lists of numbers, Spark's vectors, or stored arrays.

        With a Spark type, which `cast` implies, nested lists that are not arrays become JSON.
        """
        if not holds_vectors(values.type):
            values = plain_values(values)
        valid = validity(values)
        if holds_vectors(values.type):
            values = vectors_to_lists(values)
        if pa.types.is_binary(values.type):
            stored = stored_bytes(values, self.encode(np.empty(0, self.dtype or np.uint8)))
            return EncodedColumn(name, self.text, parts=[stored], valid=valid)
        convert = to_numpy if cast else fit_numbers
        return encode_arrays(
            name, self, values, valid, ragged=ragged, as_json=cast, convert=convert
        )

    def encode_column_as_json(self, name: str, values: pa.Array) -> EncodedColumn:
        """Encode nested lists of numbers as JSON, even if all rows here are arrays."""
        values = plain_values(values)
        assert self.dtype is not None
        return encode_as_json(name, values, validity(values), self.dtype)

    def decode(self, stored: Any) -> Any:
        """Return an array of NumPy."""
        if self.shape is None:
            return array_decoder(memoryview(stored), self.dtype)(0, len(stored))
        return np.frombuffer(stored, self.dtype).reshape(self.shape).copy()

    def decode_column(
        self, data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions | int
    ) -> Values:
        """Copy arrays: of one shape as one array, of one dimension as lists, others as objects."""
        if isinstance(sizes, int):
            return super().decode_column(data, starts, sizes)
        return decode_arrays(data, starts, sizes, self.dtype)

    def span_decoder(self, data: memoryview, decode: Decode) -> DecodeSpan:
        """Return the function that copies the array between two positions."""
        return array_decoder(data, self.dtype)


def _parse_shape(text: str, shape: str) -> tuple[int, ...] | None:
    if not shape:
        return None
    try:
        dimensions = tuple(int(dimension) for dimension in shape.split(","))
    except ValueError:
        dimensions = (0,)
    if min(dimensions) < 1:
        raise UnsupportedEncodingError(
            f"encoding {text!r} has no valid shape: {shape!r} must be positive integers "
            "separated by commas"
        )
    return dimensions
