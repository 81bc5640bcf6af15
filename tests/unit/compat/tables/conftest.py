"""Store and catalog servers for tests of public functions."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.kit.delta_tables import WITH_VECTORS, add, commit, kill, metadata
from tests.kit.servers.catalog import Catalog, catalog_on
from tests.kit.servers.s3 import S3Server
from tests.kit.servers.unity import TOKEN
from tests.unit.compat.tables.orders import FIELDS, NAME
from tests.unit.mds_backend.storage.conftest import (  # noqa: F401
    default_cache,
    fresh_filesystems,
    no_credentials,
    s3,
    s3_without_keys,
    started_s3,
)


@pytest.fixture(scope="session")
def started_catalog(started_s3: S3Server) -> Iterator[Catalog]:  # noqa: F811
    pytest.importorskip("databricks.sdk")
    with catalog_on(started_s3) as found:
        yield found


@pytest.fixture
def catalog(
    started_catalog: Catalog,
    no_credentials: None,  # noqa: F811
    fresh_filesystems: None,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Catalog]:
    """An empty catalog; only the environment variables for reading tables by name are set."""
    found = started_catalog
    monkeypatch.setenv("DATABRICKS_HOST", found.unity.url)
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_ENDPOINT_URL", found.guard.url)
    yield found
    found.unity.reset()
    found.guard.reset()
    found.behind.remove("tables/")  # this test's files must not appear in later tables


@pytest.fixture
def orders(catalog: Catalog, tmp_path: Path) -> Catalog:
    """The table `NAME`, which has two files and two deleted rows."""
    table = tmp_path / "orders"
    files = [add(table, f"{n}.parquet", pa.table({"n": range(n, n + 5)})) for n in (0, 5)]
    commit(table, WITH_VECTORS, metadata(FIELDS), *files)
    kill(table, {"0.parquet": [0, 3]})
    catalog.put(NAME, table)
    return catalog
