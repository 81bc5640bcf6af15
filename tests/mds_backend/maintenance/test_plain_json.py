from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from tests.naming import value_id

from mdstorm_backend.maintenance.plain_json import plain


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (np.float32("inf"), "Infinity"),
        (np.int8(-3), -3),
        (np.array([[1.0, np.nan]]), [[1.0, "NaN"]]),
        (b"\x00\xff", "AP8="),
        (memoryview(b"a"), "YQ=="),
        (Decimal("1.50"), "1.50"),
        (date(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, tzinfo=timezone.utc), "2020-01-02T03:00:00+00:00"),
        (timedelta(milliseconds=1500), 1.5),
        ({1: [b"a", (None,)]}, {"1": ["YQ==", [None]]}),
    ],
    ids=value_id,
)
def test_every_value_becomes_json(value: object, expected: object) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)
