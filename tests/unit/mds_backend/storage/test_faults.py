"""SDK errors become mdstorm errors without secrets, and missing hosts fail at once."""

import re
import socket
import traceback
from pathlib import Path
from typing import Any

import pytest
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.servers.stores import LOCAL, LocalStore

from mdstorm_backend.errors import (
    CorruptDatasetError,
    CredentialsError,
    InvalidArgumentError,
    StorageError,
)
from mdstorm_backend.storage import Location, check_no_secrets, normalize_url, urls
from mdstorm_backend.storage.stores.store import STORES, Store, store_of, stores
from mdstorm_backend.storage.urls import storage_faults


def raised(error: Exception, url: str = "gs://bucket/x", **options: Any) -> Exception:
    with pytest.raises(Exception) as caught, storage_faults(url, options):  # noqa: PT011
        raise error
    return caught.value


def named(name: str, *bases: type, **attributes: Any) -> Exception:
    """An exception from an SDK that is not installed."""
    error: Exception = type(name, bases or (Exception,), attributes)("what it says")
    return error


SDK_ERRORS = {
    CredentialsError: [
        *map(named, ("DefaultCredentialsError", "RefreshError", "NoCredentialsError")),
        named("Special", type(named("ClientAuthenticationError"))),
        *(named("HttpError", code=code) for code in (401, 403)),
        named("HttpResponseError", status_code=403),
        named("ClientResponseError", status=401),
        PermissionError("what it says"),
    ],
    FileNotFoundError: [
        *map(named, ("NotFound", "ResourceNotFoundError")),
        named("HttpError", code=404),
        FileNotFoundError("what it says"),
    ],
    StorageError: [
        named("HttpError", code=500),
        TimeoutError("what it says"),
        ConnectionError("what it says"),
    ],
}
TEXTS: dict[type[Exception], str] = {
    CredentialsError: r"\(gs:\) gives no access \(what it says\).*Set GOOGLE_APPLICATION_",
    FileNotFoundError: "^gs://bucket/x: what it says$",
    StorageError: r"^gs://bucket/x cannot be used \({name}: what it says\)",
}


@pytest.mark.parametrize("kind", SDK_ERRORS, ids=lambda kind: kind.__name__)
def test_sdk_exceptions_become_errors_of_the_same_kind(kind: Any) -> None:
    for error in SDK_ERRORS[kind]:
        found: Any = raised(error)
        assert type(found) is kind
        assert re.search(TEXTS[kind].format(name=type(error).__name__), str(found))
        assert kind is FileNotFoundError or found.url == "gs://bucket/x"


REGISTERED = pytest.mark.parametrize("store", stores(), ids=lambda store: store.schemes[0])


@REGISTERED
def test_errors_that_a_store_declares_are_recognised_at_its_urls(store: Store) -> None:
    url = f"{store.schemes[0]}://bucket/x"
    for name in store.refusals:
        assert type(raised(named(name), url)) is CredentialsError
    for name in store.absences:
        assert type(raised(named(name), url)) is FileNotFoundError
    for signs, is_expired in (
        (store.refusing, False),
        (store.expiring, True),
        (store.refusing_unclearly, True),
    ):
        for sign in signs:
            found = raised(OSError(f"{sign.capitalize()} x"), url)
            assert isinstance(found, CredentialsError)
            assert found.is_expired is is_expired


