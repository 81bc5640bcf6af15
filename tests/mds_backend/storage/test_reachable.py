"""A storage whose host refuses connections, or has no address, is an error at once."""

import socket
from typing import Any

import pytest
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage import Location, urls

REFUSING = "http://127.0.0.1:9"


pytestmark = pytest.mark.usefixtures("fresh_filesystems")


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The addresses to which a connection is made, to see whether a host is there."""
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
def test_a_host_that_is_not_there_is_asked_once_for_each_attempt(
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


def test_a_host_that_answers_is_asked_once(s3: S3Server, connections: list[Any]) -> None:
    location = Location.of(f"s3://{BUCKET}/there", {"endpoint_url": s3.url})
    location.write("x", [b"1"])
    assert location.read("x") == b"1"
    assert len(connections) == 1


def test_a_host_behind_a_proxy_is_left_to_the_client(
    s3: S3Server, connections: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", s3.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Location.of(f"s3://{BUCKET}/x", {"endpoint_url": s3.url}).write("x", [b"1"])
    urls.check_endpoint("http://storage.example")
    assert len(connections) == 1
    with pytest.raises(ConnectionError):
        urls.check_endpoint("https://nowhere.invalid")


def test_so_is_one_behind_a_proxy_of_the_options(s3: S3Server, connections: list[Any]) -> None:
    options = {"endpoint_url": REFUSING, "config_kwargs": {"proxies": {"http": s3.url}}}
    Location.of(f"s3://{BUCKET}/x", options).write("y", [b"1"])
    assert connections == []
    assert s3.count("PUT", f"/{BUCKET}/x/y") == 1
