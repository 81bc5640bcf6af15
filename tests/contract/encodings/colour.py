"""Arrays of one dtype and shape: a colour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.format.encodings.encoding import Encoding


class Rgb(Encoding):
    names = ("example_rgb",)
    is_array = True
    stores = (pa.types.is_string,)

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        return None if parameters else cls(text, np.dtype(np.uint8), (3,))

    def encode(self, value: Any) -> bytes:
        return bytes.fromhex(value[1:])

    def decode(self, stored: Any) -> Any:
        return np.frombuffer(stored, np.uint8).copy()


VALUES = {"example_rgb": ["#000aff", "#010afe", "#020afd"]}
