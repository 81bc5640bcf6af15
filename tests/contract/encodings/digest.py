"""Fixed-size objects whose columns are strings: a digest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.format import Values
from mdstorm_backend.format.encodings.encoding import Encoding, Positions


class Digest(Encoding):
    names = ("example_digest",)
    size = 4
    late = "never"
    arrow_type = pa.string()
    stores = (pa.types.is_string,)

    def encode(self, value: Any) -> bytes:
        return bytes.fromhex(value)

    def decode(self, stored: Any) -> Any:
        return stored.hex()

    def decode_column(
        self, data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions | int
    ) -> Values:
        stored = super().decode_column(data, starts, sizes)
        return pa.array([value.hex() for value in stored.tolist()], pa.string())


VALUES = {"example_digest": ["000aff00", "010afe00", "020afd00"]}
