"""The datasets with which mistakes are made."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

import mdstorm


@pytest.fixture(scope="session")
def where(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """URLs of the same table in Parquet and MDS; the folders next to them provoke errors."""
    folder: Path = tmp_path_factory.mktemp("mistakes")
    for name in ("parquet", "others", "empty", "csv", "feather", "images", "times"):
        (folder / name).mkdir()
    table = pa.table({"id": range(8), "x": [0.5] * 8, "s": ["text"] * 8})
    pq.write_table(table, folder / "parquet" / "0.parquet")
    pq.write_table(table.select(["id"]), folder / "others" / "0.parquet")
    (folder / "folder" / "index.json").mkdir(parents=True)
    (folder / "loop").symlink_to("loop")
    times = pa.table({"t": pa.array([0] * 8, pa.timestamp("us", "UTC"))})
    pq.write_table(times, folder / "times" / "0.parquet")
    write_feather(table, str(folder / "feather" / "a.feather"))
    (folder / "images" / "1.JPG").write_bytes(b"\xff\xd8\xff\xe0 not decoded")
    (folder / "csv" / "a.csv").write_text("id,x\n1,2\n", "utf-8")
    mdstorm.convert(folder / "parquet", folder / "mds", progress=False)
    return (folder / "parquet").as_uri(), (folder / "mds").as_uri()
