"""A workspace with a table, for notebooks that read one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.delta_tables import OLD_PROTOCOL, add, commit, field, metadata
from tests.kit.servers.catalog import catalog_on
from tests.kit.servers.s3 import S3Server
from tests.kit.servers.unity import TOKEN

#: The table that the notebooks read.
TABLE = "main.default.points"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Environment variables for a workspace with a volume and the table `TABLE`."""
    table = tmp_path / "points"
    files = []
    for first in range(0, 1000, 250):
        x = np.arange(first, first + 250, dtype=np.float32) / 1000
        files.append(add(table, f"{first}.parquet", pa.table({"x": x, "y": 3 * x})))
    commit(table, OLD_PROTOCOL, metadata([field("x", "float"), field("y", "float")]), *files)
    with closing(S3Server()) as s3, catalog_on(s3) as catalog:
        catalog.put(TABLE, table)
        yield {
            "DATABRICKS_HOST": catalog.unity.url,
            "DATABRICKS_TOKEN": TOKEN,
            "AWS_ENDPOINT_URL": catalog.guard.url,
            "HOME": str(tmp_path),
        }
