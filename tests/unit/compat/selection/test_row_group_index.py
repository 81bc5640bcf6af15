"""Row group indexes are built, stored next to the data, and used for selection."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet
from tests.kit.small_datasets import array_of, write_dataset
from tests.unit.compat.selection.parquet_files import column, write

from mdstorm._datasets import add_metadata
from mdstorm._pickles import StoredIndex, dump_indexes, load_indexes
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, UnsafePickleError
from mdstorm.etl import RowGroupIndexerBase
from mdstorm.etl.dataset_metadata import ROW_GROUPS_PER_FILE_KEY
from mdstorm.etl.rowgroup_indexers import FieldNotNullIndexer, SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import (
    ROWGROUPS_INDEX_KEY,
    build_rowgroup_index,
    get_row_group_indexes,
)
from mdstorm.selectors import (
    IntersectIndexSelector,
    RowGroupSelectorBase,
    SingleIndexSelector,
    UnionIndexSelector,
    select_row_groups,
)
from mdstorm_backend import open_dataset

DAY = dt.date(2020, 1, 1)
#: The index of an MDS dataset.
INDEX_FILE = "_rowgroup_index"
TABLE = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "s": ["a", None, "b", "c", "a", "a"],
        "x": pa.array([1.5, float("nan"), None, None, 2.5, 1.5], pa.float64()),
        "n": pa.array([1, 2, 2, None, None, None], pa.int32()),
        "day": pa.array([DAY] * 3 + [None] * 3, pa.date32()),
        "price": pa.array(
            [Decimal("1.5"), None, None, None, Decimal(2), None], pa.decimal128(4, 1)
        ),
        "raw": [b"\x00", b"", None, None, None, b"\x00"],
        "flag": [True, True, None, False, None, True],
        "many": [[1, 2], [], [2, 3], None, [1], [4]],
    }
)
TYPES: dict[str, Any] = {
    **{"id": "long", "s": "string", "x": "double", "n": "integer", "day": "date"},
    **{"price": "decimal(4,1)", "raw": "binary", "flag": "boolean", "many": array_of("long")},
}
#: The expected index for each field, with two rows per row group.
GROUPS: dict[str, dict[Any, set[int]]] = {
    "s": {"a": {0, 2}, "b": {1}, "c": {1}},
    "n": {1: {0}, 2: {0, 1}},
    "day": {np.datetime64("2020-01-01"): {0, 1}},
    "price": {Decimal("1.5"): {0}, Decimal(2): {2}},
    "raw": {b"\x00": {0, 2}, b"": {0}},
    "flag": {True: {0, 2}, False: {1}},
    "many": {1: {0, 2}, 2: {0, 1}, 3: {1}, 4: {2}},
}
NOT_NULL = {"s": {0, 1, 2}, "x": {0, 2}, "n": {0, 1}, "day": {0, 1}, "many": {0, 1, 2}}


def build(url: str, *more: RowGroupIndexerBase) -> None:
    indexers = [SingleFieldIndexer(f"of {name}", name) for name in GROUPS]
    not_null = [FieldNotNullIndexer(f"any {name}", name) for name in NOT_NULL]
    build_rowgroup_index(url, None, [*indexers, *not_null, *more])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet")
    write(path, TABLE, rows=2)
    build(path.as_uri())
    return path


@pytest.fixture(scope="module")
def mds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mds")
    rows = pa.concat_tables([TABLE.slice(at, 1) for at in range(6)])
    dataset = write_dataset(path, rows, TYPES, batch_rows=1, shard_size=1)
    assert dataset.shard_sizes == (1,) * 6
    build(path.as_uri())
    return path


def test_index_maps_values_to_row_groups(directory: Path) -> None:
    found = get_row_group_indexes(directory.as_uri())
    for name, groups in GROUPS.items():
        index = found[f"of {name}"]
        assert index.column_names == [name]
        assert set(index.indexed_values) == set(groups)
        assert {value: index.get_row_group_indexes(value) for value in groups} == groups
        assert index.get_row_group_indexes("else") == set()
    for name, groups_with in NOT_NULL.items():
        index = found[f"any {name}"]
        assert index.get_row_group_indexes(None) == groups_with
        assert index.indexed_values == ["Field is Not Null"]


def test_indexes_are_found_for_a_dataset_opened_by_pyarrow(directory: Path) -> None:
    found = get_row_group_indexes(pq.ParquetDataset(str(directory)))
    assert list(found) == list(get_row_group_indexes(directory.as_uri()))
    assert found["of s"].get_row_group_indexes("a") == GROUPS["s"]["a"]


def test_mds_index_maps_values_to_shards(directory: Path, mds: Path) -> None:
    expected = get_row_group_indexes(open_parquet(str(directory)))
    found = get_row_group_indexes(open_dataset(str(mds)))
    assert list(found) == list(expected)
    for name, groups in GROUPS.items():
        index = found[f"of {name}"]
        for value, numbers in groups.items():
            assert {shard // 2 for shard in index.get_row_group_indexes(value)} == numbers
    assert found["any x"].get_row_group_indexes("") == {0, 1, 4, 5}  # NaN is a value


a_or_c = SingleIndexSelector("of s", ["a", "c"])
two = SingleIndexSelector("of n", [2])


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        (a_or_c, [0, 1, 2, 3, 4, 5]),
        (two, [0, 1, 2, 3]),
        (SingleIndexSelector("any x", [None]), [0, 1, 4, 5]),
        (SingleIndexSelector("of s", ["zz"]), []),
        (SingleIndexSelector("of s", []), []),
        (IntersectIndexSelector([two, SingleIndexSelector("of s", ["b"])]), [2, 3]),
        (UnionIndexSelector([SingleIndexSelector("of many", [4]), two]), [0, 1, 2, 3, 4, 5]),
        (IntersectIndexSelector([UnionIndexSelector([two]), a_or_c]), [0, 1, 2, 3]),
    ],
)
def test_selectors_choose_whole_row_groups(
    selector: RowGroupSelectorBase, ids: list[int], directory: Path
) -> None:
    chosen = select_row_groups(selector, open_parquet(str(directory)))
    assert column(chosen, "id") == ids
    assert len(chosen) == len(ids)


def test_selector_for_a_missing_index_raises_error(directory: Path) -> None:
    selector = UnionIndexSelector([a_or_c, SingleIndexSelector("of id", [1])])
    with pytest.raises(ValueError, match=r"Some of required indexes \['of id', 'of s'\]"):
        select_row_groups(selector, open_parquet(str(directory)))


def test_damaged_index_raises_error(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, TABLE, TYPES)
    build(tmp_path.as_uri())
    content = (tmp_path / INDEX_FILE).read_bytes()
    for damaged, error in (
        (b"", InvalidArgumentError),
        (content[1:], InvalidArgumentError),
        (content[:-9], UnsafePickleError),
    ):
        (tmp_path / INDEX_FILE).write_bytes(damaged)
        with pytest.raises(error):
            get_row_group_indexes(dataset)


def test_outdated_row_group_index_is_ignored_or_raises_error(tmp_path: Path) -> None:
    write(tmp_path, TABLE, rows=2)
    build(tmp_path.as_uri())
    dataset = write(tmp_path, TABLE, rows=3)
    later = StoredIndex("SingleFieldIndexer", "i", "id", {3: {1}})
    counts = json.dumps({dataset.files[0].name: 2}).encode()
    entries = {ROWGROUPS_INDEX_KEY: dump_indexes({"i": later}), ROW_GROUPS_PER_FILE_KEY: counts}
    add_metadata(dataset, entries)
    found = get_row_group_indexes(open_parquet(str(tmp_path)))
    assert found["i"].get_row_group_indexes(3) == {1}
    write(tmp_path, TABLE, rows=1)
    with pytest.raises(InvalidArgumentError, match="built for different row groups"):
        get_row_group_indexes(open_parquet(str(tmp_path)))


def test_get_row_group_indexes_with_unsupported_object_raises_error() -> None:
    with pytest.raises(ArgumentTypeError, match="takes a dataset or its URL"):
        get_row_group_indexes(5)


def test_new_row_group_index_replaces_the_old_index(tmp_path: Path) -> None:
    write(tmp_path, TABLE, rows=2)
    build(tmp_path.as_uri())
    build_rowgroup_index(tmp_path.as_uri(), None, [SingleFieldIndexer("i", "id")])
    assert list(get_row_group_indexes(tmp_path.as_uri())) == ["i"]
    dataset = open_parquet(str(tmp_path))
    assert load_indexes(dataset.common_metadata[ROWGROUPS_INDEX_KEY])["i"].column_name == "id"
    counts = json.loads(dataset.common_metadata[ROW_GROUPS_PER_FILE_KEY])
    assert counts == {dataset.files[0].name: 3}
    assert not (tmp_path / INDEX_FILE).exists()


def test_indexer_that_overrides_build_index_receives_rows(tmp_path: Path) -> None:
    class Lengths(SingleFieldIndexer):
        def build_index(self, decoded_rows: Any, piece_index: int) -> Any:
            lengths = [{"s": len(row["s"] or "")} for row in decoded_rows]
            return super().build_index(lengths, piece_index)

    write(tmp_path, TABLE, rows=2)
    build(tmp_path.as_uri(), Lengths("lengths", "s"))
    found = get_row_group_indexes(tmp_path.as_uri())["lengths"]
    assert {n: found.get_row_group_indexes(n) for n in (0, 1)} == {0: {0}, 1: {0, 1, 2}}


@pytest.mark.parametrize(
    ("indexers", "error", "message"),
    [
        ([], ValueError, "indexers is empty"),
        ([5], TypeError, "indexers must be instances of SingleFieldIndexer.*found 5"),
        ([SingleFieldIndexer("i", "zz")], ValueError, r"fields \['zz'\] cannot be indexed"),
        ([SingleFieldIndexer("i", "s"), FieldNotNullIndexer("i", "s")], ValueError, "the name 'i'"),
    ],
)
def test_invalid_indexers_raise_error(
    indexers: Any, error: type[Exception], message: str, directory: Path
) -> None:
    with pytest.raises(error, match=message):
        build_rowgroup_index(directory.as_uri(), None, indexers)


def test_sum_of_indexers_contains_the_values_from_both() -> None:
    one, other = SingleFieldIndexer("i", "a"), SingleFieldIndexer("i", "a")
    one.build_index([{"a": 1}], 0)
    other.build_index([{"a": 1}, {"a": 2}], 1)
    both = one + other
    assert {key: both.get_row_group_indexes(key) for key in both.indexed_values} == {
        1: {0, 1},
        2: {1},
    }
    some, more = FieldNotNullIndexer("n", "a"), FieldNotNullIndexer("n", "a")
    some.build_index([{"a": None}, {"a": 1}], 0)
    more.build_index([{"a": 1}], 1)
    assert (some + more).get_row_group_indexes() == {0, 1}
    with pytest.raises(TypeError, match="return the same indexer type"):
        _ = one + some
    with pytest.raises(ValueError, match="index the same fields"):
        _ = one + SingleFieldIndexer("i", "b")


def test_indexing_empty_rows_raises_error() -> None:
    for indexer in (SingleFieldIndexer("i", "a"), FieldNotNullIndexer("n", "a")):
        with pytest.raises(ValueError, match="Cannot build index for empty rows, column 'a'"):
            indexer.build_index([], 0)
