"""Tables are read by name through every entry point, using only the catalog's credentials."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.delta_tables import add, commit, metadata, protocol
from tests.kit.frameworks import import_framework
from tests.kit.parquet_files import open_parquet
from tests.kit.servers.catalog import Catalog
from tests.kit.servers.http import respond
from tests.kit.servers.s3 import BUCKET
from tests.kit.servers.unity import READABLE, TOKEN
from tests.kit.servers.vending import MARK
from tests.unit.compat.tables.orders import (
    FIELDS,
    FIRST,
    NAME,
    NEWEST,
    by_torch,
    numbers,
    run,
)

from mdstorm import convert, make_batch_reader, make_reader
from mdstorm.errors import (
    CredentialsError,
    DatasetChangedError,
    DatasetNotFoundError,
    InvalidArgumentError,
    MDStormError,
    StateMismatchError,
    StorageError,
    UnsupportedTableError,
    UnsupportedURLError,
)
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.catalogs import workspace
from mdstorm_backend.catalogs.workspace import WorkspaceClient


def test_every_entry_point_reads_a_table_by_name(orders: Catalog, tmp_path: Path) -> None:
    assert numbers(make_batch_reader(NAME, num_epochs=1)) == NEWEST
    with pytest.warns(UserWarning, match="the schema is inferred"):
        assert numbers(make_reader(NAME, num_epochs=1)) == NEWEST
    assert numbers(make_batch_reader(NAME, num_epochs=1, version=0)) == FIRST
    assert numbers(make_batch_reader([NAME], num_epochs=1, timestamp="2100-01-01")) == NEWEST
    converter = make_spark_converter(NAME)
    assert (len(converter), converter.file_urls) == (len(NEWEST), [f"uc://{NAME}"])
    assert by_torch(converter) == NEWEST
    assert by_torch(pickle.loads(pickle.dumps(converter))) == NEWEST  # noqa: S301
    assert by_torch(make_spark_converter(NAME, version=0)) == FIRST
    rows = converter.make_tf_dataset(batch_size=3, num_epochs=1)
    assert sorted(n for batch in rows for n in batch.n.numpy().tolist()) == NEWEST
    assert len(convert(NAME, str(tmp_path / "mds"))) == len(NEWEST)
    assert run("convert", "--version", "0", NAME, str(tmp_path / "first")).exit_code == 0
    assert run("verify", "--against", NAME, str(tmp_path / "mds")).exit_code == 0
    assert run("verify", "--against", NAME, str(tmp_path / "first")).exit_code == 1
    for command in ("inspect", "head", "verify"):
        assert run(command, NAME).exit_code == 0
    assert sorted(row["n"] for row in open_dataset(NAME)) == NEWEST
    with pytest.raises(DatasetNotFoundError, match=rf"make_batch_reader\('uc://{NAME}'\)"):
        StreamingDataset(remote=NAME, batch_size=1)
    assert orders.unity.asked == {f"id-of-{NAME}": 1}
    assert not orders.guard.outside


@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_read_a_table_by_name(method: str, orders: Catalog) -> None:
    with make_spark_converter(NAME).make_torch_dataloader(num_epochs=1) as made:
        loader = StreamingDataLoader(
            made.dataset, batch_size=3, num_workers=2, multiprocessing_context=method
        )
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == NEWEST
    # Forked workers inherit their parent's credentials; spawned workers obtain their own if a file
    # is not in the cache yet.
    assert orders.unity.asked[f"id-of-{NAME}"] in ([1] if method == "fork" else [2, 3])


def test_reader_over_table_name_resumes_from_its_state(orders: Catalog) -> None:
    with make_batch_reader(NAME, num_epochs=1, shuffle_row_groups=False) as reader:
        first, state = next(reader).n.tolist(), reader.state_dict()
    assert TOKEN not in repr(state)
    with make_batch_reader(f"uc://{NAME}", num_epochs=1, shuffle_row_groups=False) as reader:
        reader.load_state_dict(state)
        rest = [n for batch in reader for n in batch.n.tolist()]
    assert sorted(first + rest) == NEWEST


def test_state_from_dropped_table_raises_error_for_new_table_with_same_name(
    orders: Catalog,
) -> None:
    """An external table that is recreated over the same files also counts as new."""
    with make_batch_reader(NAME, num_epochs=1) as reader:
        next(reader)
        state = reader.state_dict()
    orders.unity.tables[NAME]["table_id"] = "another-id"
    with (
        make_batch_reader(NAME, num_epochs=1) as reader,
        pytest.raises(StateMismatchError, match="dataset"),
    ):
        reader.load_state_dict(state)


def test_state_from_path_raises_error_for_table_name_and_vice_versa(
    orders: Catalog, tmp_path: Path
) -> None:
    urls = [f"file://{tmp_path}/orders", NAME]
    states = []
    for url in urls:
        with make_batch_reader(url, num_epochs=1) as reader:
            next(reader)
            states.append(reader.state_dict())
    for url, state in zip(urls, reversed(states), strict=True):
        with (
            make_batch_reader(url, num_epochs=1) as reader,
            pytest.raises(StateMismatchError, match="dataset"),
        ):
            reader.load_state_dict(state)


def test_parquet_table_is_read_by_name(catalog: Catalog, tmp_path: Path) -> None:
    for part in range(2):
        folder = tmp_path / "parquet" / f"k={part}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [2 * part, 2 * part + 1]}), folder / "a.parquet")
    catalog.guard.shows_missing = False
    catalog.put("main.sales.plain", tmp_path / "parquet", "PARQUET", table_type="EXTERNAL")
    dataset = open_parquet("main.sales.plain")
    assert dataset.to_table().to_pydict() == {"k": [0, 0, 1, 1], "n": [0, 1, 2, 3]}
    assert dataset.url == "uc://main.sales.plain"
    assert numbers(make_batch_reader("main.sales.plain", num_epochs=1)) == [0, 1, 2, 3]
    assert by_torch(make_spark_converter("main.sales.plain")) == [0, 1, 2, 3]
    with pytest.raises(InvalidArgumentError, match="version=1 chooses a version"):
        make_batch_reader("main.sales.plain", version=1)
    assert not catalog.guard.outside


def test_managed_iceberg_table_is_read_by_name(catalog: Catalog, tmp_path: Path) -> None:
    tables = import_framework("tests.kit.iceberg_tables")
    made = tables.catalog(tmp_path).create_table("n.t", pa.schema([("n", pa.int64())]))
    made.append(pa.table({"n": range(10)}))
    made.delete("n < 5")
    with made.manage_snapshots() as manage:
        manage.create_tag(made.snapshots()[0].snapshot_id, "first")
    catalog.guard.shows_missing = False
    url = catalog.put("main.ice.berg", tables.path_of(made), "ICEBERG")
    name = made.metadata_location.rpartition("/")[2]
    catalog.unity.metadata["main.ice.berg"] = f"{url}/metadata/{name}"
    assert numbers(make_batch_reader("main.ice.berg", num_epochs=1)) == list(range(5, 10))
    tagged = make_batch_reader("uc://main.ice.berg", num_epochs=1, version="first")
    assert numbers(tagged) == list(range(10))
    assert by_torch(make_spark_converter("main.ice.berg")) == list(range(5, 10))
    assert catalog.unity.asked == {"main.ice.berg": 1}
    assert not catalog.guard.outside


def test_existing_directory_takes_precedence_over_a_table_name(
    orders: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    pq.write_table(pa.table({"n": [77]}), tmp_path / NAME / "a.parquet")
    assert by_torch(make_spark_converter(NAME)) == [77]
    assert len(convert(NAME, str(tmp_path / "mds"))) == 1
    assert by_torch(make_spark_converter(f"uc://{NAME}")) == NEWEST


def test_table_name_is_read_on_databricks(orders: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert by_torch(make_spark_converter(NAME)) == NEWEST


POLICY = {"securable_kind_manifest": {"capabilities": ["OTHER"]}}
MASK = {"columns": [{"name": "n"}, {"name": "m", "mask": {"function_name": "f"}}]}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"table_type": "VIEW"}, "is a view"),
        ({"table_type": "MATERIALIZED_VIEW"}, "is a materialized view"),
        ({"table_type": "STREAMING_TABLE"}, "is a streaming table"),
        ({"table_type": "FOREIGN"}, "is a foreign table"),
        ({"table_type": "MANAGED_SHALLOW_CLONE"}, "is a shallow clone"),
        ({"table_type": "SOMETHING_NEW"}, "is SOMETHING_NEW"),
        ({"row_filter": {"function_name": "f"}}, "has a row filter"),
        (MASK, "has a column mask on m"),
        (POLICY, f"does not have the capability {READABLE}"),
        ({"data_source_format": "CSV"}, "is stored as CSV"),
        ({"storage_location": ""}, "has no storage_location"),
        ({"storage_location": "gs://bucket/x"}, "is a Delta table on Google Cloud Storage"),
    ],
)
def test_table_without_readable_files_raises_error_before_credentials_are_requested(
    more: dict[str, Any], words: str, orders: Catalog
) -> None:
    orders.unity.tables[NAME] |= more
    with pytest.raises(UnsupportedTableError, match=f"the table {NAME} {words}") as caught:
        make_batch_reader(NAME)
    assert f"make_spark_converter(spark.table('{NAME}'))" in str(caught.value)
    assert not orders.unity.asked
    assert not orders.guard.requests


def test_r2_table_is_read_from_endpoint_in_account_or_options(
    orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account's endpoint is used unless the options specify a different endpoint."""
    vend, host = orders.unity.vend, "account.r2.invalid"

    def vend_for_r2(prefix: str, seconds: float) -> dict[str, Any]:
        return {"r2_temp_credentials": vend(prefix, seconds)["aws_temp_credentials"]}

    monkeypatch.setattr(orders.unity, "vend", vend_for_r2)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    orders.unity.tables[NAME]["storage_location"] = f"r2://{BUCKET}@{host}/tables/{NAME}"
    options = {"endpoint_url": orders.guard.url}
    assert numbers(make_batch_reader(NAME, num_epochs=1, storage_options=options)) == NEWEST
    assert by_torch(make_spark_converter(NAME, storage_options=options)) == NEWEST
    assert not orders.guard.outside
    orders.unity.tables[NAME]["data_source_format"] = "PARQUET"
    with pytest.raises(StorageError, match=f"https://{host} cannot be reached"):
        make_batch_reader(NAME)


