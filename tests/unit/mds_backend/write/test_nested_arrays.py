"""The stored form of nested arrays, and the values read back."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.small_datasets import array_of, plan, write_dataset
from tests.kit.strategies import moderate

from mdstorm_backend import MDSWriter, open_dataset
from mdstorm_backend.errors import EncodingError, UnsupportedTypeError
from mdstorm_backend.format.encodings.encode_arrays import array_encoder
from mdstorm_backend.format.values.arrow_types import SparkType, arrow_type
from mdstorm_backend.format.values.nested_lists import lists_of_array
from mdstorm_backend.maintenance import reindex, verify
from mdstorm_backend.write.batch_shards import encode_column

FLOATS = array_of(array_of("float"))
LONGS = array_of(array_of("long"))
ALIKE = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]


def encodings(dataset: Any) -> list[str]:
    return [encoding for shard in dataset.index.shards for encoding in shard.column_encodings]


def stored(dataset: Any) -> Any:
    return dataset.schema["v"]


def assert_values(dataset: Any, values: list[Any], type_: pa.DataType) -> None:
    found = dataset.to_table().column("v")
    assert found.type == type_
    assert found.to_pylist() == values


#: For each case: rows, shard encodings, shape, whether lists are uneven, number of inner nulls.
FORMS: dict[str, tuple[list[Any], list[str], Any, bool, int]] = {
    "one shape": (ALIKE, ["ndarray:int64:2,2"], (2, 2), False, 0),
    "with a null row": ([*ALIKE, None], ["ndarray:int64:2,2"], (2, 2), False, 0),
    "with a null element": ([[[1, None]], [[3, 4]]], ["ndarray:int64:1,2"], (1, 2), False, 1),
    "several shapes": ([[[1, 2]], [[3], [4]], []], ["ndarray:int64"], None, False, 0),
    "several shapes and nulls": ([[[1, None]], None, [[]]], ["ndarray:int64"], None, False, 1),
    "empty": ([[], []], ["ndarray:int64"], None, False, 0),
    "empty inside": ([[[], []], [[], []]], ["ndarray:int64"], None, False, 0),
    "only null rows": ([None, None], ["ndarray:int64"], None, False, 0),
    "several lengths inside": ([[[1, 2], [3]], [[4]]], ["json"], None, True, 0),
    "nulls inside": ([[[1, None], None], None, [None]], ["json"], None, True, 3),
    "no rows": ([], [], None, False, 0),
}


@pytest.mark.parametrize(("rows", "forms", "shape", "uneven", "nulls"), FORMS.values(), ids=FORMS)
def test_nested_arrays_get_the_simplest_encoding_that_fits(
    tmp_path: Path, rows: list[Any], forms: list[str], shape: Any, uneven: bool, nulls: int
) -> None:
    dataset = write_dataset(tmp_path, {"v": rows}, {"v": LONGS})
    assert encodings(dataset) == forms
    column = stored(dataset)
    assert (column.encoding, column.shape, column.uneven) == ("ndarray:int64", shape, uneven)
    assert column.element_null_count == nulls
    assert column.null_count == rows.count(None)
    if not rows:
        return
    assert_values(dataset, rows, arrow_type(LONGS))
    assert not verify(dataset.url).problems
    (tmp_path / "index.json").unlink()
    reindex(dataset.url)
    again = open_dataset(dataset.url)
    assert (again.schema, stored(again).shape) == (dataset.schema, shape)


@pytest.mark.parametrize(
    ("first", "second", "forms"),
    [
        (ALIKE, [[[1, 2, 3]]], ["ndarray:int64:2,2", "ndarray:int64"]),
        (ALIKE, [[[1], []]], ["ndarray:int64:2,2", "json"]),
        ([[[1]], [[1, 2]]], [[[1], []]], ["ndarray:int64", "json"]),
        ([[[1], []]], ALIKE, ["json"]),
    ],
)
def test_array_shape_change_starts_a_shard_with_a_more_general_encoding(
    tmp_path: Path, first: list[Any], second: list[Any], forms: list[str]
) -> None:
    rows = [row for _ in range(3) for row in [*first, *first, *second, *second]]
    parts = [first * 2, second * 2] * 3
    table = pa.concat_tables([pa.table({"v": pa.array(part, arrow_type(LONGS))}) for part in parts])
    with MDSWriter(out=str(tmp_path / "x")) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    dataset = open_dataset(str(tmp_path / "x"))
    assert list(dict.fromkeys(encodings(dataset))) == forms
    assert len(encodings(dataset)) == len(forms)
    assert_values(dataset, rows, arrow_type(LONGS))
    (block,) = dataset.batches(100, format="numpy")
    assert all(isinstance(row, list) == stored(dataset).uneven for row in block["v"])


NUMBERS = ["boolean", "byte", "short", "integer", "long", "float", "double"]


@st.composite
def columns(draw: st.DrawFn) -> tuple[SparkType, list[Any]]:
    """Draw a column's type, and nested arrays that may differ in shape and have nulls anywhere."""
    depth = draw(st.integers(2, 4))
    spark_type: SparkType = draw(st.sampled_from(NUMBERS))
    item: st.SearchStrategy[Any] = st.booleans() if spark_type == "boolean" else st.integers(0, 100)
    item = st.none() | item if draw(st.booleans()) else item
    shape = draw(st.lists(st.integers(1, 3), min_size=depth, max_size=depth))
    is_alike, has_null_lists = draw(st.booleans()), draw(st.booleans())
    for size in shape:
        spark_type = array_of(spark_type)
        least, most = (size, size) if is_alike else (0, 3)
        item = st.lists(item, min_size=least, max_size=most)
        item = st.none() | item if has_null_lists and not is_alike else item
    return spark_type, draw(st.lists(st.none() | item, min_size=1, max_size=12))


