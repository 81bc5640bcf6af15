"""Parse JSON that nobody vouches for."""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(text: bytes | bytearray | memoryview | str, **options: Any) -> Any:
    """Parse JSON as `json.loads` does; whatever is wrong with it is a ValueError.

    Raises
    ------
    ValueError
        If it is not JSON, too deeply nested, or holds a number that is not finite, such as 1e400.
    """
    if isinstance(text, memoryview):
        text = bytes(text)
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite, **options)
    except RecursionError as error:
        raise ValueError(f"RecursionError: {error}") from error


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is not finite")
    return value
