"""Conversion destinations for named tables are checked before any request is sent."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.frameworks import import_framework
from tests.kit.servers.catalog import Catalog
from tests.kit.servers.s3 import BUCKET
from tests.unit.compat.tables.orders import NAME

from mdstorm import convert
from mdstorm.errors import DatasetExistsError, InvalidArgumentError, UnsupportedURLError


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A directory that contains Parquet files in ``parquet`` and an MDS dataset in ``mds``."""
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.table({"n": [1]}), tmp_path / "parquet" / "a.parquet")
    convert(tmp_path / "parquet", tmp_path / "mds")
    return tmp_path


@pytest.mark.parametrize(
    ("url", "options", "error", "words"),
    [
        ("{}/mds", {}, DatasetExistsError, r"replace it with overwrite=True"),
        ("{}/mds", {"overwrite": True}, DatasetExistsError, "was written by neither"),
        ("{}/parquet", {}, DatasetExistsError, "holds Parquet files, such as a.parquet"),
        ("nowhere://{}/mds", {}, UnsupportedURLError, "Protocol not known: nowhere"),
        (f"uc://{NAME}", {}, InvalidArgumentError, "destination 'uc://.*' is a table name"),
        (NAME, {}, InvalidArgumentError, f"is a table name.*or './{NAME}' for a directory"),
    ],
)
def test_unusable_destination_raises_error_before_any_catalog_request(
    url: str,
    options: dict[str, Any],
    error: type[Exception],
    words: str,
    written: Path,
    orders: Catalog,
) -> None:
    if options:
        (written / "mds" / "_mdstorm").unlink()
    with pytest.raises(error, match=words):
        convert(NAME, url.format(written), **options)
    assert not orders.unity.requests


def test_destination_inside_table_raises_error_before_anything_is_written(
    orders: Catalog,
) -> None:
    """Table maintenance, such as VACUUM, would remove the dataset."""
    before = list(orders.behind.keys)
    keys = {"key": "testing", "secret": "testing-secret", "endpoint_url": orders.behind.url}
    with pytest.raises(InvalidArgumentError, match="source and destination overlap at s3://"):
        convert(NAME, f"s3://{BUCKET}/tables/{NAME}/mds", storage_options=keys)
    assert list(orders.behind.keys) == before


@pytest.mark.parametrize("named_by", ["its object in pyiceberg", "its metadata file"])
def test_destination_inside_iceberg_table_raises_error_before_anything_is_written(
    named_by: str, tmp_path: Path
) -> None:
    tables = import_framework("tests.kit.iceberg_tables")
    table = tables.catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64()}))
    table.append(pa.table({"n": [1]}))
    source = table if named_by == "its object in pyiceberg" else table.metadata_location
    destination = tables.path_of(table) / "data" / "mds"
    with pytest.raises(InvalidArgumentError, match="source and destination overlap at file://"):
        convert(source, destination)
    assert not destination.exists()