@moderate
@given(columns(), st.integers(1, 5))
def test_nested_arrays_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, column: tuple[SparkType, list[Any]], rows: int
) -> None:
    spark_type, values = column
    directory = tmp_path_factory.mktemp("nested")
    dataset = write_dataset(directory, {"v": values}, {"v": spark_type}, batch_rows=rows)
    assert_values(dataset, values, arrow_type(spark_type))
    for row in np.random.default_rng(0).permutation(len(values)).tolist():
        assert _plain(dataset.sample(row)["v"]) == values[row]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


SPARK_NAMES = {"uint8": "boolean", "int16": "short", "float32": "float", "float64": "double"}


@pytest.mark.parametrize("dtype", SPARK_NAMES)
@pytest.mark.parametrize(
    "sizes", [[(1, 2), (0, 0)], [(2, 255), (1, 256)], [(1, 1, 3), (1, 1, 66_000)]], ids=str
)
def test_arrays_in_a_column_and_single_arrays_have_equal_bytes(
    dtype: str, sizes: list[tuple[int, ...]]
) -> None:
    arrays = [np.arange(np.prod(size)).astype(dtype).reshape(size) for size in sizes]
    spark_type: SparkType = SPARK_NAMES[dtype]
    if dtype == "uint8":
        arrays = [array % 2 for array in arrays]
    for _ in sizes[0]:
        spark_type = array_of(spark_type)
    (column,) = plan({"v": spark_type})
    logical = bool if dtype == "uint8" else dtype
    lists = pa.array([array.astype(logical).tolist() for array in arrays], arrow_type(spark_type))
    parts = encode_column(column, lists, ragged=False).parts
    found = [b"".join(row) for row in zip(*(part.to_pylist() for part in parts), strict=True)]
    assert found == list(map(array_encoder(np.dtype(dtype), None), arrays))


