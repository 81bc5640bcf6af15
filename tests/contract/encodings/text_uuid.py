"""Objects stored as text: UUIDs."""

from typing import Any
from uuid import UUID

import pyarrow as pa

from mdstorm_backend.format.encodings.encoding import Encoding


class TextUuid(Encoding):
    names = ("example_uuid",)
    is_text = True
    stores = (pa.types.is_string,)
    placeholder = str(UUID(int=0)).encode()

    def encode(self, value: Any) -> bytes:
        return str(value).encode()

    def decode(self, stored: Any) -> Any:
        return UUID(stored)


VALUES = {"example_uuid": [UUID(int=1), UUID(int=2), UUID(int=3)]}
