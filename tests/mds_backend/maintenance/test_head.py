import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from tests.mds_backend.maintenance.damage import GOLDEN, GOLDEN_NAMES
from tests.mds_backend.small_datasets import array_of, write_dataset, write_numbers
from tests.naming import value_id

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.maintenance.inspect import Stored, _plain, head


@pytest.mark.long
@pytest.mark.parametrize("n", [0, 1, 5, 90, 300, 301])
def test_the_first_rows_come_whatever_shard_holds_them(n: int, tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 300)
    assert max(dataset.shard_sizes) < 300
    found = head(str(tmp_path), n)
    assert found.columns == ("number",)
    assert [row["number"] for row in found.rows] == list(range(min(n, 300)))


def test_values_come_as_they_were_written(tmp_path: Path) -> None:
    rows = {
        "b": ["é", None],
        "a": [date(2020, 1, 2), None],
        "pair": [[1.0, 2.0], [3.0, 4.0]],
        "ragged": [[1], [None, 2]],
        "data": [b"\xff", b""],
    }
    fields = {
        "b": "string",
        "a": "date",
        "pair": array_of("double"),
        "ragged": array_of("long"),
        "data": "binary",
    }
    write_dataset(tmp_path, rows, fields)
    found = head(str(tmp_path), 5)
    assert found.columns == tuple(fields)
    assert [row["b"] for row in found.rows] == ["é", None]
    assert [row["ragged"] for row in found.rows] == [[1], [None, 2]]
    np.testing.assert_array_equal(found.rows[1]["pair"], [3.0, 4.0])
    value = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert value[0] == {
        "b": "é",
        "a": "2020-01-02",
        "pair": [1.0, 2.0],
        "ragged": [1],
        "data": "/w==",
    }


def test_columns_are_chosen_and_ordered(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"a": [1], "b": [2], "c": [3]}, dict.fromkeys("abc", "long"))
    assert head(str(tmp_path), columns=["c", "a"]).rows == ({"c": 3, "a": 1},)
    with pytest.raises(ArgumentTypeError, match="no columns"):
        head(str(tmp_path), columns=["d"])


def test_images_and_pickles_are_shown_as_stored() -> None:
    images = head(str(GOLDEN / "images_png"), 1)
    value = images.rows[0]["p"]
    assert isinstance(value, Stored)
    assert value.data.startswith(b"\x89PNG")
    assert str(value) == f"<png, {len(value.data)} bytes>"
    pickles = head(str(GOLDEN / "pickle"), 1)
    assert all(isinstance(v, Stored) and v.encoding == "pkl" for v in pickles.rows[0].values())


@pytest.mark.parametrize("directory", GOLDEN_NAMES)
def test_every_dataset_of_the_formats_own_library_is_shown(directory: str) -> None:
    found = head(str(GOLDEN / directory), 3)
    json.dumps(found.to_json(), allow_nan=False)
    assert all(tuple(row) == found.columns for row in found.rows)


def test_a_negative_number_of_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="-1 rows"):
        head(str(tmp_path), -1)


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
    found = _plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)
