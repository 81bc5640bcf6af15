"""Fixtures: datasets for the mistake tests, small Parquet files, and cleanup of readers."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.compat.readers import stop_readers, write_parquet

import mdstorm


@pytest.fixture(scope="session")
def where(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """URLs of the same table in Parquet and MDS; the folders next to them provoke errors."""
    folder: Path = tmp_path_factory.mktemp("mistakes")
    for name in ("parquet", "others", "empty", "csv"):
        (folder / name).mkdir()
    table = pa.table({"id": range(8), "x": [0.5] * 8, "s": ["text"] * 8})
    pq.write_table(table, folder / "parquet" / "0.parquet")
    pq.write_table(table.select(["id"]), folder / "others" / "0.parquet")
    (folder / "folder" / "index.json").mkdir(parents=True)
    (folder / "csv" / "a.csv").write_text("id,x\n1,2\n", "utf-8")
    mdstorm.convert(folder / "parquet", folder / "mds", progress=False)
    return (folder / "parquet").as_uri(), (folder / "mds").as_uri()


@pytest.fixture
def ten(tmp_path: Path) -> str:
    """The numbers 0 to 9 in row groups of four."""
    return write_parquet(tmp_path / "ten", {"number": range(10)})


@pytest.fixture(scope="session")
def thirty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The numbers 0 to 29 in row groups of seven."""
    return write_parquet(tmp_path_factory.mktemp("thirty"), {"id": range(30)}, 7)


@pytest.fixture
def thousand(tmp_path: Path) -> str:
    """The numbers 0 to 999 in row groups of a hundred."""
    return write_parquet(tmp_path / "thousand", {"number": range(1000)}, 100)


@pytest.fixture(autouse=True)
def _stop_readers_after_each_test() -> Iterator[None]:
    yield
    stop_readers()
