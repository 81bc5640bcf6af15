"""The encoding of numeric arrays, with or without a fixed dtype and shape.

An array is stored with its dtype and shape, unless the encoding states them::

    [dtype code, one byte]     only in the encoding ``ndarray``
    shape header               one byte ``dimensions << 2 | w``, then each size in ``1 << w`` bytes
    values                     in C order

A column of arrays with the same dtype and number of dimensions is returned as (nested) Arrow lists;
any other column of arrays is returned as objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings import encode_arrays, numbers
from mdstorm_backend.format.encodings.encoding import (
    DecodeSpan,
    DecodeValue,
    Encode,
    EncodedColumn,
    Encoding,
    passing_bytes,
)
from mdstorm_backend.format.values import arrow_types, nested_lists
from mdstorm_backend.format.values.batch import Positions, Values, gather_binary, gather_fixed

#: Maximum size of a value in bytes: offsets in a shard have 32 bits, item sizes of NumPy dtypes
#: only 31.
_LARGEST_VALUE = np.iinfo(np.int32).max


class ArrayEncoding(Encoding):
    """The encodings ``ndarray``, ``ndarray:<dtype>`` and ``ndarray:<dtype>:<shape>``."""

    names = ("ndarray",)
    forms = ("ndarray:<dtype>", "ndarray:<dtype>:<shape>")
    is_array = True
    late = "never"

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Parse the name of an encoding; return None for an unknown dtype."""
        if not parameters:
            return cls(text)
        dtype, _, shape = parameters.partition(":")
        if dtype not in numbers.DTYPES:
            return None
        encoding = cls(text, numbers.DTYPES[dtype], _parse_shape(text, shape))
        if (encoding.size or 0) > _LARGEST_VALUE:
            raise UnsupportedEncodingError(
                f"encoding {text!r} has no valid shape: a value would take {encoding.size} "
                "bytes, and a shard holds less than 4 GiB"
            )
        return encoding

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the `text` for arrays of any shape, and of any dtype if the dtypes differ."""
        if not all(isinstance(encoding, ArrayEncoding) for encoding in encodings):
            return None
        same_dtype = {encoding.dtype for encoding in encodings} == {self.dtype}
        return numbers.array_encoding(self.dtype, None) if same_dtype and self.dtype else "ndarray"

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the lists, which is ``list<null>`` if each value states its own dtype."""
        return pa.list_(pa.null() if self.dtype is None else arrow_types.arrow_type_of(self.dtype))

    def output_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the Spark type, with the stored dtype for floating-point elements."""
        if self.dtype is None or not pa.types.is_floating(nested_lists.element_type(declared)):
            return declared
        return nested_lists.list_type(
            arrow_types.arrow_type_of(self.dtype), nested_lists.depth_of(declared)
        )

    def can_carry(self, declared: pa.DataType) -> bool:
        """Whether the Spark type is an array whose elements are stored as the encoding's dtype."""
        if not pa.types.is_list(declared) or not self._has_depth(declared):
            return False
        element = nested_lists.element_type(declared)
        if nested_lists.depth_of(declared) > 1 and not arrow_types.is_number(element):
            return False
        return self.dtype is None or numbers.is_stored_as(element, self.dtype.name)

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether the values are lists of numbers, or binaries of encoded arrays."""
        if not pa.types.is_list(type_):
            return self.size is None and super().can_store(type_)
        if not self._has_depth(type_):
            return False
        element = nested_lists.element_type(type_)
        if pa.types.is_boolean(element):
            return self.dtype is not None
        return any(element == arrow_types.arrow_type_of(dtype) for dtype in numbers.DTYPES.values())

    def _has_depth(self, type_: pa.DataType) -> bool:
        """Whether the lists are flat or as deep as the encoding's shape, or it has no shape."""
        depth = nested_lists.depth_of(type_)
        return depth == 1 or self.shape is None or depth == len(self.shape)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a NumPy array."""
        return encode_arrays.array_encoder(self.dtype, self.shape)(value)

    def encoder(self) -> Encode:
        """Return the function that encodes one array."""
        return passing_bytes(encode_arrays.array_encoder(self.dtype, self.shape), self.size)

    def encode_column(
        self, name: str, values: pa.Array, *, cast: bool = False, ragged: bool = False
    ) -> EncodedColumn:
        """Encode lists of numbers, Spark's vectors, or binaries of encoded arrays.

        With `cast`, which implies a Spark type, nested lists that are not rectangular become JSON.
        """
        has_vectors = arrow_types.holds_vectors(values.type)
        convert = arrow_types.vectors_to_lists if has_vectors else arrow_types.plain_values
        values = convert(values)
        if pa.types.is_binary(values.type):
            empty = self.encode(np.empty(0, self.dtype or np.uint8))
            stored, valid = arrow_types.stored_bytes(values, empty), arrow_types.validity(values)
            return EncodedColumn(name, self.text, parts=[stored], valid=valid)
        return encode_arrays.encode_lists(name, self, values, cast=cast, ragged=ragged)

    def encode_column_as_json(self, name: str, values: pa.Array) -> EncodedColumn:
        """Encode nested lists of numbers as JSON, even if all rows here are rectangular."""
        assert self.dtype is not None
        return encode_arrays.encode_as_json(name, arrow_types.plain_values(values), self.dtype)

    def decode(self, stored: Any) -> Any:
        """Return a writable NumPy array."""
        if self.shape is None:
            return array_decoder(memoryview(stored), self.dtype)(0, len(stored))
        return np.frombuffer(stored, self.dtype).reshape(self.shape).copy()

    def decode_column(
        self, data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions | int
    ) -> Values:
        """Return copies: one NumPy array if shapes are fixed, or the result of `decode_arrays`."""
        if isinstance(sizes, int):
            return super().decode_column(data, starts, sizes)
        if len(starts) == 0:
            return pa.array([], self.arrow_type)
        return decode_arrays(data, starts, sizes, self.dtype)

    def span_decoder(self, data: memoryview, decode: DecodeValue) -> DecodeSpan:
        """Return the function that copies the array between two positions in `data`."""
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


#: Maximum number of dimensions of a NumPy array; 32 before NumPy 2.
MAX_DIMENSIONS = getattr(np, "MAXDIMS", 64)
_WIDTHS = [np.dtype(name).newbyteorder("<") for name in ("u1", "u2", "u4", "u8")]


def decode_arrays(
    data: npt.NDArray[np.uint8],
    starts: Positions,
    lengths: Positions,
    dtype: np.dtype[np.generic] | None,
) -> pa.ListArray | npt.NDArray[np.object_]:
    """Return copies of the arrays at the given positions in `data`.

    Parameters
    ----------
    data : numpy.ndarray
        The shard, uint8.
    starts, lengths : numpy.ndarray
        Position and size in bytes of each value, at least one; positions ascend and values do not
        overlap.
    dtype : numpy.dtype or None
        dtype of all arrays; None if each states its own.

    Returns
    -------
    pyarrow.ListArray or numpy.ndarray
        Lists if all arrays have the same dtype and number of dimensions, and lists can represent
        their shapes; otherwise an object array of writable arrays.

    Raises
    ------
    ValueError
        If a header contradicts the size of its value.
    """
    code_size = int(dtype is None)
    if (lengths <= code_size).any():
        raise ValueError("an array of 0 bytes")
    common = dtype
    if dtype is None and (data[starts] == data[starts[0]]).all():
        common = _dtype_of(int(data[starts[0]]))
    marks = data[starts + code_size]
    depth, lists = int(marks[0]) >> 2, None
    if common is not None and (marks >> 2 == depth).all() and 0 < depth <= MAX_DIMENSIONS:
        lists = _lists(data, starts + code_size, lengths - code_size, marks & 3, depth, common)
    if lists is None:
        decode = array_decoder(data.data, dtype)
        ends = starts + lengths
        arrays = [decode(*span) for span in zip(starts.tolist(), ends.tolist(), strict=True)]
        return np.fromiter(arrays, object, len(arrays))
    return lists


def _lists(
    data: npt.NDArray[np.uint8],
    starts: Positions,
    lengths: Positions,
    widths: npt.NDArray[Any],
    depth: int,
    dtype: np.dtype[np.generic],
) -> pa.ListArray | None:
    """Decode arrays of `depth` dimensions; None if lists cannot represent their shapes.

    `widths` holds log2 of the bytes that each array's header uses per dimension.
    """
    headers = 1 + depth * (1 << widths.astype(np.int64))
    if (lengths < headers).any():
        raise ValueError("an array with a header that is longer than its value")
    stated = np.empty((len(starts), depth), np.uint64)
    used = np.unique(widths).tolist()
    for width in used:
        chosen = slice(None) if len(used) == 1 else widths == width
        found = gather_fixed(data, starts[chosen] + 1, _WIDTHS[width], depth)
        stated[chosen] = found.reshape(-1, depth)
    counts = _num_elements(stated)
    if (counts * dtype.itemsize != lengths - headers).any():
        raise ValueError("the array does not have the shape in its header")
    if depth > 1 and not counts.all():
        # Lists cannot represent the dimensions that follow a dimension of size 0. And a few damaged
        # bytes may state more empty lists than fit into memory.
        empty = np.logical_or.accumulate(stated == 0, axis=1)
        if (stated[:, 1:][empty[:, :-1]] != 0).any():
            return None
        num_lists = _num_elements(np.maximum(stated[:, :-1], 1)).sum()
        if num_lists > max(counts.sum(), nested_lists.MOST_EMPTY_LISTS):
            return None
    raw = gather_binary(data, starts + headers, lengths - headers, pa.binary())
    elements = pa.Array.from_buffers(
        arrow_types.arrow_type_of(dtype), int(counts.sum()), [None, raw.buffers()[2]]
    )
    return nested_lists.lists_of_shapes(elements, stated.astype(np.int64))


def _num_elements(shapes: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return the number of elements of each shape, exact if a shard can hold them."""
    # Damaged headers state products for which no integer is large enough.
    with np.errstate(over="ignore", invalid="ignore"):
        return nested_lists.product(shapes.astype(np.float64))