def test_table_without_a_manifest_is_read(orders: Catalog) -> None:
    del orders.unity.tables[NAME]["securable_kind_manifest"]
    assert numbers(make_batch_reader(NAME, num_epochs=1)) == NEWEST


@pytest.mark.long
@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "User does not have EXTERNAL USE SCHEMA on Schema 'main.sales'",
            "GRANT EXTERNAL USE SCHEMA",
        ),
        ("External access is not enabled on the metastore", "External data access"),
        ("Table has a row filter", "row filters, column masks or policies"),
        ("ABAC policy applies", "row filters, column masks or policies"),
        ("Table is in default storage", "default storage, which only Databricks reads"),
        ("no", "GRANT EXTERNAL USE SCHEMA ON SCHEMA main.sales .*External data access"),
    ],
)
def test_catalog_that_refuses_credentials_raises_error_with_cause(
    message: str, words: str, orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised even if credentials in the environment could read the files."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing-secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", orders.behind.url)
    orders.unity.refusal = ("403 Forbidden", "PERMISSION_DENIED", message)
    with pytest.raises(CredentialsError, match=f"(?s){words}.*With Spark") as caught:
        make_batch_reader(NAME)
    catalog = f"Unity Catalog of {orders.unity.url}"
    assert f"{catalog} does not issue credentials for {NAME} ({message}): " in str(caught.value)
    assert not orders.guard.requests


