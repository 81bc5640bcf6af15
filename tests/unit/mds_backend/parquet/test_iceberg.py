"""Iceberg tables are read through their metadata, as in pyiceberg's own scans."""

import datetime as dt
import decimal
import gzip
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.frameworks import import_framework

tables = import_framework("tests.kit.iceberg_tables")

from pyiceberg.table import StaticTable, Table  # noqa: E402
from pyiceberg.transforms import IdentityTransform  # noqa: E402
from pyiceberg.types import LongType, StringType  # noqa: E402
from pyroaring import BitMap64  # noqa: E402
from tests.kit.parquet_files import open_parquet  # noqa: E402

from mdstorm_backend.convert import convert_parquet  # noqa: E402
from mdstorm_backend.errors import (  # noqa: E402
    CorruptDatasetError,
    DatasetNotFoundError,
    InvalidArgumentError,
    UnsupportedTableError,
)
from mdstorm_backend.parquet import ParquetDataset, value_bounds  # noqa: E402
from mdstorm_backend.storage import Location, NamedFiles  # noqa: E402
from mdstorm_backend.tables import AsOf, iceberg  # noqa: E402

UTC = dt.timezone.utc
DAY = dt.date(2024, 1, 1)
#: The type of each column, and its value as a function of a number.
COLUMNS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "i": (pa.int32(), lambda n: n % 3),
    "n": (pa.int64(), lambda n: n),
    "x": (pa.float64(), lambda n: n / 4),
    "s": (pa.string(), lambda n: f"s{n % 5}"),
    "d": (pa.date32(), lambda n: DAY + dt.timedelta(n % 3)),
    "t": (
        pa.timestamp("us", "UTC"),
        lambda n: dt.datetime(2024, 1, 1 + n % 3, 4, 5, 6, n, tzinfo=UTC),
    ),
    "c": (pa.decimal128(9, 2), lambda n: decimal.Decimal(n) / 4),
    "l": (pa.list_(pa.int64()), lambda n: list(range(n % 4))),
    "r": (pa.struct([("a", pa.int64()), ("b", pa.string())]), lambda n: {"a": n, "b": str(n)}),
}


def rows_of(dataset: ParquetDataset) -> list[str]:
    names = dataset.schema.names
    found = []
    for number in range(len(dataset.row_groups)):
        shard = dataset.shard(number)
        found += [shard.sample(row, names) for row in range(shard.num_samples)]
    assert len(found) == len(dataset)
    return sorted(repr([_plain(row[name]) for name in names]) for row in found)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    value = value.item() if isinstance(value, np.generic) else value
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def scanned(table: Table, **scan: Any) -> list[str]:
    """Return the rows returned by pyiceberg's own scan."""
    found = table.scan(**scan).to_arrow().to_pylist()
    return sorted(repr([_plain(value) for value in row.values()]) for row in found)


def names_in(schema: Any) -> tuple[str, ...]:
    return tuple(field.name for field in schema.fields)


def some_rows(rng: np.random.Generator, count: int, columns: list[str]) -> pa.Table:
    found, numbers = {}, rng.integers(0, 1000, count).tolist()
    for name in columns:
        type_, value = COLUMNS[name]
        may_be_null = name not in ("i", "n")
        values = [None if may_be_null and rng.random() < 0.1 else value(n) for n in numbers]
        found[name] = pa.array(values, type_)
    return pa.table(found)


def kill_some(table: Table, rng: np.random.Generator, write: Callable[..., Any]) -> None:
    """Delete some rows from some files in one partition."""
    files = tables.live_files(table)
    if not files:
        return
    _, partition = list(files.values())[rng.integers(len(files))]
    dead = {
        path: rng.choice(rows, rng.integers(1, rows + 1), replace=False).tolist()
        for path, (rows, found) in files.items()
        if found == partition and rng.random() < 0.8
    }
    if dead:
        tables.commit(table, write(table, dead, partition))


SEEDS = pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(n, marks=pytest.mark.long) for n in range(5, 40))]
)


