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
from mdstorm_backend.maintenance.inspect import Inspection, Stored, _plain, head, inspect

FIELDS = {
    "number": "long",
    "real": "double",
    "flag": "boolean",
    "text": "string",
    "data": "binary",
    "day": "date",
    "price": "decimal(10,2)",
    "ragged": array_of("integer"),
}
ROWS = {
    "number": [1, None, 5],
    "real": [float("nan"), 2.0, None],
    "flag": [True, False, True],
    "text": ["é", "", None],
    "data": [b"12", b"3456", b""],
    "day": [date(2020, 1, 2), date(2019, 1, 1), None],
    "price": [Decimal("1.50"), None, Decimal("-3.00")],
    "ragged": [[1, None], [], [7]],
}


def check_json(found: Inspection) -> None:
    assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == found.to_json()


@pytest.mark.parametrize("compression", [None, "zstd:1"])
def test_the_index_is_described(compression: str | None, tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 500, compression=compression)
    found = inspect(str(tmp_path))
    shards = dataset.index.shards
    assert (found.url, found.rows, found.shards) == (dataset.url, 500, len(shards))
    assert found.shard_rows.total == 500
    assert found.shard_bytes.total == dataset.nbytes
    stored = sum(file.stat().st_size for file in tmp_path.glob("*.mds*"))
    assert found.stored_bytes.total == stored
    assert found.compressions == {compression or "none": len(shards)}
    assert found.hashes == {"none": len(shards)}
    assert found.fingerprint == dataset.fingerprint
    assert found.logical_schema
    (column,) = found.columns
    assert (column.name, column.encodings) == ("number", {"int64": len(shards)})
    assert (column.spark_type, column.nullable) == ("long", True)
    check_json(found)


def test_nulls_are_counted_and_types_named(tmp_path: Path) -> None:
    write_dataset(tmp_path, ROWS, FIELDS)
    columns = {column.name: column for column in inspect(str(tmp_path)).columns}
    assert list(columns) == list(FIELDS)
    assert columns["ragged"].spark_type == "array<integer>"
    assert (columns["ragged"].null_count, columns["ragged"].element_null_count) == (0, 1)
    assert columns["text"].null_count == 1


def test_forms_of_arrays_are_told_apart(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"a": [[1], [2], [3], [4, 5]]}, {"a": array_of("long")}, tasks=2)
    (column,) = inspect(str(tmp_path)).columns
    assert column.encodings == {"ndarray:int64:1": 1, "ndarray:int64": 1}


@pytest.mark.parametrize("directory", GOLDEN_NAMES)
def test_every_dataset_of_the_formats_own_library_is_described_and_shown(directory: str) -> None:
    found = inspect(str(GOLDEN / directory))
    check_json(found)
    assert not found.logical_schema
    assert found.rows == found.shard_rows.total
    shown = head(str(GOLDEN / directory), 3)
    json.dumps(shown.to_json(), allow_nan=False)
    assert all(tuple(row) == shown.columns for row in shown.rows)


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