@pytest.mark.parametrize("is_lookup", [True, False])
def test_refused_iceberg_table_raises_error_with_cause(is_lookup: bool, catalog: Catalog) -> None:
    """Either the catalog's Iceberg API or its credentials endpoint refuses the request."""
    pytest.importorskip("pyiceberg")
    catalog.unity.add("main.ice.berg", None, "ICEBERG")
    catalog.unity.metadata["main.ice.berg"] = f"s3://{BUCKET}/t/metadata/1.metadata.json"
    message = "User does not have EXTERNAL USE SCHEMA on Schema 'main.ice'."
    error = {"error": {"message": message, "type": "ForbiddenException", "code": 403}}
    answer = respond("403 Forbidden", json.dumps(error).encode(), ("Content-Type", "text/json"))
    if is_lookup:
        catalog.unity.fault = lambda _, path: answer if "/iceberg-rest/" in path else None
    else:
        catalog.unity.refusal = ("403 Forbidden", "PERMISSION_DENIED", message)
    with pytest.raises(
        CredentialsError, match=r"GRANT EXTERNAL .* main\.ice .*With Spark"
    ) as caught:
        make_batch_reader("main.ice.berg")
    assert f"credentials for main.ice.berg ({message[:-1]}): GRANT" in str(caught.value)
    assert not catalog.guard.requests


