"""The encodings of the MDS format: one class per kind, and a registry of them.

An index states an encoding as a text such as ``"int32"``, ``"str"`` or ``"ndarray:float32:3"``, for
which `parse_encoding` returns an `Encoding`. An encoding whose values all take the same number of
bytes is *fixed-size*; one that cannot be decoded, such as an unknown one, is *opaque*.
"""

from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.format.encodings.registry import (
    general_encoding,
    parse_encoding,
    sized_encoding,
    unregister_encoding,
)

__all__ = [
    "Encoding",
    "general_encoding",
    "parse_encoding",
    "sized_encoding",
    "unregister_encoding",
]
