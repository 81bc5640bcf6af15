"""The base class of all encodings: what an encoding knows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.format.encodings.encoded_column import EncodedColumn
from mdstorm_backend.format.encodings.gather import Positions, gather_binary, gather_fixed
from mdstorm_backend.format.values.arrow_types import is_number
from mdstorm_backend.format.values.batch import Values
from mdstorm_backend.format.values.plain_arrow import plain_values

#: From a value to its bytes, and from what is stored to the value.
Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[..., Any]

#: From the first and the last byte of a value to the value.
DecodeSpan: TypeAlias = Callable[[int, int], Any]

#: Images as Pillow images, as a sample has them, or as arrays, as a batch has them.
Form: TypeAlias = Literal["object", "array"]

#: Of an Arrow type.
_Check: TypeAlias = Callable[[pa.DataType], bool]

#: What Petastorm's TensorFlow adapter promotes.
_PROMOTED = {"uint16": "int32", "uint32": "int64"}


@dataclass(frozen=True)
class Encoding(ABC):
    """One encoding: the types of its values, and how they are written, read, checked and shown.

    A kind of encoding is a subclass, which `registry.register` makes known. It has to say how one
    value is encoded and decoded. The defaults of everything else are those of values of varying
    size which the reading core delivers as they are stored, bytes or text, and which are decoded
    for those who want the objects.

    Attributes
    ----------
    text : str
        The encoding as the index states it, such as ``"int32"`` or ``"ndarray:float32:3"``.
    dtype : numpy.dtype or None
        Little-endian dtype of the values, for scalars, and for arrays that do not state their own.
    shape : tuple of int or None
        Shape of one value; ``()`` for scalars, None where it varies.
    names, aliases : tuple of str
        Names of the kind; aliases are further ones of the first.
    is_opaque : bool
        Whether it cannot be decoded. The size of its values is in the shard's index entry, or
        before every value.
    is_text : bool
        Whether UTF-8 is stored.
    is_array, is_image : bool
        Whether a value is a numeric array, or one image.
    is_verbatim : bool
        Whether a value is just what is stored, also in the place of a null.
    is_unsafe : bool
        Whether to decode a value is to run a program in it.
    in_threads : bool
        Whether decoding leaves the interpreter's lock alone for long.
    joins_arrays : bool
        Whether decoded objects may be arrays or numbers, which are one array in a batch where they
        are alike.
    late : {"always", "untyped", "never"}
        Whether the reading core delivers what is stored, for others to decode: also where no Spark
        type is known, only there, or never.
    carries : tuple of callable
        Checks of Arrow types, one of which the Spark type of a column has to pass; none for any.
    stores : tuple of callable
        Checks of Arrow types whose values have a form in it; bytes always have.
    placeholder : bytes
        What stands in the place of a null. No image is empty, so that readers that do not know of
        nulls refuse it.
    holds : frozenset of str
        Further kinds of encodings whose values it holds without loss.
    rows_per_batch : int
        Rows that Spark may put into an Arrow batch, which holds less than 2 GiB: 128 leave 16 MiB
        for a value, 512 leave 4 MiB.
    """

    text: str
    dtype: np.dtype[np.generic] | None = None
    shape: tuple[int, ...] | None = None

    names: ClassVar[tuple[str, ...]] = ()
    aliases: ClassVar[tuple[str, ...]] = ()
    is_opaque: ClassVar[bool] = False
    is_text: ClassVar[bool] = False
    is_array: ClassVar[bool] = False
    is_image: ClassVar[bool] = False
    is_verbatim: ClassVar[bool] = False
    is_unsafe: ClassVar[bool] = False
    in_threads: ClassVar[bool] = False
    joins_arrays: ClassVar[bool] = False
    late: ClassVar[Literal["always", "untyped", "never"]] = "always"
    carries: ClassVar[tuple[_Check, ...]] = ()
    stores: ClassVar[tuple[_Check, ...]] = ()
    placeholder: ClassVar[bytes] = b""
    holds: ClassVar[frozenset[str]] = frozenset()
    rows_per_batch: ClassVar[int] = 512

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Return the encoding of that text, or None if it has no such `parameters` (after a colon).

        Raises
        ------
        UnsupportedEncodingError
            If the parameters are impossible.
        """
        return None if parameters else cls(text)

    @property
    def kind(self) -> str:
        """Name of the encoding without parameters, where it has several always the same."""
        name = self.text.partition(":")[0]
        return self.names[0] if name in self.aliases else name

    @property
    def size(self) -> int | None:
        """Bytes of one value, or None where they vary."""
        if self.dtype is None or self.shape is None:
            return None
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def is_viewed(self) -> bool:
        """Whether stored bytes are just values of `dtype` and `shape`, with nothing to decode."""
        return self.dtype is not None and self.shape is not None

    def sized(self, size: int | None) -> Encoding | None:
        """Return the encoding for values of the `size` that an index states; None if it has none.

        Only those that the format does not know have another one.
        """
        return self if size == self.size else None

    @property
    def is_shown(self) -> bool:
        """Whether what the reading core delivers is shown to people, rather than its size."""
        return self.is_text or not self.is_late(typed=True)

    @property
    def described(self) -> str:
        """The encoding in the middle of a sentence."""
        return f"the encoding {self.text!r}"

    def check_decodable(self, column: str) -> None:  # noqa: B027  # most are
        """Raise UnsupportedEncodingError if the values of `column` cannot be decoded."""

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the encoding that holds the values of all `encodings`, one of which it is.

        None if that is not of this kind.
        """
        kinds = {encoding.kind for encoding in encodings}
        return self.text if kinds <= {self.kind, *self.holds} else None

    # Types

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the values as they are delivered, where no Spark type is known."""
        return pa.string() if self.is_text else pa.binary()

    def delivered_type(self, declared: pa.DataType) -> pa.DataType:
        """Arrow type of the values as they are delivered, from that of their Spark type."""
        return declared

    def can_carry(self, declared: pa.DataType) -> bool:
        """Whether a column may have a Spark type, given as Arrow type."""
        return not self.carries or any(check(declared) for check in self.carries)

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether values of an Arrow type, one that `plain_type` returns, have a form in it."""
        return any(check(type_) for check in (pa.types.is_binary, *self.stores))

    def is_late(self, *, typed: bool) -> bool:
        """Whether the reading core delivers what is stored; `typed`: a Spark type is known."""
        return self.late == "always" or (self.late == "untyped" and not typed)

    def is_nested(self, type_: pa.DataType) -> bool:
        """Whether values, delivered as an Arrow type, are more than a list of strings."""
        return False

    def tensorflow_dtype(self, type_: pa.DataType) -> str | None:
        """Name of the TensorFlow dtype of values, or elements, of an Arrow type; None for none."""
        types = pa.types
        if not self.is_shown:
            return None
        if types.is_string(type_) or types.is_binary(type_) or types.is_decimal(type_):
            return "string"
        if types.is_temporal(type_):
            return "int64"
        if is_number(type_):
            name = str(np.dtype(type_.to_pandas_dtype()).name)
            return _PROMOTED.get(name, name)
        return None

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
        return EncodedColumn(
            name, self.text, parts=[self.encode_values(values)], valid=validity(values)
        )

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Return the bytes of values of a type that `plain_type` returns; binaries are bytes."""
        if pa.types.is_temporal(values.type):
            values = values.cast(pa.string())
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            return stored_bytes(values, self.placeholder)
        return self.encode_each(values)

    def encode_each(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode values that only Python can encode."""
        encode, placeholder = self.encoder(), self.placeholder
        stored = [placeholder if value is None else encode(value) for value in values.to_pylist()]
        return pa.array(stored, pa.large_binary())

    # Reading

    @abstractmethod
    def decode(self, stored: Any) -> Any:
        """Return the value that is stored: a text where `is_text`, otherwise bytes.

        Raises
        ------
        Exception
            Of any kind, if it is no value.
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
