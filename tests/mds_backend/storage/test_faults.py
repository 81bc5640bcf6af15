"""SDK errors become mdstorm errors without secrets, and missing hosts fail at once."""

import re
import socket
import traceback
from typing import Any

import pytest
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend.errors import CorruptDatasetError, CredentialsError, StorageError
from mdstorm_backend.storage import Location, urls
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
@pytest.mark.parametrize("kind", ["s3", "databricks"])
def test_unreachable_host_is_probed_once_per_attempt(
    endpoint: str, reason: str, kind: str, connections: list[Any], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(kind)
    location = (
        Location.of(f"s3://{BUCKET}/x", {"endpoint_url": endpoint})
        if kind == "s3"
        else Location.of("dbfs:/Volumes/main/default/volume/x", {"host": endpoint})
    )
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
