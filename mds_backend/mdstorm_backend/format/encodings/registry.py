"""The registry of encodings: maps names to classes, and strings such as ``"int32"`` to encodings.

A string that no class can parse maps to an opaque encoding: its name is unknown, someone else has
redefined it, or it lists several encodings of one column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedEncodingError
from mdstorm_backend.format.encodings import binary
from mdstorm_backend.format.encodings.encoding import FORMAT, Encoding

#: The classes that users registered, by name; they take precedence over the format's.
_users: dict[str, binary.MakeCoder] = {}

#: Registered classes that were received from another process.
_received: dict[str, binary.MakeCoder] = {}


def register_encoding(name: str, make: binary.MakeCoder) -> None:
    """Register your own encoding in this process, or redefine one of the format's encodings.

    The class is like the one in MosaicML Streaming's ``_encodings[name] = make``. `MDSWriter` can
    then write such columns, and every reader can read them, one value at a time. A sample holds
    what ``decode`` returns. A batch holds a list of these values, or one array if they are numbers
    or arrays with the same dtype and shape.

    PyTorch and Spark worker processes also know the encoding, but must be able to import the
    class. Any other program that reads the dataset has to register the class as well; without it,
    only the other columns can be read.

    Parameters
    ----------
    name : str
        The name used in `columns` of `MDSWriter` and in the index. An existing name gets
        the new meaning.
    make : type
        A class that takes no arguments. ``encode(value)`` returns the bytes of a value; values that
        are already ``bytes`` are stored unchanged. ``decode(stored)`` returns the value for
        stored bytes. ``size`` is the number of bytes of every value; None, or no such attribute,
        means that it varies. For columns with parameters, as in ``"name:parameters"``, the class
        method ``from_str(parameters)`` creates the object.

    Raises
    ------
    ArgumentTypeError
        If `name` is not a string, or `make` is not a class.
    InvalidArgumentError
        If `name` is empty or contains a colon, or the class is missing a method.
    """
    if not isinstance(name, str) or not callable(make):
        raise ArgumentTypeError(
            f"register_encoding takes a name and a class, found {name!r} and {make!r}"
        )
    if not name or ":" in name:
        raise InvalidArgumentError(
            f"{name!r} is not a valid encoding name: it must not be empty or contain a "
            "colon, after which parameters follow"
        )
    binary.value_size(make())
    _users[name] = make
    parse_encoding.cache_clear()


def unregister_encoding(name: str) -> None:
    """Undo `register_encoding`; one of the format's names gets its original meaning back.

    Raises
    ------
    KeyError
        If the name was not registered.
    """
    del _users[name]
    parse_encoding.cache_clear()


def user_classes() -> dict[str, binary.MakeCoder]:
    """Return the classes that users registered, by name, to send them to other processes."""
    return dict(_users)


def user_classes_of(text: str) -> dict[str, binary.MakeCoder]:
    """Return the user-defined classes that a column with the encoding `text` may need."""
    return {
        name: make
        for name, make in _users.items()
        if re.search(rf"(^|[: ]){re.escape(name)}($|[: ])", text)
    }


def receive(classes: dict[str, binary.MakeCoder], *, replaces: bool = False) -> None:
    """Register user-defined classes from another process, except names registered here.

    Parameters
    ----------
    classes : dict of str to type
        The other process's `user_classes`.
    replaces : bool
        Whether to remove the classes of the previous call that replaces. A worker process that
        Spark reuses receives the classes for one job after another.
    """
    if replaces:
        for name, make in _received.items():
            if _users.get(name) is make:
                del _users[name]
        _received.clear()
    new = {name: make for name, make in classes.items() if name not in _users}
    _users.update(new)
    if replaces:
        _received.update(new)
    parse_encoding.cache_clear()


def known_names() -> list[str]:
    """Return the names, without parameters, of all encodings that can be written and read."""
    return [*{**FORMAT, **_users}]


def encoding_names() -> list[str]:
    """Return the names of the encodings that can be written and read, for messages."""
    return [*sorted(known_names()), *(form for kind in FORMAT.values() for form in kind.forms)]


def sized_encoding(text: str, size: int | None) -> Encoding:
    """Return the encoding for the string and the value size in bytes that an index states."""
    return parse_encoding(text).sized(size) or Redefined(f"redefined:{text}").sized(size)


@lru_cache(maxsize=1024)
def parse_encoding(text: str) -> Encoding:
    """Parse the name of an encoding; unknown encodings are opaque and variable-size.

    Raises
    ------
    UnsupportedEncodingError
        If it contains an invalid array shape, or invalid parameters for a user-defined encoding.
    """
    name = text.partition(":")[0]
    if name in _users:
        return binary.user_encoding(_users[name], text) or Opaque(text)
    return format_encoding(text) or _OPAQUE.get(name, Opaque)(text)


def format_encoding(text: str) -> Encoding | None:
    """Parse the name of one of the format's own encodings; return None if it is unknown."""
    name, _, parameters = text.partition(":")
    return FORMAT[name].parse(text, parameters) if name in FORMAT else None


