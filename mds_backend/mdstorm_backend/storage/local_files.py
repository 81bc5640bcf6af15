"""Files of this machine: mapped into memory, read while they arrive, listed as they are."""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

#: What file systems say that have no memory maps, as mounts of object stores.
_NO_MAPS = {errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP}


def map_file(fd: int) -> Buffer:
    """Return the content of an open file, read-only.

    A memory map, which stays valid after the file is closed or removed; a copy where the file
    system has no maps, and for an empty file.
    """
    if os.fstat(fd).st_size == 0:
        return b""
    try:
        return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
    except OSError as error:
        if error.errno not in _NO_MAPS:
            raise
    with open(fd, "rb", closefd=False) as file:
        return file.read()


class Arrival:
    """How much of a file is there. Safe to share between threads.

    One thread makes the file, others wait for its bytes.

    Attributes
    ----------
    path : str
        Where it is made; "" before that.
    content : bytes-like
        The file, of which only what was waited for may be read.
    missing : dict of int to int
        From where to where bytes are missing.
    version : object
        Of which version of its source the others are; None while there are none.
    """

    def __init__(self) -> None:
        self.path = ""
        self.content: Buffer = b""
        self.missing: dict[int, int] = {}
        self.version: Any = None
        self._there = 0
        self._end: Future[None] = Future()
        self._changed = threading.Condition()

    def begin(self, path: str, size: int) -> str:
        """Make the file, with nothing in it, and return its path."""
        with open(path, "w+b") as file:
            file.truncate(size)
            self.content = map_file(file.fileno())
        self.path = path
        return path

    def receive(self, start: int, count: int) -> None:
        """Note that so many missing bytes from `start` on are in the file."""
        stop = self.missing.pop(start)
        if start + count < stop:
            self.missing[start + count] = stop
        # What is no map does not show what the file receives.
        if self.missing and isinstance(self.content, memoryview):
            with self._changed:
                self._there = min(self.missing)
                self._changed.notify_all()

    def make(self, make: Callable[[], Buffer]) -> None:
        """Call `make`, which returns the whole file when that is in its place."""
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
        """Whether the file is in its place, or will never be."""
        return self._end.done()

    def wait_for(self, stop: int) -> None:
        """Wait until the bytes before `stop` are there; for the last one, until the file is whole.

        Raises
        ------
        Exception
            The error of the thread that makes the file.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._there >= stop or self.is_over)
        if self.is_over:
            self._end.result()


#: Files that are written last, by Spark and by us: listed without it, a directory that has one is
#: listed as it was before.
_LAST_WRITTEN = ("_SUCCESS", "index.json")
_LONGEST_SECONDS = 10.0
_PAUSE_SECONDS = 0.1


def wait_until_current(path: str, *, is_mount: bool) -> None:
    """Return when the listing of a directory is not known to be stale, or after ten seconds.

    Parameters
    ----------
    path : str
        A directory of this machine's file tree, or anything else, of which nothing is known.
    is_mount : bool
        Whether it is on a mount where also each listed file is to be looked up.
    """
    deadline = time.monotonic() + _LONGEST_SECONDS
    while _is_stale(path, is_mount=is_mount) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


def _is_stale(path: str, *, is_mount: bool) -> bool:
    try:
        names = frozenset(os.listdir(path))
    except OSError:  # no directory, or one that cannot be listed
        return False
    if any(name not in names and os.path.exists(f"{path}/{name}") for name in _LAST_WRITTEN):
        return True
    return is_mount and not all(os.path.lexists(f"{path}/{name}") for name in names)