@pytest.mark.long
@pytest.mark.parametrize("skew", [-3600.0, -3599.5, 3600.0])
def test_correct_rows_are_read_if_the_catalog_clock_differs(skew: float, orders: Catalog) -> None:
    orders.unity.skew = skew
    assert numbers(make_batch_reader(NAME, num_epochs=1)) == NEWEST
    assert orders.guard.expired == 0


@pytest.mark.long
@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
def test_store_with_different_clock_raises_credentials_error(skew: float, orders: Catalog) -> None:
    dataset = open_parquet(NAME)
    orders.guard.skew = skew
    for read in (lambda: make_batch_reader(NAME), lambda: dataset.location.read("0.parquet")):
        with pytest.raises(CredentialsError, match=r"(?i)request ?time.*this machine's clock") as e:
            read()
        assert MARK not in str(e.value)


def test_shared_or_hive_table_raises_error_that_names_its_kind(orders: Catalog) -> None:
    orders.unity.add("samples.nyctaxi.trips", "s3://shared/x")
    orders.unity.refusal = ("403 Forbidden", "PERMISSION_DENIED", "no")
    with pytest.raises(CredentialsError, match="only Databricks can read tables that are shared"):
        make_batch_reader("samples.nyctaxi.trips")
    with pytest.raises(UnsupportedTableError, match="hive_metastore, which is not part of Unity"):
        make_batch_reader("hive_metastore.default.trips")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("main.sales.order", "did you mean orders"),
        ("main.sale.orders", "did you mean sales"),
        ("man.sales.orders", "did you mean main"),
        ("main.sales.x", "Its tables are orders"),
    ],
)
def test_unknown_table_raises_error_with_nearest_name(
    name: str, words: str, orders: Catalog
) -> None:
    with pytest.raises(DatasetNotFoundError, match=f"there is no table {name} .*{words}"):
        make_batch_reader(name)


def test_hidden_table_raises_error_with_required_privileges(orders: Catalog) -> None:
    orders.unity.tables[NAME]["hidden"] = True
    with pytest.raises(CredentialsError) as caught:
        make_batch_reader(NAME)
    assert str(caught.value) == (
        f"Unity Catalog of {orders.unity.url} denies access to {NAME} (User does not have USE "
        "SCHEMA). You need USE CATALOG on main, USE SCHEMA on sales, and SELECT on the table"
    )


@pytest.mark.parametrize("status", ["429 Too Many Requests", "500 Internal", "503 Unavailable"])
def test_failing_catalog_raises_storage_error(
    status: str, orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "PATIENCE", 1)
    monkeypatch.setattr(workspace, "clients", {})
    orders.unity.fails = status
    with pytest.raises(StorageError, match=r"the catalog of http.* failed \(.*try again later"):
        make_batch_reader(NAME)


