"""URLs that name no place are refused, and secrets stay in their process."""

import pickle

import fsspec
import pytest

from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.errors import (
    InvalidArgumentError,
    MissingDependencyError,
    NameNodeError,
    UnsupportedURLError,
)
from mdstorm_backend.storage import Location, check_no_secrets, normalize_url


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        (("file:x/y", "file://host/x", "dbfs://bucket/x", "dbfs:x"), "write (file|dbfs):///"),
        (("s3://", "gs:", "memory:///"), "'{url}' is incomplete: write {url[0]}{url[1]}"),
        (("s3:///x", "s3a:/x/y", "gs:///x", "abfss:///x"), r"be of the form \w+://bucket/path"),
    ],
)
def test_a_url_that_names_no_place_is_refused(urls: tuple[str, ...], message: str) -> None:
    for url in urls:
        with pytest.raises(UnsupportedURLError, match=message.format(url=url)):
            Location.of(url)


@pytest.mark.parametrize("url", ["C:\\Data", "c:/Data"])
def test_windows_is_not_supported(url: str) -> None:
    with pytest.raises(UnsupportedURLError, match=r"on Windows.* In WSL the drive is /mnt/c") as e:
        normalize_url(url)
    assert repr(url) in str(e.value)


#: Behind what is wrong it lists the places where a library was looked for.
LIBJVM = "Unable to load libjvm\ndlopen(/usr/lib/jvm) failed\ndlopen(/x) failed"


@pytest.mark.parametrize("url", ["hdfs:///x", "hdfs://nowhere:1/x"])
def test_hdfs_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(LIBJVM)

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    with pytest.raises(
        NameNodeError, match=r"\(Unable to load libjvm\). Set HADOOP_HOME"
    ) as raised:
        Location.of(url).list_names()
    assert isinstance(raised.value, (OSError, RuntimeError))
    assert ("names no name node" in str(raised.value)) == (url == "hdfs:///x")


@pytest.mark.parametrize(
    ("url", "instead"),
    [
        ("s3n://bucket/x", "is written s3://bucket/path here"),
        ("wasbs://c@a.blob.core.windows.net/x", "is written abfss://container@account.dfs.core"),
        ("file://~/x", r"Write '~/x', or file:///home/me/x"),
    ],
)
def test_urls_of_other_tools_are_told_how_they_are_written_here(
    monkeypatch: pytest.MonkeyPatch, url: str, instead: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    with pytest.raises(UnsupportedURLError, match=instead):
        Location.of(url).list_names()


@pytest.mark.parametrize(("scheme", "extra"), [("abfss", "azure"), ("oci", "oci"), ("gs", "gcs")])
@pytest.mark.parametrize("error", [ValueError, ImportError])
def test_a_library_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, scheme: str, extra: str, error: type[Exception]
) -> None:
    def unknown(protocol: str) -> None:
        raise error(f"Protocol not known: {protocol}")

    monkeypatch.setattr(fsspec, "get_filesystem_class", unknown)
    with pytest.raises(MissingDependencyError, match=rf'pip install "mdstorm\[{extra}\]"'):
        Location.of(f"{scheme}://bucket/x").list_names()


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert normalize_url("~/x y/") == "file:///home/me/x y"
    assert normalize_url("x/~").endswith("/x/~")
    assert CacheOptions(directory="~/x y").directory == "/home/me/x y"


def test_an_unknown_scheme_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnsupportedURLError, match=r"nosuch://x.*fsspec knows"):
        Location.of("nosuch://x").list_names()


def test_a_mount_without_an_api_is_not_made() -> None:
    with pytest.raises(FileNotFoundError, match="/Workspace/ is not mounted"):
        Location.of("/Workspace/Users/me").make_directory()


@pytest.mark.parametrize(
    "url",
    [
        "https://me:s3cret@host/x",
        "sftp://me:s3cret@host/x",
        "https://host/x?sv=1&sig=s3cret",
        "https://host/x?X-Amz-Signature=s3cret&a=1",
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\*\*\*.*storage_options") as caught:
        Location.of(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"Secret": "s3cret", "anon": True},
        {"key": "s3cret"},
        {"Token": "s3cret"},
        {"password": "s3cret"},
        {"client_kwargs": {"aws_secret_access_key": "s3cret"}},
        {"connection_string": "AccountKey=s3cret"},
        {"sas_token": "s3cret"},
        {"proxy": "http://me:s3cret@proxy"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_secrets_are_neither_sent_nor_pickled_nor_shown(options: dict[str, object]) -> None:
    for refuse in (
        lambda: check_no_secrets(options),
        lambda: pickle.dumps(Location("memory://x", options)),
    ):
        with pytest.raises(InvalidArgumentError, match="their own credentials") as caught:
            refuse()
        assert "s3cret" not in str(caught.value)
    below = Location("memory://x", options).child("y")
    assert (below.storage_options, "s3cret" in repr(below)) == (options, False)