def general_encoding(texts: Sequence[str]) -> str:
    """Return the `text` of an encoding that can hold the values of several encodings.

    Shards of one dataset may store a column differently. If no encoding holds all values without
    loss, the result is opaque.
    """
    encodings = [parse_encoding(text) for text in texts]
    found = (encoding.general(encodings) for encoding in encodings)
    return next((text for text in found if text is not None), f"mixed:{' and '.join(texts)}")


class Opaque(Encoding):
    """An unknown encoding, from a later version of the format or defined by a user elsewhere."""

    is_opaque = True
    late = "never"

    def sized(self, size: int | None) -> Encoding:
        """Return the encoding for values of the size that the index states."""
        return self if size is None else replace(self, dtype=np.dtype(f"V{size}"), shape=())

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return None: no encoding is known to store the values of an unknown encoding."""
        return None

    @property
    def described(self) -> str:
        """A phrase for the encoding, for use within a message."""
        return f"the unknown encoding {self.text!r}"

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError: the encoding is unknown."""
        raise UnsupportedEncodingError(
            f"column {column!r} has encoding {self.text!r}, which is not known in this process. "
            "If it is a custom encoding, register the class that decodes it: "
            f"mdstorm_backend.register_encoding({self.kind!r}, TheClass). Otherwise leave the "
            f"column out with columns=[…]. Known encodings: {', '.join(encoding_names())}"
        )

    def encode(self, value: Any) -> bytes:
        """Raise UnsupportedEncodingError: the encoding is unknown."""
        raise UnsupportedEncodingError(f"there is no encoding {self.text!r}")

    def decode(self, stored: Any) -> Any:
        """Raise UnsupportedEncodingError: the encoding is unknown."""
        raise UnsupportedEncodingError(f"there is no encoding {self.text!r}")


class Redefined(Opaque):
    """One of the format's encodings for which the index states a different value size.

    Its string is ``redefined:`` and the encoding, for which the writer had registered a class.
    """

    @property
    def described(self) -> str:
        """A phrase for the encoding, for use within a message."""
        return f"a redefined encoding {self.text.partition(':')[2]!r}"

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError, which explains how to decode the column."""
        stated = self.text.partition(":")[2]
        name = stated.partition(":")[0]
        raise UnsupportedEncodingError(
            f"column {column!r} has encoding {stated!r}, but the index states a different value "
            "size. If the writer has redefined the encoding, register the class that "
            f"decodes it with mdstorm_backend.register_encoding({name!r}, TheClass), before the "
            "dataset is opened, or leave the column out with columns=[…]. Otherwise the index is "
            "damaged: copy it again from the original dataset"
        )


class Mixed(Opaque):
    """A placeholder, ``mixed:…``, for a column whose shards' encodings have no common form."""

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError with a hint that single samples can be read."""
        raise UnsupportedEncodingError(
            f"column {column!r} is stored in shards as {self.text.partition(':')[2]}, which "
            "have no common form. Read it one sample at a time, dataset[i], or leave the column "
            "out with columns=[…]"
        )


#: Opaque encodings that mdstorm itself creates, by the word before the colon in their string.
_OPAQUE = {"redefined": Redefined, "mixed": Mixed}