@pytest.mark.long
def test_rejected_token_raises_credentials_error_at_first_request_and_renewal(
    orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = open_parquet(NAME).location.credentials
    assert provider is not None
    monkeypatch.setenv("DATABRICKS_TOKEN", "wrong-secret-of-mine")
    error = (
        f"the Databricks workspace {orders.unity.url} rejects the credentials of this process "
        "(Invalid access token). Renew DATABRICKS_TOKEN, or the profile in ~/.databrickscfg"
    )
    with pytest.raises(CredentialsError) as caught:
        make_batch_reader(NAME)
    advice = f". With Spark, use make_spark_converter(spark.table('{NAME}'))"
    assert str(caught.value) == f"{error}{advice}"
    with pytest.raises(CredentialsError) as caught:
        provider.fetch()
    assert str(caught.value) == error


def test_workspace_that_is_not_configured_raises_credentials_error(
    orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABRICKS_TOKEN")
    with pytest.raises(
        CredentialsError, match="Set DATABRICKS_HOST and DATABRICKS_TOKEN, or"
    ) as caught:
        make_batch_reader(NAME)
    assert "Config: " not in str(caught.value)
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    with monkeypatch.context() as patch:
        config = "databricks.sdk.core.Config.__init__"  # a client would retry for a minute
        patch.setattr(config, lambda *_, **__: pytest.fail("the client was made"))
        for host in ("http://127.0.0.1:9", "127.0.0.1:9"):
            patch.setenv("DATABRICKS_HOST", host)
            with pytest.raises(StorageError, match="workspace cannot be reached"):
                make_batch_reader(NAME)
    monkeypatch.delenv("DATABRICKS_HOST")
    with pytest.raises(CredentialsError, match="Set DATABRICKS_HOST"):
        make_batch_reader(NAME)


def test_default_databricks_profile_configures_each_process(
    orders: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processes know only the host, and the SDK ignores the profile if given a host."""
    monkeypatch.setattr(workspace, "clients", {})
    for name in ("DATABRICKS_HOST", "DATABRICKS_TOKEN"):
        monkeypatch.delenv(name)
    profile = f"[DEFAULT]\nhost = {orders.unity.url}\ntoken = {TOKEN}\n"
    (tmp_path / ".databrickscfg").write_text(profile)  # in the tests' home directory
    assert numbers(make_batch_reader(NAME, num_epochs=1)) == NEWEST
    credentials = open_parquet(NAME).location.credentials
    assert credentials is not None
    monkeypatch.setattr(workspace, "clients", {})
    credentials.log_in()
    # A profile's token is not sent to another host.
    (tmp_path / ".databrickscfg").write_text(profile.replace("127.0.0.1", "localhost"))
    monkeypatch.setattr(workspace, "clients", {})
    with pytest.raises(CredentialsError, match="Set DATABRICKS_HOST"):
        credentials.log_in()


#: No server listens at this address.
UNREACHABLE = "http://127.0.0.1:9"


def test_requested_workspace_is_used_if_configured_workspace_is_unreachable(
    orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "clients", {})
    monkeypatch.setenv("DATABRICKS_HOST", UNREACHABLE)
    assert WorkspaceClient(orders.unity.url).host == orders.unity.url
    monkeypatch.delenv("DATABRICKS_HOST")
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", "profiles-that-do-not-exist")
    assert WorkspaceClient(orders.unity.url).host == orders.unity.url


PROFILES = """
[__settings__]
{settings}

[DEFAULT]
host = {default}
token = {token}

[other]
host = {other}
token = {token}
"""


@pytest.fixture
def write_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that writes a profiles file, the only workspace configuration."""
    for name in ("DATABRICKS_HOST", "DATABRICKS_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def write(default: str, other: str, settings: str = "") -> None:
        monkeypatch.setattr(workspace, "clients", {})
        text = PROFILES.format(default=default, other=other, settings=settings, token=TOKEN)
        (tmp_path / "profiles").write_text(text)
        monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "profiles"))

    return write


def test_profile_with_unreachable_host_raises_error_before_client_is_created(
    orders: Catalog, write_profiles: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = "databricks.sdk.core.Config.__init__"  # a client would retry for a minute
    monkeypatch.setattr(config, lambda *_, **__: pytest.fail("the client was made"))
    write_profiles(UNREACHABLE, orders.unity.url)
    for host in (None, UNREACHABLE):
        with pytest.raises(StorageError, match="workspace cannot be reached"):
            WorkspaceClient(host)
    write_profiles(orders.unity.url, UNREACHABLE)
    monkeypatch.setenv("DATABRICKS_CONFIG_PROFILE", "other")
    with pytest.raises(StorageError, match="workspace cannot be reached"):
        WorkspaceClient()


def test_profile_token_is_sent_only_to_its_host(
    orders: Catalog, write_profiles: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, other = orders.unity.url, orders.unity.url.replace("127.0.0.1", "localhost")
    write_profiles(default=f"{url}/", other=other)
    assert WorkspaceClient().host == WorkspaceClient(url).host == url
    with pytest.raises(CredentialsError, match="Set DATABRICKS_HOST"):
        WorkspaceClient(other)
    monkeypatch.setenv("DATABRICKS_CONFIG_PROFILE", "other")
    assert WorkspaceClient().host == WorkspaceClient(other).host == other
    with pytest.raises(CredentialsError, match="Set DATABRICKS_HOST"):
        WorkspaceClient(url)
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    assert WorkspaceClient(url).host == url, "using the token from the environment"


def test_default_profile_in_settings_is_used(
    orders: Catalog, write_profiles: Callable[..., None]
) -> None:
    config = pytest.importorskip("databricks.sdk.core").Config
    if not hasattr(config, "_resolve_profile"):
        pytest.skip("this version of databricks-sdk ignores the settings")
    other = orders.unity.url
    write_profiles(UNREACHABLE, other, settings="default_profile = other")
    assert WorkspaceClient().host == WorkspaceClient(other).host == other


def test_table_with_catalog_commits_raises_error_that_names_the_feature(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = tmp_path / "managed"
    rows = add(table, "a.parquet", pa.table({"n": [1]}))
    commit(table, protocol("catalogManaged"), metadata(FIELDS), rows)
    catalog.put("main.sales.managed", table)
    advice = r"make_spark_converter\(spark.table\('main.sales.managed'\)\), or use Delta Sharing"
    with pytest.raises(UnsupportedTableError, match=r"catalogManaged.*" + advice):
        make_batch_reader("main.sales.managed")


@pytest.mark.newest
def test_named_table_is_logged_to_mlflow_with_name_and_version(
    orders: Catalog, mlflow_run: str
) -> None:
    mlflow, lineage = pytest.importorskip("mlflow"), pytest.importorskip("mdstorm.mlflow")
    lineage.log_input(make_spark_converter(NAME))
    (found,) = mlflow.get_run(mlflow_run).inputs.dataset_inputs
    assert found.dataset.name == NAME
    assert json.loads(found.dataset.source) == {"uri": f"uc://{NAME}", "version": 1}
    assert json.loads(found.dataset.profile) == {"num_rows": 8}


@pytest.mark.newest
def test_trace_of_a_run_reads_the_named_table_at_its_logged_version(
    orders: Catalog, mlflow_run: str
) -> None:
    pytest.importorskip("mlflow")
    lineage = pytest.importorskip("mdstorm.mlflow")
    loader = make_spark_converter(NAME, version=0).make_torch_dataloader(
        3, num_epochs=1, shuffling_queue_capacity=8, seed=2
    )
    lineage.log_state(loader)
    trace = lineage.load_trace(mlflow_run)
    assert trace.dataset.stored.table_version == 0
    for step, batch in enumerate(loader):
        rows = trace.dataset[trace.rows(step)]
        assert [row["n"] for row in rows] == batch["n"].tolist()
    # Files of an external table that another table has taken over are not those of the run.
    orders.unity.tables[NAME]["table_id"] = "another-id"
    with pytest.raises(DatasetChangedError, match=f"uc://{NAME} have changed since the run"):
        lineage.load_trace(mlflow_run)


def test_table_name_with_filesystem_or_other_names_raises_error(orders: Catalog) -> None:
    import fsspec

    with pytest.raises(InvalidArgumentError, match="omit filesystem="):
        make_batch_reader(NAME, filesystem=fsspec.filesystem("memory"))
    for several in ([NAME, "main.sales.x"], [f"uc://{NAME}", f"uc://{NAME}"]):
        with pytest.raises(InvalidArgumentError, match="only one table can be read at a time"):
            make_batch_reader(several)


SHORT = "sales.orders"
ENTRIES_OF_SHORT_NAMES: dict[str, Callable[[str], Any]] = {
    "make_reader": make_reader,
    "make_spark_converter": make_spark_converter,
    "convert": lambda name: convert(name, "mds"),
    "open_dataset": open_dataset,
    "remote": lambda name: StreamingDataset(remote=name, local="here", batch_size=1),
    "local": lambda name: StreamingDataset(local=name, batch_size=1),
}


@pytest.mark.parametrize("entry", ENTRIES_OF_SHORT_NAMES)
def test_missing_two_part_name_raises_error_that_shows_three_parts(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = InvalidArgumentError if entry == "make_reader" else DatasetNotFoundError
    read = ENTRIES_OF_SHORT_NAMES[entry]
    with pytest.raises(
        error, match=r"sales\.orders.* name has three parts: catalog\.sales\.orders"
    ):
        read(SHORT)
    (tmp_path / SHORT).mkdir()
    for path in (SHORT, "rows.parquet", f"./{SHORT}x", f"file://{tmp_path}/a.b"):
        with pytest.raises((InvalidArgumentError, DatasetNotFoundError)) as caught:
            read(path)
        assert "three parts" not in str(caught.value)


def test_two_part_name_on_databricks_raises_error_that_shows_three_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    with pytest.raises(UnsupportedURLError, match="name has three parts"):
        make_spark_converter(SHORT)


def test_existing_path_that_looks_like_a_two_part_name_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / SHORT).mkdir()
    pq.write_table(pa.table({"n": [77]}), tmp_path / SHORT / "a.parquet")
    assert by_torch(make_spark_converter(SHORT)) == [77]
    assert len(convert(SHORT, "my.mds")) == 1
    assert open_dataset("my.mds")[0]["n"] == 77


def test_missing_sdk_raises_error_that_names_the_extra_to_install(
    orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "databricks.sdk", None)
    with pytest.raises(MDStormError, match=r'pip install "mdstorm\[databricks\]"'):
        make_batch_reader(NAME)
