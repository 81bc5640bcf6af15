"""Delta tables are read through their logs, with only live rows and the table's own columns."""

import datetime as dt
import decimal
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.kit.delta_tables import (
    OLD_PROTOCOL,
    WITH_VECTORS,
    add,
    commit,
    field,
    inline_vector,
    kill,
    mapped,
    metadata,
    protocol,
    struct_of,
)
from tests.kit.parquet_files import open_parquet

from mdstorm import make_batch_reader
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.errors import (
    CorruptDatasetError,
    DatasetNotFoundError,
    InvalidArgumentError,
    MissingDependencyError,
    StorageError,
    UnsupportedTableError,
)
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.parquet import ParquetDataset, value_bounds
from mdstorm_backend.tables import AsOf

UTC = dt.timezone.utc
FORK = multiprocessing.get_context("fork")


def values(dataset: ParquetDataset, *columns: str) -> list[Any]:
    """Return all rows, read sample by sample from the shards."""
    names = columns or dataset.schema.names
    rows: list[Any] = []
    for number in range(len(dataset.row_groups)):
        shard = dataset.shard(number)
        assert shard.num_samples == dataset.shard_sizes[number]
        rows += [tuple(shard.sample(i, names).values()) for i in range(shard.num_samples)]
    assert len(rows) == len(dataset)
    return rows


def converted(dataset: ParquetDataset, target: Path) -> list[Any]:
    mds = convert_parquet(dataset, str(target))
    return [tuple(mds.sample(i).values()) for i in range(len(mds))]


def open_(table: Path, **options: Any) -> ParquetDataset:
    return open_parquet(str(table), **options)


def numbers(*found: int) -> pa.Table:
    return pa.table({"n": pa.array(found, pa.int64())})


