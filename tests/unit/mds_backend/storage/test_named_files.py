"""A file that a column names is read only from allowed directories, with its own credentials."""

import os
import pickle
import shutil
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.kit.servers.databricks import DatabricksServer
from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.servers.vending import GuardedS3
from tests.unit.mds_backend.storage.conftest import Store

from mdstorm_backend.errors import (
    ArgumentTypeError,
    CredentialsError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
    UnsupportedURLError,
)
from mdstorm_backend.storage import Location, NamedFiles

S3_ROOT = f"s3://{BUCKET}/data/img"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset's directory with an image, next to directories with a secret."""
    for name in ("img", "img2", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_bytes(name.encode())
    (tmp_path / "secret").write_bytes(b"secret")
    return tmp_path / "img"


def of(root: Path, *below: str) -> NamedFiles:
    return NamedFiles(Location.of(root), below)


def test_files_in_the_root_and_below_prefixes_are_read(root: Path) -> None:
    other = root.parent / "other"
    files = of(root, f"{other}/")
    same = ("a.jpg", "./a.jpg", "../img/a.jpg", f"{root}/a.jpg", f"file://{root}/a.jpg")
    assert {files.read(path) for path in same} == {b"img"}
    assert files.read("../other/a.jpg") == files.read(f"file:{other}/a.jpg") == b"other"
    assert NamedFiles(None, [str(other)]).read(f"{other}/a.jpg") == b"other"
    assert of(root, "/").read(f"{other}/a.jpg") == b"other"
    copied = pickle.loads(pickle.dumps(files))  # noqa: S301 - the test pickled it
    assert copied.read(f"{other}/a.jpg") == b"other"


def test_name_with_special_characters_is_not_decoded(root: Path) -> None:
    for name in ("100%.jpg", "a%20b.jpg", "a b#c?.jpg", "12:30.jpg", "~x", "..jpg"):
        (root / name).write_bytes(name.encode())
        assert of(root).read(name) == name.encode()


def test_file_url_is_percent_encoded_and_a_path_is_not(root: Path) -> None:
    folder = root / "im g"
    folder.mkdir()
    (folder / "a b+ü.png").write_bytes(b"decoded")
    assert of(root).read(f"file:{root}/im%20g/a%20b+%C3%BC.png") == b"decoded"
    assert of(root).read((folder / "a b+ü.png").as_uri()) == b"decoded"
    assert of(root).read(f"file://{folder}/a b+ü.png") == b"decoded"
    assert NamedFiles(None, [folder.as_uri()]).read(f"{folder}/a b+ü.png") == b"decoded"
    with pytest.raises(MissingFileError, match=r"Only file: URLs are percent-decoded.*file_path"):
        of(root).read("im%20g/a%20b+%C3%BC.png")
    with pytest.raises(InvalidArgumentError, match=r"not in an allowed.*Only file: URLs are"):
        of(folder).read(f"{root}/im%20g/a")
    (root / "im%20g").mkdir()
    (root / "im%20g/a%20b+%C3%BC.png").write_bytes(b"as it is")
    assert of(root).read("im%20g/a%20b+%C3%BC.png") == b"as it is"
    assert of(root).read(f"file:{root}/im%20g/a%20b+%C3%BC.png") == b"decoded"
    (folder / "a b+ü.png").unlink()
    with pytest.raises(MissingFileError, match="A file: URL is percent-decoded: if its codes"):
        of(root).read(f"file:{root}/im%20g/a%20b+%C3%BC.png")


def test_message_on_a_missing_relative_path_explains_where_it_begins(root: Path) -> None:
    with pytest.raises(MissingFileError, match="Relative paths begin in the dataset's directory"):
        of(root).read("1.png")
    with pytest.raises(MissingFileError) as caught:
        of(root).read(f"{root}/1.png")
    assert "Relative" not in str(caught.value)


@pytest.mark.parametrize("path", ["https://example.com/a.jpg", "simplecache::s3://bucket/a.jpg"])
def test_message_on_a_web_address_does_not_advise_to_allow_it(root: Path, path: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"is not read\. Download the files") as caught:
        of(root).read(path)
    assert "files_below" not in str(caught.value)


REFUSED = {
    "parent": "../secret",
    "absolute": "{parent}/secret",
    "url": "file://{parent}/secret",
    "dots": "{root}/x/../../secret",
    "encoded dots": "%2e%2e/secret",
    "encoded dots in a URL": "file:{root}/%2e%2e/secret",
    "encoded slash in a URL": "file:{root}/x%2F..%2F..%2Fsecret",
    "encoded nul in a URL": "file:{root}/a%00.jpg",
    "secret in a name": "{root}/a.jpg?token=secret",
    "twice encoded dots": "x/%252e%252e%252f%252e%252e%252fsecret",
    "longer name": "{root}2/a.jpg",
    "link to a file": "link.jpg",
    "link to a directory": "links/secret",
    "kernel": "/proc/self/environ",
    "link to the kernel": "environ",
    "device": "/dev/zero",
    "link to a device": "zero",
    "link to devices": "devices/zero",
    "directory": "directory",
    "directory with a slash": "directory/",
    "the root": ".",
    "pipe": "pipe",
    "web": "https://example.com/a.jpg",
    "web in capitals": "HTTP://example.com/a.jpg",
    "encoded web": "http%3A//example.com/a.jpg",
    "chain": "simplecache::s3://bucket/a.jpg",
    "chain in the root": "x::a.jpg",
    "other store": "s3://bucket/a.jpg",
    "memory": "memory://img/a.jpg",
    "nothing": "",
    "nul": "a%00.jpg",
}


@pytest.mark.parametrize("path", REFUSED.values(), ids=REFUSED.keys())
def test_path_outside_of_allowed_directories_is_refused(root: Path, path: str) -> None:
    (root / "link.jpg").symlink_to(root.parent / "secret")
    (root / "links").symlink_to(root.parent)
    (root / "environ").symlink_to("/proc/self/environ")
    (root / "zero").symlink_to("/dev/zero")
    (root / "devices").symlink_to("/dev")
    (root / "directory").mkdir()
    os.mkfifo(root / "pipe")
    (root / "x").mkdir()
    with pytest.raises(InvalidArgumentError) as caught:
        of(root).read(path.format(root=root, parent=root.parent))
    assert any(text in str(caught.value) for text in ("so it is not read", "is empty", "a secret"))


@pytest.mark.parametrize("path", ["/proc/self/environ", "/dev/zero", "zero"])
def test_kernel_interface_is_refused_even_if_everything_is_allowed(root: Path, path: str) -> None:
    (root / "zero").symlink_to("/dev/zero")
    with pytest.raises(InvalidArgumentError, match="interface to the kernel"):
        of(root, "/").read(path)


def test_link_that_is_swapped_after_the_check_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, opened = root / "link.jpg", os.open
    link.symlink_to(root / "a.jpg")

    def swap_and_open(*args: Any, **kwargs: Any) -> int:
        link.unlink()
        link.symlink_to(root.parent / "secret")
        return opened(*args, **kwargs)

    monkeypatch.setattr(os, "open", swap_and_open)
    with pytest.raises(InvalidArgumentError, match=r"link.jpg is a link to .*/secret"):
        of(root).read("link.jpg")


@pytest.mark.parametrize("is_cached", [False, True])
def test_directory_that_is_swapped_for_a_link_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_cached: bool
) -> None:
    folder, opened = root / "folder", os.open
    shutil.copytree(root.parent / "other", folder)
    files = of(root)
    if is_cached:
        assert files.read("folder/a.jpg") == b"other"

    def swap_and_open(*args: Any, **kwargs: Any) -> int:
        monkeypatch.setattr(os, "open", opened)
        folder.rename(root.parent / "moved")
        folder.symlink_to(root.parent / "other")
        return opened(*args, **kwargs)

    monkeypatch.setattr(os, "open", swap_and_open)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match=r"folder/a.jpg is a link to .*/other/a.jpg"):
            files.read("folder/a.jpg")


