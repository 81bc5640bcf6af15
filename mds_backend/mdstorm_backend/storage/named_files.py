"""`NamedFiles`: read the files that a column names, if they are in allowed directories.

The values are data, which may come from strangers. A file is read only if it is below the dataset's
own directory, or below a prefix that the caller allows. Credentials for the dataset, and the
options of a prefix, are used only for files below it.

Paths and URLs of objects are names as they are. A ``file:`` URL is percent-encoded, as Spark and
Java write it.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from mdstorm_backend import errors
from mdstorm_backend.storage import urls
from mdstorm_backend.storage.filesystems import check_scheme
from mdstorm_backend.storage.location import Location, modification_of

#: Default for the maximum size of one file in bytes.
MAX_FILE_BYTES = 256 << 20
_NEVER = re.compile(r"https?:|.*::", re.IGNORECASE | re.DOTALL)
#: Paths that are percent-encoded as often as this are refused.
_MOST_DECODINGS = 8
#: Directories whose files are interfaces to the kernel; /dev/shm is a disk in memory.
_KERNEL = re.compile(r"/(proc|sys|dev(?!/shm/))(/|$)")
#: Names that mean the same in any directory: not ``..``, encoded, a query, or part of a scheme.
_PLAIN_NAME = re.compile(r"(?!\.{1,2}$)[^/%?&@:~\0]+")
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
#: Number of directories whose results are kept.
_KEPT_DIRECTORIES = 4096
#: Without O_NONBLOCK, opening a pipe would wait for a writer.
_OPENING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

#: Directories whose files may be read, or the storage options of each.
FilesBelow: TypeAlias = Sequence[str] | Mapping[str, Mapping[str, Any]]

_T = TypeVar("_T")


class NamedFiles:
    """Files that are named by their paths or URLs. Thread-safe and picklable.

    Parameters
    ----------
    root : Location or None
        The dataset's own directory. Relative paths are relative to it, and its files are allowed.
        None if it has none: see `SampleDataset`.
    below : sequence of str, or mapping of str to mapping
        URLs or paths of further directories whose files are allowed. They are read with the
        environment's credentials, or with the storage options that a mapping gives for each.
    max_bytes : int
        Maximum size of one file.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, UnsupportedURLError
        If `below` is not as described, or contains a web address or a chained URL.
    """

    def __init__(
        self,
        root: Location | None,
        below: FilesBelow = (),
        *,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        if isinstance(below, (str, os.PathLike)):
            raise errors.ArgumentTypeError(
                f"files_below must be a list of prefixes, or a mapping, found {below!r}: write "
                "it in brackets"
            )
        self.root, self.max_bytes = root, max_bytes
        self._allowed: dict[str, Location] = {}
        #: Where the files of a directory are, and its path without links, if it is a local one.
        self._found: dict[str, tuple[Location, str]] = {}
        self._real: dict[str, str] = {}
        given = below if isinstance(below, Mapping) else dict.fromkeys(below)
        for prefix, options in given.items():
            location = Location.of(_plain(prefix), options)
            if "*" in location.url:
                raise errors.InvalidArgumentError(
                    f"files_below contains {location.url}, but it takes no wildcards: write the "
                    "directory, below which all files are allowed"
                )
            if _NEVER.match(location.url):
                raise errors.InvalidArgumentError(
                    f"files_below contains {location.url}: web addresses and chained URLs are not "
                    "supported. Use a directory on a disk, in a volume or in an object store"
                )
            check_scheme(location.url)
            # The dataset's own credentials apply to its subdirectories.
            if options or root is None or not _is_below(location.url, root.url):
                self._allowed[location.url] = location
        if root is not None:
            self._allowed[root.url] = root

    @property
    def locations(self) -> list[Location]:
        """The directories whose files are allowed."""
        return list(self._allowed.values())

    def find(self, path: str) -> tuple[Location, str]:
        """Return the allowed directory of a file, and the file's name relative to it.

        Symbolic links are not resolved before the file is opened.

        Parameters
        ----------
        path : str
            A URL, an absolute path, or a path relative to the dataset's directory.

        Raises
        ------
        InvalidArgumentError
            If the file is not in an allowed directory, also after percent-decoding and resolving
            ``..``; or if it is a web address, a chained URL or a directory.
        """
        name = path[path.rfind("/") + 1 :]
        if not _PLAIN_NAME.fullmatch(name):
            return self._find(path)
        directory = path[: -len(name)]
        if (found := self._found.get(directory)) is None:
            location, name = self._find(path)
            found = location, name[: name.rfind("/") + 1]
            self._found = self._found if len(self._found) < _KEPT_DIRECTORIES else {}
            self._found[directory] = found
            return location, name
        return found[0], found[1] + name

    def _find(self, path: str) -> tuple[Location, str]:
        url = self._url(path)
        prefix = max((p for p in self._allowed if _is_below(url, p)), key=len, default=None)
        if prefix is None:
            raise self._refused(url, "is not in an allowed directory", _about_path(path))
        name = url[len(prefix.rstrip("/")) + 1 :]
        if not name or name.endswith("/"):
            raise self._refused(url, "is a directory")
        decoded = _decoded(name)
        if ".." in decoded.split("/") or "\0" in decoded:
            raise self._refused(url, "leaves its directory when it is decoded")
        return self._allowed[prefix], name

    def read(self, path: str) -> bytes:
        """Return the content of a file, using one request.

        Raises
        ------
        InvalidArgumentError
            If the file is not allowed, see `find`; if a link leads out of the allowed directories,
            or to an interface to the kernel; or if it is larger than `max_bytes`.
        MissingFileError
            If it does not exist.
        CredentialsError, StorageError
            If the storage denies access or fails, or the file changes while it is read.
        """
        location, name = self.find(path)
        if location.is_in_file_tree:
            return self._translated(path, location, name, self._read_local)
        content, size = self._translated(path, location, name, self._read_remote)
        self._check_size(location.file_url(name), size)
        return content

    def identity(self, path: str) -> str:
        """Return the size of a file and its entity tag or modification time.

        Raises
        ------
        InvalidArgumentError, MissingFileError, CredentialsError, StorageError
            As for `read`.
        """
        location, name = self.find(path)
        if location.is_in_file_tree:
            self._check_real(location, name, os.path.realpath(_path(location, name)))
        return identity_of(self._translated(path, location, name, Location.stat))

    def _url(self, path: str) -> str:
        """Return the URL of a path, without ``.`` and ``..``."""
        if not path:
            raise errors.InvalidArgumentError("the path of the file is empty: use a null instead")
        if _NEVER.match(_decoded(path)):
            raise self._unsupported(path)
        path = _plain(path)
        if path.startswith("/") or urls.has_scheme(path):
            url = urls.normalize_url(path)
            url += "/" if path.endswith("/") else ""
        elif self.root is None:
            raise self._refused(
                path,
                "is relative, which only works if the dataset is given as one directory or table",
            )
        else:
            url = self.root.file_url(path)
        if _NEVER.match(url):
            raise self._unsupported(url)
        urls.check_no_secret_in_url(url)
        return _without_dots(url)

    def _check_real(self, location: Location, name: str, real: str) -> None:
        """Raise InvalidArgumentError unless a file may be read whose path without links is `real`.

        The allowed directories may be links themselves, which may change at any time.
        """
        url = location.file_url(name)
        if _KERNEL.match(real):
            raise self._refused(url, f"is an interface to the kernel, {real}")
        if real == _path(location, name):
            return
        local = (allowed.path for allowed in self.locations if allowed.is_in_file_tree)
        if not any(_is_below(real, os.path.realpath(directory)) for directory in local):
            raise self._refused(url, f"is a link to {real}, which is not in an allowed directory")

    def _read_local(self, location: Location, name: str) -> bytes:
        path = _path(location, name)
        directory, _, file = path.rpartition("/")
        fd = self._open_file(location, name, path)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise self._refused(location.file_url(name), "is a directory, a device or a pipe")
            # Links may have been changed since they were resolved.
            real = _path_of(fd, path)
            if real != f"{self._real.get(directory)}/{file}":
                self._check_real(location, name, real)
            self._check_size(location.file_url(name), before.st_size)
            content = _read_all(fd, before.st_size)
            after = os.fstat(fd)
        finally:
            os.close(fd)
        if (len(content), after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            url = location.file_url(name)
            raise errors.StorageError(
                f"{url} was changed while it was read. Finish writing the files before they are "
                "read",
                url=url,
            )
        return content

    def _open_file(self, location: Location, name: str, path: str) -> int:
        """Open a file, unless a link on its path leads to where nothing may be opened.

        Opening some devices has effects. Directories are resolved only once, because that takes
        longer than reading a file: the path of the opened file is checked again.
        """
        directory = path.rpartition("/")[0]
        if directory not in self._real:
            real = os.path.realpath(f"{directory}/").rstrip("/")
            self._check_real(location, name, f"{real}{path[len(directory) :]}")
            self._real = self._real if len(self._real) < _KEPT_DIRECTORIES else {}
            self._real[directory] = real
        try:
            return os.open(path, _OPENING | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        self._check_real(location, name, os.path.realpath(path))
        return os.open(path, _OPENING)

    def _read_remote(self, location: Location, name: str) -> tuple[bytes, int]:
        try:
            return location.read_up_to(name, self.max_bytes)
        except errors.StorageError:
            # Stores answer with an error if a range of an empty file is requested.
            if location.size(name) == 0:
                return b"", 0
            raise

    def _check_size(self, url: str, size: int) -> None:
        if size > self.max_bytes:
            raise errors.InvalidArgumentError(
                f"{url} has more bytes than the limit of {self.max_bytes} for one file: raise "
                "max_file_bytes (--max-file-size)"
            )

    def _translated(
        self, path: str, location: Location, name: str, request: Callable[[Location, str], _T]
    ) -> _T:
        """Return the result of a request; raise this package's errors for any failure."""
        try:
            return request(location, name)
        except errors.CredentialsError as error:
            if error.is_expired:
                raise
            raise errors.CredentialsError(
                f"{error}. Stores answer in the same way if a file does not exist and the "
                "credentials do not allow listing its directory",
                url=location.file_url(name),
            ) from error
        except errors.MDStormError:
            raise
        except OSError as error:
            raise self._failure(path, location, name, error) from error

    def _failure(
        self, path: str, location: Location, name: str, error: OSError
    ) -> errors.MDStormError:
        """Return the error for a failure of the operating system or a store."""
        url = location.file_url(name)
        match error:
            case FileNotFoundError() | NotADirectoryError():
                if location.is_in_file_tree and not os.path.isdir(location.path):
                    return errors.StorageError(
                        f"{url} cannot be read: the directory {location.path} does not exist. "
                        "Mount or restore it",
                        url=url,
                    )
                fix = "Restore the file, or correct its path" + _about_path(path)
                return errors.MissingFileError(f"{url} does not exist. {fix}", url=url)
            case IsADirectoryError():
                return self._refused(url, "is a directory")
            case PermissionError():
                return errors.CredentialsError(
                    f"{url} cannot be read ({error.strerror}): let this user read it", url=url
                )
        return errors.StorageError(f"{url} cannot be read ({error})", url=url)

    def _refused(self, path: str, reason: str, hint: str = "") -> errors.InvalidArgumentError:
        allowed = ", ".join(self._allowed) or "none"
        return errors.InvalidArgumentError(
            f"{urls.redact(path)} {reason}, so it is not read. Allowed directories: {allowed}. "
            f"Correct the path, or pass a directory that you trust in files_below{hint}"
        )

    def _unsupported(self, path: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(
            f"{urls.redact(path)} is a web address or a chained URL, so it is not read. Download "
            "the files to a directory, a volume or an object store, and write where they are"
        )


def identity_of(info: Mapping[str, Any]) -> str:
    """Return the size and the entity tag or modification time in fsspec's description of a file.

    The result is "" if neither of the latter is known.
    """
    tag = info.get("ETag") or info.get("etag")
    version = tag or modification_of(info) or info.get("created")  # in memory
    return f"{info['size']} {version}" if version else ""


def _plain(path: str) -> str:
    """Return a path or URL whose name is not encoded; only a ``file:`` URL is."""
    return unquote(path) if isinstance(path, str) and path[:5].lower() == "file:" else path


def _about_path(path: str) -> str:
    """Return what to know about a path that does not exist, as it was given."""
    is_url = path[:5].lower() == "file:"
    if _ENCODED.search(path) and is_url:
        return ". A file: URL is percent-decoded: if its codes are part of the name, write a path"
    if _ENCODED.search(path):
        return (
            ". Only file: URLs are percent-decoded: decode what comes from Spark's "
            "_metadata.file_path or input_file_name()"
        )
    if path.startswith("/") or urls.has_scheme(path):
        return ""
    return ". Relative paths begin in the dataset's directory: write absolute ones for others"


def _path(location: Location, name: str) -> str:
    """Return the path of a file in this machine's file tree."""
    return location.file_url(name).removeprefix("file://")


def _path_of(fd: int, path: str) -> str:
    """Return the path without links of an open file, which was opened as `path`."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # not Linux
        return os.path.realpath(path)


def _read_all(fd: int, size: int) -> bytes:
    """Read a file of `size` bytes, and one more if it has grown."""
    content = os.read(fd, size + 1)
    if len(content) == size:
        return content
    with open(fd, "rb", closefd=False) as file:  # more than one call returns
        return content + file.read(max(size + 1 - len(content), 0))


def _is_below(url: str, directory: str) -> bool:
    return f"{url}/".startswith(f"{directory.rstrip('/')}/")


def _decoded(text: str) -> str:
    """Return a text after percent-decoding it until nothing changes.

    Raises
    ------
    InvalidArgumentError
        If it is encoded many times, which would take long.
    """
    for _ in range(_MOST_DECODINGS):
        if (decoded := unquote(text)) == text:
            return text
        text = decoded
    raise errors.InvalidArgumentError(
        f"a path is percent-encoded more than {_MOST_DECODINGS - 1} times, so it is not read: "
        f"{urls.redact(text[:80])}. Correct the path"
    )


def _without_dots(url: str) -> str:
    """Return a URL after resolving the segments ``.`` and ``..``."""
    if {".", ".."}.isdisjoint(url.split("/")):
        return url
    scheme, slashes, rest = re.fullmatch(r"([^/]*:)(//)?(.*)", url, re.DOTALL).groups("")  # type: ignore[union-attr]
    return f"{scheme}{slashes}{posixpath.normpath(rest)}" + ("/" if rest.endswith("/") else "")
