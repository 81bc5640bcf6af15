"""Selecting a table version by number or time."""

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.tables import AsOf

NOON = datetime(2024, 5, 31, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "given",
    [
        "2024-05-31T12:00:00Z",
        "2024-05-31 12:00",
        "2024-05-31T14:00:00+02:00",
        "2024-05-31T12:00:00.000+00:00",
        datetime(2024, 5, 31, 12),
        NOON.astimezone(timezone(timedelta(hours=-7))),
    ],
)
def test_times_are_in_utc_unless_they_have_an_offset(given: Any) -> None:
    assert AsOf(timestamp=given).time == NOON


def test_invalid_versions_and_times_raise_error() -> None:
    others: list[Any] = [-1, 1.0, "1", True, "", " ", "-1", " 7 ", "1.5"]
    for version in others:
        with pytest.raises(InvalidArgumentError, match="version must be an integer of at least 0"):
            AsOf(version)
    with pytest.raises(InvalidArgumentError, match="'yesterday' is not a time: write it as"):
        AsOf(timestamp="yesterday")
    others = [1717156800, date(2024, 5, 31)]
    for time in others:
        with pytest.raises(ArgumentTypeError, match="must be a string in the form of ISO 8601"):
            AsOf(timestamp=time)


def test_version_and_timestamp_together_raise_error() -> None:
    with pytest.raises(InvalidArgumentError, match="both choose the version"):
        AsOf(0, "2024-05-31")
    assert not AsOf()
    assert AsOf(0)
    assert str(AsOf(3)) == "version=3"
    assert str(AsOf("release 1")) == "version='release 1'"
