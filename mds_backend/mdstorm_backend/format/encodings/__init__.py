"""The encodings of the MDS format: one class for each kind, and a registry of them.

An encoding is stated by a text such as ``"int32"``, ``"str"`` or ``"ndarray:float32:3"``.
`parse_encoding` returns the object that knows everything of it. Encodings that take the same number
of bytes for every value are *fixed-size*; those that nobody knows are *opaque*.
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
