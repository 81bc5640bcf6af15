"""The base class of all encodings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.format.values import arrow_types
from mdstorm_backend.format.values.batch import Positions, Values, gather_binary, gather_fixed
from mdstorm_backend.format.values.python_objects import check_valid, check_years

#: Predicate on an Arrow type.
_Check: TypeAlias = Callable[[pa.DataType], bool]

#: Functions that return the bytes of a value, and the value of a stored string or bytes.
Encode: TypeAlias = Callable[[Any], bytes]
DecodeValue: TypeAlias = Callable[..., Any]

#: Function that returns a value, given its start and end positions in the shard.
DecodeSpan: TypeAlias = Callable[[int, int], Any]

#: The format's kinds of encodings, by name and alias. Each registers itself.
FORMAT: dict[str, type[Encoding]] = {}

#: How images are returned: as Pillow images, as in samples, or as arrays, as in batches.
Form: TypeAlias = Literal["object", "array"]


@dataclass(frozen=True)
class Encoding(ABC):
    """One encoding: how its values are written and read.

    Each kind of encoding is a subclass in a module of this folder, and registers its `names`. If
    its values are numbers or arrays with a single dtype and shape, `parse` sets both, and values
    are returned as arrays without `decode`. Other values are returned as stored, as bytes or
    strings, and decoded later if objects are wanted. If all values have the same size, the class
    states it, such as ``size = 4``.

    To write, a subclass overrides

    - `encode`, always: one Python value, of a sample or of an Arrow array.
    - `encode_values`, if Arrow can encode more types than those that are stored unchanged by
      default: binaries, and strings if `is_text`. `encode_each`, which is used for all others,
      passes each row to `encode`.
    - `encode_column`, for full control, as for numbers and arrays: casts, fixed sizes, and the
      nulls inside arrays.
    - `encoder`, if work can be done once per column, or if `encode` accepts ``bytes`` itself.

    To read, it overrides

    - `decode`, always: one stored value. It is not used for numbers and arrays of a fixed shape.
    - `decoder`, if `decode` should be replaced by a faster function, or depends on the image form.
    - `decode_column`, if columns are returned neither as stored nor as arrays of a fixed shape;
      then also `late` and `arrow_type`.
    - `parse_texts`, instead of `decode_column`, if `is_text`, for values other than strings.
    - `span_decoder`, if one value can be read directly from the shard, without `decode`.

    The attributes from `names` onwards are class attributes, and describe the values.

    The modules of `tests/contract/encodings` are examples: `tests/contract/test_encodings.py` takes
    their values through all writers, loaders and readers.

    Attributes
    ----------
    text : str
        The encoding as the index states it, such as ``"int32"`` or ``"ndarray:float32:3"``.
    dtype : numpy.dtype or None
        Little-endian dtype of scalars and array elements; None for other values, and for arrays
        that state their own dtype.
    shape : tuple of int or None
        Shape of one value; ``()`` for scalars, None if it varies.
    names, aliases : tuple of str
        Names of the kind; aliases are other names for the first one.
    forms : tuple of str
        Names with parameters, for messages.
    is_opaque : bool
        Whether values cannot be decoded. Their size is in the shard's index entry, or before every
        value.
    is_text : bool
        Whether values are stored as UTF-8.
    is_cast : bool
        Whether Arrow values other than binaries are stored as the strings that Arrow casts them to.
    is_number : bool
        Whether a value is one number, so that bytes and Arrow binaries are refused: any eight bytes
        are an int64. Other encodings store them unchanged.
    is_array, is_image : bool
        Whether a value is a numeric array, or one image.
    is_verbatim : bool
        Whether a value equals its stored string or bytes, also for a null.
    is_unsafe : bool
        Whether decoding a value may run code that it contains.
    in_threads : bool
        Whether decoding mostly runs without holding the interpreter lock, so that threads help.
    joins_arrays : bool
        Whether decoded objects may be arrays or numbers, which are joined into one array per batch
        if they have the same dtype and shape.
    is_collated : bool
        Whether PyTorch's default collation is applied to the objects of a batch, for MosaicML
        Streaming's batches.
    late : {"always", "untyped", "never"}
        When the reading core returns stored values, to be decoded later: always, only if no Spark
        type is known, or never.
    carries : tuple of callable
        Predicates on Arrow types: a column's Spark type must satisfy one; empty allows any.
    stores : tuple of callable
        Predicates on Arrow types whose values the encoding can store, in addition to binaries.
    placeholder : bytes
        The bytes stored for a null if sizes vary. For images they are empty, which is not a valid
        image, so that readers that do not support nulls fail.
    holds : frozenset of str
        Other kinds of encodings whose values this kind can hold without loss.
    rows_per_batch : int
        Maximum number of rows that Spark may put into an Arrow batch, which holds less than 2 GiB:
        128 allows 16 MiB per value, 512 allows 4 MiB.
    """

    text: str
    dtype: np.dtype[np.generic] | None = None
    shape: tuple[int, ...] | None = None

    names: ClassVar[tuple[str, ...]] = ()
    aliases: ClassVar[tuple[str, ...]] = ()
    forms: ClassVar[tuple[str, ...]] = ()
    is_opaque: ClassVar[bool] = False
    is_text: ClassVar[bool] = False
    is_cast: ClassVar[bool] = False
    is_number: ClassVar[bool] = False
    is_array: ClassVar[bool] = False
    is_image: ClassVar[bool] = False
    is_verbatim: ClassVar[bool] = False
    is_unsafe: ClassVar[bool] = False
    in_threads: ClassVar[bool] = False
    joins_arrays: ClassVar[bool] = False
    is_collated: ClassVar[bool] = False
    late: ClassVar[Literal["always", "untyped", "never"]] = "always"
    carries: ClassVar[tuple[_Check, ...]] = ()
    stores: ClassVar[tuple[_Check, ...]] = ()
    placeholder: ClassVar[bytes] = b""
    holds: ClassVar[frozenset[str]] = frozenset()
    rows_per_batch: ClassVar[int] = 512

    def __init_subclass__(cls) -> None:
        """Register a kind of encoding.

        Raises
        ------
        TypeError
            If another kind has one of its names, or if it does not override an abstract method.
        """
        if "names" not in vars(cls):
            return
        given = vars(Encoding)
        if missing := [m for m in given["__abstractmethods__"] if getattr(cls, m) is given[m]]:
            needed = " and ".join(sorted(missing))
            raise TypeError(f"the encoding {cls.__qualname__} has to define {needed}")
        for name in (*cls.names, *cls.aliases):
            if other := FORMAT.get(name):
                raise TypeError(
                    f"the encodings {other.__qualname__} and {cls.__qualname__} are both called "
                    f"{name!r}"
                )
            FORMAT[name] = cls

    @property
    def kind(self) -> str:
        """Name of the encoding without parameters; the first name for aliases."""
        name = self.text.partition(":")[0]
        return self.names[0] if name in self.aliases else name

    @property
    def size(self) -> int | None:
        """Size of one value in bytes, or None if it varies."""
        if self.dtype is None or self.shape is None:
            return None
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def null_bytes(self) -> bytes:
        """The bytes stored for a null: the placeholder, or zeros if values are fixed-size."""
        return self.placeholder or bytes(self.size or 0)

    @property
    def is_viewed(self) -> bool:
        """Whether stored bytes can be viewed as values of `dtype` and `shape` without decoding."""
        return self.dtype is not None and self.shape is not None

    @property
    def described(self) -> str:
        """A phrase for the encoding, for use within a message."""
        return f"the encoding {self.text!r}"

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the values if no Spark type is known."""
        if self.dtype is not None and self.shape is not None:
            number = arrow_types.arrow_type_of(self.dtype)
            return pa.list_(number) if self.shape else number
        return pa.string() if self.is_text else pa.binary()

    def output_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the Arrow type of the values, given the Arrow type of their Spark type.

        An encoding whose values are returned as stored returns `arrow_type`, if it differs.
        """
        return declared

    def can_carry(self, declared: pa.DataType) -> bool:
        """Whether a column may have a Spark type, given as an Arrow type."""
        return not self.carries or any(check(declared) for check in self.carries)

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether values of a plain Arrow type (see `plain_type`) can be stored."""
        checks = self.stores if self.is_number else (pa.types.is_binary, *self.stores)
        return any(check(type_) for check in checks)

    def is_late(self, *, typed: bool) -> bool:
        """Whether values are returned as stored; `typed` is True if a Spark type is known."""
        late = self.late == "always" or (self.late == "untyped" and not typed)
        return late and not self.is_viewed

    def is_nested(self, type_: pa.DataType) -> bool:
        """Whether values are stored as JSON and are more than lists of strings or binaries."""
        return False

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Parse the name of an encoding; return None if its `parameters` are unknown.

        Raises
        ------
        UnsupportedEncodingError
            If the parameters are invalid.
        """
        return None if parameters else cls(text)

    def sized(self, size: int | None) -> Encoding | None:
        """Return the encoding for values of the `size` in an index; None if the size is impossible.

        Only opaque and user-defined encodings accept a size other than their own.
        """
        return self if size == self.size else None

    def check_decodable(self, column: str) -> None:  # noqa: B027  # most can be decoded
        """Raise UnsupportedEncodingError if the values of `column` cannot be decoded."""

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the `text` of an encoding that stores the values of all `encodings` and this one.

        None if no encoding of this kind does.
        """
        kinds = {encoding.kind for encoding in encodings}
        return self.text if kinds <= {self.kind, *self.holds} else None

    # Methods for writing

    @property
    def struct_code(self) -> str:
        """`struct` format character for a value; empty if there is none."""
        return ""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Encode one value that is not already ``bytes``.

        Raises
        ------
        TypeError, OverflowError, ValueError
            If the value has the wrong type, is out of range, or does not fit for another reason.
            The caller adds the column name. Errors of other classes are not caught.
        """

    def encoder(self) -> Encode:
        """Return the function that encodes one value. A writer calls `encoder` once per column.

        ``bytes`` are stored unchanged unless `is_number`, as by MosaicML Streaming's writer, so
        that a JPEG file can be written to a ``jpeg`` column.
        """
        if self.is_number:
            return self.encode
        return passing_bytes(self.encode, self.size, is_text=self.is_text)

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
        values = arrow_types.plain_values(values)
        check_valid(values)
        stored, valid = self.encode_values(values), arrow_types.validity(values)
        if self.size is None:
            return EncodedColumn(name, self.text, parts=[stored], valid=valid)
        if (pc.binary_length(stored).to_numpy() != self.size).any():
            raise ValueError(
                f"a value of {self.text!r} has {self.size} bytes, found a different size"
            )
        rows = np.frombuffer(b"".join(stored.to_pylist()), f"V{self.size}")
        return EncodedColumn(name, self.text, fixed=rows, valid=valid)

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Return the bytes of values, whose type is plain (see `plain_type`).

        Binaries are stored unchanged, and so are strings if `is_text`.
        """
        is_binary = pa.types.is_binary(values.type)
        if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
            check_years(values)
        if self.is_text if is_binary else self.is_cast:
            values = values.cast(pa.string())  # raises an error for binaries that are not UTF-8
        if is_binary or (self.is_text and pa.types.is_string(values.type)):
            return arrow_types.stored_bytes(values, self.null_bytes)
        return self.encode_each(values)

    def encode_each(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode the values one at a time, as Python objects."""
        encode, null = self.encoder(), self.null_bytes
        stored = [null if value is None else encode(value) for value in values.to_pylist()]
        return pa.array(stored, pa.large_binary())

    # Methods for reading

    @abstractmethod
    def decode(self, stored: Any) -> Any:
        """Return the value of a stored string, if `is_text`, or else of stored bytes.

        Raises
        ------
        Exception
            Of any kind, if `stored` is not a valid value.
        """

    def decoder(self, form: Form = "object") -> DecodeValue:
        """Return the function that decodes one value; `form` selects images or arrays of pixels.

        The function for arrays also accepts an output array for the pixels, or None.
        """
        return self.decode

    def decode_column(
        self, data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions | int
    ) -> Values:
        """Return a copy of a column's values, in the form that the reading core returns.

        Parameters
        ----------
        data : numpy.ndarray
            The shard, uint8.
        starts, sizes : numpy.ndarray
            Position and size in bytes of each value; a single size if the encoding is fixed-size.

        Raises
        ------
        ValueError
            If a stored value is invalid in this encoding.
        """
        if self.dtype is not None and self.shape is not None:
            values = gather_fixed(data, starts, self.dtype, math.prod(self.shape))
            return values.reshape(len(starts), *self.shape)
        if isinstance(sizes, int):
            sizes = np.full(len(starts), sizes, np.int64)
        if not self.is_text:
            return gather_binary(data, starts, sizes, pa.binary())
        texts = gather_binary(data, starts, sizes, pa.string())
        texts.validate(full=True)  # otherwise, invalid UTF-8 would only raise an error much later
        return self.parse_texts(texts)

    def parse_texts(self, texts: pa.StringArray) -> Values:
        """Convert a column's strings, which have no nulls, to the values that are returned."""
        return texts

    def fill_value(self, value: Any) -> Any:
        """Return a user's value as columns have it before late decoding, to replace nulls.

        Numbers, elements of arrays, and text that is decoded late are returned unchanged.

        Raises
        ------
        Exception
            Of any kind, if a writer would not accept `value`.
        """
        is_late_text = self.is_text and self.late != "never"
        if self.is_number or self.is_array or self.is_verbatim or is_late_text:
            return value
        stored = np.frombuffer(self.encoder()(value), np.uint8)
        sizes = self.size or np.array([len(stored)])
        (found,) = self.decode_column(stored, np.zeros(1, np.int64), sizes).tolist()
        return found

    def span_decoder(self, data: memoryview, decode: DecodeValue) -> DecodeSpan:
        """Return the function that decodes the value between two positions in `data`.

        `decode` is the result of `decoder`, possibly wrapped. Not called if `is_viewed`.
        """
        if self.is_text:
            return lambda start, stop: decode(str(data[start:stop], "utf-8"))
        return lambda start, stop: decode(data[start:stop].tobytes())

    def to_logical(self, values: pa.Array, type_: pa.DataType) -> pa.Array:
        """Convert values to a Spark type, given as an Arrow type."""
        return values


@dataclass(frozen=True)
class EncodedColumn:
    """Some rows of one column, encoded for storage.

    Attributes
    ----------
    name : str
        Name of the column.
    encoding : str
        Encoding of these rows; for arrays it states the shape if all rows have the same one.
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
        int64 ``(rows + 1,)``: offsets of the elements in each row; given for every array column.
    """

    name: str
    encoding: str
    fixed: npt.NDArray[Any] | None = None
    parts: list[pa.LargeBinaryArray] = field(default_factory=list)
    valid: npt.NDArray[np.bool_] | None = None
    elements: npt.NDArray[np.bool_] | None = None
    element_ends: npt.NDArray[np.int64] | None = None


def passing_bytes(encode: Encode, size: int | None, *, is_text: bool = False) -> Encode:
    """Extend `encode` to return ``bytes`` unchanged, after checking their `size` or UTF-8."""

    def pass_bytes(value: Any) -> bytes:
        if not isinstance(value, bytes):
            return encode(value)
        if size is not None and len(value) != size:
            raise ValueError(f"it has {len(value)} bytes and must have {size}")
        if is_text:
            value.decode()
        return value

    return pass_bytes
