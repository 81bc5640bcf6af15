"""An encoding as somebody else would add one: everything is here."""

from typing import Any
from uuid import UUID

import pyarrow as pa

from mdstorm_backend.format.encodings import Encoding


class UUIDText(Encoding):
    """A UUID, stored as its text."""

    names = ("own_uuid",)
    is_text = True
    stores = (pa.types.is_string,)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, UUID):
            raise TypeError(f"it is of type {type(value).__name__} and must be a uuid.UUID")
        return str(value).encode()

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        for text in values.drop_null().cast(pa.string()).to_pylist():
            UUID(text)
        return super().encode_values(values)

    def decode(self, stored: Any) -> Any:
        return UUID(stored)
