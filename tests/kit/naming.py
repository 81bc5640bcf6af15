"""Test ids that are the same in every process, as `pytest -n` requires."""

import re
from typing import Any


def value_id(value: Any) -> str:
    """Return a string that describes a value without memory addresses."""
    text = value if isinstance(value, str) else repr(value)
    return re.sub(r" at 0x[0-9a-f]+", "", text)
