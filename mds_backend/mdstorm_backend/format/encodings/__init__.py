"""The encodings of the MDS format."""

from mdstorm_backend.format.encodings.encoding import (
    ARRAY_CODES,
    ARRAY_DTYPES,
    IMAGE_LISTS,
    IMAGES,
    SCALAR_DTYPES,
    TEXTS,
    Encoding,
    array_encoding,
    general_encoding,
    parse_encoding,
)

__all__ = [
    "ARRAY_CODES",
    "ARRAY_DTYPES",
    "IMAGES",
    "IMAGE_LISTS",
    "SCALAR_DTYPES",
    "TEXTS",
    "Encoding",
    "array_encoding",
    "general_encoding",
    "parse_encoding",
]
