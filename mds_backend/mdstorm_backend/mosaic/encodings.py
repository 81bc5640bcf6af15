"""The MDS encodings under MosaicML Streaming's names: classes to subclass, and functions.

The classes are thin wrappers around the engine's encodings, which encode and decode whole columns.
Each class keeps the format's encoding, even if another encoding is registered under its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, MutableMapping, Sequence
from decimal import Decimal
from types import new_class
from typing import Any, ClassVar

import numpy as np

from mdstorm_backend import errors
from mdstorm_backend.format.encodings import registry
from mdstorm_backend.format.encodings.decode_images import split_images
from mdstorm_backend.format.encodings.encoding import FORMAT
from mdstorm_backend.format.encodings.images import join_images


class Encoding(ABC):
    """Base class for user-defined encodings.

    Attributes
    ----------
    size : int or None
        Size in bytes of every encoded value, or None if sizes vary.
    """

    size: int | None = None
    _text: ClassVar[str] = ""

    @abstractmethod
    def encode(self, obj: Any) -> bytes:
        """Encode a value."""

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """Decode a value."""

    @staticmethod
    def _validate(data: Any, expected_type: Any) -> None:
        """Raise EncodingTypeError, an AttributeError, unless `data` has the expected type."""
        if not isinstance(data, expected_type):
            raise errors.EncodingTypeError(
                f"found a value of type {type(data).__name__}, but {expected_type} is required"
            )

    def __init_subclass__(cls, text: str = "", **others: Any) -> None:
        """Register the class of the format's encoding `text`, also under its aliases."""
        super().__init_subclass__(**others)
        if text:
            cls._text = text
            names = (text, *FORMAT[text].aliases)
            _classes.update(dict.fromkeys(names, cls))


#: The classes of the format's encodings, by name.
_classes: dict[str, type[Encoding]] = {}


class OfFormat(Encoding):
    """An encoding as the MDS format defines it, even if a program has redefined the name."""

    #: The only type that `encode` accepts, if the engine's encoding accepts others too.
    _accepts: ClassVar[type | None] = None

    def __init__(self) -> None:
        self._use(self._text)

    @classmethod
    def from_str(cls, text: str) -> OfFormat:
        """Return the encoding for the parameters that follow the name and a colon."""
        coder = cls.__new__(cls)
        coder._use(f"{cls._text}:{text}")
        return coder

    def _use(self, text: str) -> None:
        encoding = registry.format_encoding(text) or registry.parse_encoding(text)
        encoding.check_decodable("")
        self._encoding, self.size = encoding, encoding.size

    def encode(self, obj: Any) -> bytes:
        """Encode a value.

        Raises
        ------
        EncodingError
            If the value does not fit the encoding: an EncodingTypeError if it has the wrong type,
            and an EncodingRangeError if it is out of range.
        """
        if self._accepts is not None:
            self._validate(obj, self._accepts)
        text = self._encoding.text
        try:
            return self._encoding.encode(obj)
        except errors.MDStormError:
            raise
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            kind = errors.EncodingError.class_for(error)
            raise kind(f"not a value of {text!r}: {error}", encoding=text) from error

    def decode(self, data: bytes) -> Any:
        """Decode a value."""
        return self._encoding.decode(str(data, "utf-8") if self._encoding.is_text else data)


class Bytes(OfFormat, text="bytes"):
    """Bytes, stored unchanged."""

    def encode(self, obj: bytes) -> bytes:
        """Return the bytes unchanged."""
        self._validate(obj, bytes)
        return obj


class Str(OfFormat, text="str"):
    """A string, stored as UTF-8."""

    _accepts = str


class Int(OfFormat, text="int"):
    """A Python integer, stored in 64 bits."""

    _accepts = int


class NDArray(OfFormat, text="ndarray"):
    """A NumPy array, optionally with a fixed dtype and shape."""

    def __init__(self, dtype: str | None = None, shape: Sequence[int] | None = None) -> None:
        dimensions = None if shape is None else ",".join(map(str, shape))
        stated = [part for part in (dtype, dimensions) if part is not None]
        self._use(":".join(["ndarray", *stated]))
        self.dtype, self.shape = dtype, None if shape is None else tuple(shape)

    @classmethod
    def from_str(cls, text: str) -> NDArray:
        """Return the encoding for the parameters that follow ``"ndarray:"`` in a name."""
        dtype, _, shape = text.partition(":")
        return cls(dtype or None, tuple(map(int, shape.split(","))) if shape else None)


class StrEncoding(Encoding):
    """Base class for encodings that store numbers as text."""


class StrInt(OfFormat, StrEncoding, text="str_int"):
    """An integer of any size, stored as text."""

    _accepts = int


class StrFloat(OfFormat, text="str_float"):
    """A float, stored as text."""

    _accepts = float


class StrDecimal(OfFormat, text="str_decimal"):
    """A decimal, stored as text."""

    _accepts = Decimal


class PIL(OfFormat, text="pil"):
    """A Pillow image, stored as its pixels."""


class JPEG(OfFormat, text="jpeg"):
    """A Pillow image, stored as a JPEG file."""


class PNG(OfFormat, text="png"):
    """A Pillow image, stored as a PNG file."""


