"""Describe values as strings with their types and bits, the same in both environments."""

import hashlib
import json
from decimal import Decimal
from typing import Any

import numpy as np

#: Larger arrays are described by a hash of their numbers.
_SHOWN = 1000


def describe(value: Any) -> str:
    """Return a string with a value's type and complete content."""
    if isinstance(value, np.ndarray) and value.size > _SHOWN:
        numbers = hashlib.sha256(value.tobytes()).hexdigest()
        return f"{value.dtype.name}{list(value.shape)} {numbers}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}{list(value.shape)} {value.reshape(-1).tolist()}"
    if isinstance(value, np.generic):
        return f"{value.dtype.name} {value.item()!r}"
    if isinstance(value, (str, bytes, Decimal)):
        return f"{type(value).__name__} {value!r}"
    if hasattr(value, "mode") and hasattr(value, "size"):
        pixels = hashlib.sha256(value.tobytes()).hexdigest()
        return f"{type(value).__name__} {value.format} {value.mode}{list(value.size)} {pixels}"
    if isinstance(value, list) and any(hasattr(item, "mode") for item in value):
        return f"[{', '.join(map(describe, value))}]"
    return f"json {json.dumps(value, sort_keys=True)}"


def describe_samples(samples: Any) -> list[dict[str, str]]:
    """Describe every value of every sample, each a mapping from column to value."""
    return [{name: describe(value) for name, value in sample.items()} for sample in samples]
