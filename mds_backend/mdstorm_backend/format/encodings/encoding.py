"""The base class of all encodings: how values are written and read, and gathered from a shard.

A shard is one buffer in which values lie at known places. Fixed-size values are gathered through a
view that has an element at every byte; variable-size ones by Arrow, which is told that the buffer
is a binary array in which values and the gaps between them alternate, and takes every second.
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
    """Some rows of one column, as they are stored.

    Attributes
    ----------
    name : str
        Name of the column.
    encoding : str
        Encoding of these rows; for arrays it tells whether they all have one length.
    fixed : numpy.ndarray or None
        Shape ``(rows, *shape)``, little-endian, for a fixed-size encoding.
    parts : list of pyarrow.LargeBinaryArray
        For a variable-size encoding: pieces whose concatenation, row by row, is the value.
    valid : numpy.ndarray or None
        bool ``(rows,)``, False where the row is null; None where none is.
    elements : numpy.ndarray or None
        bool, one per element of the arrays; None where none is null. Of nested arrays stored as
        JSON, one False for every null in them.
    element_ends : numpy.ndarray or None
        int64 ``(rows + 1,)``: where the elements of each row begin; given for every array column.
    """

    name: str
    encoding: str
    fixed: npt.NDArray[Any] | None = None
    parts: list[pa.LargeBinaryArray] = field(default_factory=list)
    valid: npt.NDArray[np.bool_] | None = None
    elements: npt.NDArray[np.bool_] | None = None
    element_ends: npt.NDArray[np.int64] | None = None


#: From a value to its bytes, and from what is stored to the value.
Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[..., Any]

#: From the first and the last byte of a value to the value.
DecodeSpan: TypeAlias = Callable[[int, int], Any]

#: Images as Pillow images, as a sample has them, or as arrays, as a batch has them.
Form: TypeAlias = Literal["object", "array"]


@dataclass(frozen=True)
class Encoding(EncodingTraits, ABC):
    """One encoding: the types of its values, and how they are written, read, checked and shown.

    A kind of encoding is a subclass, which `registry` lists. It has to say how one value is encoded
    and decoded. By default, values of varying size are delivered as they are stored, bytes or text,
    and decoded for those who want the objects. Values of one size are those for which `parse` gives
    a dtype and a shape; they are delivered as arrays of these. The attributes of `EncodingTraits`
    say what the values are.
    """

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Return the encoding of that text, or None if it has no such `parameters` (after a colon).

        Raises
        ------
        UnsupportedEncodingError
            If the parameters are impossible.
        """
        return None if parameters else cls(text)

    def sized(self, size: int | None) -> Encoding | None:
        """Return the encoding for values of the `size` that an index states; None if it has none.

        Only those that the format does not know have another one.
        """
        return self if size == self.size else None

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError if the values of `column` cannot be decoded."""

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the encoding that holds the values of all `encodings`, one of which it is.

        None if that is not of this kind.
        """
        kinds = {encoding.kind for encoding in encodings}
        return self.text if kinds <= {self.kind, *self.holds} else None

    # Writing

    @property
    def struct_code(self) -> str:
        """What `struct` calls a value; empty if it has no word for it."""
        return ""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the bytes of one value, which is not ``bytes`` already.

        Raises
        ------
        TypeError, OverflowError, ValueError
            If it has the wrong type, is out of range, or does not fit for another reason. The
            caller knows the column and says so.
        """

    def encoder(self) -> Encode:
        """Return the function that encodes one value, to be asked for once per column.

        ``bytes`` are stored unchanged whatever the encoding, as by the format's own writer: so a
        JPEG file can be put into a ``jpeg`` column.
        """
        return passing_bytes(self.encode, self.size)

    def encode_column(
        self, name: str, values: pa.Array, *, cast: bool = False, ragged: bool = False
    ) -> EncodedColumn:
        """Encode some rows of a column.

        Parameters
        ----------
        name : str
            The column.
        values : pyarrow.Array
            The rows as Spark hands them over, or any other data of Arrow.
        cast : bool
            Cast floating-point numbers as Spark does; otherwise every number must fit.
        ragged : bool
            Store arrays with their lengths even if all rows here have one length.

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
        """Return the bytes of values of a type that `plain_type` returns; binaries are bytes."""
        if pa.types.is_temporal(values.type):
            values = values.cast(pa.string())
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            return stored_bytes(values, self.null_bytes)
        return self.encode_each(values)

    def encode_each(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode values that only Python can encode."""
        encode, null = self.encoder(), self.null_bytes
        stored = [null if value is None else encode(value) for value in values.to_pylist()]
        return pa.array(stored, pa.large_binary())

    # Reading

    @abstractmethod
    def decode(self, stored: Any) -> Any:
        """Return the value that is stored: a text where `is_text`, otherwise bytes.

        Raises
        ------
        Exception
            Of any kind, if it is not a value.
        """

    def decoder(self, form: Form = "object") -> Decode:
        """Return the function that decodes one value; `form` is what becomes of images.

        That of images as arrays also takes memory for the pixels, or None.
        """
        return self.decode

    def decode_column(
        self, data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions | int
    ) -> Values:
        """Copy the values of a column out of `data`, in the form that the reading core delivers.

        Parameters
        ----------
        data : numpy.ndarray
            The shard, uint8.
        starts, sizes : numpy.ndarray
            Position and size in bytes of each value; one size for all if the encoding has one.

        Raises
        ------
        ValueError
            If a value is not what the encoding says.
        """
        if isinstance(sizes, int):
            assert self.dtype is not None
            assert self.shape is not None
            values = gather_fixed(data, starts, self.dtype, math.prod(self.shape))
            return values.reshape(len(starts), *self.shape)
        if not self.is_text:
            return gather_binary(data, starts, sizes, pa.binary())
        texts = gather_binary(data, starts, sizes, pa.string())
        texts.validate(full=True)  # UTF-8: a value that is not would show far from here
        return self.parse_texts(texts)

    def parse_texts(self, texts: pa.StringArray) -> Values:
        """Return what the reading core delivers for the texts of a column, without nulls."""
        return texts

    def span_decoder(self, data: memoryview, decode: Decode) -> DecodeSpan:
        """Return the function that decodes the value between two positions in the bytes `data`.

        `decode` is `decoder`, whatever it is wrapped into; with values of one size it is not used.
        """
        if self.is_text:
            return lambda start, stop: decode(str(data[start:stop], "utf-8"))
        return lambda start, stop: decode(data[start:stop].tobytes())

    def to_logical(self, values: pa.Array, type_: pa.DataType) -> pa.Array:
        """Return values that were read as those of a Spark type, given as Arrow type."""
        return values


def passing_bytes(encode: Encode, size: int | None) -> Encode:
    """Return `encode` with ``bytes``, of the `size` of all values if they have one, left alone."""

    def pass_bytes(value: Any) -> bytes:
        if not isinstance(value, bytes):
            return encode(value)
        if size is not None and len(value) != size:
            raise ValueError(f"it is {len(value)} bytes, and a value has {size}")
        return value

    return pass_bytes


def stored_bytes(values: pa.Array, placeholder: bytes) -> pa.LargeBinaryArray:
    """Return binaries, or strings, with a placeholder for nulls."""
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(placeholder).cast(values.type))
    return values.cast(pa.large_binary())


def validity(values: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which values are not null; None for all."""
    return np.asarray(values.is_valid()) if values.null_count else None


Positions = npt.NDArray[np.int64]
_INT32_MAX = np.iinfo(np.int32).max


def gather_fixed(
    data: npt.NDArray[np.uint8], starts: Positions, dtype: np.dtype[np.generic], width: int = 1
) -> npt.NDArray[np.generic]:
    """Copy `width` values of `dtype` from each of the byte positions `starts`.

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
    """Copy byte strings out of `data`.

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
        If they are too large for one array.
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
