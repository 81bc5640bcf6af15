"""How the values of a field are turned into what Spark stores, and back."""

from __future__ import annotations

from mdstorm._schema.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    DataframeColumnCodec,
    NdarrayCodec,
    ScalarCodec,
)

__all__ = [
    "CompressedImageCodec",
    "CompressedNdarrayCodec",
    "DataframeColumnCodec",
    "NdarrayCodec",
    "ScalarCodec",
]
