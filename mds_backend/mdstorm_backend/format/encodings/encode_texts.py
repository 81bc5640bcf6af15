"""Values that are stored as text."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm_backend.format.encodings.encode_number import check_no_mask

__all__ = ["TEXT_ENCODERS"]


def _encode_str(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"it is of type {type(value).__name__} and must be a str")


def _encode_int(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, (int, np.integer)):
        raise TypeError(f"it is of type {type(value).__name__} and must be an int")
    return str(operator.index(value)).encode()


def _encode_float(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, float):
        raise TypeError(f"it is of type {type(value).__name__} and must be a float: use float(…)")
    return float.__repr__(value).encode()


def _encode_decimal(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, Decimal):
        raise TypeError(f"it is of type {type(value).__name__} and must be a decimal.Decimal")
    return str(value).encode()


def _encode_json(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        check_no_mask(value)
        value = value.tolist()
    return json.dumps(value).encode()


#: Encoding → its function.
TEXT_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "json": _encode_json,
    "str": _encode_str,
    "str_decimal": _encode_decimal,
    "str_float": _encode_float,
    "str_int": _encode_int,
}
