"""What an encoding knows of its values: their types, sizes and forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from mdstorm_backend.format.values.arrow_types import arrow_type_of, is_number, numpy_dtype

#: Of an Arrow type.
_Check: TypeAlias = Callable[[pa.DataType], bool]

#: What Petastorm's TensorFlow adapter promotes.
_PROMOTED = {"uint16": "int32", "uint32": "int64"}


@dataclass(frozen=True)
class EncodingTraits:
    """The part of `Encoding` that says what its values are.

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
        What is stored for a null where sizes vary. No image is empty, so that readers that do not
        know of nulls refuse it.
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
    def null_bytes(self) -> bytes:
        """What is stored for a null: the placeholder, or zeros if all values have one size."""
        return self.placeholder or bytes(self.size or 0)

    @property
    def is_viewed(self) -> bool:
        """Whether stored bytes are just values of `dtype` and `shape`, with nothing to decode."""
        return self.dtype is not None and self.shape is not None

    @property
    def described(self) -> str:
        """The encoding in the middle of a sentence."""
        return f"the encoding {self.text!r}"

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the values as they are delivered, where no Spark type is known."""
        if self.dtype is not None and self.shape is not None:
            number = arrow_type_of(self.dtype)
            return pa.list_(number) if self.shape else number
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
        if not self.is_text and self.is_late(typed=True):
            return None  # what is delivered is only its bytes
        if types.is_string(type_) or types.is_binary(type_) or types.is_decimal(type_):
            return "string"
        if types.is_temporal(type_):
            return "int64"
        if is_number(type_):
            name = str(numpy_dtype(type_).name)
            return _PROMOTED.get(name, name)
        return None
