"""A file that is being downloaded, of which the beginning can be read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from mdstorm_backend.storage.mapping import Buffer, map_file


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
