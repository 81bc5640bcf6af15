"""Store secrets never appear in a pickle, state, log, repr, error or report."""

import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.kit.parquet_files import open_parquet
from tests.kit.servers.azure import ACCOUNT, CONTAINER, AzureServer
from tests.kit.servers.catalog import Catalog
from tests.kit.servers.gcs import TOKEN as GOOGLE_TOKEN
from tests.kit.servers.gcs import GoogleServer
from tests.kit.servers.s3 import BUCKET
from tests.kit.servers.unity import TOKEN
from tests.kit.servers.vending import MARK
from tests.unit.mds_backend.storage.conftest import (  # noqa: F401
    azure,
    forget_filesystems,
    gs,
    started_azure,
    started_gs,
)

from mdstorm import make_batch_reader
from mdstorm.cli import main
from mdstorm.errors import CredentialsError
from mdstorm.spark import make_spark_converter
from mdstorm_backend.storage import Location, renewing

NAME, PATH, ROWS = "main.sales.orders", "tables/main.sales.orders", list(range(20))
WRONG_KEY = "c29tZSBzZWNyZXQgdGhhdCBubyBvbmUga25vd3M="


class Store(NamedTuple):
    """A table in a store, with credentials that the store accepts, and ones that it rejects.

    Attributes
    ----------
    url : str
        The table's directory.
    answer : dict
        The catalog's answer to a request for credentials.
    refused : dict
        An answer with credentials that the store rejects.
    environment : dict of str to str
        Environment variables with credentials that the store rejects.
    secrets : tuple of str
        Strings that must not appear in any output.
    """

    url: str
    answer: dict[str, Any]
    refused: dict[str, Any]
    environment: dict[str, str]
    secrets: tuple[str, ...]


def on_s3(catalog: Catalog, _: pytest.FixtureRequest, kind: str = "aws") -> Store:
    token = catalog.guard.hand_out(f"{PATH}/", 3600)
    names = ("access_key_id", "secret_access_key", "session_token")
    keys = dict(zip(names, token.keys().values(), strict=True))
    wrong = {name: f"{MARK}-{name}" for name in names}
    return Store(
        f"s3://{BUCKET}/{PATH}",
        {f"{kind}_temp_credentials": keys},
        {f"{kind}_temp_credentials": wrong},
        {f"AWS_{name.upper()}": value for name, value in wrong.items()},
        (MARK,),
    )


def on_r2(catalog: Catalog, request: pytest.FixtureRequest) -> Store:
    return on_s3(catalog, request, "r2")


def on_azure(_: Catalog, request: pytest.FixtureRequest) -> Store:
    server: AzureServer = request.getfixturevalue("azure")
    server.replace_host(request.getfixturevalue("monkeypatch"))
    right, wrong = server.signature(), server.signature(WRONG_KEY)
    secrets = [part.partition("=")[2] for text in (right, wrong) for part in text.split("&sig")[1:]]
    return Store(
        f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/{PATH}",
        {"azure_user_delegation_sas": {"sas_token": right}},
        {"azure_user_delegation_sas": {"sas_token": wrong}},
        {
            "AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint={server.url}/{ACCOUNT};"
            f"SharedAccessSignature={wrong}"
        },
        (server.key, *secrets),
    )


def on_google(_: Catalog, request: pytest.FixtureRequest) -> Store:
    server: GoogleServer = request.getfixturevalue("gs")
    private_key = json.loads(Path(server.key_file).read_text())["private_key"]
    return Store(
        f"gs://{BUCKET}/{PATH}",
        {"gcp_oauth_token": {"oauth_token": GOOGLE_TOKEN}},
        {"gcp_oauth_token": {"oauth_token": f"{MARK}-of-the-catalog"}},
        {"GOOGLE_APPLICATION_CREDENTIALS": server.key_file},
        (GOOGLE_TOKEN, MARK, private_key.splitlines()[1]),
    )


OTHERS = [pytest.param(made, marks=pytest.mark.long) for made in (on_r2, on_azure, on_google)]


@pytest.fixture(params=[on_s3, *OTHERS], ids=lambda made: made.__name__)
def store(
    request: pytest.FixtureRequest,
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Store:
    """A Parquet table in the catalog; the environment has credentials that its store rejects."""
    found: Store = request.param(catalog, request)
    monkeypatch.setattr(renewing, "opened_filesystems", {})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": ROWS}), sink, row_group_size=5)
    options = {"endpoint_url": catalog.behind.url, "key": "testing", "secret": "testing-secret"}
    location = Location.of(found.url, options if found.url.startswith("s3") else {})
    location.write("a.parquet", [sink.getvalue().to_pybytes()])
    forget_filesystems()
    catalog.unity.add(NAME, found.url, "PARQUET", table_type="EXTERNAL")
    monkeypatch.setattr(catalog.unity, "vend", lambda prefix, seconds: found.answer)
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def leaks(store: Store, caplog: pytest.LogCaptureFixture) -> Callable[..., list[str]]:
    """A function that returns the given texts and the log messages that contain secrets."""
    for name in ("mdstorm", "mdstorm_backend"):
        caplog.set_level(logging.DEBUG, logger=name)

    def found(*texts: str) -> list[str]:
        logged = [one.getMessage() for one in caplog.records if one.name.startswith("mdstorm")]
        secrets = (*store.secrets, TOKEN)
        return [text[:200] for text in [*texts, *logged] if any(one in text for one in secrets)]

    return found


def test_secrets_for_named_table_appear_in_no_output(
    store: Store, catalog: Catalog, leaks: Callable[..., list[str]]
) -> None:
    texts: list[str] = []
    with make_batch_reader(NAME, num_epochs=1) as reader:
        rows = next(reader).n.tolist()
        state = reader.state_dict()
        texts += map(repr, (reader, reader.dataset, reader.diagnostics, state))
        texts.append(repr(vars(reader.dataset.source.location)))
        rows += [n for batch in reader for n in batch.n.tolist()]
    assert sorted(rows) == ROWS
    converter = make_spark_converter(NAME)
    with converter.make_torch_dataloader(batch_size=7, num_epochs=1) as loader:
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == ROWS
        texts += map(repr, (converter, loader, loader.state_dict(), pickle.dumps(loader.dataset)))
    texts += map(repr, (pickle.dumps(converter), pickle.dumps(open_parquet(NAME))))
    texts.append(converter._repr_html_())
    location = open_parquet(NAME).location
    assert location.credentials is not None
    texts += map(repr, (location, location.credentials, location.credentials.current()))
    assert not leaks(*texts)
    assert leaks(str(dict(location.credentials.current().options)))


def test_error_for_rejected_credentials_contains_no_secrets(
    store: Store,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    leaks: Callable[..., list[str]],
) -> None:
    monkeypatch.setattr(catalog.unity, "vend", lambda prefix, seconds: store.refused)
    with pytest.raises(CredentialsError, match=NAME) as caught:
        make_batch_reader(NAME)
    texts = [str(caught.value), repr(caught.value), str(caught.getrepr(style="long"))]
    assert not leaks(*texts)


def test_doctor_report_on_store_that_denies_access_contains_no_secrets(
    store: Store,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    leaks: Callable[..., list[str]],
) -> None:
    if store.url.startswith("gs"):
        monkeypatch.setattr(request.getfixturevalue("started_gs"), "token", f"{MARK}-of-an-account")
    for options in ([], ["--format", "json"]):
        command = ["doctor", "--cache-dir", store.url, "--no-round-trip", *options]
        result = CliRunner().invoke(main, command)
        assert "gives no access" in result.output
        assert not leaks(result.output)