N = field("n", "long")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The directory in which a test creates its table."""
    return tmp_path / "table"


def test_overwritten_table_has_the_rows_of_the_newest_version(table: Path, tmp_path: Path) -> None:
    write_deltalake(table, numbers(*range(100)))
    write_deltalake(table, numbers(*range(500, 550)), mode="overwrite")
    dataset = open_(table)
    assert values(dataset) == [(n,) for n in range(500, 550)]
    assert dataset.table_version == 1
    assert "version 1 of a table" in repr(dataset)
    assert converted(dataset, tmp_path / "mds") == [(n,) for n in range(500, 550)]
    assert len(open_(table, as_of=AsOf(version=0))) == 100


def test_all_forms_of_deletion_vectors_are_applied(table: Path) -> None:
    rng = np.random.default_rng(1)
    count = 200_000
    sparse = np.sort(rng.choice(count, 50, replace=False)).tolist()
    dense = np.flatnonzero(rng.random(count) < 0.5).tolist()
    rows = numbers(*range(count))
    files = [add(table, name, rows) for name in ("a b.parquet", "c.parquet", "d.parquet")]
    commit(table, WITH_VECTORS, metadata([N]), *files)
    kill(table, {"a%20b.parquet": sparse}, inline=True)
    kill(table, {"c.parquet": dense})
    kill(table, {"d.parquet": range(count)})
    dataset = open_(table)
    found = [(dataset.shard(i).decoded(["n"]) or {})["n"] for i in range(2)]
    for array, dead in zip(found, (sparse, dense), strict=True):
        np.testing.assert_array_equal(array, np.delete(np.arange(count), dead))
    assert dataset.shard_sizes == tuple(map(len, found))
    assert len(dataset.files) == 3
    # A later vector replaces an earlier one.
    kill(table, {"c.parquet": [7]})
    assert len(open_(table)) == 2 * count - 51


def test_nested_column_that_arrow_reads_only_in_chunks_is_read(table: Path, tmp_path: Path) -> None:
    # Arrow joins neither nested dictionaries of several row groups nor more than 2 GiB of text.
    cells = [{"p": text} for text in "abcadbe"]
    column = pa.array(cells, pa.struct([("p", pa.dictionary(pa.int32(), pa.string()))]))
    rows = pa.table({"n": range(7), "c": column})
    action = add(table, "a.parquet", rows, row_group_size=2)
    commit(table, WITH_VECTORS, metadata([N, field("c", struct_of(field("p", "string")))]), action)
    kill(table, {"a.parquet": [2, 6]})
    dataset = open_(table)
    (shard,) = (dataset.shard(number) for number in range(len(dataset.row_groups)))
    alive = [0, 1, 3, 4, 5]
    assert dataset.to_table()["c"].to_pylist() == [cells[i] for i in alive]
    for chosen in ([1, 4], [0], [2, 3], []):
        found: Any = shard.read(np.array(chosen, np.int64), ["n", "c"])
        assert found["n"].tolist() == [alive[i] for i in chosen]
        assert found["c"].to_pylist() == [cells[alive[i]] for i in chosen]
    assert [number for number, _ in values(dataset)] == alive
    assert len(converted(dataset, tmp_path / "mds")) == len(alive)


def test_partition_values_have_the_types_declared_in_the_table(table: Path, tmp_path: Path) -> None:
    time = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
    row = {
        "i": pa.array([1, None], pa.int32()),
        "d": pa.array([dt.date(2024, 2, 29), None]),
        "t": pa.array([time.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "u": pa.array([time, None], pa.timestamp("us")),
        "b": pa.array([True, None]),
        "f": pa.array([1.5, None], pa.float32()),
        "c": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2)),
        "n": pa.array([1, 2]),
    }
    write_deltalake(str(table), pa.table(row), partition_by=list("idtubfc"))
    dataset = open_(table)
    assert dataset.schema.names == tuple(row)
    assert dataset.arrow_schema.types == [array.type for array in row.values()]
    (tmp_path / "plain").mkdir()
    pq.write_table(pa.table(row), tmp_path / "plain" / "a.parquet")
    plain = open_(tmp_path / "plain")
    assert sorted(map(str, values(dataset))) == sorted(map(str, values(plain)))
    ours, theirs = (converted(d, tmp_path / f"mds{i}") for i, d in enumerate((dataset, plain)))
    assert sorted(map(str, ours)) == sorted(map(str, theirs))


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("keep_row_groups", [False, True])
def test_mapped_columns_have_the_names_declared_in_the_table(
    table: Path, tmp_path: Path, mode: str, keep_row_groups: bool
) -> None:

    def inner(id_: int) -> dict[str, Any]:
        new = mapped("new", "string", id_ + 1, "col-new")
        return struct_of(mapped("left", "long", id_, "col-left"), new)

    lists = {"type": "array", "elementType": inner(6), "containsNull": True}
    maps = {"type": "map", "keyType": "string", "valueType": inner(8), "valueContainsNull": True}
    described: list[tuple[str, Any, int]] = [
        *(("a", "long", 1), ("p", "string", 2), ("s", inner(4), 3)),
        *(("l", lists, 10), ("m", maps, 11), ("later", "double", 12)),
    ]
    fields = [mapped(name, type_, id_, f"col-{id_}") for name, type_, id_ in described]

    def stored(name: str, type_: pa.DataType, id_: int) -> pa.Field:
        numbered = {"PARQUET:field_id": str(id_)}
        return pa.field(name if mode == "name" else f"other-{name}", type_, metadata=numbered)

    def struct(id_: int) -> pa.StructType:
        return pa.struct([stored("col-left", pa.int64(), id_)])

    left = struct(4).field(0).name
    columns: list[tuple[pa.Field, list[Any]]] = [
        (stored("col-1", pa.int64(), 1), [1, None, 3]),
        (stored("col-3", struct(4), 3), [{left: 10}, None, {left: None}]),
        (stored("col-10", pa.list_(struct(6)), 10), [[{left: 1}, None], None, []]),
        (stored("col-11", pa.map_(pa.string(), struct(8)), 11), [[("k", {left: 5})], None, []]),
    ]
    rows = pa.table([pa.array(v, f.type) for f, v in columns], pa.schema([f for f, _ in columns]))
    options: dict[str, Any] = {"partition": {"col-2": "x"}, "dead": [1], "nulls": {"col-1": 1}}
    commit(
        table,
        protocol("columnMapping", "deletionVectors"),
        metadata(fields, ["p"], **{"delta.columnMapping.mode": mode}),
        add(table, "Ab/f.parquet", rows, **options),
    )
    dataset = open_(table, keep_row_groups=keep_row_groups)
    assert dataset.schema.names == ("a", "p", "s", "l", "m", "later")

    def outer(left: int | None) -> dict[str, int | None]:
        return {"left": left, "new": None}

    expected = [
        (1, "x", outer(10), [outer(1), None], [("k", outer(5))], None),
        (3, "x", outer(None), [], [], None),
    ]
    assert values(dataset) == expected
    mds = converted(dataset, tmp_path / "mds")
    assert [row[:2] for row in mds] == [row[:2] for row in expected]
    assert value_bounds(dataset, ["a"]) == [{"a": (1, 3)}]


def test_int96_times_written_by_spark_are_in_utc(table: Path, tmp_path: Path) -> None:
    times = [dt.datetime(1999, 1, 1, 1, 2, 3), dt.datetime(1979, 12, 31), dt.datetime(2024, 7, 1)]
    rows = pa.table({"t": pa.array(times, pa.timestamp("us")), "u": times})
    added = add(table, "a.parquet", rows, dead=[0], int96=True)
    fields = [field("t", "timestamp"), field("u", "timestamp_ntz")]
    commit(table, protocol("deletionVectors", "timestampNtz"), metadata(fields), added)
    dataset = open_(table)
    assert [type_.tz for type_ in dataset.arrow_schema.types] == ["UTC", None]
    found = [(n, n) for n in np.array(times[1:], "datetime64[us]")]
    assert values(dataset) == found
    assert [row[1] for row in converted(dataset, tmp_path / "mds")] == [row[1] for row in found]


def test_files_without_field_ids_raise_unsupported_table_error(table: Path) -> None:
    conf = {"delta.columnMapping.mode": "id"}
    fields = metadata([mapped("n", "long", 1, "n")], **conf)
    commit(table, protocol("columnMapping"), fields, add(table, "a.parquet", numbers(1)))
    with pytest.raises(UnsupportedTableError, match=r"a\.parquet has columns without field ids"):
        values(open_(table))


def test_older_files_with_narrower_types_or_missing_columns_are_read(
    table: Path, tmp_path: Path
) -> None:
    day = dt.date(1999, 12, 31)
    wider: dict[str, tuple[pa.Array, Any]] = {
        "b": (pa.array([1], pa.int8()), "integer"),
        "i": (pa.array([2], pa.int32()), "long"),
        "f": (pa.array([0.5], pa.float32()), "double"),
        "x": (pa.array([3], pa.int32()), "double"),
        "c": (pa.array([decimal.Decimal("1.5")], pa.decimal128(4, 1)), "decimal(10,3)"),
        "k": (pa.array([7], pa.int32()), "decimal(12,2)"),
        "d": (pa.array([day]), "timestamp_ntz"),
        "a": (
            pa.array([[1, 2]], pa.list_(pa.int16())),
            {"type": "array", "elementType": "integer", "containsNull": True},
        ),
    }
    old = pa.table({name: stored for name, (stored, _) in wider.items()})
    types = {name: type_ for name, (_, type_) in wider.items()} | {"s": "string"}
    fields = metadata([field(name, type_) for name, type_ in types.items()])
    commit(table, protocol("typeWidening", "timestampNtz"), fields, add(table, "f.parquet", old))
    (row,) = values(open_(table))
    prices = decimal.Decimal("1.500"), decimal.Decimal("7.00")
    expected = [1, 2, 0.5, 3.0, *prices, dt.datetime(1999, 12, 31), [1, 2], None]
    assert [np.asarray(v).tolist() for v in row] == expected
    ((*mds, last),) = converted(open_(table), tmp_path / "mds")
    assert [np.asarray(v).tolist() for v in mds[:6]] == expected[:6]
    assert last is None
    assert value_bounds(open_(table), list(types)) == [{}]


def test_shallow_clones_read_files_from_the_source_table(tmp_path: Path) -> None:
    source, clone = tmp_path / "the source", tmp_path / "clone"
    first = add(source, "part a.parquet", numbers(1, 2))["add"]
    path = f"file://{quote(str(source))}/part%20a.parquet"
    there = {"add": {**first, "path": path, "deletionVector": inline_vector([0])}}
    commit(clone, WITH_VECTORS, metadata([N]), there, add(clone, "own.parquet", numbers(3)))
    dataset = open_(clone)
    assert sorted(values(dataset)) == [(2,), (3,)]
    assert dataset.url == f"file://{clone}"
    commit(clone, {"add": {**first, "path": "s3://bucket/a.parquet"}})
    with pytest.raises(InvalidArgumentError, match="same scheme"):
        open_(clone)


def test_empty_table_has_columns_and_no_rows(table: Path, tmp_path: Path) -> None:
    commit(table, OLD_PROTOCOL, metadata([N, field("s", "string")], ["s"]))
    dataset = open_(table)
    assert (len(dataset), dataset.schema.names, values(dataset)) == (0, ("n", "s"), [])
    assert converted(dataset, tmp_path / "mds") == []


def test_special_characters_in_table_directory_are_literal_or_raise_error(tmp_path: Path) -> None:
    table = tmp_path / "a b ü"
    file = add(table, "x%20y z.parquet", numbers(1, 2), dead=[0])
    commit(table, WITH_VECTORS, metadata([N]), file)
    assert values(open_(table)) == [(2,)]
    link = tmp_path / "link"
    link.symlink_to(table)
    assert values(open_(link)) == [(2,)]
    table.rename(tmp_path / "a%20b")
    with pytest.raises(UnsupportedTableError, match="deltalake decodes"):
        open_(tmp_path / "a%20b")


@pytest.mark.parametrize("version", [7, 10_000_001, 2**63, 10**30])
def test_missing_version_raises_error_at_once(table: Path, version: int) -> None:
    write_deltalake(table, numbers(1))
    with pytest.raises(
        DatasetNotFoundError, match=f"has no version {version}: the newest one is 0"
    ):
        open_(table, as_of=AsOf(version=version))


def test_timestamp_selects_the_newest_earlier_version(table: Path) -> None:
    for number in range(3):
        write_deltalake(table, numbers(number), mode="overwrite")
    times = [commit["timestamp"] for commit in reversed(DeltaTable(table).history())]
    for number, time in enumerate(times):
        log = table / "_delta_log" / f"{number:020}.json"
        shown = dt.datetime.fromtimestamp(time / 1000, UTC) + dt.timedelta(days=number)
        text = log.read_text().replace(str(time), str(int(shown.timestamp() * 1000)))
        log.write_text(text)
        os.utime(log, (shown.timestamp(), shown.timestamp()))
    second = dt.datetime.fromtimestamp(times[1] / 1000, UTC) + dt.timedelta(days=1, hours=1)
    plus_two = second.astimezone(dt.timezone(dt.timedelta(hours=2)))
    for given in (second, second.isoformat(), plus_two.isoformat(), second.replace(tzinfo=None)):
        dataset = open_(table, as_of=AsOf(timestamp=given))
        assert (dataset.table_version, values(dataset)) == (1, [(1,)])
    with pytest.raises(DatasetNotFoundError, match="no version as old as timestamp='1999-01-01'"):
        open_(table, as_of=AsOf(timestamp="1999-01-01"))


def test_file_removed_by_vacuum_raises_error_naming_the_file(table: Path) -> None:
    commit(table, OLD_PROTOCOL, metadata([N]), add(table, "a.parquet", numbers(1)))
    (table / "a.parquet").unlink()
    for read in (lambda: values(open_(table)), lambda: open_(table, keep_row_groups=True)):
        with pytest.raises(DatasetNotFoundError, match=r"a\.parquet is missing.* VACUUM"):
            read()


def test_deletion_vectors_change_the_fingerprint(table: Path) -> None:
    commit(table, OLD_PROTOCOL, metadata([N]), add(table, "a.parquet", numbers(1, 2, 3)))
    found = {open_(table).fingerprint}
    for dead in ([0], [1], [0, 1]):
        kill(table, {"a.parquet": dead})
        found.add(open_(table).fingerprint)
    assert len(found) == 4


def test_swapped_columns_change_the_fingerprint(table: Path) -> None:
    conf = {"delta.columnMapping.mode": "name"}
    file = add(table, "a.parquet", pa.table({"x": [1], "y": [2]}))
    fields = [mapped("n", "long", 1, "x"), mapped("m", "long", 2, "y")]
    commit(table, protocol("columnMapping"), metadata(fields, **conf), file)
    before = open_(table)
    commit(table, metadata([mapped("n", "long", 2, "y"), mapped("m", "long", 1, "x")], **conf))
    assert (values(before, "n", "m"), values(open_(table), "n", "m")) == ([(1, 2)], [(2, 1)])
    assert before.fingerprint != open_(table).fingerprint


def test_unreadable_log_raises_single_line_error(tmp_path: Path) -> None:
    pq.write_table(numbers(1), tmp_path / "a.parquet")
    (tmp_path / "_delta_log").touch()
    with pytest.raises(StorageError, match="the log of the Delta table") as caught:
        open_parquet(str(tmp_path))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("feature", ["foo", "geospatial"])
def test_unsupported_delta_features_raise_error_naming_the_features(
    table: Path, feature: str
) -> None:
    commit(table, protocol(feature), metadata([N]), add(table, "a.parquet", numbers(1)))
    with pytest.raises(UnsupportedTableError, match=feature + r".*spark\.read\.format\('delta'\)"):
        open_(table)


def test_catalog_managed_table_by_path_raises_error_without_advice_to_read_the_path(
    table: Path,
) -> None:
    rows = add(table, "a.parquet", numbers(1))
    commit(table, protocol("catalogManaged"), metadata([N]), rows)
    with pytest.raises(UnsupportedTableError, match=r"catalogManaged.*not.*by path") as caught:
        open_(table)
    assert "make_spark_converter(spark.table('catalog.schema.table'))" in str(caught.value)
    assert "Delta Sharing" in str(caught.value)
    assert ".load(" not in str(caught.value)


def test_unreadable_deletion_vector_raises_error(table: Path) -> None:
    commit(table, WITH_VECTORS, metadata([N]), add(table, "a.parquet", numbers(1, 2)))
    kill(table, {"a.parquet": [0]})
    next(table.glob("deletion_vector_*")).unlink()
    with pytest.raises(CorruptDatasetError, match="deletion vectors cannot be read"):
        open_(table)


@pytest.mark.parametrize("feature", ["typeWidening", "vacuumProtocolCheck"])
def test_deletion_vectors_with_other_features_are_applied_or_raise_error(
    table: Path, feature: str
) -> None:
    """Which of the two happens depends on the delta-rs version."""
    both = protocol("deletionVectors", feature)
    commit(table, both, metadata([N]), add(table, "a.parquet", numbers(1, 2), dead=[0]))
    refusal = "has deletion vectors and features that the library cannot read"
    try:
        found = values(open_(table))
    except UnsupportedTableError as error:
        texts = (refusal, feature[1:], "DROP FEATURE", "make_spark_converter(")
        found = [refusal] if all(text in str(error) for text in texts) else [error]
    assert found in ([(2,)], [refusal])


def test_variant_columns_are_left_out(table: Path) -> None:
    rows = pa.table({"n": [1], "v": pa.array([{"metadata": b"", "value": b""}])})
    fields = metadata([N, field("v", "variant")])
    commit(table, protocol("variantType"), fields, add(table, "a.parquet", rows))
    dataset = open_(table)
    assert (values(dataset), list(dataset.left_out)) == ([(1,)], ["v"])


def test_delta_table_without_the_extra_raises_error(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(table, numbers(1))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "mdstorm\[delta\]"'):
        open_(table)


def test_opening_part_of_a_delta_table_raises_error(tmp_path: Path) -> None:
    table = tmp_path / "t1"  # looks like one of Delta's random prefixes
    fields = metadata([N, field("p", "long"), field("q", "long")], ["p", "q"])
    values = {"p": "1", "q": "2"}
    file = add(table, "x7/p=1/q=2/a.parquet", numbers(1, 2), partition=values, dead=[0])
    commit(table, WITH_VECTORS, fields, file, add(table, "b.parquet", numbers(3), partition=values))
    beside, inside = tmp_path / "x8", table / "x7"
    beside.mkdir()
    pq.write_table(numbers(5), beside / "plain.parquet")
    one = inside / "p=1/q=2/a.parquet"
    parts = inside, one, one.parents[1], inside / "p=*", table / "*", table / "b.parquet"
    for urls in (*map(str, parts), [str(one)], [str(table), str(beside)]):
        with pytest.raises(UnsupportedTableError, match="is a Delta table, whose files may hold"):
            open_parquet(urls)
    assert len(open_parquet(str(beside))) == len(open_parquet(str(beside / "plain.parquet"))) == 1


@pytest.mark.parametrize("path", ["../a.parquet", "p/../../a.parquet", "%2E%2E/a.parquet"])
def test_log_that_lists_a_file_outside_the_table_raises_error(table: Path, path: str) -> None:
    entry = add(table, "a.parquet", numbers(1))
    entry["add"]["path"] = path
    commit(table, OLD_PROTOCOL, metadata([N]), entry)
    with pytest.raises(CorruptDatasetError, match=r"the file '.*\.\./a.parquet', which is"):
        open_parquet(str(table))


def test_null_counts_are_taken_from_log_statistics(table: Path) -> None:
    rows = pa.table({"n": [1, 2], "m": pa.array([None, 1], pa.int64()), "k": [1, 2]})
    file = add(table, "a.parquet", rows, nulls={"n": 0, "m": 1})
    commit(table, OLD_PROTOCOL, metadata([N, field("m", "long"), field("k", "long")]), file)
    n, m, k = open_(table).schema
    assert [n.may_have_nulls, m.has_nulls, k.has_nulls, k.may_have_nulls] == [0, 1, 0, 1]
    n, m, k = open_(table, keep_row_groups=True).schema
    assert (n.may_have_nulls, m.has_nulls, k.may_have_nulls) == (False, True, False)


DAY = pa.array([5, 6], pa.int32()).cast(pa.date32())
#: Columns that a file may lack, by the type in the log.
LACKING = {
    "long": pa.array([3, 4]),
    "boolean": pa.array([True, False]),
    "double": pa.array([0.5, 1.5]),
    "date": DAY,
    "timestamp": pa.array([5, 6], pa.timestamp("us", "UTC")),
    "string": pa.array(["a", "b"]),
    "binary": pa.array([b"a", b"b"]),
    "decimal(5,2)": pa.array([decimal.Decimal("1.25")] * 2, pa.decimal128(5, 2)),
}


@pytest.mark.parametrize("type_", LACKING)
def test_column_that_a_file_lacks_is_null_despite_statistics(
    type_: str, table: Path, tmp_path: Path
) -> None:
    rows = pa.table({"n": [1, 2], "x": LACKING[type_]})
    none = {"n": 0, "x": 0}
    files = [
        add(table, "a.parquet", rows, nulls=none),
        add(table, "b.parquet", numbers(3, 4), nulls=none),
    ]
    commit(table, OLD_PROTOCOL, metadata([N, field("x", type_)]), *files)
    dataset, values = open_(table), [*LACKING[type_].to_pylist(), None, None]
    assert dataset.to_table(["x"])["x"].to_pylist() == values
    assert [dataset[row]["x"] is None for row in range(4)] == [False, False, True, True]
    assert list(pd.isna(dataset.to_pandas()["x"])) == [False, False, True, True]
    (batch,) = dataset.batches(4)
    assert list(pd.isna(batch["x"])) == [False, False, True, True]
    with make_batch_reader(table.as_uri(), filters=[("x", "=", None)]) as reader:
        assert [batch.n.tolist() for batch in reader] == [[3, 4]]
    made = convert_parquet(dataset, str(tmp_path / "mds"), progress=False)
    assert made.to_table(["x"])["x"].to_pylist() == values


def test_nulls_missing_in_statistics_are_filled_and_masked(table: Path) -> None:
    rows, none = pa.table({"n": [1, 2], "x": [3, 4]}), {"n": 0, "x": 0}
    files = [add(table, "a.parquet", rows, nulls=none)]
    files.append(add(table, "b.parquet", numbers(5, 6), nulls=none))
    commit(table, OLD_PROTOCOL, metadata([N, field("x", "long")]), *files)
    arguments: Any = {"shuffle_row_groups": False, "fill_nulls": {"x": -1}, "null_masks": ["x"]}
    with make_batch_reader(table.as_uri(), **arguments) as reader:
        found = [(batch.x.tolist(), batch.x_is_null.tolist()) for batch in reader]
    assert found == [([3, 4], [False, False]), ([-1, -1], [True, True])]


@pytest.mark.newest  # older versions of deltalake refuse some of these logs
@pytest.mark.parametrize(
    "stats",
    ['{"num', "[]", '{"numRecords": -1}', '{"numRecords": "2"}', '{"numRecords": 2.5}']
    + [f'{{"numRecords": 2, "nullCount": {{"n": {count}}}}}' for count in (-3, 99, '"0"', "{}")],
)
def test_rows_do_not_depend_on_invalid_statistics(stats: str, table: Path) -> None:
    file = add(table, "a.parquet", numbers(1, 2))
    file["add"]["stats"] = stats
    commit(table, OLD_PROTOCOL, metadata([N]), file)
    assert open_(table).to_table().to_pydict() == {"n": [1, 2]}


@pytest.mark.newest  # older versions of deltalake refuse some of these logs
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("integer", "abc"),
        ("byte", "300"),
        ("boolean", "maybe"),
        ("decimal(5,2)", "123456.78"),
        ("date", "2020-13-45"),
        ("date", "0000-12-30"),
        ("timestamp", "0000-12-30 00:00:00"),
    ],
)
def test_partition_value_that_does_not_fit_is_named_and_not_called_corrupt(
    type_: str, value: str, table: Path
) -> None:
    file = add(table, "a.parquet", numbers(1), partition={"k": value})
    commit(table, OLD_PROTOCOL, metadata([N, field("k", type_)], ["k"]), file)
    with pytest.raises(UnsupportedTableError, match="has a partition value that"):
        open_(table)


def test_file_with_another_type_than_the_table_raises_unsupported_table_error(
    table: Path,
) -> None:
    commit(table, OLD_PROTOCOL, metadata([N]), add(table, "a.parquet", pa.table({"n": ["a"]})))
    with pytest.raises(UnsupportedTableError, match="'n' as string, not int64 as the table"):
        values(open_(table))


ARRAY = {"type": "array", "elementType": "long", "containsNull": True}


@pytest.mark.skipif(not hasattr(pa, "list_view"), reason="needs a newer pyarrow")
@pytest.mark.parametrize(
    ("type_", "stored", "rows"),
    [
        (ARRAY, "list_view", [[1], None, [2, 3]]),
        (ARRAY, "large_list_view", [[1], None, [2, 3]]),
        (struct_of(field("v", ARRAY)), "list_view", [{"v": [1]}, None, {"v": [2, 3]}]),
        ("binary", "uuid", [bytes(16), None, b"x" * 16]),
        ("string", "json_", ["{}", None, "[]"]),
    ],
)
def test_types_of_the_arrow_schema_in_files_are_read_and_converted(
    type_: Any, stored: str, rows: list[Any], table: Path, tmp_path: Path
) -> None:
    made = getattr(pa, stored)(*([pa.int64()] if "list" in stored else []))
    arrow = pa.struct([("v", made)]) if isinstance(rows[0], dict) else made
    file = add(table, "a.parquet", pa.table({"x": pa.array(rows, arrow)}), dead=[1])
    commit(table, WITH_VECTORS, metadata([field("x", type_)]), file)
    dataset = open_(table)
    expected = [row for row in rows if row is not None]
    assert dataset.to_table()["x"].to_pylist() == expected
    mds = convert_parquet(dataset, str(tmp_path / "mds"), progress=False)
    assert mds.to_table()["x"].to_pylist() == expected


def test_small_files_become_shards_without_reading_their_footers(table: Path) -> None:
    rows = numbers(*range(6))
    commit(table, OLD_PROTOCOL, metadata([N]), add(table, "a.parquet", rows, row_group_size=2))
    (table / "a.parquet").rename(table / "hidden")
    assert open_(table).shard_sizes == (6,)
    (table / "hidden").rename(table / "a.parquet")
    assert values(open_(table)) == [(n,) for n in range(6)]
    assert value_bounds(open_(table), ["n"]) == [{"n": (0, 5)}]
    assert open_(table, keep_row_groups=True).shard_sizes == (2, 2, 2)


@pytest.mark.parametrize("recorded", [1, 3])
def test_log_with_wrong_row_counts_raises_error_that_blames_the_log(
    table: Path, recorded: int
) -> None:
    wrong = add(table, "a.parquet", numbers(1, 2))
    wrong["add"]["stats"] = json.dumps({"numRecords": recorded})
    commit(table, OLD_PROTOCOL, metadata([N]), wrong)
    message = f"holds 2 rows, but the table's log or manifest says {recorded}: the log is wrong"
    for keep_row_groups in (False, True):
        with pytest.raises(UnsupportedTableError, match=message):
            values(open_(table, keep_row_groups=keep_row_groups))
    shuffled = ExactOrder(1, shuffle_rows=True)
    with pytest.raises(UnsupportedTableError, match=message):
        next(open_(table).batches(2, order=shuffled))


@pytest.mark.parametrize("recorded", [0, 2**40, 2**62])
def test_footer_decides_if_the_log_records_an_impossible_number_of_rows(
    table: Path, recorded: int
) -> None:
    wrong = add(table, "a.parquet", numbers(1, 2))
    wrong["add"]["stats"] = json.dumps({"numRecords": recorded})
    commit(table, OLD_PROTOCOL, metadata([N]), wrong)
    for keep_row_groups in (False, True):
        assert values(open_(table, keep_row_groups=keep_row_groups)) == [(1,), (2,)]
    assert open_(table).numbers([("n", ">", 1)]).tolist() == [1]


@pytest.mark.newest  # older pyarrow has no UUIDs
def test_uuids_that_deltalake_wrote_are_bytes(table: Path) -> None:
    stored = [bytes(range(16)), bytes(16)]
    write_deltalake(str(table), pa.table({"u": pa.array(stored, pa.uuid()), "n": [1, 2]}))
    assert values(open_(table), "u", "n") == [(stored[0], 1), (stored[1], 2)]


def test_opening_a_table_in_a_forked_child_raises_error_with_the_fix(
    table: Path,
) -> None:
    commit(table, WITH_VECTORS, metadata([N]), add(table, "a.parquet", numbers(1, 2), dead=[0]))
    dataset = open_(table)
    results: Any = FORK.Queue()

    def open_in_child() -> None:
        results.put(values(dataset))
        try:
            open_(table)
        except UnsupportedTableError as error:
            results.put(str(error))

    worker = FORK.Process(target=open_in_child, daemon=True)
    worker.start()
    assert results.get(timeout=120) == [(2,)]
    assert "Open it before the fork, or start processes with spawn" in results.get(timeout=120)
    worker.join()