def random_table(rng: np.random.Generator, folder: Path) -> Table:
    """Write a table with random appends, deletes, overwrites and schema changes."""
    columns = ["i", "n", *(name for name in "xsdtclr" if rng.random() < 0.5)]
    first = some_rows(rng, int(rng.integers(1, 40)), columns)
    table = tables.catalog(folder).create_table("n.t", first.schema)
    with table.update_spec() as spec:
        if rng.random() < 0.4:
            spec.add_field("i", IdentityTransform())
        if "d" in columns and rng.random() < 0.5:
            spec.add_field("d", IdentityTransform())
    table.append(first)
    renamed = {}
    for _ in range(rng.integers(2, 6)):
        match rng.integers(7):
            case 0 | 1:
                new = some_rows(rng, int(rng.integers(1, 40)), columns)
                table.append(new.rename_columns(renamed) if renamed else new)
            case 2:
                table.delete(f"{renamed.get('n', 'n')} < {rng.integers(0, 600)}")
            case 3:
                new = some_rows(rng, 7, columns)
                table.overwrite(new.rename_columns(renamed) if renamed else new)
            case 4 if not renamed:
                with table.update_schema() as update:
                    update.rename_column("n", "other")
                    update.update_column("i", LongType())
                    update.add_column("later", StringType())
                renamed = {name: {"n": "other"}.get(name, name) for name in columns}
            case 4 | 5:
                kill_some(table, rng, tables.positions)
            case 6:
                kill_some(table, rng, tables.vectors)
    return table


@SEEDS
def test_random_table_has_the_same_rows_as_a_pyiceberg_scan(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng, tmp_path)
    dataset = open_parquet(str(tables.path_of(table)))
    assert rows_of(dataset) == scanned(table)
    mds = convert_parquet(dataset, str(tmp_path / "mds")) if len(dataset) else ()
    assert len(mds) == len(dataset)
    for snapshot in rng.choice([s.snapshot_id for s in table.snapshots()], 2).tolist():
        then = open_parquet(str(tables.path_of(table)), as_of=AsOf(version=snapshot))
        assert then.table_version == snapshot
        assert rows_of(then) == scanned(table, snapshot_id=snapshot)


