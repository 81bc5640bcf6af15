"""`AsOf`: which version of a table to read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone

from mdstorm_backend.base.checks import check_integer
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError

#: Fractions of seconds, which Python 3.10 reads only with 3 or 6 digits.
_FRACTION = re.compile(r"(?<=:\d\d)\.(\d+)")


@dataclass(frozen=True)
class AsOf:
    """The version of a table that is asked for; the newest one if neither attribute is given.

    Attributes
    ----------
    version : int or None
        Its number.
    timestamp : str, datetime.datetime or None
        A time: the newest version that was there then. ISO 8601, such as ``2024-05-31`` or
        ``2024-05-31T12:00:00+02:00``; in UTC unless it has an offset.

    Raises
    ------
    InvalidArgumentError
        If both are given, or one is no version or no time.
    ArgumentTypeError
        If one is of another type.
    """

    version: int | None = None
    timestamp: str | datetime | None = None

    def __post_init__(self) -> None:
        version, timestamp = self.version, self.timestamp
        if version is not None and timestamp is not None:
            raise InvalidArgumentError(
                f"version={version!r} and timestamp={timestamp!r} both choose the version of a "
                "table: pass only one of them"
            )
        check_integer("version", version, lowest=0)
        if timestamp is not None:
            self.time  # noqa: B018  # checks it

    def __bool__(self) -> bool:
        return self.version is not None or self.timestamp is not None

    def __str__(self) -> str:
        if self.version is not None:
            return f"version={self.version}"
        return f"timestamp={str(self.timestamp)!r}"

    @property
    def time(self) -> datetime:
        """The timestamp, in UTC."""
        found = self.timestamp
        if isinstance(found, str):
            found = _parsed(found)
        if not isinstance(found, datetime):
            raise ArgumentTypeError(
                f"timestamp must be a string in the form of ISO 8601 or a datetime, found {found!r}"
            )
        aware = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
        try:
            return aware.astimezone(timezone.utc)
        except OverflowError as error:
            raise InvalidArgumentError(
                f"timestamp={str(found)!r} is not between the years 1 and 9999 in UTC: leave it "
                "out for the newest version"
            ) from error


def _parsed(text: str) -> datetime:
    plain = _FRACTION.sub(lambda found: f".{found[1][:6]:<06}", text.strip())
    plain = re.sub("[zZ]$", "+00:00", plain)
    try:
        return datetime.fromisoformat(plain)
    except ValueError as error:
        raise InvalidArgumentError(
            f"timestamp={text!r} is not a time: write it as 2024-05-31 or 2024-05-31T12:00:00+02:00"
        ) from error
