"""Convert values to plain JSON."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return `value` in a form that `json.dumps` accepts.

    Bytes become base64; dates and times ISO 8601; decimals text; numbers that JSON cannot represent
    the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``; arrays lists; maps lists of pairs.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NON_FINITE[str(value)]
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value / timedelta(seconds=1)
    return str(value)


_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
