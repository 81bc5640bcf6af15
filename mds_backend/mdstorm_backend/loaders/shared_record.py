"""A small record shared between a process and the workers it starts.

It is kept in memory until another process is started. From then on it is a file without a name: it
is inherited, so nothing can collide, and it is gone with the last process that has it, however that
ends. Other processes that inherit it, such as the ranks that a program starts, are to `part` from
it before they use it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import context, reduction
from typing import Any

#: Seconds after which a thread goes on though another one of a forked process held the lock.
_PATIENCE = 1.0


class SharedRecord:
    """A dict of plain values, one for this process and the workers that inherit it.

    Forked and spawned processes have it, and share it until they `part`. Any other copy, by `copy`
    or `pickle`, is a record of its own, with the content of the moment.

    Parameters
    ----------
    content : dict
        What it holds at first; plain values.
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self._make(content)

    def _make(self, content: dict[str, Any]) -> None:
        self._open(None, os.getpid(), content)

    def _open(self, handle: int | None, owner: int, content: dict[str, Any]) -> None:
        self._handle = handle
        self._owner = owner
        #: The content in memory; and later that with which a process parts that has inherited it.
        self._content = content
        self._threads = threading.Lock()
        self._close = weakref.finalize(self, _close, handle)
        _records.add(self)

    def _share(self) -> int:
        """Return the handle of the file, made if there is none yet."""
        if self._handle is None:
            handle, name = tempfile.mkstemp(prefix="mdstorm-")
            os.unlink(name)
            self._handle = handle
            self._close = weakref.finalize(self, _close, handle)
            self._write(handle, json.dumps(self._content).encode())
        return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is not None:
            self.part()
            return _inherited, (reduction.DupFd(self._share()), self._owner, self.read())
        return SharedRecord, (self.read(),)

    def part(self) -> None:
        """Go on with a record of this process's own, as it was when this one inherited it.

        That does nothing in the process that made it, and in workers of a ``DataLoader``.
        """
        if self._owner == os.getpid() or _is_worker():
            return
        self._close()
        self._make(self._content)

    def pass_on(self) -> None:
        """Note the content for a process that is going to inherit it."""
        self.part()
        self._share()
        self._content = self.read()

    def read(self) -> dict[str, Any]:
        """Return the content."""
        with self.changing() as content:
            return content

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Hold the record, and store what the dict then is that this yields."""
        locked = self._threads.acquire(timeout=_PATIENCE)
        handle = self._handle
        try:
            if handle is None:
                content = json.loads(json.dumps(self._content))
                yield content
                self._content = content
                return
            # The system gives it back when a process ends.
            fcntl.lockf(handle, fcntl.LOCK_EX)
            before = os.pread(handle, os.fstat(handle).st_size, 0)
            content = json.loads(before)
            yield content
            after = json.dumps(content).encode()
            if after != before:
                self._write(handle, after)
        finally:
            if handle is not None:
                fcntl.lockf(handle, fcntl.LOCK_UN)
            if locked:
                self._threads.release()

    @staticmethod
    def _write(handle: int, data: bytes) -> None:
        os.pwrite(handle, data, 0)
        os.ftruncate(handle, len(data))


def _close(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _inherited(handle: Any, owner: int, content: dict[str, Any]) -> SharedRecord:
    record = SharedRecord.__new__(SharedRecord)
    record._open(handle.detach(), owner, content)
    return record


def _is_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _pass_all_on() -> None:
    for record in list(_records):
        record.pass_on()


#: Those of this process.
_records: weakref.WeakSet[SharedRecord] = weakref.WeakSet()

os.register_at_fork(before=_pass_all_on)
