"""Columns of types that cannot be read are left out, with a warning that names the type."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.delta_tables import add, commit, field, metadata, protocol, struct_of
from tests.kit.frameworks import import_framework
from tests.kit.readers import batch_reader
from tests.kit.small_datasets import array_of, write_dataset

from mdstorm.errors import NoMatchingFieldsError
from mdstorm.spark import make_spark_converter

_VARIANT = {"metadata": b"", "value": b""}
_ARROW_TYPES = [pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.decimal256(50, 2)]
#: Functions from an Arrow type and a value to a nested type and value.
NESTED: dict[str, Callable[[pa.DataType, Any], tuple[pa.DataType, Any]]] = {
    "plain": lambda type_, value: (type_, value),
    "list": lambda type_, value: (pa.list_(type_), [value]),
    "struct": lambda type_, value: (pa.struct([("s", type_)]), {"s": value}),
    "map": lambda type_, value: (pa.map_(pa.string(), type_), [("k", value)]),
    "deep": lambda type_, value: (pa.list_(pa.struct([("s", pa.list_(type_))])), [{"s": [value]}]),
}

#: A type for each way to nest it.
CASES = [*zip(NESTED, [*_ARROW_TYPES, pa.time64("us")], strict=True)]


def table_of(type_: pa.DataType, values: list[Any]) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("t", type_)])
    return pa.table([list(range(len(values))), values], schema=schema)


def check_left_out(url: str, named: str) -> None:
    with pytest.warns(UserWarning, match="Column 't' has an unsupported field") as caught:
        reader = batch_reader(url, num_epochs=1)
    warning = next(str(each.message) for each in caught if "'t'" in str(each.message))
    assert named in warning
    with reader:
        (batch,) = reader
    assert batch._fields == ("id",)
    assert batch.id.tolist() == [0, 1]


@pytest.mark.parametrize(("nesting", "type_"), CASES, ids=str)
def test_parquet_column_of_unsupported_type_is_left_out(
    nesting: str, type_: pa.DataType, tmp_path: Path
) -> None:
    found, value = NESTED[nesting](type_, 1)
    pq.write_table(table_of(found, [value] * 2), tmp_path / "a.parquet")
    check_left_out(f"file://{tmp_path}", str(type_))


def test_delta_column_of_unsupported_type_is_left_out(tmp_path: Path) -> None:
    inner = {"type": "array", "elementType": "variant", "containsNull": True}
    nested = {"type": "array", "elementType": struct_of(field("s", inner)), "containsNull": False}
    stored = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    type_, value = NESTED["deep"](stored, _VARIANT)
    fields = [field("id", "long"), field("t", nested)]
    rows = add(tmp_path, "a.parquet", table_of(type_, [value] * 2))
    commit(tmp_path, protocol("variantType"), metadata(fields), rows)
    check_left_out(f"file://{tmp_path}", "variant")


@pytest.mark.parametrize("nesting", ["plain", "map"])
def test_iceberg_column_of_unsupported_type_is_left_out(nesting: str, tmp_path: Path) -> None:
    tables = import_framework("tests.kit.iceberg_tables")
    type_, value = NESTED[nesting](pa.time64("us"), 1)
    rows = table_of(type_, [value] * 2)
    table = tables.catalog(tmp_path).create_table("n.t", rows.schema)
    table.append(rows)
    check_left_out(table.location(), "time")


def test_files_with_only_unsupported_types_raise_error_that_names_them(tmp_path: Path) -> None:
    types = {"t": pa.time64("us"), "d": pa.decimal256(50, 2)}
    columns = {name: pa.array([None], type_) for name, type_ in types.items()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    named = r"only 't' of type time64\[us\], 'd' of type decimal256\(50, 2\)"
    with pytest.raises(NoMatchingFieldsError, match=named):
        batch_reader(f"file://{tmp_path}")
    with pytest.raises(NoMatchingFieldsError, match=named):
        next(iter(make_spark_converter(f"file://{tmp_path}").make_torch_dataloader(2)))


def test_nested_lists_are_read_from_mds_and_left_out_of_parquet(tmp_path: Path) -> None:
    rows = [[[1], [2, 3]], [[4], [5, 6]]]
    table = pa.table({"id": range(2), "t": pa.array(rows, pa.list_(pa.list_(pa.int64())))})
    write_dataset(tmp_path / "mds", table, {"id": "long", "t": array_of(array_of("long"))})
    with batch_reader((tmp_path / "mds").as_uri(), num_epochs=1) as reader:
        (batch,) = reader
    assert [[each.tolist() for each in row] for row in batch.t] == rows
    (tmp_path / "parquet").mkdir()
    pq.write_table(table, tmp_path / "parquet" / "a.parquet")
    check_left_out((tmp_path / "parquet").as_uri(), "list")
