"""An encoding with a parameter: a fixed number of booleans, packed into bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.encoding import Encoding


class Bits(Encoding):
    names = ("example_bits",)
    forms = ("example_bits:<count>",)
    joins_arrays = True

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        if parameters and not parameters.isdecimal():
            raise UnsupportedEncodingError(f"encoding {text!r} has no valid number of bits")
        return cls(text) if parameters else None

    @property
    def count(self) -> int:
        return int(self.text.partition(":")[2])

    @property
    def size(self) -> int:
        return -(-self.count // 8)

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        return self.text if {each.text for each in encodings} == {self.text} else None

    def encode(self, value: Any) -> bytes:
        if len(value) != self.count:
            raise ValueError(f"it has {len(value)} bits and must have {self.count}")
        return np.packbits(np.asarray(value, bool)).tobytes()

    def decode(self, stored: Any) -> Any:
        return np.unpackbits(np.frombuffer(stored, np.uint8), count=self.count).astype(bool)


VALUES = {"example_bits:9": [[True] * 9, [False] * 8 + [True], [True, False, False] * 3]}
