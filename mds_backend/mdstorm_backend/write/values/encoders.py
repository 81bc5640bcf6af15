"""Which function encodes the values of an encoding.

Each takes one value and returns its bytes. Where a value does not fit, it raises TypeError for the
wrong type, OverflowError for a number out of range and ValueError for anything else; the caller
knows the column and says so. A value that is ``bytes`` already is stored unchanged whatever the
encoding, as in the format's own writer: so a JPEG file can be put into a ``jpeg`` column.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from mdstorm_backend.format.encodings import IMAGE_LISTS, IMAGES, Encoding
from mdstorm_backend.format.encodings.encode_array import array_encoder
from mdstorm_backend.format.encodings.encode_images import (
    encode_image,
    encode_images,
    encode_jpeg_files,
)
from mdstorm_backend.format.encodings.encode_number import encode_number
from mdstorm_backend.format.encodings.encode_texts import TEXT_ENCODERS

__all__ = ["Encode", "value_encoder"]

Encode: TypeAlias = Callable[[Any], bytes]


def value_encoder(encoding: Encoding) -> Encode:
    """Return the function that encodes one value."""
    kind = encoding.kind
    if kind == "bytes":
        return _encode_bytes
    if kind in TEXT_ENCODERS:
        return TEXT_ENCODERS[kind]
    encode, size = _checked_encoder(encoding), encoding.size

    def pass_bytes(value: Any) -> bytes:
        if not isinstance(value, bytes):
            return encode(value)
        if size is not None and len(value) != size:
            raise ValueError(f"it is {len(value)} bytes, and a value has {size}")
        return value

    return pass_bytes


def _checked_encoder(encoding: Encoding) -> Encode:
    kind = encoding.kind
    if kind == "pkl":
        return pickle.dumps
    if kind == "ndarray":
        return array_encoder(encoding.dtype, encoding.shape)
    if kind in IMAGES:
        return partial(encode_image, kind)
    if kind == "jpeg_array":
        return encode_jpeg_files
    if kind in IMAGE_LISTS:
        return partial(encode_images, IMAGE_LISTS[kind])
    assert encoding.dtype is not None
    return partial(encode_number, encoding.dtype)


def _encode_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    raise TypeError(
        f"it is of type {type(value).__name__} and must be bytes: convert it with bytes(…)"
    )
