"""Data of every kind that can be opened, and what another library reads from them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.kit.frameworks import import_framework
from tests.unit.compat.etl.golden_rows import GOLDEN

from mdstorm import convert, open_dataset
from mdstorm.spark import make_spark_converter
from mdstorm_backend.storage import Location


@dataclass
class Place:
    """Where a test's data are.

    Attributes
    ----------
    folder : Path
        A local folder, in which other libraries write.
    url : str
        The URL at which the folder is read.
    keys : dict
        Options with which other libraries read from the URL.
    """

    folder: Path
    url: str
    keys: dict[str, str] = field(default_factory=dict)

    def at(self, name: str) -> str:
        """Return the URL of a file or directory, and copy the folder there."""
        target = Location.of(self.url)
        if not target.is_local_disk:
            for path in self.folder.rglob("*"):
                if path.is_file():
                    target.write(str(path.relative_to(self.folder)), [path.read_bytes()])
        return f"{self.url}/{name}" if name else self.url


@dataclass
class Input:
    """What a user passes, and the rows that it has.

    Attributes
    ----------
    source : object
        What is passed.
    rows : pyarrow.Table
        The rows according to another library.
    version : int, str or None
        The version that is passed.
    is_secret : bool
        Whether `source` holds credentials, which are never pickled.
    """

    source: Any
    rows: pa.Table
    version: Any = None
    is_secret: bool = False

    @property
    def keywords(self) -> dict[str, Any]:
        return {} if self.version is None else {"version": self.version}


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.sort_by("n").select(sorted(table.column_names)).to_pylist()


def numbers(first: int, last: int) -> pa.Table:
    values = range(first, last)
    return pa.table({"n": values, "text": [f"row {n}" for n in values]})


def mds(place: Place) -> tuple[str, pa.Table]:
    """Write an MDS dataset with several shards, and return its name and rows."""
    pq.write_table(numbers(0, 60), place.folder / "source.parquet")
    convert(place.folder / "source.parquet", place.folder / "mds", shard_size=1200)
    rows = pq.read_table(place.folder / "source.parquet")
    (place.folder / "source.parquet").unlink()
    return "mds", rows


def shards(place: Place) -> tuple[list[str], pa.Table]:
    name, rows = mds(place)
    found = sorted(path.name for path in (place.folder / name).glob("*.mds"))
    assert len(found) > 2
    return [f"{name}/{one}" for one in found], rows


def mds_directory(place: Place) -> Input:
    name, rows = mds(place)
    return Input(place.at(name), rows)


def mds_index(place: Place) -> Input:
    name, rows = mds(place)
    return Input(place.at(f"{name}/index.json"), rows)


def mds_shard(place: Place) -> Input:
    names, rows = shards(place)
    first = len(open_dataset(place.folder / names[0]))
    assert 0 < first < 60
    return Input(place.at(names[0]), rows.slice(0, first))


def mds_shards(place: Place) -> Input:
    names, rows = shards(place)
    return Input([place.at(name) for name in names], rows)


def mds_pattern(place: Place) -> Input:
    _, rows = shards(place)
    return Input(place.at("mds/*.mds"), rows)


def petastorm(place: Place) -> Input:
    """A dataset that Petastorm wrote, as pyarrow reads its plain columns."""
    shutil.copytree(GOLDEN / "partitioned", place.folder / "written")
    found = ds.dataset(GOLDEN / "partitioned", partitioning="hive", exclude_invalid_files=True)
    return Input(place.at("written"), found.to_table().rename_columns(_as_n(found.schema.names)))


def _as_n(names: list[str]) -> list[str]:
    return ["n" if name == "id" else name for name in names]


def parquet_file(place: Place) -> Input:
    pq.write_table(numbers(0, 6), place.folder / "a.parquet", row_group_size=4)
    return Input(place.at("a.parquet"), pq.read_table(place.folder / "a.parquet"))


def files(place: Place, *names: str) -> pa.Table:
    for number, name in enumerate(names):
        (place.folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(numbers(5 * number, 5 * number + 5), place.folder / name)
    return pa.concat_tables(pq.read_table(place.folder / name) for name in names)


def parquet_folder(place: Place) -> Input:
    rows = files(place, "data/0.parquet", "data/1.parquet")
    return Input(place.at("data"), rows)


def parquet_partitions(place: Place) -> Input:
    files(place, "data/k=1/a.parquet", "data/k=2/b.parquet")
    found = ds.dataset(place.folder / "data", partitioning="hive").to_table()
    at = found.column_names.index("k")
    return Input(place.at("data"), found.set_column(at, "k", found["k"].cast(pa.int64())))


def parquet_pattern(place: Place) -> Input:
    rows = files(place, "data/0.parquet", "data/1.parquet", "data/other")
    return Input(place.at("data/*.parquet"), rows.slice(0, 10))


def parquet_list(place: Place) -> Input:
    rows = files(place, "one/0.parquet", "two/1.parquet")
    return Input([place.at("one/0.parquet"), place.at("two/1.parquet")], rows)


def encoded_parquet(place: Place) -> Input:
    rows = files(place, "a b/0.parquet")
    return Input(place.at(quote("a b/0.parquet")), rows)


def encoded_mds(place: Place) -> Input:
    name, rows = mds(place)
    (place.folder / name).rename(place.folder / "m d s")
    return Input(place.at(quote("m d s")), rows)


def delta(place: Place) -> Any:
    """Write two versions of a Delta table, the second without a row, and return its class.

    deltalake's own deletion would write types that the lowest pyarrow does not read.
    """
    deltalake = pytest.importorskip("deltalake")
    for rows in (numbers(0, 6), pa.concat_tables([numbers(0, 2), numbers(3, 6)])):
        deltalake.write_deltalake(place.folder / "delta", rows, mode="overwrite")
    return deltalake.DeltaTable


def _rows_of(table: Any) -> pa.Table:
    return pa.table(table.to_pyarrow_table())


def delta_path(place: Place) -> Input:
    table = delta(place)
    return Input(place.at("delta"), _rows_of(table(place.folder / "delta")))


def delta_version(place: Place) -> Input:
    table = delta(place)
    return Input(place.at("delta"), _rows_of(table(place.folder / "delta", version=0)), 0)


def delta_object(place: Place) -> Input:
    table = delta(place)
    opened = table(place.at("delta"), version=0, storage_options=place.keys or None)
    return Input(opened, _rows_of(opened), is_secret=bool(place.keys))


def iceberg(place: Place) -> Any:
    """Write a table of pyiceberg with a branch at its first snapshot, and a later deletion."""
    tables = import_framework("tests.kit.iceberg_tables")
    made = tables.catalog(place.folder).create_table("n.t", numbers(0, 1).schema)
    made.append(numbers(0, 6))
    with made.manage_snapshots() as manage:
        manage.create_branch(made.current_snapshot().snapshot_id, "audit")
    made.delete("n = 2")
    return made


def _name_in(place: Place, url: str) -> str:
    return url.removeprefix(f"file://{place.folder}/")


def iceberg_directory(place: Place) -> Input:
    table = iceberg(place)
    return Input(place.at(_name_in(place, table.location())), table.scan().to_arrow())


def iceberg_metadata(place: Place) -> Input:
    table = iceberg(place)
    return Input(place.at(_name_in(place, table.metadata_location)), table.scan().to_arrow())


def iceberg_branch(place: Place) -> Input:
    table = iceberg(place)
    rows = table.scan().use_ref("audit").to_arrow()
    return Input(place.at(_name_in(place, table.location())), rows, "audit")


def iceberg_object(place: Place) -> Input:
    from pyiceberg.table import StaticTable

    table = iceberg(place)
    url = place.at(_name_in(place, table.metadata_location))
    opened = StaticTable.from_metadata(url, place.keys)
    return Input(opened, table.scan().to_arrow(), is_secret=bool(place.keys))


def over_converter(make: Callable[[Place], Input]) -> Callable[[Place], Input]:
    def over(place: Place) -> Input:
        found = make(place)
        made = make_spark_converter(found.source, **found.keywords)
        return replace(found, source=made, version=None)

    return over


def over_dataset(place: Place) -> Input:
    found = parquet_file(place)
    return replace(found, source=open_dataset(found.source))


#: Each kind of input by its name on the page.
INPUTS: dict[str, Callable[[Place], Input]] = {
    "an MDS dataset": mds_directory,
    "its `index.json`": mds_index,
    "one of its shards": mds_shard,
    "a list of its shards": mds_shards,
    "a pattern of its shards": mds_pattern,
    "a dataset of Petastorm": petastorm,
    "a Parquet file": parquet_file,
    "a folder of Parquet files": parquet_folder,
    "a folder with Hive partitions": parquet_partitions,
    "a pattern of Parquet files": parquet_pattern,
    "a list of Parquet files": parquet_list,
    "a URL with `%20`": encoded_parquet,
    "a Delta table": delta_path,
    "a Delta table and `version=`": delta_version,
    "a `DeltaTable` of deltalake": delta_object,
    "an Iceberg table": iceberg_directory,
    "an Iceberg table's metadata file": iceberg_metadata,
    "an Iceberg table and a branch": iceberg_branch,
    "a `Table` of pyiceberg": iceberg_object,
    "a converter": over_converter(parquet_file),
    "an open dataset": over_dataset,
}
#: Further inputs, which are like one of these.
MORE: dict[str, Callable[[Place], Input]] = {
    "an MDS dataset at a URL with %20": encoded_mds,
    "a converter over MDS": over_converter(mds_directory),
    "a converter over shards": over_converter(mds_shards),
    "a converter over files": over_converter(parquet_list),
    "a converter over Delta": over_converter(delta_version),
    "a converter over a DeltaTable": over_converter(delta_object),
    "a converter over Iceberg": over_converter(iceberg_branch),
    "a converter over a Table": over_converter(iceberg_object),
}
