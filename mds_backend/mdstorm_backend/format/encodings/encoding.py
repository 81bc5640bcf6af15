"""The base class of all encodings, and functions that gather stored values from a shard.

A shard is one buffer with values at known positions. Fixed-size values are gathered through a view
with one element at every byte. Variable-size values are gathered by Arrow: the buffer is wrapped as
a binary array in which values and the gaps between them alternate, and every second item is taken.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.format.encodings.encoding_traits import EncodingTraits
from mdstorm_backend.format.values.arrow_types import plain_values
from mdstorm_backend.format.values.batch import Values, too_large


@dataclass(frozen=True)
class EncodedColumn:
    """Some rows of one column, encoded for storage.

    Attributes
    ----------
    name : str
        Name of the column.
    encoding : str
        Encoding of these rows; for arrays it states the shape if all rows have the same.
    fixed : numpy.ndarray or None
        Shape ``(rows, *shape)``, little-endian, for a fixed-size encoding.
    parts : list of pyarrow.LargeBinaryArray
        For a variable-size encoding: pieces whose concatenation, row by row, is the value.
    valid : numpy.ndarray or None
        bool ``(rows,)``, False for null rows; None if no row is null.
    elements : numpy.ndarray or None
        bool, one per element of the arrays, False for nulls; None if no element is null. For nested
        arrays stored as JSON, one False for every null in them.
    element_ends : numpy.ndarray or None
        int64 ``(rows + 1,)``: offsets of the elements of each row; given for every array column.
    """

    name: str
    encoding: str
    fixed: npt.NDArray[Any] | None = None
    parts: list[pa.LargeBinaryArray] = field(default_factory=list)
    valid: npt.NDArray[np.bool_] | None = None
    elements: npt.NDArray[np.bool_] | None = None
    element_ends: npt.NDArray[np.int64] | None = None


#: From a value to its bytes, and from the stored text or bytes to the value.
Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[..., Any]

#: From the start and the end position of a value in the shard to the value.
DecodeSpan: TypeAlias = Callable[[int, int], Any]

#: Images as Pillow images, as in samples, or as arrays, as in batches.
Form: TypeAlias = Literal["object", "array"]


@dataclass(frozen=True)
class Encoding(EncodingTraits, ABC):
    """One encoding: how its values are written and read.

    Each kind of encoding is a subclass, listed in `registry`. The attributes of `EncodingTraits`
    describe its values. If `parse` sets a dtype and a shape, the encoding is fixed-size, and its
    values are delivered as arrays of these. By default, variable-size values are delivered as
    stored, bytes or text, and decoded later if objects are wanted.

    To write, a subclass overrides

    - `encode`, always: one Python value.
    - `encode_each`, never: `encode_values` calls it to pass each row of an Arrow array to `encode`.
    - `encode_values`, if Arrow can encode more types than temporal values, texts and binaries,
      which are stored as such by default, or if those need `encode_each`.
    - `encode_column`, for full control, as for numbers and arrays: casts, fixed sizes, and the
      nulls inside of arrays.
    - `encoder`, if work can be done once per column, or if `encode` accepts ``bytes`` itself.

    To read, it overrides

    - `decode`, always: one stored value.
    - `decoder`, if `decode` should be replaced by a faster function, or depends on the image form.
    - `decode_column`, if columns are delivered neither as stored nor as arrays of one shape.
    - `parse_texts`, instead of `decode_column`, if `is_text`, for values other than strings.
    - `span_decoder`, if one value can be read directly from the shard, without `decode`.
    """

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Return the encoding for a text, or None if `parameters` (after a colon) are unknown.

        Raises
        ------
        UnsupportedEncodingError
            If the parameters are invalid.
        """
        return None if parameters else cls(text)

    def sized(self, size: int | None) -> Encoding | None:
        """Return the encoding for values of the `size` that an index states; None if impossible.

        Only opaque encodings and users' encodings accept another size than their own.
        """
        return self if size == self.size else None

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError if the values of `column` cannot be decoded."""

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the encoding that holds the values of all `encodings`, including this one.

        None if no encoding of this kind does.
        """
        kinds = {encoding.kind for encoding in encodings}
        return self.text if kinds <= {self.kind, *self.holds} else None

    # Writing

    @property
    def struct_code(self) -> str:
        """Format character of `struct` for a value; empty if there is none."""
        return ""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the bytes of one value, which is not ``bytes`` already.

        Raises
        ------
        TypeError, OverflowError, ValueError
            If the value has the wrong type, is out of range, or does not fit for another reason.
            The caller adds the name of the column.
        """

    def encoder(self) -> Encode:
        """Return the function that encodes one value; called once per column.

        ``bytes`` are stored unchanged in any encoding, as by MosaicML Streaming's writer, so that
        a JPEG file can be written to a ``jpeg`` column.
        """
        return passing_bytes(self.encode, self.size)

    def encode_column(
        self, name: str, values: pa.Array, *, cast: bool = False, ragged: bool = False
    ) -> EncodedColumn:
        """Encode some rows of a column.

        Parameters
        ----------
        name : str
            Name of the column.
        values : pyarrow.Array
            The rows, from Spark or any other Arrow data.
        cast : bool
            Cast floating-point numbers as Spark does; otherwise every number must fit.
        ragged : bool
            Store each array with its shape even if all rows here have the same shape.

        Raises
        ------
        ArithmeticError, TypeError, ValueError
            If a value does not fit.
        """
        values = plain_values(values)
        stored, valid = self.encode_values(values), validity(values)
        if self.size is None:
            return EncodedColumn(name, self.text, parts=[stored], valid=valid)
        if (pc.binary_length(stored).to_numpy() != self.size).any():
            raise ValueError(f"a value of {self.text!r} has {self.size} bytes, found another size")
        rows = np.frombuffer(b"".join(stored.to_pylist()), f"V{self.size}")
        return EncodedColumn(name, self.text, fixed=rows, valid=valid)

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Return the bytes of values, whose type is plain (see `plain_type`); binaries are kept."""
        if pa.types.is_temporal(values.type):
            values = values.cast(pa.string())
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            return stored_bytes(values, self.null_bytes)
        return self.encode_each(values)

    def encode_each(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode the values one at a time, as Python objects."""
        encode, null = self.encoder(), self.null_bytes
        stored = [null if value is None else encode(value) for value in values.to_pylist()]
        return pa.array(stored, pa.large_binary())

    # Reading

    @abstractmethod
    def decode(self, stored: Any) -> Any:
        """Return the value of a stored text, if `is_text`, or else of stored bytes.

        Raises
        ------
        Exception
            Of any kind, if `stored` is not a valid value.
        """

    def decoder(self, form: Form = "object") -> Decode:
        """Return the function that decodes one value; `form` selects images or arrays of pixels.

        The function for arrays also accepts an output array for the pixels, or None.
        """
        return self.decode

    def decode_column(
        self, data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions | int
    ) -> Values:
        """Return a copy of a column's values, in the form that the reading core delivers.

        Parameters
        ----------
        data : numpy.ndarray
            The shard, uint8.
        starts, sizes : numpy.ndarray
            Position and size in bytes of each value; one size for all if the encoding has one.

        Raises
        ------
        ValueError
            If a stored value is invalid in this encoding.
        """
        if isinstance(sizes, int):
            assert self.dtype is not None
            assert self.shape is not None
            values = gather_fixed(data, starts, self.dtype, math.prod(self.shape))
            return values.reshape(len(starts), *self.shape)
        if not self.is_text:
            return gather_binary(data, starts, sizes, pa.binary())
        texts = gather_binary(data, starts, sizes, pa.string())
        texts.validate(full=True)  # else invalid UTF-8 would only fail far from here
        return self.parse_texts(texts)

    def parse_texts(self, texts: pa.StringArray) -> Values:
        """Return the values that the reading core delivers for a column's texts, without nulls."""
        return texts

    def span_decoder(self, data: memoryview, decode: Decode) -> DecodeSpan:
        """Return the function that decodes the value between two positions in `data`.

        `decode` is the result of `decoder`, possibly wrapped. Not called if `is_viewed`.
        """
        if self.is_text:
            return lambda start, stop: decode(str(data[start:stop], "utf-8"))
        return lambda start, stop: decode(data[start:stop].tobytes())

    def to_logical(self, values: pa.Array, type_: pa.DataType) -> pa.Array:
        """Convert delivered values to those of a Spark type, given as an Arrow type."""
        return values


def passing_bytes(encode: Encode, size: int | None) -> Encode:
    """Return `encode`, extended to pass on ``bytes``, which must have the `size` unless None."""

    def pass_bytes(value: Any) -> bytes:
        if not isinstance(value, bytes):
            return encode(value)
        if size is not None and len(value) != size:
            raise ValueError(f"it is {len(value)} bytes, and a value has {size}")
        return value

    return pass_bytes


def stored_bytes(values: pa.Array, placeholder: bytes) -> pa.LargeBinaryArray:
    """Return binaries or strings as large binaries, with a placeholder for nulls."""
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(placeholder).cast(values.type))
    return values.cast(pa.large_binary())


