"""`NamedFiles`: read the files that a column names, if they are in allowed directories.

The values are data, which may come from strangers. A file is read only if it is below the dataset's
own directory, or below a prefix that the caller allows. Credentials for the dataset, and the
options of a prefix, are used only for files below it.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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

#: Directories whose files may be read, or the storage options of each.
FilesBelow: TypeAlias = Sequence[str] | Mapping[str, Mapping[str, Any]]

T = TypeVar("T")


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
        given = below if isinstance(below, Mapping) else dict.fromkeys(below)
        for prefix, options in given.items():
            location = Location.of(prefix, options)
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

        Parameters
        ----------
        path : str
            A URL, an absolute path, or a path relative to the dataset's directory.

        Raises
        ------
        InvalidArgumentError
            If the file is not in an allowed directory, also after percent-decoding, and after
            resolving ``..`` and symbolic links; or if it is a web address, a chained URL, a
            directory or an interface to the kernel.
        """
        url = self._url(path)
        prefix = max((p for p in self._allowed if _is_below(url, p)), key=len, default=None)
        if prefix is None:
            raise self._refused(url, "is not in an allowed directory")
        name = url[len(prefix.rstrip("/")) + 1 :]
        if not name or name.endswith("/"):
            raise self._refused(url, "is a directory")
        decoded = _decoded(name)
        if ".." in decoded.split("/") or "\0" in decoded:
            raise self._refused(url, "leaves its directory when it is decoded")
        location = self._allowed[prefix]
        if location.is_in_file_tree:
            path = f"{location.path}/{name}"
            self._check_links(url, path, os.path.realpath(path))
        return location, name

    def read(self, path: str) -> bytes:
        """Return the content of a file, using one request.

        Raises
        ------
        InvalidArgumentError
            If the file is not allowed, see `find`, or is larger than `max_bytes`.
        MissingFileError
            If it does not exist.
        CredentialsError, StorageError
            If the storage denies access or fails, or the file changes while it is read.
        """
        location, name = self.find(path)
        url = location.file_url(name)
        if location.is_in_file_tree:
            return self._translated(location, url, lambda: self._read_local(location, name))
        content, size = self._translated(location, url, lambda: self._read_remote(location, name))
        self._check_size(url, size)
        return content

    def identity(self, path: str) -> str:
        """Return the size of a file and its entity tag or modification time.

        Raises
        ------
        InvalidArgumentError, MissingFileError, CredentialsError, StorageError
            As for `read`.
        """
        location, name = self.find(path)
        url = location.file_url(name)
        return identity_of(self._translated(location, url, lambda: location.stat(name)))

    def _url(self, path: str) -> str:
        """Return the URL of a path, without ``.`` and ``..``."""
        if not path:
            raise errors.InvalidArgumentError("the path of the file is empty: use a null instead")
        if _NEVER.match(_decoded(path)):
            raise self._refused(path, "is a web address or a chained URL")
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
            raise self._refused(url, "is a web address or a chained URL")
        urls.check_no_secret_in_url(url)
        return _without_dots(url)

    def _check_links(self, url: str, path: str, real: str) -> None:
        if _KERNEL.match(real):
            raise self._refused(url, f"is an interface to the kernel, {real}")
        if real == path:
            return
        local = (allowed.path for allowed in self.locations if allowed.is_in_file_tree)
        if not any(_is_below(real, os.path.realpath(directory)) for directory in local):
            raise self._refused(url, f"is a link to {real}, which is not in an allowed directory")

    def _read_local(self, location: Location, name: str) -> bytes:
        url = location.file_url(name)
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        path = f"{location.path}/{name}"
        with open(os.open(path, flags), "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise self._refused(url, "is a directory, a device or a pipe")
            with suppress(FileNotFoundError):  # not Linux
                # A link may have been changed since `find` checked it.
                self._check_links(url, path, os.readlink(f"/proc/self/fd/{file.fileno()}"))
            self._check_size(url, before.st_size)
            content = file.read(before.st_size + 1)
            after = os.fstat(file.fileno())
        if (len(content), after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise errors.StorageError(
                f"{url} was changed while it was read. Finish writing the files before they are "
                "read",
                url=url,
            )
        return content

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

    def _translated(self, location: Location, url: str, request: Callable[[], T]) -> T:
        """Return the result of a request; raise this package's errors for any failure."""
        try:
            return request()
        except errors.CredentialsError as error:
            if error.is_expired:
                raise
            raise errors.CredentialsError(
                f"{error}. Stores answer in the same way if a file does not exist and the "
                "credentials do not allow listing its directory",
                url=url,
            ) from error
        except errors.MDStormError:
            raise
        except (FileNotFoundError, NotADirectoryError) as error:
            if location.is_in_file_tree and not os.path.isdir(location.path):
                raise errors.StorageError(
                    f"{url} cannot be read: the directory {location.path} does not exist. Mount "
                    "or restore it",
                    url=url,
                ) from error
            raise errors.MissingFileError(
                f"{url} does not exist. Restore the file, or correct its path", url=url
            ) from error
        except IsADirectoryError as error:
            raise self._refused(url, "is a directory") from error
        except PermissionError as error:
            raise errors.CredentialsError(
                f"{url} cannot be read ({error.strerror}): let this user read it", url=url
            ) from error
        except OSError as error:
            raise errors.StorageError(f"{url} cannot be read ({error})", url=url) from error

    def _refused(self, path: str, reason: str) -> errors.InvalidArgumentError:
        allowed = ", ".join(self._allowed) or "none"
        return errors.InvalidArgumentError(
            f"{urls.redact(path)} {reason}, so it is not read. Allowed directories: {allowed}. "
            "Correct the path, or pass a directory that you trust in files_below"
        )


def identity_of(info: Mapping[str, Any]) -> str:
    """Return the size and the entity tag or modification time in fsspec's description of a file.

    The result is "" if neither of the latter is known.
    """
    tag = info.get("ETag") or info.get("etag")
    version = tag or modification_of(info) or info.get("created")  # in memory
    return f"{info['size']} {version}" if version else ""


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
