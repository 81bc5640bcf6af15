"""Local files: memory maps, reading files while they are downloaded, up-to-date listings."""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from mdstorm_backend import errors
from mdstorm_backend.base.plain_files import Buffer

#: Errors of file systems that do not support memory maps, such as object store mounts.
_NO_MAPS = {errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP}


def map_file(fd: int, kind: type[mmap.mmap] = mmap.mmap) -> Buffer:
    """Return the content of an open file, read-only.

    The content is a memory map of the given class, which stays valid after the file is closed or
    removed, or a copy if the file system has no maps or the file is empty.
    """
    if os.fstat(fd).st_size == 0:
        return b""
    try:
        return memoryview(kind(fd, 0, access=mmap.ACCESS_READ))
    except OSError as error:
        if error.errno not in _NO_MAPS:
            raise
    with open(fd, "rb", closefd=False) as file:
        return file.read()


class Version(NamedTuple):
    """A store's description of an object that it sends; None for what it does not state.

    Attributes
    ----------
    tag : str or None
        The entity tag, which identifies the content.
    written, sent : datetime.datetime or None
        When the object was written, and when it was sent, by the store's clock.
    """

    tag: str | None
    written: datetime | None
    sent: datetime | None


def tag_of(described: Mapping[str, Any]) -> str:
    """Return the entity tag in fsspec's description of a file, or in the headers of HTTP.

    A store without entity tags is expected to state times.
    """
    return str(described.get("ETag") or described.get("Last-Modified") or "")


def parsed_time(when: datetime | str | None) -> datetime | None:
    """Parse a time as stores write it, in ISO format or as in the headers of HTTP.

    Returns None for any other text.
    """
    if not isinstance(when, str):
        return when
    from email.utils import parsedate_to_datetime  # imported here: it loads the mail modules

    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError):
            return parse(when)
    return None


class Arrival:
    """A file that is read while it is being downloaded. Thread-safe.

    One thread makes the file; others wait for its bytes.

    Attributes
    ----------
    path : str
        Path of the file; "" before `begin`.
    content : bytes-like
        Content of the file; only bytes that `wait_for` waited for may be read.
    missing : dict of int to int
        The ranges of missing bytes: start to stop.
    version : object
        The version of the source that the received bytes are from; None before the first ones.
    source : Version or None
        The entity tag and the time of the source, once the store has answered.
    request : callable or None
        Copies ranges ahead of the missing bytes before them; the future has the result True once
        they are in the file, False if they will arrive with all others. None if that is impossible.
    """

    def __init__(self) -> None:
        self.path = ""
        self.content: Buffer = b""
        self.missing: dict[int, int] = {}
        self.version: Any = None
        self.source: Version | None = None
        self.request: Callable[[Sequence[tuple[int, int]]], Future[bool]] | None = None
        self._there = 0
        self._end: Future[None] = Future()
        self._changed = threading.Condition()

    def begin(self, path: str, size: int) -> str:
        """Create the file with `size` zero bytes and return its path."""
        with open(path, "w+b") as file:
            file.truncate(size)
            self.content = map_file(file.fileno())
        self.path = path
        return path

    def receive(self, start: int, count: int) -> None:
        """Record that `count` missing bytes, starting at `start`, are now in the file."""
        stop = self.missing.pop(start)
        if start + count < stop:
            self.missing[start + count] = stop
        # Only a memory map, not a copy, shows the bytes that are written to the file later.
        if self.missing and isinstance(self.content, memoryview):
            with self._changed:
                self._there = min(self.missing)
                self._changed.notify_all()

    def make(self, make: Callable[[], Buffer]) -> None:
        """Call `make`, which returns the content once the file is in place; record any error."""
        try:
            self.content = make()
        except BaseException as error:
            self._end.set_exception(error)
        else:
            self._end.set_result(None)
        with self._changed:
            self._changed.notify_all()

    @property
    def is_over(self) -> bool:
        """Whether the file is complete and in place, or has failed."""
        return self._end.done()

    def wait_for(self, stop: int) -> None:
        """Wait until the bytes before `stop` have arrived.

        For the last byte, or if `content` is not a memory map, wait until the file is in place.

        Raises
        ------
        Exception
            The error of the thread that makes the file.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._there >= stop or self.is_over)
        if self.is_over:
            self._end.result()


#: Directory at the root of a disk that only the root user can list.
_OF_THE_DISK = "lost+found"


def describe_files(fs: Any, path: str) -> Iterator[dict[str, Any]]:
    """Yield fsspec's description of every file under a directory.

    `fsspec.AbstractFileSystem.find` also does this, but it omits directories that cannot be listed,
    and in older versions, such as 2023.5, it omits all files in a directory if one of them has just
    been removed.

    Parameters
    ----------
    fs : fsspec.implementations.local.LocalFileSystem
        Describes each file.
    path : str
        The directory.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If there is no such directory.
    CredentialsError
        If the directory or a subdirectory cannot be listed.
    """
    try:
        entries = os.scandir(path)
    except PermissionError as error:
        if os.path.basename(path) == _OF_THE_DISK:
            return
        raise errors.CredentialsError(
            f"the directory {path} cannot be listed ({error.strerror}), so its files would be "
            "missing: let this user read it, or move it elsewhere",
            url=path,
        ) from error
    with entries:
        for entry in entries:
            with suppress(FileNotFoundError, NotADirectoryError):  # removed in the meantime
                described = fs.info(entry)
                if described["type"] == "directory":
                    yield from describe_files(fs, entry.path)
                else:
                    yield described


#: Files that Spark and mdstorm write last. If such a file exists but is not in the directory's
#: listing, the listing is stale.
_LAST_WRITTEN = ("_SUCCESS", "index.json")
_LONGEST_SECONDS = 10.0
_PAUSE_SECONDS = 0.1


def wait_until_current(path: str, *, is_mount: bool) -> None:
    """Wait while a directory's listing is known to be stale, for at most ten seconds.

    Parameters
    ----------
    path : str
        A directory in this machine's file tree; nothing is known about any other path.
    is_mount : bool
        Whether the directory is on a mount, where each listed file is also checked for existence.
    """
    deadline = time.monotonic() + _LONGEST_SECONDS
    while _is_stale(path, is_mount=is_mount) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


def _is_stale(path: str, *, is_mount: bool) -> bool:
    try:
        names = frozenset(os.listdir(path))
    except OSError:  # not a directory, or not readable
        return False
    if any(name not in names and os.path.exists(f"{path}/{name}") for name in _LAST_WRITTEN):
        return True
    return is_mount and not all(os.path.lexists(f"{path}/{name}") for name in names)