def validity(values: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return which values are not null, as a mask; None if no value is null."""
    return np.asarray(values.is_valid()) if values.null_count else None


Positions = npt.NDArray[np.int64]
_INT32_MAX = np.iinfo(np.int32).max


def gather_fixed(
    data: npt.NDArray[np.uint8], starts: Positions, dtype: np.dtype[np.generic], width: int = 1
) -> npt.NDArray[np.generic]:
    """Return copies of `width` values of `dtype` at each of the byte positions `starts`.

    Returns
    -------
    numpy.ndarray
        Shape ``(len(starts),)`` for a width of 1, otherwise ``(len(starts), width)``.
    """
    size = dtype.itemsize * width
    if len(starts) == 0:
        return np.empty((0,) if width == 1 else (0, width), dtype)
    every_byte: npt.NDArray[np.void] = np.ndarray(
        (len(data) - size + 1,), f"V{size}", data, strides=(1,)
    )
    values = every_byte[starts].view(dtype)
    return values if width == 1 else values.reshape(-1, width)


def gather_binary(
    data: npt.NDArray[np.uint8], starts: Positions, lengths: Positions, type_: pa.DataType
) -> pa.Array:
    """Return a copy of the binaries or strings at the given positions in `data`.

    Parameters
    ----------
    data : numpy.ndarray
        The shard, uint8.
    starts, lengths : numpy.ndarray
        Position and size in bytes of each value; positions ascend and values do not overlap.
    type_ : pyarrow.DataType
        ``binary()`` or ``string()``.

    Raises
    ------
    InvalidArgumentError
        If the values are too large for one array.
    """
    if int(lengths.sum()) > _INT32_MAX:
        raise too_large("a column")
    count = len(starts)
    large = len(data) > _INT32_MAX
    bounds = np.empty(2 * count + 1, np.int64 if large else np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + lengths
    bounds[-1] = bounds[-2] if count else 0
    container = (
        (pa.large_string() if pa.types.is_string(type_) else pa.large_binary()) if large else type_
    )
    alternating = pa.Array.from_buffers(
        container, 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return alternating.take(pa.array(np.arange(0, 2 * count, 2))).cast(type_)
