"""Nulls in rows that are not deleted, for every type and nesting, as pyarrow has them."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.delta_tables import add, commit, metadata, protocol
from tests.kit.frameworks import import_framework
from tests.kit.parquet_files import open_parquet

from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.parquet import ParquetDataset

UTC = dt.timezone.utc
MOMENT = dt.datetime(1969, 2, 28, 1, 2, 3, 456789)
#: Two values of each type that is not nested.
FLAT: dict[str, tuple[pa.DataType, Any, Any]] = {
    "bool": (pa.bool_(), True, False),
    "int8": (pa.int8(), -128, 127),
    "int16": (pa.int16(), -(2**15), 2**15 - 1),
    "int32": (pa.int32(), -(2**31), 2**31 - 1),
    "int64": (pa.int64(), -(2**63), 2**63 - 1),
    "float32": (pa.float32(), 0.5, -0.0),
    "float64": (pa.float64(), 0.1, float("inf")),
    "decimal": (pa.decimal128(9, 2), Decimal("1.50"), Decimal("-3.00")),
    "string": (pa.string(), "", "ä\0b"),
    "binary": (pa.binary(), b"", b"\0\xff"),
    "date": (pa.date32(), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "instant": (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC), MOMENT.replace(tzinfo=UTC)),
    "time": (pa.timestamp("us"), MOMENT, MOMENT),
}
#: Types that Iceberg does not have.
NOT_ICEBERG = {"int8", "int16"}


def flat(type_: pa.DataType, one: Any, other: Any) -> pa.Array:
    return pa.array([one, None, other, None, one, other], type_)


def lists(type_: pa.DataType, one: Any, other: Any) -> pa.Array:
    cells = [[one], None, [None], [], [other, None, one], [one, other]]
    return pa.array(cells, pa.list_(type_))


def structs(type_: pa.DataType, one: Any, other: Any) -> pa.Array:
    cells = [{"a": one}, None, {"a": None}, {"a": other}, None, {"a": one}]
    return pa.array(cells, pa.struct([("a", type_)]))


def maps(type_: pa.DataType, one: Any, other: Any) -> pa.Array:
    cells = [[("k", one)], None, [("k", None)], [], [("k", other), ("l", None)], None]
    return pa.array(cells, pa.map_(pa.string(), type_))


def lists_of_lists(type_: pa.DataType, one: Any, other: Any) -> pa.Array:
    cells = [[[one]], None, [None], [], [[], None, [None, other]], [[one], [other]]]
    return pa.array(cells, pa.list_(pa.list_(type_)))


def lists_of_structs(type_: pa.DataType, one: Any, other: Any) -> pa.Array:
    cells = [[{"a": one}], None, [None], [], [{"a": None}, None], [{"a": other}, {"a": one}]]
    return pa.array(cells, pa.list_(pa.struct([("a", type_)])))


def structs_of_lists(type_: pa.DataType, one: Any, other: Any) -> pa.Array:
    cells = [{"a": [one]}, None, {"a": None}, {"a": []}, {"a": [None, other]}, None]
    return pa.array(cells, pa.struct([("a", pa.list_(type_))]))


def maps_of_maps(type_: pa.DataType, one: Any, other: Any) -> pa.Array:
    cells = [[("k", [("l", one)])], None, [("k", None)], [("k", [])], [("k", [("l", None)])], []]
    return pa.array(cells, pa.map_(pa.string(), pa.map_(pa.string(), type_)))


NESTINGS = [
    *(flat, lists, structs, maps),
    *(lists_of_lists, lists_of_structs, structs_of_lists, maps_of_maps),
]
Nesting = Callable[[pa.DataType, Any, Any], pa.Array]


def in_parquet(rows: pa.Table, folder: Path) -> ParquetDataset:
    folder.mkdir()
    pq.write_table(rows.slice(1), folder / "a.parquet", row_group_size=2)
    return open_parquet(str(folder))


def in_mds(rows: pa.Table, folder: Path) -> Dataset:
    folder.mkdir()
    return convert_parquet(in_parquet(rows, folder / "parquet"), str(folder / "mds"))


def in_delta(rows: pa.Table, folder: Path) -> ParquetDataset:
    fields = json.loads(deltalake.Schema.from_arrow(rows.schema).to_json())["fields"]
    added = add(folder, "a.parquet", rows, dead=[0])
    commit(folder, protocol("deletionVectors", "timestampNtz"), metadata(fields), added)
    return open_parquet(str(folder))


def in_iceberg(rows: pa.Table, folder: Path) -> ParquetDataset:
    tables = import_framework("tests.kit.iceberg_tables")
    folder.mkdir()
    table = tables.catalog(folder).create_table("n.t", rows.schema)
    # pyiceberg itself would write null lists of structs as empty ones.
    file = tables.path_of(table) / "data" / "a.parquet"
    file.parent.mkdir()
    pq.write_table(rows, file)
    table.add_files([f"file://{file}"])
    tables.commit(table, tables.positions(table, {f"file://{file}": [0]}))
    return open_parquet(table.location())


@pytest.mark.matrix
@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("store", [in_parquet, in_mds, in_delta, in_iceberg])
def test_nulls_in_live_rows_are_read_as_pyarrow_has_them(
    store: Callable[[pa.Table, Path], Dataset], nesting: Nesting, tmp_path: Path
) -> None:
    left_out = NOT_ICEBERG if store is in_iceberg else set()
    rows = pa.table({name: nesting(*of) for name, of in FLAT.items() if name not in left_out})
    found = store(rows, tmp_path / "data").to_table()
    for name in rows.column_names:
        assert found[name].to_pylist() == rows[name].slice(1).to_pylist(), name