@pytest.mark.parametrize(
    ("dtype", "element"),
    [("float32", pa.float32()), ("float64", pa.float64()), (None, pa.float64())],
)
@pytest.mark.parametrize(
    "rows", [[[[0.1, None]]], [[[0.1], [1e300]], [[2.0]]], [[[0.1], [], None]]]
)
def test_nested_doubles_are_cast_to_dtype(
    tmp_path: Path, dtype: str | None, element: pa.DataType, rows: list[Any]
) -> None:
    doubles, type_ = array_of(array_of("double")), pa.list_(pa.list_(element))
    dataset = write_dataset(tmp_path, {"v": rows}, {"v": doubles}, dtype=dtype)
    wanted = pa.array(rows, arrow_type(doubles)).cast(type_, safe=False)
    assert_values(dataset, wanted.to_pylist(), type_)


def write_as(tmp_path: Path, encoding: str, rows: list[Any]) -> Any:
    with MDSWriter(out=str(tmp_path / "x"), columns={"v": encoding}) as writer:
        writer.write_batch(pa.table({"v": pa.array(rows, arrow_type(LONGS))}))
    return open_dataset(str(tmp_path / "x"))


def test_nested_arrays_are_written_in_the_given_encoding(tmp_path: Path) -> None:
    rows = [*ALIKE, None, [[None], None]]  # earlier versions stored such rows as JSON
    dataset = write_as(tmp_path, "json", rows)
    assert (encodings(dataset), stored(dataset).encoding) == (["json"], "json")
    assert_values(dataset, rows, arrow_type(LONGS))
    fixed = write_as(tmp_path / "a", "ndarray:int64:2,2", ALIKE)
    assert (encodings(fixed), stored(fixed).value_shape) == (["ndarray:int64:2,2"], (2, 2))
    assert_values(fixed, ALIKE, arrow_type(LONGS))
    free = write_as(tmp_path / "b", "ndarray:int64", ALIKE)
    assert encodings(free) == ["ndarray:int64"]
    assert_values(free, ALIKE, arrow_type(LONGS))


@pytest.mark.parametrize(
    ("encoding", "rows", "kind", "message"),
    [
        ("ndarray:int64:1,2,2", ALIKE, UnsupportedTypeError, "cannot be stored"),
        ("ndarray:int64:2,2", [[[1, 2, 3]]], EncodingError, r"\(1, 3\), expected \(2, 2\)"),
        ("ndarray:int64:2,2", [[[1, 2], [3]]], EncodingError, "lists of different lengths or null"),
        ("ndarray:int64", [[[1, 2], [3]]], EncodingError, "lists of different lengths or null"),
        ("ndarray", [[[1, None]]], EncodingError, "nested lists has null elements"),
    ],
)
def test_rows_that_do_not_fit_the_given_encoding_raise_error(
    tmp_path: Path, encoding: str, rows: list[Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        write_as(tmp_path, encoding, rows)


@pytest.mark.parametrize("row", [[[1, None]], [[1], []]], ids=str)
def test_ragged_nested_lists_of_unsigned_numbers_are_written(row: Any, tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([row], pa.list_(pa.list_(pa.uint8())))})
    with MDSWriter(out=str(tmp_path / "x")) as writer:
        writer.write_batch(table)
    assert open_dataset(str(tmp_path / "x")).to_table().equals(table)


@pytest.mark.parametrize("type_", [pa.uint16(), pa.float16()], ids=str)
def test_nested_lists_of_types_unknown_to_spark_are_written_as_arrays(
    tmp_path: Path, type_: pa.DataType
) -> None:
    lists = lists_of_array(np.array(ALIKE, type_.to_pandas_dtype()))
    with MDSWriter(out=str(tmp_path / "x")) as writer:
        writer.write_batch(pa.table({"v": lists}))
    dataset = open_dataset(str(tmp_path / "x"))
    assert [dataset.sample(row)["v"].tolist() for row in range(2)] == ALIKE
    assert dataset.sample(0)["v"].dtype == type_.to_pandas_dtype()
    (batch,) = dataset.batches(2, format="numpy")
    assert batch["v"].shape == (2, 2, 2)
