"""Tables loaded by pyiceberg's REST catalog client and passed in place of a URL."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.frameworks import import_framework
from tests.kit.servers.catalog import Catalog
from tests.kit.servers.rest_catalog import TOKEN, RestCatalogServer
from tests.kit.servers.vending import MARK
from tests.unit.compat.tables.orders import by_torch, numbers

from mdstorm import convert, make_batch_reader
from mdstorm.errors import CredentialsError, InvalidArgumentError
from mdstorm.spark import make_spark_converter

LIVE, FIRST = list(range(5, 10)), list(range(10))


@pytest.fixture
def server(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RestCatalogServer]:
    """A catalog with the table ``n.t``, which only the catalog's credentials can read."""
    tables = import_framework("tests.kit.iceberg_tables")
    made = tables.catalog(tmp_path).create_table("n.t", pa.schema([("n", pa.int64())]))
    made.append(pa.table({"n": FIRST}))
    made.delete("n < 5")
    with made.manage_snapshots() as manage:
        manage.create_tag(made.snapshots()[0].snapshot_id, "first")
    url = catalog.put("main.rest.t", tables.path_of(made), "ICEBERG")
    file = Path(made.metadata_location.removeprefix("file://"))
    for name in ("AWS_ENDPOINT_URL", "DATABRICKS_HOST", "DATABRICKS_TOKEN"):
        monkeypatch.delenv(name)
    catalog.guard.shows_missing = False
    with closing(RestCatalogServer(catalog.guard)) as found:
        found.tables["n.t"] = (f"{url}/metadata/{file.name}", json.loads(file.read_text()))
        yield found


def client(server: RestCatalogServer) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("rest", type="rest", uri=server.url, token=TOKEN)


@pytest.mark.long
@pytest.mark.parametrize("by_prefix", [True, False])
def test_rest_catalog_table_is_read_with_its_credentials(
    by_prefix: bool, server: RestCatalogServer, catalog: Catalog, tmp_path: Path
) -> None:
    server.by_prefix = by_prefix
    table = client(server).load_table("n.t")
    assert numbers(make_batch_reader(table, num_epochs=1)) == LIVE
    assert numbers(make_batch_reader(table, num_epochs=1, version="first")) == FIRST
    converter = make_spark_converter(table)
    assert by_torch(converter) == LIVE
    assert len(convert(table, str(tmp_path / "mds"))) == len(LIVE)
    assert len(catalog.guard.handed_out) == 1
    assert not catalog.guard.outside
    assert TOKEN not in repr(converter)
    assert MARK not in repr(converter)


@pytest.mark.long
def test_expired_rest_catalog_credentials_raise_error_until_reloaded(
    server: RestCatalogServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="mdstorm_backend")
    server.lifetime = -1
    found = client(server)
    table = found.load_table("n.t")
    with pytest.raises(CredentialsError, match="the credentials have expired") as caught:
        make_batch_reader(table)
    assert caught.value.is_expired
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("mdstorm")]
    assert not [text for text in [*ours, str(caught.value)] if MARK in text or TOKEN in text]
    server.lifetime = 3600.0
    table.io.properties.update(found.load_credentials("n.t", table.metadata_location))
    assert numbers(make_batch_reader(table, num_epochs=1)) == LIVE
    assert numbers(make_batch_reader(found.load_table("n.t"), num_epochs=1)) == LIVE


@pytest.mark.long
@pytest.mark.newest
def test_trace_of_a_run_reads_a_rest_catalog_table_through_a_newly_loaded_object(
    server: RestCatalogServer, mlflow_run: str
) -> None:
    pytest.importorskip("mlflow")
    lineage = pytest.importorskip("mdstorm.mlflow")
    make = make_spark_converter(client(server).load_table("n.t")).make_torch_dataloader
    loader = make(2, num_epochs=1, shuffling_queue_capacity=5, seed=2)
    lineage.log_state(loader)
    # The run has no credentials of the catalog.
    trace = lineage.load_trace(mlflow_run, url=client(server).load_table("n.t"))
    for step, batch in enumerate(loader):
        rows = trace.dataset[trace.rows(step)]
        assert [row["n"] for row in rows] == batch["n"].tolist()


def test_pickling_converter_over_rest_table_raises_error_without_secrets(
    server: RestCatalogServer,
) -> None:
    import pickle

    converter = make_spark_converter(client(server).load_table("n.t"))
    with pytest.raises(InvalidArgumentError, match="would be pickled") as caught:
        pickle.dumps(converter)
    assert MARK not in str(caught.value)
