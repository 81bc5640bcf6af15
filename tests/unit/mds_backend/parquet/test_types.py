"""The types that Parquet columns have in batches and tensors."""

import base64
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet

from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.errors import (
    EncodingRangeError,
    NullValueError,
    UnsupportedTableError,
    UnsupportedTypeError,
)
from mdstorm_backend.loaders.torch.torch_tensors import to_torch
from mdstorm_backend.parquet import ParquetDataset, value_bounds
from mdstorm_backend.read.batch_formats import to_numpy


def dataset_of(
    directory: Path, columns: dict[str, Any] | pa.Table, **options: Any
) -> ParquetDataset:
    directory.mkdir(exist_ok=True)
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, directory / "a.parquet", **options)
    return open_parquet(str(directory))


def tensors(shape: tuple[int, ...]) -> pa.FixedShapeTensorArray:
    return pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((1, *shape), np.float32))


def batch_of(dataset: ParquetDataset) -> dict[str, Any]:
    (batch,) = dataset.batches(len(dataset))
    return batch  # type: ignore[no-any-return]


DECIMALS = [Decimal("1.5"), None, Decimal("2.0")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["a", "b", None], pa.large_string()), ["a", "b", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([b"ab", b"cd", None], pa.binary(2)), [b"ab", b"cd", None]),
        (pa.array([b"ab", b"c", b""], pa.large_binary()), [b"ab", b"c", b""]),
        (pa.array([[1], None, [2, 3]], pa.large_list(pa.int32())), [[1], None, [2, 3]]),
        *(
            (pa.array([Decimal("1.5"), None, Decimal(2)], getattr(pa, name)(5, 1)), DECIMALS)
            for name in ("decimal32", "decimal64")
            if hasattr(pa, name)
        ),
    ],
    ids=str,
)
def test_large_and_view_types_read_as_plain_types(
    values: pa.Array, expected: Any, tmp_path: Path
) -> None:
    dataset = dataset_of(tmp_path, {"x": values})
    assert dataset.to_table()["x"].to_pylist() == expected
    samples = [dataset[number]["x"] for number in range(3)]
    assert [v.tolist() if isinstance(v, np.ndarray) else v for v in samples] == expected


