"""Sizes in bytes, also as strings such as ``"64mb"``."""

from __future__ import annotations

import re

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.shard_info import MAX_SHARD_BYTES

_UNITS = {"b": 1, **{f"{prefix}b": 1 << 10 * (i + 1) for i, prefix in enumerate("kmgtpezy")}}
_TEXT = re.compile(r"(?P<number>[^a-df-z]+?)\s*(?P<unit>[kmgtpezy]?b)?")


def parse_size(value: float | str) -> int:
    """Return the number of bytes for a number or a string such as ``"1.5mb"``.

    A kilobyte has 1024 bytes; case does not matter.

    Raises
    ------
    InvalidArgumentError
        If the value is not a size.
    """
    try:
        if not isinstance(value, str):
            return int(value)
        match = _TEXT.fullmatch(value.strip().lower())
        if match is None:
            raise ValueError(value)
        number, unit = match["number"], match["unit"]
        return int(number) if unit is None else int(float(number) * _UNITS[unit])
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{value!r} is not a size: unsupported value or suffix. Pass a number of bytes, or a "
            "string such as '64mb'"
        ) from error


def parse_size_limit(value: float | str | None) -> int | None:
    """Return the shard size limit in bytes; None, meaning no limit, if `value` is None or 0.

    Raises
    ------
    InvalidArgumentError
        If the value is not a size, is negative, or is 4 GiB or more.
    """
    limit = parse_size(0 if value is None else value)
    if not 0 <= limit <= MAX_SHARD_BYTES:
        raise InvalidArgumentError(
            f"size_limit must be greater than zero and less than 2**32 bytes, found {value!r}"
        )
    return limit or None
