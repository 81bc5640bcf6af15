"""Single values to the bytes that MDS stores, one function per encoding."""

from __future__ import annotations

from mdstorm_backend.write.values.encoders import Encode, value_encoder

__all__ = ["Encode", "value_encoder"]