@pytest.mark.long
@SEEDS
def test_branches_tags_snapshots_and_metadata_files_have_the_rows_of_pyiceberg_scans(
    seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng, tmp_path)
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    tagged, branched, pinned = rng.choice(ids, 3).tolist()
    with table.manage_snapshots() as manage:
        manage.create_tag(tagged, "release 1").create_branch(branched, "audit")
    # The file of a failed commit is newer than the table and unknown to its catalog.
    committed = table.metadata_location
    tables.write_metadata(table, snapshots=[], refs={}, **{"current-snapshot-id": -1})
    versions = {"release 1": tagged, "audit": branched, "main": ids[-1], pinned: pinned}
    for version, snapshot in versions.items():
        dataset = open_parquet(committed, as_of=AsOf(version=version))
        expected = table.scan(snapshot_id=snapshot)
        assert dataset.schema.names == names_in(expected.projection())
        assert rows_of(dataset) == scanned(table, snapshot_id=snapshot)
        assert dataset.table_version == snapshot
    assert rows_of(open_parquet(committed)) == scanned(table)
    assert open_parquet(committed).url == committed
    for entry in table.metadata.metadata_log[1:]:  # the first metadata file has no snapshot
        then = StaticTable.from_metadata(entry.metadata_file)
        dataset = open_parquet(entry.metadata_file)
        assert dataset.schema.names == names_in(then.schema())
        assert rows_of(dataset) == scanned(then)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two files, with rows 0 to 4 and 5 to 9."""
    schema = pa.schema([("n", pa.int64())])
    table = tables.catalog(tmp_path).create_table("n.t", schema)
    for first in (0, 5):
        table.append(pa.table({"n": range(first, first + 5)}, schema))
    return table


def numbers(table: Table | Path, name: str = "n", **options: Any) -> list[int]:
    path = table if isinstance(table, Path) else tables.path_of(table)
    dataset = open_parquet(str(path), **options)
    read = [dataset.shard(i).decoded([name])[name].tolist() for i in range(len(dataset.row_groups))]
    return sorted(chain.from_iterable(read))


def first_file(table: Table) -> str:
    return next(path for path in tables.live_files(table) if numbers_in(path) == [0, 1, 2, 3, 4])


def numbers_in(path: str) -> Any:
    return pq.read_table(path.removeprefix("file://"))["n"].to_pylist()


def test_snapshot_is_selected_by_id_or_time(table: Table) -> None:
    first, second = table.snapshots()
    when = [dt.datetime.fromtimestamp(s.timestamp_ms / 1000, UTC) for s in (first, second)]
    assert numbers(table, as_of=AsOf(version=first.snapshot_id)) == list(range(5))
    assert numbers(table, as_of=AsOf(timestamp=when[0])) == list(range(5))
    assert numbers(table, as_of=AsOf(timestamp=when[1])) == list(range(10))
    with pytest.raises(DatasetNotFoundError, match=f"no snapshot 7.*{second.snapshot_id}"):
        numbers(table, as_of=AsOf(version=7))
    with pytest.raises(DatasetNotFoundError, match="no snapshot as old as"):
        numbers(table, as_of=AsOf(timestamp=when[0] - dt.timedelta(milliseconds=1)))


def test_table_without_a_snapshot_is_empty(tmp_path: Path) -> None:
    table = tables.catalog(tmp_path).create_table("n.t", pa.schema([("n", pa.int64())]))
    path = str(tables.path_of(table))
    dataset = open_parquet(path)
    assert (len(dataset), dataset.schema.names, dataset.table_version) == (0, ("n",), 0)
    assert len(open_parquet(path, as_of=AsOf(version=0))) == 0
    table.append(pa.table({"n": [1]}))
    with pytest.raises(DatasetNotFoundError, match="no snapshot 0"):
        open_parquet(path, as_of=AsOf(version=0))


def test_deleted_rows_stay_deleted_with_several_row_groups_and_delete_files(table: Table) -> None:
    path = first_file(table)
    tables.commit(table, tables.positions(table, {path: [0, 3]}))
    tables.commit(table, tables.positions(table, {path: [3, 4]}))
    assert numbers(table) == [1, 2, *range(5, 10)]
    assert numbers(table, keep_row_groups=True) == [1, 2, *range(5, 10)]
    tables.commit(table, tables.positions(table, {path: [1, 2]}))
    assert numbers(table) == list(range(5, 10))


def test_deletion_vectors_of_format_3_are_applied(table: Table) -> None:
    files = list(tables.live_files(table))
    tables.commit(table, tables.vectors(table, {files[0]: range(4), files[1]: [2]}))
    newest = tables.write_metadata(table, **{"format-version": 3, "next-row-id": 0})
    expected = StaticTable.from_metadata(f"file://{newest}").scan().to_arrow()["n"].to_pylist()
    assert numbers(table) == sorted(expected)
    assert len(expected) == 5


def test_deletion_vector_with_too_many_rows_raises_error() -> None:
    """A few kilobytes can encode that many rows, and listing the rows would take gigabytes."""
    bitmap = BitMap64()
    bitmap.add_range(0, 1 << 28)
    vector = bytes(4) + bitmap.serialize()
    with pytest.raises(ValueError, match="a deletion vector has 268435456 rows, more than"):
        iceberg.rows_of_vector(len(vector).to_bytes(4, "big") + vector + bytes(4))


def test_moved_table_is_read_in_its_new_directory(table: Table, tmp_path: Path) -> None:
    tables.commit(table, tables.positions(table, {first_file(table): [0]}))
    moved = tmp_path / "elsewhere" / "copy"
    shutil.copytree(tables.path_of(table), moved)
    shutil.rmtree(tables.path_of(table))
    assert numbers(moved) == list(range(1, 10))


def test_files_without_field_ids_are_read_by_the_tables_name_mapping(
    table: Table, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"n": [10, 11]}), tmp_path / "plain.parquet")
    table.add_files([f"file://{tmp_path}/plain.parquet"])
    with table.update_schema() as update:
        update.rename_column("n", "m")
    assert numbers(table, "m") == list(range(12))
    tables.write_metadata(table, properties={})
    with pytest.raises(UnsupportedTableError, match="columns without field ids"):
        open_parquet(str(tables.path_of(table)), keep_row_groups=True)


def test_missing_partition_columns_are_read_from_the_manifest(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("d", pa.date32())])
    table = tables.catalog(tmp_path).create_table("n.t", schema)
    with table.update_spec() as spec:
        spec.add_field("d", IdentityTransform())
    day = dt.date(2024, 1, 1)
    table.append(pa.table({"n": [1, 2], "d": [day, None]}, schema))
    dataset = open_parquet(str(tables.path_of(table)))
    assert dataset.partition_columns == ("d",)
    for group in dataset.row_groups:
        path = tables.path_of(table) / group.path
        stored = pq.read_table(path, partitioning=None).drop_columns(["d"])
        pq.write_table(stored, path)
    sizes = [(tables.path_of(table) / file.name).stat().st_size for file in dataset.files]
    files = tuple(map(lambda f, size: replace(f, size=size), dataset.files, sizes))
    dataset = replace(dataset, files=files)
    shards = [dataset.shard(i).sample(0) for i in range(2)]
    assert {row["n"]: row["d"] for row in shards} == {1: np.datetime64(day), 2: None}


def read_rows(dataset: ParquetDataset) -> None:
    dataset.to_table()


def read_bounds(dataset: ParquetDataset) -> None:
    value_bounds(dataset, ["n"])


@pytest.mark.long
@pytest.mark.parametrize("keep_row_groups", [False, True])
@pytest.mark.parametrize(
    ("read", "padding"),
    [(read_rows, 0), (read_rows, 5_000), (read_rows, 100_000), (read_bounds, 5_000)],
)
def test_file_of_another_size_than_the_manifest_has_raises_error_with_both_sizes(
    read: Callable[[ParquetDataset], None], keep_row_groups: bool, padding: int, table: Table
) -> None:
    path = Path(max(tables.live_files(table)).removeprefix("file://"))
    stored, recorded = pq.read_table(path, partitioning=None), path.stat().st_size
    more = {"padding": "x" * padding} if padding else {}
    pq.write_table(stored.replace_schema_metadata(more), path, write_statistics=bool(padding))
    actual = path.stat().st_size
    assert (actual > recorded) == bool(padding)
    named = rf"{path.name} has {actual} bytes, and the table's manifest or log says {recorded}"
    with pytest.raises(UnsupportedTableError, match=named):
        read(open_parquet(table.location(), keep_row_groups=keep_row_groups))


def test_pinned_snapshot_keeps_its_columns_after_a_column_was_added(table: Table) -> None:
    snapshot = table.current_snapshot().snapshot_id
    with table.update_schema() as update:
        update.add_column("later", StringType())
    for as_of in (AsOf(version=snapshot), AsOf(version="main"), AsOf(timestamp="2100-01-01")):
        assert open_parquet(table.location(), as_of=as_of).schema.names == ("n",)
    assert open_parquet(table.location()).schema.names == ("n", "later")
    table.append(pa.table({"n": [1], "later": ["x"]}))
    dataset = open_parquet(table.location(), as_of=AsOf(version=snapshot))
    assert (dataset.schema.names, len(dataset)) == (("n",), 10)


def test_unknown_branch_raises_error_listing_branches_and_tags(table: Table) -> None:
    with table.manage_snapshots() as manage:
        manage.create_tag(table.current_snapshot().snapshot_id, "release")
    with pytest.raises(DatasetNotFoundError, match=r"no branch or tag 'relase'.*main, release"):
        numbers(table, as_of=AsOf(version="relase"))


def test_moved_table_is_read_by_its_metadata_file(table: Table, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "copy"
    shutil.copytree(tables.path_of(table), moved)
    shutil.rmtree(tables.path_of(table))
    name = tables.newest_metadata(table).name
    dataset = open_parquet(f"{moved}/metadata/{name}")
    assert len(dataset) == 10
    assert pickle.loads(pickle.dumps(dataset)).to_table() == dataset.to_table()  # noqa: S301
    assert dataset.root == Location.of(moved)


def test_table_with_metadata_elsewhere_must_be_opened_by_its_metadata_file(
    tmp_path: Path,
) -> None:
    schema, elsewhere = pa.schema([("n", pa.int64())]), f"file://{tmp_path}/elsewhere"
    table = tables.catalog(tmp_path).create_table(
        "n.t", schema, properties={"write.metadata.path": elsewhere}
    )
    table.append(pa.table({"n": range(100)}, schema))
    table.delete("n < 50")
    assert table.metadata_location.startswith(elsewhere)
    dataset = open_parquet(table.metadata_location)
    assert rows_of(dataset) == scanned(table)
    assert dataset.root is None
    data = tables.path_of(table)
    for path in data.rglob("*.parquet"):  # Spark and Trino write this key, but pyiceberg does not
        rows = pq.read_table(path)
        pq.write_table(rows.replace_schema_metadata({"iceberg.schema": "{}"}), path)
    files = sorted(map(str, data.rglob("*.parquet")))
    for url in (f"{data}", f"{data}/data", f"{data}/data/*.parquet", [files[0], f"{data}/data"]):
        with pytest.raises(UnsupportedTableError, match=r"iceberg\.schema.*\.metadata\.json"):
            open_parquet(url)
    for named in (files, files[0], Path(files[0]).as_uri()):  # whoever names files wants their rows
        expected = pa.concat_tables(map(pq.read_table, [named] if named != files else files))
        assert open_parquet(named).to_table()["n"].to_pylist() == expected["n"].to_pylist()


def test_location_in_metadata_does_not_allow_files(table: Table, tmp_path: Path) -> None:
    newest = tables.newest_metadata(table)
    folder = shutil.copytree(newest.parent, tmp_path / "elsewhere")
    stored = newest.read_text()
    (folder / newest.name).write_text(stored.replace(f'"{table.location()}"', '"file:///"'))
    (tmp_path / "secret").write_bytes(b"secret")
    dataset = open_parquet(f"{folder}/{newest.name}")
    assert len(dataset) == 10
    for path in (f"{tmp_path}/secret", f"{folder}/{newest.name}", "secret"):
        with pytest.raises(InvalidArgumentError, match="so it is not read"):
            NamedFiles(dataset.root).read(path)


@pytest.mark.parametrize("ending", [".gz.metadata.json", ".metadata.json.gz"])
def test_gzipped_metadata_that_expands_too_far_raises_error(
    table: Table, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = tables.newest_metadata(table)
    content = newest.read_bytes()
    packed = newest.parent / f"v9{ending}"
    packed.write_bytes(gzip.compress(content))
    assert len(open_parquet(str(packed))) == 10
    monkeypatch.setattr(iceberg, "MOST_METADATA", len(content) - 1)
    with pytest.raises(CorruptDatasetError, match=f"v9{ending} .*more than {len(content) - 1}"):
        open_parquet(str(packed))


def test_missing_metadata_file_raises_error_naming_the_file(table: Table) -> None:
    url = f"{table.location()}/metadata/00009-none.metadata.json"
    with pytest.raises(DatasetNotFoundError, match="00009-none"):
        open_parquet(url)


@pytest.mark.parametrize("kind", ["equality", "orc", "format", "default"])
def test_unsupported_iceberg_features_raise_error_naming_the_features(
    table: Table, kind: str
) -> None:
    if kind == "equality":
        path, equality = f"{table.location()}/eq", tables.m.DataFileContent.EQUALITY_DELETES
        made = tables.delete_file(path, b"", 1, tables.Record(), equality, equality_ids=[1])
        tables.commit(table, made)
    elif kind == "orc":
        path = f"{table.location()}/data/deletes.orc"
        tables.commit(table, tables.delete_file(path, b"", 1, tables.Record()))
    elif kind == "format":
        tables.write_metadata(table, **{"format-version": 4})
    else:
        field = {"id": 1, "name": "n", "type": "long", "required": False, "initial-default": 7}
        schema = {"type": "struct", "schema-id": 0, "fields": [field]}
        tables.write_metadata(table, schemas=[schema], **{"format-version": 3, "next-row-id": 0})
    said = {"equality": "equality deletes", "orc": r"\.orc", "format": "version 4"}
    with pytest.raises(
        UnsupportedTableError, match=said.get(kind, "default value for column 'n'")
    ) as e:
        numbers(table)
    assert "spark.read.format('iceberg')" in str(e.value)


@pytest.mark.parametrize(
    ("more", "said"), [({"suffix": "orc"}, "as ORC"), ({"key_metadata": b"k"}, "encrypted")]
)
def test_data_file_that_is_not_plain_parquet_raises_error_naming_it(
    table: Table, more: dict[str, Any], said: str
) -> None:
    more = dict(more)
    path = f"{table.location()}/data/rows.{more.pop('suffix', 'parquet')}"
    kind = tables.m.DataFileContent.DATA
    file = tables.delete_file(path, b"rows", 1, tables.Record(), kind, **more)
    file.spec_id = table.spec().spec_id
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    with pytest.raises(UnsupportedTableError, match=rf"stores .*/data/rows\.\w+ {said}"):
        numbers(table)


@pytest.mark.parametrize("name", ["data", "data/*.parquet", "file"])
def test_opening_part_of_an_iceberg_table_raises_error_naming_the_table(
    table: Table, name: str
) -> None:
    path = tables.path_of(table)
    part = first_file(table) if name == "file" else f"{path}/{name}"
    with pytest.raises(UnsupportedTableError, match=f"{path} is an Iceberg table.*own URL"):
        open_parquet(part)


def test_metadata_file_named_by_the_version_hint_or_else_the_newest_is_used(table: Table) -> None:
    newest = tables.newest_metadata(table)
    older = sorted(newest.parent.glob("00001-*.json"))[0]
    hint = newest.parent / "version-hint.text"
    hint.write_text(older.name.removesuffix(".metadata.json"))
    assert numbers(table) == list(range(5))
    hint.write_text("1")
    assert numbers(table) == list(range(10))
    packed = newest.parent / "v3.gz.metadata.json"
    packed.write_bytes(gzip.compress(older.read_bytes()))
    assert numbers(table) == list(range(5))
    shutil.copy(newest, newest.parent / "00003-other.metadata.json")
    with pytest.raises(UnsupportedTableError, match="two newest metadata files"):
        numbers(table)


@pytest.mark.long
@pytest.mark.parametrize("damage", ["metadata", "manifest", "missing", "deletes", "outside"])
def test_damaged_metadata_raises_error_naming_the_table(table: Table, damage: str) -> None:
    folder = tables.path_of(table) / "metadata"
    if damage == "metadata":
        tables.newest_metadata(table).write_text('{"format-version": 2}')
    elif damage == "deletes":
        made = tables.delete_file(f"{table.location()}/data/x.parquet", b"x", 1, tables.Record())
        tables.commit(table, made)
    elif damage == "outside":
        outside = {"manifest-list": f"{table.location()}/../../secret.avro"}
        changed = [s.model_dump() | outside for s in table.snapshots()]
        tables.write_metadata(table, snapshots=changed)
    for path in folder.glob("*.avro") if damage in ("manifest", "missing") else ():
        path.write_bytes(b"Obj\x01" + b"\xff" * 50) if damage == "manifest" else path.unlink()
    with pytest.raises(CorruptDatasetError, match="is an Iceberg table whose metadata") as caught:
        numbers(table)
    assert caught.value.url == f"file://{tables.path_of(table)}"
