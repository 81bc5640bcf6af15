"""The registry of encodings: from a name to its class, and from a text to its encoding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.encodings.arrays import Array
from mdstorm_backend.format.encodings.binary import Bytes, Pickle
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.format.encodings.images import IMAGE_ENCODINGS
from mdstorm_backend.format.encodings.json import Json
from mdstorm_backend.format.encodings.numbers import Number, PythonInteger
from mdstorm_backend.format.encodings.opaque import Mixed, Opaque
from mdstorm_backend.format.encodings.texts import DecimalText, FloatText, IntegerText, String

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
    Mixed,
)

_classes = {name: kind for kind in _BUILT_IN for name in (*kind.names, *kind.aliases)}


def register(*kinds: type[Encoding]) -> None:
    """Make kinds of encodings known in this process.

    Processes that read or write for this one, of Spark or of PyTorch, are told of them; they have
    to be able to import the module of the class.

    Raises
    ------
    InvalidArgumentError
        If one lacks a name or a method, or its name is that of another class.
    """
    for kind in kinds:
        missing = sorted(kind.__abstractmethods__) or ([] if kind.names else ["names"])
        if missing:
            raise InvalidArgumentError(
                f"encoding {kind.__qualname__} lacks {', '.join(missing)}: define them"
            )
        for name in (*kind.names, *kind.aliases):
            known = _classes.get(name, kind)
            if _identity(known) != _identity(kind):
                raise InvalidArgumentError(
                    f"there is an encoding {name!r} already, {known.__qualname__}: give yours "
                    "another name"
                )
            _classes[name] = kind
    parse_encoding.cache_clear()


def unregister(kind: type[Encoding]) -> None:
    """Forget a kind of encodings that `register` made known."""
    for name in (*kind.names, *kind.aliases):
        del _classes[name]
    parse_encoding.cache_clear()


def _identity(kind: type[Encoding]) -> tuple[str, str]:
    """What is the same for a class that is defined, or sent to this process, once more."""
    return kind.__module__, kind.__qualname__


def foreign_encodings() -> tuple[type[Encoding], ...]:
    """Return the kinds that were registered: what other processes have to be told."""
    return tuple(dict.fromkeys(kind for kind in _classes.values() if kind not in _BUILT_IN))


def encoding_names() -> list[str]:
    """Return the names of the encodings that can be written and read, for messages."""
    names = sorted(name for name, kind in _classes.items() if not kind.is_opaque)
    return [*names, "ndarray:<dtype>", "ndarray:<dtype>:<shape>"]


@lru_cache(maxsize=1024)
def parse_encoding(text: str) -> Encoding:
    """Return the encoding of a text; an unknown one is opaque and of varying size.

    Raises
    ------
    UnsupportedEncodingError
        If it is an array of an impossible shape.
    """
    name, _, parameters = text.partition(":")
    kind = _classes.get(name)
    return (kind and kind.parse(text, parameters)) or Opaque(text)


def general_encoding(texts: Sequence[str]) -> str:
    """Return the encoding whose values can stand for those of several encodings.

    Shards of one dataset may store a column differently. Where no encoding holds the values of all
    without loss, the result is opaque.
    """
    encodings = [parse_encoding(text) for text in texts]
    found = (encoding.general(encodings) for encoding in encodings)
    return next((text for text in found if text is not None), Mixed.of(texts))
