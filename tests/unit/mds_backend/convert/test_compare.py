"""`compare` checks that two datasets have the same rows in order, and reports differences."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.parquet_files import every_type, numbers, open_parquet, write
from tests.kit.small_datasets import write_numbers

from mdstorm_backend.convert import Comparison, compare
from mdstorm_backend.convert.comparison import differing
from mdstorm_backend.errors import MissingColumnError


def compared(tmp_path: Path, first: pa.Table, second: pa.Table) -> Comparison:
    source = write(tmp_path / "first", first.slice(0, 3), first.slice(3), row_group_size=5)
    return compare(source, write(tmp_path / "second", second, row_group_size=4))


def problems(found: Comparison) -> list[tuple[str, str]]:
    return [(difference.column, difference.problem) for difference in found.columns]


def test_compare_ignores_file_boundaries_and_column_order(
    tmp_path: Path,
) -> None:
    table = every_type()
    assert compared(tmp_path, table, table.select(table.schema.names[::-1])).is_same


@pytest.mark.parametrize(("column", "row", "value"), [("half", 0, -0.0), ("text", 39, None)])
def test_compare_reports_a_single_different_value(
    tmp_path: Path, column: str, row: int, value: object
) -> None:
    table = numbers(40)
    values = table.column(column).to_pylist()
    before, values[row] = values[row], value
    other = table.set_column(table.schema.names.index(column), column, pa.array(values))
    (found,) = compared(tmp_path, table, other).columns
    assert (found.column, found.problem, found.rows) == (column, "differs in 1 row", 1)
    assert repr(found.examples) == repr(((row, before, value),))


def test_compare_counts_all_different_rows_and_shows_the_first(tmp_path: Path) -> None:
    table = numbers(400)
    other = table.set_column(1, "half", pa.array(np.where(np.arange(400) % 2, -1.0, 0.0)))
    (found,) = compared(tmp_path, table, other).columns
    assert found.rows == 399
    assert found.examples == ((1, 0.5, -1.0), (2, 1.0, 0.0), (3, 1.5, -1.0))


def test_compare_with_different_row_counts_compares_common_rows(tmp_path: Path) -> None:
    found = compared(tmp_path, numbers(30), numbers(29))
    assert (found.source_rows, found.other_rows, found.columns) == (30, 29, ())
    assert not found.is_same


NESTED = pa.struct(
    [("a", pa.list_(pa.string())), ("b", pa.map_(pa.string(), pa.list_(pa.float64())))]
)
INTEGERS, TEXTS = st.integers(-3, 3), st.text("ab", max_size=3)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan")])
VALUES = {
    pa.int64(): INTEGERS,
    pa.bool_(): st.booleans(),
    pa.float16(): FLOATS.map(np.float16),
    pa.binary(): TEXTS.map(str.encode),
    pa.duration("us"): INTEGERS,
    pa.list_(pa.float64()): st.lists(st.none() | FLOATS, max_size=3),
    pa.list_(pa.string()): st.lists(st.none() | TEXTS, max_size=3),
    pa.decimal128(9, 2): st.decimals(-3, 3, places=2),
    NESTED: st.fixed_dictionaries(
        {
            "a": st.none() | st.lists(TEXTS, max_size=2),
            "b": st.lists(st.tuples(TEXTS, st.lists(FLOATS, max_size=2)), max_size=2),
        }
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("type_", VALUES, ids=str)
@given(data=st.data())
def test_compare_distinguishes_values_with_different_reprs(type_: pa.DataType, data: Any) -> None:
    pairs = st.lists(st.tuples(*[st.none() | VALUES[type_]] * 2), min_size=1, max_size=12)
    columns = zip(*data.draw(pairs), strict=True)
    left, right = (pa.array([*values, None], type_).slice(1) for values in columns)
    texts = zip(map(repr, left.to_pylist()), map(repr, right.to_pylist()), strict=True)
    assert differing(left, right).tolist() == [a != b for a, b in texts]


def test_compare_ignores_values_stored_for_nulls_and_the_bits_of_nan() -> None:
    validity = pa.array([True, False]).buffers()[1]
    bits = np.array([0x7FF8000000000001, 2], np.uint64)
    values = pa.Array.from_buffers(pa.float64(), 2, [validity, pa.py_buffer(bits)])
    assert not differing(values, pa.array([float("nan"), None])).any()
    inside = pa.ListArray.from_arrays([0, 2], values)
    assert not differing(inside, pa.array([[float("nan"), None]])).any()


def test_compare_reports_missing_columns_and_different_types(tmp_path: Path) -> None:
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
    sources = [open_parquet(f"{tmp_path}/{name}") for name in ("first", "second")]
    assert compare(*sources, columns=["half"]).is_same
    with pytest.raises(MissingColumnError, match="'nothing'"):
        compare(*sources, columns=["nothing"])


def test_compare_without_common_columns_reports_all_columns(tmp_path: Path) -> None:
    assert compared(tmp_path, numbers(0), numbers(0)).is_same
    found = compared(tmp_path, pa.table({"a": [1]}), pa.table({"b": [1]}))
    assert [difference.column for difference in found.columns] == ["a", "b"]


def test_progress_counts_shards_and_row_groups(tmp_path: Path) -> None:
    source = write(tmp_path / "source", numbers(10), row_group_size=5)
    seen: list[tuple[int, int]] = []
    compare(source, write_numbers(tmp_path / "other", 3), on_progress=lambda *at: seen.append(at))
    assert seen == []  # the datasets have no columns in common
    compare(source, source, on_progress=lambda *at: seen.append(at))
    assert seen == [(1, 2), (2, 2)]


def test_compare_report_can_be_dumped_as_json(tmp_path: Path) -> None:
    found = compared(tmp_path, pa.table({"a": [b"\xff" * 100]}), pa.table({"a": [b"x"]}))
    value = json.loads(json.dumps(found.to_json()))
    assert value["is_same"] is False
    (column,) = value["columns"]
    assert (column["column"], column["problem"]) == ("a", "differs in 1 row")
    ((row, left, right),) = column["examples"]
    assert (row, right) == (0, "b'x'")
    assert left.startswith("b'\\xff")
    assert len(left) == 80