def _dtype_of(code: int) -> np.dtype[Any]:
    if code not in numbers.ARRAY_CODES:
        raise ValueError(f"an array with the unknown dtype code {code}")
    return numbers.DTYPES[numbers.ARRAY_CODES[code]]


def array_decoder(
    data: memoryview, dtype: np.dtype[np.generic] | None
) -> Callable[[int, int], npt.NDArray[Any]]:
    """Return the function that copies the array between two byte positions in `data`.

    The function raises ValueError, or IndexError at the end of `data`, if the header contradicts
    the value's size. It checks this before allocating memory.
    """

    def decode(start: int, stop: int) -> npt.NDArray[Any]:
        own = dtype
        if own is None:
            own = _dtype_of(data[start])
            start += 1
        mark = data[start]
        width = 1 << (mark & 3)
        first = start + 1 + (mark >> 2) * width
        if first > stop:
            raise ValueError("an array with a header that is longer than its value")
        places = range(start + 1, first, width)
        shape = [int.from_bytes(data[at : at + width], "little") for at in places]
        count = math.prod(shape)
        if first + count * own.itemsize != stop:
            raise ValueError(f"an array of shape {shape} in {stop - first} bytes of values")
        if len(shape) > MAX_DIMENSIONS:
            raise UnsupportedEncodingError(
                f"there are arrays of {len(shape)} dimensions, but NumPy {np.__version__} supports "
                f"at most {MAX_DIMENSIONS}. Install NumPy 2, or omit the column with columns=[…]"
            )
        if count == 0:
            return np.empty(shape, own)
        view: npt.NDArray[Any] = np.ndarray(shape, own, data, first)
        copy: npt.NDArray[Any] = view.copy()
        return copy

    return decode
