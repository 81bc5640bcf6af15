"""The registry of encodings: maps names to classes, and texts to encodings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format.encodings.arrays import Array
from mdstorm_backend.format.encodings.binary import Bytes, Mixed, Opaque, Pickle, Redefined
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.format.encodings.images import IMAGE_ENCODINGS
from mdstorm_backend.format.encodings.numbers import Number, PythonInteger
from mdstorm_backend.format.encodings.texts import DecimalText, FloatText, IntegerText, Json, String
from mdstorm_backend.format.encodings.user_encoding import MakeCoder, UserKind, value_size

#: Encodings of the format are classes; those of users are `UserKind` objects.
_Kind: TypeAlias = type[Encoding] | UserKind

_BUILT_IN: tuple[type[Encoding], ...] = (
    Number,
    PythonInteger,
    String,
    IntegerText,
    FloatText,
    DecimalText,
    Bytes,
    Pickle,
    Json,
    Array,
    *IMAGE_ENCODINGS,
    Redefined,
    Mixed,
)

_FORMAT = {name: kind for kind in _BUILT_IN for name in (*kind.names, *kind.aliases)}

_classes: dict[str, _Kind] = dict(_FORMAT)

#: User encodings received from another process, by name.
_told: dict[str, UserKind] = {}


def register_encoding(name: str, make: MakeCoder) -> None:
    """Register an encoding of your own in this process, or redefine one of the format.

    The class is like that in MosaicML Streaming's ``_encodings[name] = make``. `MDSWriter` can then
    write such columns, and every reader can read them, one value at a time. A sample holds what
    ``decode`` returns. A batch holds a list of these values, or one array if they are numbers or
    arrays of one dtype and shape.

    Worker processes of PyTorch and Spark know the encoding, too, but must be able to import the
    class. Any other program that reads the dataset has to register the class as well; without it,
    only the other columns can be read.

    Parameters
    ----------
    name : str
        The name used in `columns` of `MDSWriter` and in the index. If the name exists already, it
        gets the new meaning.
    make : type
        A class that takes no arguments. ``encode(value)`` returns the bytes of a value; values that
        are ``bytes`` already are stored as they are. ``decode(stored)`` returns the value for
        stored bytes. ``size`` is the number of bytes of every value; None, or no such attribute,
        means that it varies. For columns with parameters, as in ``"name:parameters"``, the class
        method ``from_str(parameters)`` creates the object.

    Raises
    ------
    ArgumentTypeError
        If `name` is not a string, or `make` is not a class.
    InvalidArgumentError
        If `name` is empty or contains a colon, or the class lacks a method.
    """
    if not isinstance(name, str) or not callable(make):
        raise ArgumentTypeError(
            f"register_encoding takes a name and a class, found {name!r} and {make!r}"
        )
    if not name or ":" in name:
        raise InvalidArgumentError(
            f"{name!r} is not the name of an encoding: it must not be empty, and parameters follow "
            "it after a colon"
        )
    value_size(make())
    _classes[name] = UserKind(name, make, is_unsafe=name in Pickle.names)
    parse_encoding.cache_clear()


def unregister_encoding(name: str) -> None:
    """Undo `register_encoding`; a name of the format gets its original meaning back.

    Raises
    ------
    KeyError
        If the name was not registered.
    """
    if not isinstance(_classes.get(name), UserKind):
        raise KeyError(name)
    _forget(name)


def _forget(name: str) -> None:
    del _classes[name]
    if name in _FORMAT:
        _classes[name] = _FORMAT[name]
    parse_encoding.cache_clear()


def kind_of(name: str) -> type[Encoding] | UserKind | None:
    """Return the kind registered under a name; None if it is unknown or opaque."""
    kind = _classes.get(name)
    return None if kind is None or kind.is_opaque else kind


def known_names() -> list[str]:
    """Return the names, without parameters, of all encodings that can be written and read."""
    return [name for name, kind in _classes.items() if not kind.is_opaque]


def format_encoding(text: str) -> Encoding | None:
    """Return the encoding of a text in the format itself, ignoring users' encodings; or None."""
    name, _, parameters = text.partition(":")
    kind = _FORMAT.get(name)
    return None if kind is None else kind.parse(text, parameters)


def register(*kinds: UserKind) -> None:
    """Register kinds from another process, except names that users registered in this one."""
    for kind in kinds:
        if not isinstance(_classes.get(kind.name), UserKind):
            _classes[kind.name] = kind
    parse_encoding.cache_clear()


def adopt(*kinds: UserKind) -> None:
    """Register kinds from another process, in place of those from the previous call.

    A worker process that Spark reuses receives the kinds of one job after the other. Kinds that
    were registered in this process itself are kept.
    """
    for name, kind in _told.items():
        if _classes.get(name) is kind:
            _forget(name)
    register(*kinds)
    _told.clear()
    _told.update((kind.name, kind) for kind in kinds if _classes[kind.name] is kind)


def foreign_encodings() -> tuple[UserKind, ...]:
    """Return the kinds that users registered, which other processes need."""
    return tuple(kind for kind in _classes.values() if not isinstance(kind, type))


def foreign_encodings_of(text: str) -> tuple[UserKind, ...]:
    """Return the user kinds that a column with the encoding `text` may need."""
    return tuple(
        kind
        for kind in foreign_encodings()
        if re.search(rf"(^|[: ]){re.escape(kind.name)}($|[: ])", text)
    )


def encoding_names() -> list[str]:
    """Return the names of the encodings that can be written and read, for messages."""
    return [*sorted(known_names()), "ndarray:<dtype>", "ndarray:<dtype>:<shape>"]


Opaque.known_names = staticmethod(encoding_names)


def sized_encoding(text: str, size: int | None) -> Encoding:
    """Return the encoding for a text and the value size in bytes that an index states."""
    return parse_encoding(text).sized(size) or Redefined.of(text).sized(size)


@lru_cache(maxsize=1024)
def parse_encoding(text: str) -> Encoding:
    """Return the encoding for a text; unknown ones are opaque and variable-size.

    Raises
    ------
    UnsupportedEncodingError
        If it states an invalid array shape, or invalid parameters for a user's encoding.
    """
    name, _, parameters = text.partition(":")
    kind = _classes.get(name)
    return (kind and kind.parse(text, parameters)) or Opaque(text)


def general_encoding(texts: Sequence[str]) -> str:
    """Return the text of an encoding that holds the values of several encodings.

    Shards of one dataset may store a column differently. If no encoding holds all values without
    loss, the result is opaque.
    """
    encodings = [parse_encoding(text) for text in texts]
    found = (encoding.general(encodings) for encoding in encodings)
    return next((text for text in found if text is not None), Mixed.of(texts))
