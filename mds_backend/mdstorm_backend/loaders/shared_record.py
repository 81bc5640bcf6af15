"""`SharedRecord`: a few values that a process shares with the worker processes it starts.

The values are in a file without a name. Processes inherit the open file, so names cannot collide,
and the file is gone with the last process that has it open, however that process ends. Other
processes that inherit it, such as the ranks that a program starts, `part` from it before they use
it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from multiprocessing import context, reduction
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class SharedRecord:
    """A dict of plain values that this process shares with the workers that inherit it.

    Forked and spawned processes share the record until they `part`. Any other copy, by `copy` or
    `pickle`, is a separate record with the current content.

    Parameters
    ----------
    content : dict
        The initial content; plain values.
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self._open(None, os.getpid(), content)

    def _open(self, handle: int | None, owner: int, content: dict[str, Any]) -> None:
        self._handle = handle
        self._owner = owner
        #: The content while there is no file; later, the content that the process keeps if it
        #: parts.
        self._content = content
        self.unlock()
        self._close = weakref.finalize(self, _close, handle)
        _records.add(self)

    def unlock(self) -> None:
        """Replace the lock of threads, which none holds in a process that was just forked."""
        # Reentrant: the garbage collector may end an iteration while the record is being changed.
        self._threads = threading.RLock()

    def _share(self) -> int:
        """Return the file descriptor, creating the file if there is none yet."""
        if self._handle is None:
            handle, name = tempfile.mkstemp(prefix="mdstorm-")
            os.unlink(name)
            # First: after Ctrl-C, a record is either without a file or has one with content.
            os.pwrite(handle, json.dumps(self._content).encode(), 0)
            self._close = weakref.finalize(self, _close, handle)
            self._handle = handle
        return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is not None:
            self.part()
            return _inherited, (reduction.DupFd(self._share()), self._owner, self.read())
        return SharedRecord, (self.read(),)

    def part(self) -> None:
        """Continue with a separate record, whose content is that at the time of inheriting.

        Does nothing in the process that created the record, and in workers of a ``DataLoader``.
        """
        data = sys.modules.get("torch.utils.data")
        is_worker = data is not None and data.get_worker_info() is not None
        if self._owner == os.getpid() or is_worker:
            return
        self._close()
        self._open(None, os.getpid(), self._content)

    def pass_on(self) -> None:
        """Save the content for a process that is about to inherit the record."""
        self.part()
        self._share()
        self._content = self.read()

    def read(self) -> dict[str, Any]:
        """Return the content."""
        return self.change(dict)

    def change(self, edit: Callable[[dict[str, Any]], _Result]) -> _Result:
        """Lock the record, store its content with the changes of `edit`, and return the result.

        This is no context manager, because Ctrl-C in its methods could leave the record locked.
        Python raises KeyboardInterrupt only after calls, which are inside ``with`` and ``try``
        here.

        Parameters
        ----------
        edit : callable
            Called with the content. It may replace values, and must not change them in place.
        """
        with self._threads:
            handle = self._handle
            if handle is None:
                content = dict(self._content)
                result = edit(content)
                self._content = content
                return result
            try:
                # The system releases this lock when a process ends.
                fcntl.lockf(handle, fcntl.LOCK_EX)
                before = os.pread(handle, os.fstat(handle).st_size, 0)
                content = json.loads(before)
                result = edit(content)
                after = json.dumps(content).encode()
                if after != before.rstrip():
                    # In one call, which Ctrl-C does not split; spaces replace the end of a longer
                    # content.
                    os.pwrite(handle, after.ljust(len(before)), 0)
                return result
            finally:
                fcntl.lockf(handle, fcntl.LOCK_UN)


def _close(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _inherited(handle: Any, owner: int, content: dict[str, Any]) -> SharedRecord:
    record = SharedRecord.__new__(SharedRecord)
    record._open(handle.detach(), owner, content)
    return record


def _pass_all_on() -> None:
    for record in list(_records):
        record.pass_on()


def _unlock_all() -> None:
    for record in list(_records):
        record.unlock()


#: The records of this process.
_records: weakref.WeakSet[SharedRecord] = weakref.WeakSet()

os.register_at_fork(before=_pass_all_on, after_in_child=_unlock_all)
