"""`Location`: read, write and list the files in the directory at a URL."""

from __future__ import annotations

import errno
import os
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from mdstorm_backend.base.checks import check_mapping
from mdstorm_backend.base.plain_files import Buffer
from mdstorm_backend.errors import ArgumentTypeError, CredentialsError, StorageError
from mdstorm_backend.storage import (
    filesystems,
    local_files,
    renewing,
    s3_objects,
    urls,
    web_objects,
)
from mdstorm_backend.storage.credentials import CredentialProvider
from mdstorm_backend.storage.lending import lendable
from mdstorm_backend.storage.stores.s3 import S3
from mdstorm_backend.storage.stores.store import store_of

#: The keys under which file systems report a file's modification time.
_TIME_KEYS = (
    *("mtime", "LastModified", "last_modified", "updated", "modificationTime", "Last-Modified"),
)
#: The keys under which they report a value that changes with the content.
_TAG_KEYS = ("ETag", "etag", "checksum", "md5Hash", "content_md5")


#: What the URLs of files on web servers begin with.
_WEB = ("http://", "https://")
#: The only normalised URL that ends with a slash.
LOCAL_ROOT = "file:///"
#: Errors for paths that cannot lead to a file: loops of links, and names that are too long.
_NO_PATHS = (errno.ELOOP, errno.ENAMETOOLONG)
_P = ParamSpec("_P")
_T = TypeVar("_T")


