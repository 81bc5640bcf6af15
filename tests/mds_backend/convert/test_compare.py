"""`compare` says whether two datasets hold the same rows, and where they do not."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.mds_backend.convert.parquet_files import every_type, numbers, write
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.convert import Comparison, compare, convert_parquet
from mdstorm_backend.convert import comparison as examples
from mdstorm_backend.errors import CorruptDatasetError, MissingColumnError
from mdstorm_backend.parquet import open_parquet

Problems = list[tuple[str, str]]


def compared(tmp_path: Path, first: pa.Table, second: pa.Table) -> Comparison:
    source = write(tmp_path / "first", first.slice(0, 3), first.slice(3), row_group_size=5)
    return compare(source, write(tmp_path / "second", second, row_group_size=4))


def problems(found: Comparison) -> Problems:
    return [(difference.column, difference.problem) for difference in found.columns]


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(np.random.default_rng(1).permutation(len(table)))


def test_the_order_of_rows_columns_and_files_does_not_matter(tmp_path: Path) -> None:
    table = every_type()
    other = shuffled(table).select(table.schema.names[::-1])
    assert compared(tmp_path, table, other).is_same


def test_rows_count_as_often_as_they_are_there(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 1, 2, 2, 2]})
    other = pa.table({"a": [1, 1, 1, 2, 2]})
    found = compared(tmp_path, table, other)
    assert (found.source_rows, found.other_rows) == (5, 5)
    assert problems(found) == [("a", "has other values")]
    assert not found.is_same


def test_rows_do_not_cancel_each_other_out(tmp_path: Path) -> None:
    source, other = (
        write(tmp_path / str(twice), pa.table({"a": [twice, twice, 3]}), row_group_size=1)
        for twice in (1, 2)
    )
    found = compare(source, other)
    assert [(e.source_row, e.other_row) for e in found.examples] == [
        *[(0, None), (1, None)],
        *[(None, 0), (None, 1)],
    ]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", 5_000),
        ("half", -0.0),
        ("half", None),
        ("text", ""),
        ("text", None),
        ("list", [1.0, 2.0]),
        ("list", [1.0, None]),
        ("struct", {"a": 1, "b": None}),
    ],
)
def test_one_value_is_enough_and_is_shown(tmp_path: Path, column: str, value: object) -> None:
    rows = 40
    table = numbers(rows)
    table = table.append_column("list", pa.array([[1.0]] * rows))
    structs = pa.array(
        [{"a": 1, "b": "x"}] * rows, pa.struct([("a", pa.int64()), ("b", pa.string())])
    )
    table = table.append_column("struct", structs)
    place = table.schema.get_field_index(column)
    values = table.column(column).to_pylist()
    before, values[0] = values[0], value
    other = table.set_column(place, column, pa.array(values, table.schema.field(column).type))
    found = compared(tmp_path, table, other.take(list(range(rows))[::-1]))
    assert problems(found) == [(column, "has other values")]
    (example,) = found.examples
    assert (example.source_row, example.other_row) == (0, rows - 1)
    assert repr(example.values) == repr({column: (before, value)})


def test_columns_with_the_same_values_in_other_rows_are_found(tmp_path: Path) -> None:
    table = numbers(50)
    rolled = table.column("half").take(np.roll(np.arange(50), 1))
    found = compared(tmp_path, table, table.set_column(1, "half", rolled))
    assert not found.is_same
    assert problems(found) == []
    assert [example.other_row for example in found.examples[:3]] == [None] * 3
    assert [example.source_row for example in found.examples[3:]] == [None] * 3
    assert found.examples[0].values == {"id": (0, None), "half": (0.0, None), "text": ("0", None)}


def test_missing_rows_are_shown(tmp_path: Path) -> None:
    found = compared(tmp_path, numbers(30), numbers(29, 1))
    assert (found.source_rows, found.other_rows, found.columns) == (30, 29, ())
    (example,) = found.examples
    assert (example.source_row, example.other_row) == (0, None)
    assert example.values["text"] == ("0", None)


def test_columns_are_told_that_are_missing_or_of_another_type(tmp_path: Path) -> None:
    table = numbers(10)
    other = table.drop_columns(["text"]) if hasattr(table, "drop_columns") else table.drop(["text"])
    other = other.set_column(0, "id", other.column("id").cast(pa.int32()))
    other = other.append_column("more", other.column("half"))
    found = compared(tmp_path, table, other)
    first, second = (f"file://{tmp_path}/{name}" for name in ("first", "second"))
    assert problems(found) == [
        ("id", f"is int64 in {first} and int32 in {second}"),
        ("text", f"is missing in {second}"),
        ("more", f"is missing in {first}"),
    ]
    assert found.examples == ()
    sources = [open_parquet(f"{tmp_path}/{name}") for name in ("first", "second")]
    assert compare(*sources, columns=["half"]).is_same
    with pytest.raises(MissingColumnError, match="'nothing'"):
        compare(*sources, columns=["nothing"])


def test_many_differences_are_found_in_many_rows(tmp_path: Path) -> None:
    """More buckets differ than are looked at, so rows are sampled by what does not differ."""
    rows = 400
    table = numbers(rows)
    halves = np.where(np.arange(rows) % 2, -1.0, np.arange(rows) / 2)
    other = shuffled(table.set_column(1, "half", pa.array(halves)))
    found = compared(tmp_path, table, other)
    assert problems(found) == [("half", "has other values")]
    assert len(found.examples) == 3
    for example in found.examples:
        assert example.source_row is not None
        assert example.other_row is not None
        before, after = example.values["half"]
        assert (before, after) == (example.source_row / 2, -1.0)


def test_examples_are_right_in_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "_SAMPLED_ROWS", 100)
    monkeypatch.setattr(examples, "_MOST_BUCKETS", 1)
    test_many_differences_are_found_in_many_rows(tmp_path)


def test_no_rows_and_no_common_columns(tmp_path: Path) -> None:
    assert compared(tmp_path, numbers(0), numbers(0)).is_same
    found = compared(tmp_path, pa.table({"a": [1]}), pa.table({"b": [1]}))
    assert [difference.column for difference in found.columns] == ["a", "b"]


def test_progress_counts_shards_and_row_groups(tmp_path: Path) -> None:
    source = write(tmp_path / "source", numbers(10), row_group_size=5)
    seen: list[tuple[int, int]] = []
    compare(source, write_numbers(tmp_path / "other", 3), on_progress=lambda *at: seen.append(at))
    assert seen == []  # they have no column in common
    compare(source, source, on_progress=lambda *at: seen.append(at))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_damaged_side_is_an_error_and_no_difference(tmp_path: Path) -> None:
    source = write(tmp_path / "source", numbers(100))
    dataset = convert_parquet(source, str(tmp_path / "mds"))
    (shard,) = (tmp_path / "mds").glob("*.mds")
    shard.write_bytes(shard.read_bytes()[:-5])
    with pytest.raises(CorruptDatasetError):
        compare(source, dataset)


def test_the_report_is_json(tmp_path: Path) -> None:
    import json

    found = compared(tmp_path, pa.table({"a": [b"\xff" * 100]}), pa.table({"a": [b"x"]}))
    value = json.loads(json.dumps(found.to_json()))
    assert value["is_same"] is False
    assert value["columns"] == [{"column": "a", "problem": "has other values"}]
    left = value["examples"][0]["values"]["a"][0]
    assert left.startswith("b'\\xff")
    assert len(left) == 80