@pytest.mark.parametrize(
    "options",
    [
        {"use_deprecated_int96_timestamps": True},  # as Spark writes them
        {"coerce_timestamps": "us"},
        {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
        {"version": "2.6"},
    ],
    ids=["int96", "us", "ms", "ns"],
)
def test_timestamps_are_read_in_microseconds(options: dict[str, Any], tmp_path: Path) -> None:
    moment = datetime(1970, 12, 31, 23, 59, 59, 250_000)
    times = pa.array([moment, None, moment], pa.timestamp("ns"))
    dataset = dataset_of(tmp_path, {"t": times}, **options)
    found = batch_of(dataset)["t"]
    assert found.dtype == "datetime64[us]"
    assert found.tolist() == [moment, None, moment]


def test_nanoseconds_are_truncated_with_a_warning(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, {"t": pa.array([1_001, 2_000], pa.timestamp("ns"))})
    with pytest.warns(UserWarning, match="column 't' of .* holds nanoseconds"):
        found = batch_of(dataset)["t"]
    assert found.astype(np.int64).tolist() == [1, 2]


def test_fixed_size_lists_are_read_as_a_matrix(tmp_path: Path) -> None:
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    dataset = dataset_of(tmp_path, {"v": vectors})
    assert dataset.schema["v"].length == 2
    read = batch_of(dataset)["v"]
    assert (read.dtype, read.tolist()) == (np.float32, [[1.0, 2.0], [3.0, 4.0]])
    assert dataset[0]["v"].tolist() == [1.0, 2.0]


def test_fixed_size_lists_with_null_rows_are_read(tmp_path: Path) -> None:
    if int(pa.__version__.split(".")[0]) < 15:
        pytest.skip("this Arrow version cannot write them to Parquet")
    rows = [[1.0, None], None, [3.0, 4.0]]
    dataset = dataset_of(tmp_path, {"v": pa.array(rows, pa.list_(pa.float64(), 2))})
    assert dataset.to_table()["v"].to_pylist() == rows
    found = [None if row is None else repr(row.tolist()) for row in batch_of(dataset)["v"]]
    assert found == ["[1.0, nan]", None, "[3.0, 4.0]"]


def test_fixed_shape_tensors_are_read(tmp_path: Path) -> None:
    tensors = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(tensors)
    dataset = dataset_of(tmp_path, {"v": column})
    assert batch_of(dataset)["v"].tolist() == tensors.tolist()
    assert dataset[1]["v"].tolist() == tensors[1].tolist()


def test_unsupported_columns_are_omitted_and_listed_with_their_types(tmp_path: Path) -> None:
    columns = {"a": [1], "n": pa.nulls(1), "t": pa.array([1], pa.time64("us"))}
    dataset = dataset_of(tmp_path, columns)
    assert dataset.schema.names == ("a",)
    assert set(dataset.left_out) == {"n", "t"}
    assert dataset.left_out["t"] == pa.time64("us")
    assert dataset[0] == {"a": 1}


def test_struct_field_statistics_are_not_used_for_a_column_of_the_same_name(
    tmp_path: Path,
) -> None:
    dataset = dataset_of(tmp_path, {"a.b": [1, 2], "a": [{"b": 100}, {"b": 200}]})
    assert value_bounds(dataset, ["a.b", "a"]) == [{"a.b": (1, 2)}]


def test_nulls_without_statistics_are_detected_in_each_row_group(tmp_path: Path) -> None:
    columns = {"x": [2**60 + 1, 2, None, 4], "b": [True, False, None, True]}
    dataset = dataset_of(tmp_path, columns, row_group_size=2, write_statistics=False)
    assert not dataset.schema["x"].origin.counts_nulls
    rows = np.arange(2)
    first, second = (to_numpy(dataset.shard(n).read(rows, "xb"), dataset.schema) for n in (0, 1))
    assert first["x"].dtype == np.int64
    assert first["b"].dtype == np.bool_
    assert repr(second["x"].tolist()) == "[nan, 4.0]"
    assert repr(second["b"].tolist()) == "[nan, 1.0]"
    (whole,) = dataset.batches(4)
    assert repr(whole["x"].tolist()[1:]) == "[2.0, nan, 4.0]"
    assert dataset.to_table().to_pydict() == columns
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    assert not open_parquet(str(tmp_path)).schema["x"].origin.counts_nulls


def test_files_with_reordered_or_narrower_columns_are_read(tmp_path: Path) -> None:
    dataset_of(tmp_path, {"x": pa.array([1], pa.int32()), "y": ["a"], "z": [0.5]})
    texts = pa.array(["b"]).dictionary_encode()
    other = {"z": pa.array([1.5], pa.float32()), "y": texts, "x": pa.array([2], pa.int64())}
    pq.write_table(pa.table(other), tmp_path / "b.parquet")
    dataset = open_parquet(str(tmp_path))
    assert dataset.to_table().to_pydict() == {"x": [1, 2], "y": ["a", "b"], "z": [0.5, 1.5]}
    assert batch_of(dataset)["x"].dtype == np.int64


@pytest.mark.parametrize("elsewhere", [pa.list_(pa.int32()), pa.list_(pa.int64(), 3)], ids=str)
def test_lists_with_different_lengths_in_each_file_are_read(
    elsewhere: pa.DataType, tmp_path: Path
) -> None:
    rows = [[1, 2], [3, 4, 5], [6, 7, 8]]
    for name, part, type_ in (("a", rows[:1], pa.list_(pa.int64(), 2)), ("b", rows[1:], elsewhere)):
        pq.write_table(pa.table({"x": pa.array(part, type_)}), tmp_path / f"{name}.parquet")
    assert [row.tolist() for row in batch_of(open_parquet(str(tmp_path)))["x"]] == rows


def test_null_column_takes_its_type_from_other_files(tmp_path: Path) -> None:
    dataset_of(tmp_path, {"x": pa.nulls(2), "v": pa.array([[], []], pa.list_(pa.null()))})
    pq.write_table(pa.table({"x": ["b"], "v": [[1]]}), tmp_path / "b.parquet")
    dataset = open_parquet(str(tmp_path))
    assert dataset.to_table().to_pydict() == {"x": [None, None, "b"], "v": [[], [], [1]]}


@pytest.mark.parametrize(
    ("differing", "other", "message"),
    [
        ("x", {"y": [1]}, r"b\.parquet has no column 'x', but .*a\.parquet has it, as int64"),
        ("x", {"X": [1]}, r"b\.parquet has no column 'x', but .*a\.parquet has it"),
        ("y", {"x": [1], "y": [1]}, r"a\.parquet has no column 'y', but .*b\.parquet has it"),
        ("x", {"x": ["1"]}, r"'x' is string in .*b\.parquet and int64 in .*a\.parquet"),
        ("t", {"x": [1], "t": tensors((3, 2))}, r"'t' is ext.*=\[3,2\].* in .*b\.parquet and ext"),
        ("t", {"x": [1], "t": tensors((2, 3)).storage}, r"'t' is fixed.* in .*b\.parquet and ext"),
    ],
)
def test_columns_that_differ_between_files_raise_error_when_read(
    differing: str, other: dict[str, Any], message: str, tmp_path: Path
) -> None:
    ids = {"id": [1]}
    first = {"x": [1], "t": tensors((2, 3))} if "t" in other else {"x": [1]}
    pq.write_table(pa.table(ids | first), tmp_path / "a.parquet")
    pq.write_table(pa.table(ids | other), tmp_path / "b.parquet")
    dataset = open_parquet(str(tmp_path))
    assert dataset.to_table(["id"]).to_pydict() == {"id": [1, 1]}
    assert dataset.numbers(pc.field("id") == 1).tolist() == [0, 1]
    assert [dataset.sample(row, ["id"]) for row in range(2)] == [{"id": 1}] * 2
    assert dataset.schema[differing].shown_type == "differs"
    for read in (
        lambda: dataset.to_table([differing]),
        lambda: dataset.numbers([(differing, "=", None)]),
        lambda: dataset.numbers(pc.field(differing).is_valid()),
        lambda: next(dataset.stored_batches(range(1), [differing], 1)),
    ):
        with pytest.raises(UnsupportedTableError, match=f"{message}.*schema_fields=.*columns="):
            read()
    for read in (lambda: dataset.batches(1), lambda: dataset[0]):
        with pytest.raises(UnsupportedTableError, match=r"differ in the columns \['"):
            read()


@pytest.mark.parametrize(
    ("integers", "found"),
    [
        (pa.array([1, 2**60]), [1.0, float(2**60)]),
        (pa.array([1, None], pa.uint64()), [1.0, None]),
        (pa.array([[1], [2**53]]), [[1.0], [float(2**53)]]),
        (pa.array([2**53 + 1, 1]), None),
        (pa.array([1, 2**63 - 1]), None),
        (pa.array([1, 2**64 - 1], pa.uint64()), None),
        (pa.array([[1], [None, 2**53 + 1]]), None),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_first", [True, False])
def test_integers_in_one_file_and_doubles_in_another_are_doubles(
    integers: pa.Array, found: list[Any] | None, is_first: bool, tmp_path: Path
) -> None:
    is_list = pa.types.is_list(integers.type)
    doubles = pa.array([[0.5]] if is_list else [0.5])
    parts = [integers, doubles] if is_first else [doubles, integers]
    for name, part in zip("ab", parts, strict=True):
        pq.write_table(pa.table({"x": part, "id": range(len(part))}), tmp_path / f"{name}.parquet")
    dataset = open_parquet(str(tmp_path))
    assert dataset.schema["x"].arrow_type == doubles.type
    assert dataset.numbers([("id", "=", 0)]).tolist() == ([0, 2] if is_first else [0, 1])
    if found is None:
        for read in (dataset.to_table, lambda: [*dataset.stored_batches(range(3), ["x"], 9)]):
            with pytest.raises(EncodingRangeError, match="a double cannot hold an integer"):
                read()
        return
    rows = found + doubles.to_pylist() if is_first else doubles.to_pylist() + found
    assert dataset.to_table(["x"]).to_pydict() == {"x": rows}
    stored = [batch["x"] for batch in dataset.stored_batches(range(3), ["x"], 9)]
    assert pa.chunked_array(stored).to_pylist() == rows


def test_nulls_without_statistics_raise_error_on_batch_conversion(tmp_path: Path) -> None:
    columns = {"b": [True, None], "v": [[1], None], "n": [1, None]}
    dataset = dataset_of(tmp_path, columns, write_statistics=False)
    batch = dataset.shard(0).read(np.arange(2), list(columns))
    for name in ("b", "v"):
        with pytest.raises(NullValueError, match=f"column '{name}' holds 1 null"):
            to_torch(batch[name], dataset.schema[name], name)
    numbers: Any = to_torch(batch["n"], dataset.schema["n"], "n")
    assert repr(numbers.tolist()) == "[1.0, nan]"


VIEWS = {
    "list": lambda: pa.list_view(pa.int64()),
    "large_list": lambda: pa.large_list_view(pa.int64()),
    "in_struct": lambda: pa.struct([("v", pa.list_view(pa.int64()))]),
    "in_list": lambda: pa.list_(pa.list_view(pa.int64())),
}


@pytest.mark.skipif(not hasattr(pa, "list_view"), reason="needs a newer pyarrow")
@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_list_views_are_read_and_converted_as_lists(make: Any, tmp_path: Path) -> None:
    plain = [[3], None, [4, 5]]
    values = {"in_struct": [{"v": v} for v in plain], "in_list": [plain, None, [[1]]]}
    rows = values.get(next(name for name, one in VIEWS.items() if one is make), plain)
    dataset = dataset_of(tmp_path / "a", {"x": pa.array(rows, make())})
    assert dataset.to_table()["x"].to_pylist() == rows
    made = convert_parquet(dataset, str(tmp_path / "b"), progress=False)
    assert made.to_table()["x"].to_pylist() == rows


def footer_edited(directory: Path, columns: dict[str, Any], *edits: tuple[bytes, bytes]) -> str:
    """Write a file without an Arrow schema, and replace bytes of its footer."""
    pq.write_table(pa.table(columns), directory / "a.parquet", store_schema=False)
    content = (directory / "a.parquet").read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:-8]
    for old, new in edits:
        assert footer.count(old) == 1
        footer = footer.replace(old, new)
    content = content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    (directory / "a.parquet").write_bytes(content)
    return str(directory)


#: In Thrift's compact protocol: an optional group ``d`` or ``x`` with a number of children.
GROUP = b"\x35\x02\x18\x01%b\x15%b\0"
EMPTY = {
    "column": (b"\x19<", GROUP % (b"d", b"\0"), None),
    "inside": (b"\x19L", GROUP % (b"d", b"\x02") + GROUP % (b"x", b"\0"), None),
}


@pytest.mark.parametrize(("size", "groups", "value"), EMPTY.values(), ids=EMPTY)
def test_struct_without_fields_is_null_and_other_columns_are_read(
    size: bytes, groups: bytes, value: Any, tmp_path: Path
) -> None:
    root = b"schema\x15\x02\0", b"schema\x15\x04\0" + groups
    url = footer_edited(tmp_path, {"n": [1, 2]}, (b"\x19,5\0\x18", size + b"5\0\x18"), root)
    dataset = open_parquet(url)
    expected = {"d": [value, value], "n": [1, 2]}
    assert pq.read_table(tmp_path / "a.parquet").to_pydict() == expected
    assert dataset.to_table().to_pydict() == expected
    assert dataset.to_table(["d"]).to_pydict() == {"d": [value, value]}
    assert dataset[1] == {"d": value, "n": 2}
    made = convert_parquet(dataset, str(tmp_path / "mds"), progress=False)
    assert made.to_table().to_pydict() == expected


PARTS = pa.StructArray.from_arrays([pa.array([b"v"]), pa.array([b"m"])], ["value", "metadata"])
#: Types in Spark's schema of a column ``v``, and whether the column holds variants.
SPARK_TYPES: list[tuple[Any, bool]] = [
    ("variant", True),
    ({"type": "array", "elementType": "variant", "containsNull": True}, True),
    ({"type": "struct", "fields": [{"name": "a", "type": "variant"}]}, True),
    ({"type": "map", "keyType": "string", "valueType": "variant"}, True),
    ({"type": "struct", "fields": [{"name": "variant", "type": "string"}]}, False),
]


@pytest.mark.parametrize(("spark_type", "is_variant"), SPARK_TYPES, ids=str)
def test_variants_in_the_schema_of_spark_are_left_out(
    spark_type: Any, is_variant: bool, tmp_path: Path
) -> None:
    fields = [{"name": "v", "type": spark_type}, {"name": "n", "type": "long"}]
    schema = json.dumps({"type": "struct", "fields": fields})
    table = pa.table({"v": PARTS, "n": [1]}).replace_schema_metadata(
        {"org.apache.spark.sql.parquet.row.metadata": schema}
    )
    dataset = dataset_of(tmp_path, table)
    assert {name: str(type_) for name, type_ in dataset.left_out.items()} == (
        {"v": "variant"} if is_variant else {}
    )
    assert dataset[0]["n"] == 1
    if is_variant:
        with pytest.raises(UnsupportedTypeError, match=r"'v': type variant .*variant_get"):
            convert_parquet(dataset, str(tmp_path / "mds"), progress=False)
    made = convert_parquet(dataset, str(tmp_path / "n"), columns=["n"], progress=False)
    assert made[0] == {"n": 1}


@pytest.mark.newest  # older versions of pyarrow do not know the logical type
def test_variants_by_the_logical_type_of_parquet_are_left_out(tmp_path: Path) -> None:
    group = b"\x18\x01v\x15\x04\0", b"\x18\x01v\x15\x04\x5c\x0c\x20\0\0\0"
    url = footer_edited(tmp_path, {"v": PARTS, "n": [1]}, group)
    assert {name: str(type_) for name, type_ in open_parquet(url).left_out.items()} == {
        "v": "variant"
    }


def test_type_that_pyarrow_does_not_read_raises_unsupported_table_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    arrow = pq.read_metadata(path).metadata[b"ARROW:schema"]
    bits = base64.b64decode(arrow)
    assert bits.count(b"\x40\0\0\0") == 1  # the integers' bits, which are 128 in files of polars
    wider = base64.b64encode(bits.replace(b"\x40\0\0\0", b"\x80\0\0\0"))
    path.write_bytes(path.read_bytes().replace(arrow, wider))
    with pytest.raises(UnsupportedTableError, match=r"of a type that pyarrow .* does not support"):
        open_parquet(str(path))
