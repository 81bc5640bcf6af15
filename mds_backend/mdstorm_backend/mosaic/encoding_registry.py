"""The registry of encodings, as MosaicML Streaming shows it.

Programs define encodings with ``_encodings["name"] = TheClass``, which is `register_encoding`.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.registry import (
    kind_of,
    known_names,
    parse_encoding,
    register_encoding,
    unregister_encoding,
)
from mdstorm_backend.format.encodings.user_encoding import UserKind
from mdstorm_backend.mosaic.encoding_classes import FORMAT_CLASSES, OfFormat


class _Encodings(MutableMapping[str, Any]):
    """The names of all encodings and their classes, as the engine has them at this moment."""

    def __getitem__(self, name: str) -> Any:
        kind = kind_of(name)
        if kind is None:
            raise KeyError(name)
        if isinstance(kind, UserKind):
            return kind.make
        return FORMAT_CLASSES.get(name) or type(kind.__name__, (OfFormat,), {"_text": name})

    def __setitem__(self, name: str, make: Any) -> None:
        if isinstance(kind_of(name), UserKind) and FORMAT_CLASSES.get(name) is make:
            unregister_encoding(name)
        elif FORMAT_CLASSES.get(name) is not make:
            register_encoding(name, make)

    def __delitem__(self, name: str) -> None:
        unregister_encoding(name)

    def __iter__(self) -> Iterator[str]:
        return iter(known_names())

    def __len__(self) -> int:
        return len(known_names())


#: Set a name to a class to define an encoding, or to redefine one; a redefined one that is deleted
#: is that of the format again.
_encodings = _Encodings()


def get_mds_encodings() -> set[str]:
    """Return the names of all encodings."""
    return set(_encodings)


def _get_coder(encoding: str) -> Any:
    """Return an object that encodes and decodes; None if there is no such encoding."""
    name, _, parameters = encoding.partition(":")
    kind = _encodings.get(name)
    if kind is None or not parameters:
        return None if kind is None else kind()
    return kind.from_str(parameters)


def _coder(encoding: str) -> Any:
    coder = _get_coder(encoding)
    if coder is None:
        raise UnsupportedEncodingError(
            f"there is no encoding {encoding!r}: known are {', '.join(sorted(_encodings))}"
        )
    return coder


def is_mds_encoding(encoding: str) -> bool:
    """Return whether there is such an encoding."""
    return _get_coder(encoding) is not None


def is_mds_encoding_safe(encoding: str) -> bool:
    """Return whether decoding a value cannot run a program in it."""
    return not parse_encoding(encoding).is_unsafe


def mds_encode(encoding: str, obj: Any) -> bytes:
    """Return the bytes of a value; bytes are returned as they are.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    EncodingError
        If the value does not fit.
    """
    stored: bytes = obj if isinstance(obj, bytes) else _coder(encoding).encode(obj)
    return stored


def mds_decode(encoding: str, data: bytes) -> Any:
    """Return the value of some bytes.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    """
    return _coder(encoding).decode(data)


def get_mds_encoded_size(encoding: str) -> int | None:
    """Return the bytes of every value, or None where they vary.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    """
    size: int | None = _coder(encoding).size
    return size