class Pickle(OfFormat, text="pkl"):
    """Any object, pickled. Decoding a value runs the code in it."""


class JSON(OfFormat, text="json"):
    """Any JSON value; arrays are stored as lists."""


class List(Encoding):
    """Base class for lists whose elements share an encoding, which a subclass defines."""

    @abstractmethod
    def underlying_encoder(self) -> Encoding:
        """Return the encoding of the elements."""

    def encode(self, obj: list[Any]) -> bytes:
        """Encode a list: four zero bytes, the number and sizes of the elements, the elements."""
        self._validate(obj, list)
        encode = self.underlying_encoder().encode
        return bytes(4) + join_images([encode(element) for element in obj])

    def decode(self, data: bytes) -> list[Any]:
        """Decode a list."""
        decode = self.underlying_encoder().decode
        return [decode(element) for element in split_images(data, 4)]


class PILList(List, text="list[pil]"):
    """A list of images, each encoded by `PIL`."""

    def underlying_encoder(self) -> Encoding:
        """Return `PIL`."""
        return PIL()


class JPEGList(List, text="list[jpeg]"):
    """A list of images, each encoded by `JPEG`."""

    def underlying_encoder(self) -> Encoding:
        """Return `JPEG`."""
        return JPEG()


class PNGList(List, text="list[png]"):
    """A list of images, each encoded by `PNG`."""

    def underlying_encoder(self) -> Encoding:
        """Return `PNG`."""
        return PNG()


class JPEGArray(OfFormat, text="jpeg_array"):
    """A sequence of JPEG files, given as bytes."""


class Scalar(OfFormat):
    """A number with a NumPy type."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self._use(np.dtype(dtype).name)


class _Number(Scalar):
    """A number with the NumPy type that the class is named after."""

    def __init__(self) -> None:
        super().__init__(np.dtype(self._text).type)


class UInt8(_Number, text="uint8"):
    """A uint8."""


class UInt16(_Number, text="uint16"):
    """A uint16."""


class UInt32(_Number, text="uint32"):
    """A uint32."""


class UInt64(_Number, text="uint64"):
    """A uint64."""


class Int8(_Number, text="int8"):
    """An int8."""


class Int16(_Number, text="int16"):
    """An int16."""


class Int32(_Number, text="int32"):
    """An int32."""


class Int64(_Number, text="int64"):
    """An int64."""


class Float16(_Number, text="float16"):
    """A float16."""


class Float32(_Number, text="float32"):
    """A float32."""


class Float64(_Number, text="float64"):
    """A float64."""


class _Encodings(MutableMapping[str, Any]):
    """A live mapping from all encoding names to classes, backed by the engine's registry."""

    def __getitem__(self, name: str) -> Any:
        if name in registry.user_classes():
            return registry.user_classes()[name]
        kind = FORMAT[name]
        return _classes.get(name) or new_class(kind.__name__, (OfFormat,), {"text": name})

    def __setitem__(self, name: str, make: Any) -> None:
        if _classes.get(name) is not make:
            registry.register_encoding(name, make)
        elif name in registry.user_classes():
            registry.unregister_encoding(name)

    def __delitem__(self, name: str) -> None:
        registry.unregister_encoding(name)

    def __iter__(self) -> Iterator[str]:
        return iter(registry.known_names())

    def __len__(self) -> int:
        return len(registry.known_names())


#: Programs set a name to a class to define or redefine an encoding, as with `register_encoding`.
#: Deleting a redefined encoding restores the format's encoding.
_encodings = _Encodings()


def get_mds_encodings() -> set[str]:
    """Return the names of all encodings."""
    return set(_encodings)


def _get_coder(encoding: str) -> Any:
    """Return an instance of an encoding's class, or None if there is no such encoding."""
    name, _, parameters = encoding.partition(":")
    kind = _encodings.get(name)
    if kind is None or registry.parse_encoding(encoding).is_opaque:
        return None
    return kind.from_str(parameters) if parameters else kind()


def _coder(encoding: str) -> Encoding:
    coder: Encoding | None = _get_coder(encoding)
    if coder is None:
        raise errors.UnsupportedEncodingError(
            f"there is no encoding {encoding!r}: choose one of {', '.join(sorted(_encodings))}"
        )
    return coder


def is_mds_encoding(encoding: str) -> bool:
    """Whether `encoding` is a known encoding."""
    return _get_coder(encoding) is not None


def is_mds_encoding_safe(encoding: str) -> bool:
    """Whether decoding a value is safe, because it cannot run code contained in the value."""
    return not registry.parse_encoding(encoding).is_unsafe


def mds_encode(encoding: str, obj: Any) -> bytes:
    """Encode a value; bytes are returned unchanged.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    EncodingError
        If the value does not fit the encoding.
    """
    return obj if isinstance(obj, bytes) else _coder(encoding).encode(obj)


def mds_decode(encoding: str, data: bytes) -> Any:
    """Decode a value.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    """
    return _coder(encoding).decode(data)


def get_mds_encoded_size(encoding: str) -> int | None:
    """Return the size in bytes of every encoded value, or None if sizes vary.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    """
    return _coder(encoding).size