def _repeated_after_expiry(
    method: Callable[Concatenate[Location, _P], _T],
) -> Callable[Concatenate[Location, _P], _T]:
    """If the storage refuses credentials as expired, repeat the request once with new ones.

    A path that cannot lead to a file raises a StorageError.
    """

    @wraps(method)
    def repeated(self: Location, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return self.repeat_after_expiry(lambda: method(self, *args, **kwargs))
        except OSError as error:
            if error.errno not in _NO_PATHS:
                raise
            raise StorageError(
                f"{self.url} cannot be read ({error}): correct the path or the links in it",
                url=self.url,
            ) from error

    return repeated


@dataclass(frozen=True)
class Location:
    """A directory on the local disk or in an object store.

    Errors of object stores are raised as `CredentialsError`, `StorageError` or `FileNotFoundError`;
    errors of the local file system are raised unchanged, except for paths that cannot lead to a
    file.

    Attributes
    ----------
    url : str
        URL of the directory, normalised by `normalize_url`.
    storage_options : dict
        Options for the fsspec file system.
    filesystem : fsspec.AbstractFileSystem or None
        The file system, if not the one that the URL implies.
    credentials : CredentialProvider or None
        The source of credentials, if not `storage_options` and the environment.
    """

    url: str
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)
    filesystem: Any = field(default=None, repr=False)
    credentials: CredentialProvider | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        urls.check_no_secret_in_url(self.url)

    @classmethod
    def of(
        cls,
        url: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        filesystem: Any = None,
    ) -> Location:
        """Return the location for a URL or a path.

        Parameters
        ----------
        url : str or path
            A URL or a local path; with a `filesystem`, a path in it.
        storage_options : dict, optional
            Options for the fsspec file system.
        filesystem : fsspec or pyarrow file system, optional
            Takes precedence over the URL's own and `storage_options`.

        Raises
        ------
        ArgumentTypeError
            If an argument has a different type.
        """
        if not isinstance(url, (str, os.PathLike)) or url == "":
            raise ArgumentTypeError(f"expected a URL or a path, found {url!r}")
        check_mapping("storage_options", storage_options)
        if filesystem is None or filesystems.is_local(filesystem):
            return cls(urls.normalize_url(os.fspath(url)), dict(storage_options or {}))
        given = filesystems.as_fsspec(filesystem)
        return cls(filesystems.url_in(given, os.fspath(url)), filesystem=given)

    def __reduce__(self) -> tuple[Any, ...]:
        urls.check_no_secrets(self.storage_options)
        if self.filesystem is not None:
            urls.check_no_secrets(self.filesystem.storage_options)
        credentials = lendable(self.credentials)
        return Location, (self.url, self.storage_options, self.filesystem, credentials)

    @property
    def absences(self) -> tuple[type[Exception], ...]:
        """Errors raised when reading a file that does not exist.

        With credentials for a prefix, a store may deny access instead of reporting a missing
        file.
        """
        usual = (FileNotFoundError, NotADirectoryError)
        return usual if self.credentials is None else (*usual, CredentialsError)

    def repeat_after_expiry(self, call: Callable[[], _T]) -> _T:
        """Call a function; if credentials have expired, call it again with new ones.

        Raises
        ------
        CredentialsError
            If there are no new credentials, or they are also refused.
        """
        if self.credentials is None:
            return call()
        lease = self.credentials.current()
        try:
            return call()
        except CredentialsError as error:
            if not error.is_expired or self.credentials.renewed(lease) is None:
                raise
            return call()

    @contextmanager
    def _files(self, name: str | None = None) -> Iterator[tuple[Any, str]]:
        """Yield the file system, and the path of the directory or of the file `name` in it."""
        url = self.url if name is None else self.file_url(name)
        refusal, hidden = None, self.storage_options
        if self.credentials is not None:
            refusal = self.credentials.refusal
            hidden = {**hidden, **self.credentials.current().options}
        translated = urls.storage_faults(url, hidden, refusal)
        fs = None
        try:
            with nullcontext() if self.is_in_file_tree else translated:
                fs, path = self._open_filesystem()
                yield fs, path if name is None else f"{path.removesuffix('/')}/{name}"
        except CredentialsError:
            # fsspec caches file systems with their original credentials, so clear the cache to let
            # credentials that are set later take effect.
            if fs is not None and self.credentials is None:
                fs.clear_instance_cache()
            raise

    def _open_filesystem(self) -> tuple[Any, str]:
        if self.filesystem is not None:
            is_web = self.url.startswith(_WEB)  # its paths are URLs
            return self.filesystem, self.url if is_web else self.url.partition("://")[2]
        if self.credentials is not None:
            return renewing.open_renewing(self.url, self.storage_options, self.credentials)
        return filesystems.open_filesystem(self.url, self.storage_options)

    @property
    def is_in_file_tree(self) -> bool:
        """Whether this is a directory in this machine's file tree, possibly on a mount."""
        if self.filesystem is not None or not self.url.startswith("file:///"):
            return False
        path = self.url[len("file://") :]
        return not path.startswith(("/dbfs/", "/Volumes/")) or filesystems.is_mounted(path)

    @property
    def path(self) -> str:
        """Path of the directory in its file system."""
        if self.filesystem is None and self.url.startswith("file:///"):
            return self.url[len("file://") :]
        with self._files() as (_, path):
            return path

    @property
    def is_local_disk(self) -> bool:
        """Whether the directory is on a local disk, where files can be mapped and renamed."""
        is_file = self.filesystem is None and self.url.startswith("file:///")
        return is_file and not urls.is_on_mount(self.path)

    def file_url(self, name: str) -> str:
        """Return the URL of the file `name` in this directory."""
        return f"{self.url}{name}" if self.url == LOCAL_ROOT else f"{self.url}/{name}"

    def name_of(self, url: str) -> str:
        """Return the name, relative to this directory, of a file whose URL `file_url` returned."""
        return url.removeprefix(self.file_url(""))

    def child(self, name: str) -> Location:
        """Return the location of the subdirectory `name`."""
        return replace(self, url=self.file_url(name))

    def make_directory(self) -> None:
        """Create the directory and its parents, if the storage has directories.

        Raises
        ------
        FileNotFoundError
            If the directory is on a Databricks mount that this machine does not have.
        """
        if store_of(self.url).has_buckets:
            return
        with self._files() as (fs, path):
            if path.startswith("/Workspace/") and not filesystems.is_mounted(path):
                raise FileNotFoundError("/Workspace/ is not mounted on this machine")
            fs.makedirs(path, exist_ok=True)

    @_repeated_after_expiry
    def describe(self) -> dict[str, Any] | None:
        """Return fsspec's description of the file or directory; None if it does not exist."""
        with self._files() as (fs, path):
            root = fs._strip_protocol(path)
            fs.invalidate_cache(root)
            found = _unless_missing(lambda: fs.info(root))
            return None if found is None else dict(found)

    @_repeated_after_expiry
    def list_files(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the relative name and fsspec's description of every file under this directory."""
        with self._files() as (fs, path):
            root = fs._strip_protocol(path)
            if self.is_in_file_tree:
                local_files.wait_until_current(path, is_mount=not self.is_local_disk)
            fs.invalidate_cache(root)
            infos = self._described_files(fs, root)
        # Arrow's file systems name files without a leading slash.
        top = f"/{root.lstrip('/')}"
        names = {os.path.relpath(f"/{name.lstrip('/')}", top): name for name in infos}
        # A file, or nothing was found. Some stores list nothing if they deny access, in which case
        # `describe` raises an error.
        if names.keys() <= {"."}:
            described = self.describe()
            return [(".", described)] if described and described["type"] == "file" else []
        return sorted((name, infos[full]) for name, full in names.items())

    def _described_files(self, fs: Any, path: str) -> dict[str, dict[str, Any]]:
        """Return fsspec's descriptions of files under a directory, by path; {} if it is missing."""
        if self.is_in_file_tree:
            files = _unless_missing(lambda: list(local_files.describe_files(fs, path)))
            return {file["name"]: file for file in files or ()}
        return dict(_unless_missing(lambda: fs.find(path, detail=True)) or {})

    @_repeated_after_expiry
    def list_matches(self, pattern: str) -> list[str]:
        """Return the relative names of files and directories that match a pattern, sorted."""
        with self._files(pattern) as (fs, path):
            root = fs._strip_protocol(path)[: -len(pattern) - 1] or "/"
            return sorted(os.path.relpath(name, root) for name in fs.glob(path))

    @property
    def is_pattern(self) -> bool:
        """Whether the URL has characters of patterns; there may still be a file of that name."""
        return urls.PATTERN.search(self.url) is not None

    def matching(self, is_wanted: Callable[[str], bool] = bool) -> list[Location]:
        """Return the locations of the files and directories that match the pattern in the URL.

        `is_wanted` is called with their names relative to the directory above the pattern.
        """
        root = urls.PATTERN.split(self.url, maxsplit=1)[0].rpartition("/")[0]
        above = replace(self, url=LOCAL_ROOT if root == LOCAL_ROOT[:-1] else root)
        found = above.list_matches(above.name_of(self.url))
        return [above.child(name) for name in found if is_wanted(name)]

    def list_sizes(self) -> list[tuple[str, int]]:
        """Return the relative name and the size in bytes of every file under this directory."""
        return [(name, info["size"]) for name, info in self.list_files()]

    def list_names(self) -> list[str]:
        """Return the relative names of all files under this directory, sorted."""
        return [name for name, _ in self.list_sizes()]

    def exists(self, name: str) -> bool:
        """Whether the file `name` exists in this directory."""
        return _unless_missing(lambda: self.stat(name)) is not None

    @_repeated_after_expiry
    def stat(self, name: str) -> dict[str, Any]:
        """Return fsspec's description of the file `name`, with at least its ``size`` in bytes."""
        with self._files(name) as (fs, path):
            fs.invalidate_cache(os.path.dirname(path))
            return dict(fs.info(path))

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if there is no such file."""
        found = _unless_missing(lambda: self.stat(name))
        return None if found is None else int(found["size"])

    def modified(self, name: str) -> str:
        """Return a file's modification time and entity tag as the storage states them.

        "" if it states neither. Within one store, the strings are equal for equal versions.
        """
        if self.is_local_disk:
            return str(os.stat(f"{self.path}/{name}").st_mtime_ns)
        info = self.stat(name)
        with self._files(name) as (fs, path):
            if web_objects.is_web(fs) and not modification_of(info):
                info["Last-Modified"] = web_objects.modification_time(fs, path)
        return version_of(info) or str(info.get("created") or "")  # in memory

    @_repeated_after_expiry
    def read(self, name: str) -> Buffer:
        """Return the content of a file.

        Returns
        -------
        memoryview or bytes
            On a local disk, a read-only memory map, which stays valid after the file is removed; a
            copy in memory elsewhere, and where maps are not supported.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        """
        if self.is_local_disk:
            with open(f"{self.path}/{name}", "rb") as file:
                return local_files.map_file(file.fileno())
        with self._files(name) as (fs, path):
            if s3_objects.is_s3(fs):
                return s3_objects.read_object(fs, path)[0]
            return bytes(fs.cat_file(path))

    @_repeated_after_expiry
    def read_dated(self, name: str) -> tuple[bytes, str]:
        """Return a file's content and `modified`, using one request where possible.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        """
        with self._files(name) as (fs, path):
            if s3_objects.is_s3(fs):
                content, version = s3_objects.read_object(fs, path)
                return content, version_of({"LastModified": version.written, "ETag": version.tag})
        if self.is_local_disk:
            with open(f"{self.path}/{name}", "rb") as file:
                return file.read(), str(os.fstat(file.fileno()).st_mtime_ns)
        when = self.modified(name)  # before the content, which may be replaced in the meantime
        return bytes(self.read(name)), when

    @_repeated_after_expiry
    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes `start` to `stop` of a file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        """
        with self._files(name) as (fs, path):
            return filesystems.read_range(fs, path, start, stop)

    @_repeated_after_expiry
    def read_up_to(self, name: str, most: int) -> tuple[bytes, int]:
        """Return the content and the size of a file, using one request.

        If the file has more than `most` bytes, the content is incomplete, and the size is some
        number larger than `most`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        """
        with self._files(name) as (fs, path):
            if s3_objects.is_s3(fs):
                return s3_objects.read_up_to(fs, path, most)
            content = filesystems.read_range(fs, path, 0, most + 1)
            return content, len(content)

    @property
    def is_on_s3(self) -> bool:
        """Whether `download_known` can be used."""
        if self.filesystem is not None:
            return s3_objects.is_s3(self.filesystem)
        is_store = isinstance(store_of(self.url), S3)
        return is_store and s3_objects.is_s3(filesystems.class_of(self.url, "s3"))

    @_repeated_after_expiry
    def download_known(
        self,
        name: str,
        path: str,
        *,
        size: int,
        timeout: float,
        arrival: local_files.Arrival | None = None,
    ) -> local_files.Version | None:
        """Copy an S3 file, expected to have `size` bytes, to `path` using `download_object`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        """
        with self._files(name) as (fs, source):
            return s3_objects.download_object(fs, source, path, size, timeout, arrival)

    @property
    def has_versions(self) -> bool:
        """Whether downloads return the version of a file, if the store states it."""
        return self.is_on_s3 or self.url.startswith(_WEB)

    @_repeated_after_expiry
    def download(self, name: str, path: str) -> local_files.Version | None:
        """Copy a file to the local `path` in chunks; an error may leave a partial file.

        Returns
        -------
        Version or None
            The version of the file if it is on a web server.

        Raises
        ------
        FileNotFoundError, IsADirectoryError
            If there is no such file, or it is a directory.
        """
        with self._files(name) as (fs, source):
            if web_objects.is_web(fs):
                return web_objects.download_object(fs, source, path)
            if self.url.startswith("memory:"):  # some versions of fsspec cannot copy from memory
                Path(path).write_bytes(fs.cat_file(source))
            else:
                fs.get_file(source, path)
        if os.path.isdir(path):  # fsspec copies a local directory without its content
            os.rmdir(path)
            raise IsADirectoryError(f"{self.file_url(name)} is a directory")
        return None

    def write(self, name: str, buffers: Iterable[Buffer]) -> None:
        """Write a file atomically.

        On a local disk, a temporary file is renamed. Elsewhere the bytes are joined in memory and
        uploaded in one request.
        """
        if not self.is_local_disk:
            try:
                with self._files(name) as (fs, target):
                    fs.pipe_file(target, b"".join(buffers))
            except FileNotFoundError as error:
                if not store_of(self.url).has_buckets:
                    raise
                bucket = "/".join(self.url.split("/")[:3])
                raise FileNotFoundError(
                    f"{self.file_url(name)} cannot be written ({error}): create {bucket}, or check "
                    "its name"
                ) from error
            return
        with _replacing(f"{self.path}/{name}") as temporary, open(temporary, "wb") as file:
            file.writelines(buffers)

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is not an error."""
        with suppress(FileNotFoundError), self._files(name) as (fs, path):
            try:
                fs.rm_file(path)
            except NotImplementedError:  # raised by older versions of adlfs
                fs.rm(path)

    def remove_directory_if_empty(self) -> None:
        """Remove the directory if no files are left in it."""
        with self._files() as (fs, path):
            fs.invalidate_cache(path)
            if store_of(self.url).has_buckets or not fs.exists(path):
                return
            if self._described_files(fs, path):
                return
            if not self.is_in_file_tree:
                fs.rm(path, recursive=True)
                return
            # Directories are removed one by one, because a file may have been written meanwhile.
            for directory, _, _ in os.walk(path, topdown=False):
                with suppress(OSError):
                    os.rmdir(directory)


def _unless_missing(request: Callable[[], _T]) -> _T | None:
    """Return the result of a request, or None if the file or directory does not exist.

    Clients and fsspec refer to an error in a variable of a frame of its own traceback. Such a cycle
    keeps the variables of all callers alive, such as the shard that a writer is about to store,
    until Python collects garbage, which depends on the number of objects and not on their size. So
    the variables in the error's frames are cleared here.
    """
    outer = sys.exc_info()[1]  # if a caller is handling an error, keep that error's variables
    try:
        return request()
    except (FileNotFoundError, NotADirectoryError) as error:
        if urls.unreached(error):
            raise
        found: BaseException | None = error
        while found is not None and found is not outer:
            traceback.clear_frames(found.__traceback__)
            found = found.__cause__ or found.__context__
        return None


def modification_of(info: Mapping[str, Any]) -> str:
    """Return the modification time in fsspec's description of a file; "" if it has none."""
    return " ".join(str(info[key]) for key in _TIME_KEYS if info.get(key))


def version_of(info: Mapping[str, Any]) -> str:
    """Return the modification time and the tags in fsspec's description of a file."""
    tags = [str(info[key]) for key in _TAG_KEYS if info.get(key)]
    return " ".join([modification_of(info), *tags]).strip()


def seconds_of(info: Mapping[str, Any]) -> float:
    """Return the modification time in fsspec's description, in Unix seconds; now if it has none."""
    when = next((info[key] for key in _TIME_KEYS if info.get(key)), None)
    if isinstance(when, str):
        when = local_files.parsed_time(when.replace("Z", "+00:00"))
    if isinstance(when, datetime):
        return when.timestamp()
    return float(info.get("mtime") or time.time())


def copy_complete(location: Location, name: str, path: str) -> None:
    """Atomically copy a file to the local `path`, creating missing directories.

    An existing file is replaced. After an error, no temporary file is left.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    CredentialsError, StorageError
        If the storage denies access, or fails.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with _replacing(path) as temporary:
        location.download(name, temporary)


@contextmanager
def _replacing(path: str) -> Iterator[str]:
    """Yield a temporary path; move its file to `path` after the block, or remove it on error."""
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
