"""The properties of an encoding's values: their types, sizes and forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from mdstorm_backend.format.values.arrow_types import arrow_type_of, is_number, numpy_dtype

#: Predicate on an Arrow type.
_Check: TypeAlias = Callable[[pa.DataType], bool]

#: Dtypes that Petastorm's TensorFlow adapter promotes.
_PROMOTED = {"uint16": "int32", "uint32": "int64"}


@dataclass(frozen=True)
class EncodingTraits:
    """The part of `Encoding` that describes its values.

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
        Names of the kind; aliases are other names of the first one.
    is_opaque : bool
        Whether values cannot be decoded. Their size is in the shard's index entry, or before every
        value.
    is_text : bool
        Whether values are stored as UTF-8.
    is_array, is_image : bool
        Whether a value is a numeric array, or one image.
    is_verbatim : bool
        Whether a value equals its stored text or bytes, also in the place of a null.
    is_unsafe : bool
        Whether decoding a value may run code in it.
    in_threads : bool
        Whether decoding mostly runs without the interpreter's lock, so that threads help.
    joins_arrays : bool
        Whether decoded objects may be arrays or numbers, which are joined to one array per batch if
        they have one dtype and shape.
    late : {"always", "untyped", "never"}
        When the reading core delivers stored values, to be decoded later: always, only if no Spark
        type is known, or never.
    carries : tuple of callable
        Predicates on Arrow types: the Spark type of a column must pass one; empty allows any.
    stores : tuple of callable
        Predicates on Arrow types whose values the encoding can store; binaries are always allowed.
    placeholder : bytes
        The bytes stored for a null if sizes vary. For images they are empty, which is no valid
        image, so that readers that do not know of nulls fail.
    holds : frozenset of str
        Other kinds of encodings whose values this kind holds without loss.
    rows_per_batch : int
        Most rows that Spark may put into an Arrow batch, which holds less than 2 GiB: 128 allow 16
        MiB per value, 512 allow 4 MiB.
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
        """The encoding, worded for the middle of a sentence."""
        return f"the encoding {self.text!r}"

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the delivered values if no Spark type is known."""
        if self.dtype is not None and self.shape is not None:
            number = arrow_type_of(self.dtype)
            return pa.list_(number) if self.shape else number
        return pa.string() if self.is_text else pa.binary()

    def delivered_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the Arrow type of the delivered values, given that of their Spark type."""
        return declared

    def can_carry(self, declared: pa.DataType) -> bool:
        """Whether a column may have a Spark type, given as an Arrow type."""
        return not self.carries or any(check(declared) for check in self.carries)

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether values of a plain Arrow type (see `plain_type`) can be stored."""
        return any(check(type_) for check in (pa.types.is_binary, *self.stores))

    def is_late(self, *, typed: bool) -> bool:
        """Whether the reading core delivers stored values; `typed`: a Spark type is known."""
        return self.late == "always" or (self.late == "untyped" and not typed)

    def is_nested(self, type_: pa.DataType) -> bool:
        """Whether values of a delivered Arrow type are nested deeper than lists of strings."""
        return False

    def tensorflow_dtype(self, type_: pa.DataType) -> str | None:
        """Return the name of the TensorFlow dtype of values or elements; None if there is none."""
        types = pa.types
        if not self.is_text and self.is_late(typed=True):
            return None  # only the stored bytes are delivered
        if types.is_string(type_) or types.is_binary(type_) or types.is_decimal(type_):
            return "string"
        if types.is_temporal(type_):
            return "int64"
        if is_number(type_):
            name = str(numpy_dtype(type_).name)
            return _PROMOTED.get(name, name)
        return None