def test_directory_that_is_replaced_or_leads_elsewhere_is_read_again(root: Path) -> None:
    current = root / "current"
    current.symlink_to(root)
    files = of(root, f"{root.parent}/other")
    assert files.read("current/a.jpg") == b"img"
    current.unlink()
    current.symlink_to(root.parent / "other")
    assert files.read("current/a.jpg") == b"other"
    shutil.rmtree(root.parent / "other")
    shutil.copytree(root.parent / "img2", root.parent / "other")
    assert files.read("current/a.jpg") == b"img2"


def test_path_that_is_encoded_many_times_is_refused(root: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="percent-encoded more than 7 times"):
        of(root).find("x/%" + "25" * 100_000 + "2e")


def test_link_between_allowed_directories_is_followed(root: Path) -> None:
    (root / "link.jpg").symlink_to(root.parent / "other/a.jpg")
    assert of(root, f"{root.parent}/other").read("link.jpg") == b"other"
    alias = root.parent / "alias"
    alias.symlink_to(root)
    assert of(alias).read("a.jpg") == b"img"


@pytest.mark.parametrize(
    ("below", "error"),
    [
        ("/data", ArgumentTypeError),
        ([3], ArgumentTypeError),
        ({"/data": "key"}, ArgumentTypeError),
        (["https://example.com/"], InvalidArgumentError),
        (["/data/images/*.png"], InvalidArgumentError),
        (["simplecache::s3://bucket/x"], InvalidArgumentError),
        (["nonsense://x"], UnsupportedURLError),
        (["s3://key:secret-of-mine@bucket/x"], InvalidArgumentError),
    ],
)
def test_unusable_prefix_raises_error(below: list[str], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        NamedFiles(None, below)
    assert "secret-of-mine" not in str(caught.value)


def test_file_larger_than_the_limit_raises_error_with_the_argument(root: Path) -> None:
    files = NamedFiles(Location.of(root), max_bytes=2)
    with pytest.raises(InvalidArgumentError, match="max_file_bytes"):
        files.read("a.jpg")


def test_missing_local_file_differs_from_missing_directory(root: Path) -> None:
    with pytest.raises(MissingFileError, match=r"no\.jpg does not exist"):
        of(root).read("no.jpg")
    with pytest.raises(MissingFileError):
        of(root).read("a.jpg/x")
    with pytest.raises(StorageError, match="Mount or restore it"):
        of(root.parent / "gone").read("a.jpg")


def test_file_that_grows_while_it_is_read_raises_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.fstat

    def grow_after(fd: int) -> os.stat_result:
        before = found(fd)
        with (root / "a.jpg").open("ab") as file:
            file.write(b"more")
        return before

    monkeypatch.setattr(os, "fstat", grow_after)
    with pytest.raises(StorageError, match="changed while it was read"):
        of(root).read("a.jpg")


def test_file_is_read_from_each_store_and_limited(store: Store) -> None:
    store.location.make_directory()
    contents = {"a.jpg": b"image", "empty": b"", "large": bytes(101)}
    for name, content in contents.items():
        store.location.write(name, [content])
    files = NamedFiles(store.location, max_bytes=100)
    assert files.read(f"{store.url}/a.jpg") == files.read("a.jpg") == b"image"
    assert files.read("empty") == b""
    with pytest.raises(InvalidArgumentError, match=r"large .*max_file_bytes"):
        files.read("large")
    with pytest.raises(MissingFileError):
        files.read("no.jpg")
    assert files.identity("a.jpg").startswith("5 ")


@pytest.mark.usefixtures("fresh_filesystems")
def test_object_is_read_with_one_request(s3: S3Server) -> None:
    root = Location.of(S3_ROOT)
    root.write("a.jpg", [b"image"])
    s3.requests.clear()
    assert NamedFiles(root).read("a.jpg") == b"image"
    assert s3.requests == [("GET", f"/{BUCKET}/data/img/a.jpg")]


def two_gigabytes(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Announce an object of 2 GB, but send only its beginning."""
    start("200 OK", [("Content-Length", str(2 << 30)), ("ETag", '"1"')])
    return [b"image"]


@pytest.mark.usefixtures("fresh_filesystems")
def test_content_of_a_too_large_object_is_not_awaited(s3: S3Server) -> None:
    s3.fault = lambda *_: two_gigabytes
    with pytest.raises(InvalidArgumentError, match="max_file_bytes"):
        NamedFiles(Location.of(S3_ROOT)).read("large")
    assert s3.count("GET") == 1


@pytest.mark.usefixtures("fresh_filesystems", "no_credentials")
def test_denied_object_raises_credentials_error_that_mentions_absence(s3: S3Server) -> None:
    with closing(GuardedS3(s3)) as guard:
        keys = guard.hand_out("data/img/", 600).keys()
        options = {**keys, "endpoint_url": guard.url}
        files = NamedFiles(Location.of(S3_ROOT, options))
        guard.shows_missing = False
        with pytest.raises(CredentialsError, match="if a file does not exist") as caught:
            files.read("no.jpg")
        assert keys["secret"] not in str(caught.value)
        expired = guard.hand_out("data/img/", -1).keys()
        files = NamedFiles(Location.of(S3_ROOT, {**expired, "endpoint_url": guard.url}))
        with pytest.raises(CredentialsError, match="expired") as caught:
            files.read("a.jpg")
        assert caught.value.is_expired


class Authorizations(Server):
    """Records each request's credentials and responds with a file."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []
        super().__init__(respond("200 OK", b"image", ("ETag", '"1"')))

    def answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        given = environ.get("HTTP_AUTHORIZATION", "") + environ.get("QUERY_STRING", "")
        self.seen.append((environ["PATH_INFO"], "ROOTKEY" in given))
        return super().answer(environ, start)


@pytest.mark.usefixtures("fresh_filesystems", "no_credentials")
def test_options_are_used_only_below_the_directory_that_they_are_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(Authorizations()) as server, closing(Authorizations()) as given:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVKEY")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        root = Location.of(S3_ROOT, {"key": "ROOTKEY", "secret": "secret"})
        same_bucket, inside = f"s3://{BUCKET}/data/img2", f"{S3_ROOT}/inside"
        files = NamedFiles(root, [same_bucket, inside])
        for path in ("a", f"{inside}/a", f"{same_bucket}/a"):
            assert files.read(path) == b"image"
        seen = [(f"/{BUCKET}/data/img/a", True), (f"/{BUCKET}/data/img/inside/a", True)]
        assert server.seen == [*seen, (f"/{BUCKET}/data/img2/a", False)]
        options = {"key": "ROOTKEY", "secret": "secret", "endpoint_url": given.url}
        nested = NamedFiles(root, {same_bucket: {}, f"{same_bucket}/own": options})
        assert nested.read(f"{same_bucket}/own/a") == nested.read(f"{same_bucket}/a") == b"image"
        assert given.seen == [(f"/{BUCKET}/data/img2/own/a", True)]
        with pytest.raises(InvalidArgumentError, match="pickled"):
            pickle.dumps(NamedFiles(None, {same_bucket: options}))


@pytest.mark.parametrize(
    "path",
    [
        f"s3://{BUCKET}/data/img2/a.jpg",
        f"s3://{BUCKET}/data/a.jpg",
        f"s3://{BUCKET}2/data/img/a.jpg",
        f"{S3_ROOT}/../img2/a.jpg",
        "../../../other/data/img/a.jpg",
        "%2E%2E/img2/a.jpg",
        f"{S3_ROOT}/a.jpg?X-Amz-Signature=secret-of-mine",
        "s3://key:secret-of-mine@bucket/data/img/a.jpg",
        "https://bucket.s3.amazonaws.com/a.jpg?X-Amz-Signature=secret-of-mine",
    ],
)
def test_url_outside_of_the_prefix_is_refused_without_a_request(path: str) -> None:
    files = NamedFiles(Location.of(S3_ROOT, {"endpoint_url": "http://127.0.0.1:9"}))
    with pytest.raises(InvalidArgumentError) as caught:
        files.read(path)
    assert "secret-of-mine" not in str(caught.value)


@pytest.mark.usefixtures("fresh_filesystems")
def test_file_in_a_volume_is_read_through_the_api_where_it_is_not_mounted(
    databricks: DatabricksServer,
) -> None:
    location = Location.of("/Volumes/main/images/v")
    for name, content in {"a.jpg": b"image", "empty": b""}.items():
        location.write(name, [content])
    files = NamedFiles(None, ["dbfs:/Volumes/main/images/"])
    assert files.read("dbfs:/Volumes/main/images/v/a.jpg") == b"image"
    assert files.read("/Volumes/main/images/v/empty") == b""
    with pytest.raises(MissingFileError):
        files.read("/Volumes/main/images/v/no.jpg")
    with pytest.raises(InvalidArgumentError, match="not in an allowed directory"):
        files.read("/Volumes/main/labels/v/a.jpg")