@REGISTERED
def test_refusal_names_the_store_its_variables_and_the_ones_to_set(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in store.variables:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(store.variables[-1], "found")
    message = str(raised(PermissionError("no"), f"{store.schemes[0]}://bucket/x"))
    looked = f"({', '.join(store.variables)}; set: {store.variables[-1]}) and in {store.elsewhere}"
    assert f"{store.name} " in message
    assert looked in message
    assert f"Set {store.to_set}, with" in message


@REGISTERED
def test_secrets_that_a_store_declares_are_hidden_and_not_pickled(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(sorted(store.secrets)):
        secret = f"s3cret-{number}-"
        with monkeypatch.context() as patched:
            patched.setenv(name, secret)
            assert secret not in str(raised(OSError(f"said {secret}")))
        assert secret not in str(raised(OSError(f"said {secret}"), **{name: secret}))
        with pytest.raises(InvalidArgumentError, match=name):
            check_no_secrets({name: secret})


def test_every_store_has_a_local_server_or_is_documented_as_not_tested() -> None:
    tested = {store_of(normalize_url(url)) for local in LOCAL for url in local.urls}
    page = (Path(__file__).parents[4] / "docs/storage.md").read_text(encoding="utf-8")
    for store in {*stores()} - tested:
        row = next(line for line in page.splitlines() if f"| `{store.schemes[0]}://" in line)
        assert "Not tested" in row


def test_store_with_a_scheme_of_another_raises_error_naming_both() -> None:
    attributes = {"name": "x", "variables": (), "elsewhere": "x", "to_set": "x"}
    with pytest.raises(TypeError, match="S3 and Other both have the scheme 's3a'"):
        type("Other", (Store,), {"schemes": ("other", "s3a"), **attributes})
    assert "other" not in STORES


def test_store_without_required_attributes_raises_error_naming_them() -> None:
    with pytest.raises(TypeError, match="store Other has to define variables and to_set"):
        type("Other", (Store,), {"schemes": ("other",), "name": "x", "elsewhere": "x"})
    assert "other" not in STORES


@pytest.mark.parametrize("error", [CorruptDatasetError("ours"), FileExistsError("its own")])
def test_errors_not_raised_by_an_sdk_are_raised_unchanged(error: Exception) -> None:
    assert raised(error) is error


def test_only_the_first_line_of_sdk_messages_is_quoted() -> None:
    assert "<xml" not in str(raised(OSError("bad request\nContent: <xml>")))


def test_secrets_in_sdk_messages_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    monkeypatch.setenv("AZURE_ACCOUNT_ACCESS_KEY", "of-azure")
    error = OSError("of-azure and of-the-environment and of-the-options at https://h/?sig=signed&x")
    found = raised(error, client_kwargs={"token": "of-the-options"})
    shown = "".join(traceback.format_exception(found))
    assert "*** and *** and *** at https://h/?sig=***&x" in str(found)
    for secret in ("of-azure", "of-the-environment", "of-the-options", "signed"):
        assert secret not in shown


REFUSING = "http://127.0.0.1:9"


def test_server_that_refuses_connections_is_not_a_missing_dataset() -> None:
    location = Location.of(f"{REFUSING}/data")
    for call in (location.describe, lambda: location.read("index.json")):
        with pytest.raises(StorageError, match="ClientConnectorError: Cannot connect to host"):
            call()


@pytest.fixture
def connections(fresh_filesystems: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Addresses that the check for a missing host connects to."""
    found: list[Any] = []
    connect = socket.create_connection

    def connected(address: Any, *rest: Any, **options: Any) -> socket.socket:
        found.append(address)
        return connect(address, *rest, **options)

    monkeypatch.setattr(urls.socket, "create_connection", connected)
    return found


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [(REFUSING, "Connection refused"), ("http://nowhere.invalid", "[nN]ame")],
)
@pytest.mark.parametrize(
    "local", [local for local in LOCAL if local.options_at], ids=lambda local: local.fixture
)
def test_unreachable_host_is_probed_once_per_attempt(
    endpoint: str,
    reason: str,
    local: LocalStore,
    connections: list[Any],
    request: pytest.FixtureRequest,
) -> None:
    assert local.options_at is not None
    request.getfixturevalue(local.fixture)
    location = Location.of(local.urls[0], local.options_at(endpoint))
    for read in (lambda: location.read("index.json"), location.list_names):
        connections.clear()
        with pytest.raises(StorageError, match=f"{endpoint} cannot be reached: .*{reason}"):
            read()
        assert len(connections) == 1


def test_reachable_host_is_probed_once(s3: S3Server, connections: list[Any]) -> None:
    location = Location.of(f"s3://{BUCKET}/there", {"endpoint_url": s3.url})
    location.write("x", [b"1"])
    assert location.read("x") == b"1"
    assert len(connections) == 1


def test_host_behind_a_proxy_is_not_probed(
    s3: S3Server, connections: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", s3.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Location.of(f"s3://{BUCKET}/x", {"endpoint_url": s3.url}).write("x", [b"1"])
    urls.check_endpoint("http://storage.example")
    assert len(connections) == 1
    with pytest.raises(ConnectionError):
        urls.check_endpoint("https://nowhere.invalid")


def test_host_behind_a_proxy_in_options_is_not_probed(s3: S3Server, connections: list[Any]) -> None:
    options = {"endpoint_url": REFUSING, "config_kwargs": {"proxies": {"http": s3.url}}}
    Location.of(f"s3://{BUCKET}/x", options).write("y", [b"1"])
    assert connections == []
    assert s3.count("PUT", f"/{BUCKET}/x/y") == 1
