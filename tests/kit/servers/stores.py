"""Local servers of stores, over which the contract tests in tests/unit/mds_backend/storage run.

To test another store, append a `LocalStore` here, and make its two fixtures in the conftest.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.kit.frameworks import import_framework
from tests.kit.servers.azure import ACCOUNT, CONTAINER, AzureServer
from tests.kit.servers.gcs import TOKEN, GoogleServer
from tests.kit.servers.http import respond
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.servers.vending import GuardedS3

#: Returns options of the file system with credentials that are valid for some seconds, or have
#: expired if the number is negative.
Lend = Callable[[float], dict[str, Any]]


def started(library: str, make: Callable[[pytest.TempPathFactory], Any]) -> Any:
    """Return a fixture that starts a server once, if its client library is installed."""

    @pytest.fixture(scope="session")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
        import_framework(library)
        with closing(make(tmp_path_factory)) as found:
            yield found

    return server


def with_credentials(started: str, variables: Callable[[Any], dict[str, str]]) -> Any:
    """Return a fixture for a running server, with its credentials in the environment."""

    @pytest.fixture
    def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        found = request.getfixturevalue(started)
        request.getfixturevalue("no_credentials")
        for name, value in variables(found).items():
            monkeypatch.setenv(name, value)
        yield found
        found.reset()

    return server


def _no_options(_: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class LocalStore:
    """How contract tests reach a store.

    Attributes
    ----------
    fixture : str
        Name of the fixture that runs the server, with its credentials in the environment.
    urls : tuple of str
        URLs of directories in the store; only long tests use those after the first.
    options : callable
        Returns options for the fixture's server.
    options_at : callable or None
        Returns options for a server at a URL; None if clients cannot be directed to one.
    lend : callable or None
        Returns a context with a `Lend` for the server; None if catalogs issue no credentials.
    is_lending_slow : bool
        Whether the client retries refused requests for long.
    """

    fixture: str
    urls: tuple[str, ...]
    options: Callable[[Any], dict[str, Any]] = _no_options
    options_at: Callable[[str], dict[str, Any]] | None = None
    lend: Callable[[Any, pytest.MonkeyPatch], AbstractContextManager[Lend]] | None = None
    is_lending_slow: bool = False


@contextmanager
def _keys_of_s3(s3: S3Server, _: pytest.MonkeyPatch) -> Iterator[Lend]:
    with closing(GuardedS3(s3)) as guard:
        yield lambda seconds: {
            **guard.hand_out("data/", seconds).keys(),
            "endpoint_url": guard.url,
        }


@contextmanager
def _signatures(azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lend]:
    wrong = azure.connection_string("c29tZSBzZWNyZXQgdGhhdCBubyBvbmUga25vd3M=")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    azure.replace_host(monkeypatch)
    yield lambda seconds: {
        "sas_token": azure.signature(seconds=seconds),
        "account_name": ACCOUNT,
    }


@contextmanager
def _tokens(gs: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lend]:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    unauthorized = respond("401 Unauthorized", b'{"error": {"message": "Invalid Credentials"}}')

    def lend(seconds: float) -> dict[str, Any]:
        gs.fault = lambda method, path: unauthorized if seconds < 0 else None
        return {"token": TOKEN}

    yield lend


LOCAL = [
    LocalStore(
        "s3",
        (f"s3://{BUCKET}/data/numbers",),
        # s3fs versions read the endpoint from different variables.
        options=S3Server.options,
        options_at=lambda url: {"endpoint_url": url},
        lend=_keys_of_s3,
    ),
    LocalStore(
        "gs",
        (f"gs://{BUCKET}/data/numbers",),
        options_at=lambda url: {"endpoint_url": url, "token": "anon"},
        lend=_tokens,
        is_lending_slow=True,
    ),
    LocalStore(
        "azure",
        (
            f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/data/numbers",
            f"az://{CONTAINER}/data/other",
        ),
        options_at=lambda url: {
            "connection_string": (
                f"AccountName={ACCOUNT};AccountKey=a2V5;BlobEndpoint={url}/{ACCOUNT}"
            )
        },
        lend=_signatures,
    ),
    LocalStore(
        "databricks",
        ("dbfs:/Volumes/main/default/volume/numbers", "dbfs:/data/numbers"),
        options_at=lambda url: {"host": url},
    ),
]
