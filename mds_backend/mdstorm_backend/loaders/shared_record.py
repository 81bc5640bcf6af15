"""`SharedRecord`: a value that a process shares with the worker processes it starts.

The value is stored in an unnamed file. Processes inherit the open file, so names cannot collide,
and the file disappears with the last process that has it open, however that process ends. Other
processes that inherit the record, such as the ranks that a program starts, `part` from it before
they use it.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from multiprocessing import context, reduction
from typing import Any, Generic, TypeVar

_Content = TypeVar("_Content")
_Result = TypeVar("_Result")


class SharedRecord(Generic[_Content]):
    """A value that this process shares with the workers that inherit it.

    Forked and spawned processes share the record until they `part`. Any other copy, made with
    `copy` or `pickle`, is a separate record with the current content.

    Parameters
    ----------
    content
        The initial content, which is never changed in place and can be pickled.
    """

    def __init__(self, content: _Content) -> None:
        self._set_up(None, os.getpid(), content)

    def _set_up(self, handle: int | None, owner: int, content: _Content) -> None:
        self._handle = handle
        self._owner = owner
        #: The content while there is no file; later, the content that `part` continues with.
        self._content = content
        self.unlock()
        self._close_with_record(handle)
        _records[id(self)] = self

    def unlock(self) -> None:
        """Replace the thread lock: after a fork, a thread that does not exist here may hold it."""
        # The lock is reentrant: while the record is being changed, a signal handler, or the garbage
        # collector when it ends an iteration, may also change it in the same thread.
        self._threads = threading.RLock()

    def _close_with_record(self, handle: int | None) -> None:
        self._close = weakref.finalize(self, _close, handle)
        # When the interpreter exits, daemon threads may still use the file; the system closes it.
        self._close.atexit = False

    def _share(self) -> int:
        """Return the file descriptor, creating the file if it does not exist yet."""
        with self._threads:
            if self._handle is None:
                handle, name = tempfile.mkstemp(prefix="mdstorm-")
                os.unlink(name)
                self._close_with_record(handle)
                written = None
                # The content is written before the handle is set, so that after Ctrl-C a record has
                # either no file or a file with content. The content is written again if a nested
                # call has changed it in the meantime.
                while written is not self._content:
                    written = self._content
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, pickle.dumps(written), 0)
                self._handle = handle
            return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is not None:
            self.part()
            return _inherited, (reduction.DupFd(self._share()), self._owner, self.read())
        return SharedRecord, (self.read(),)

    def part(self) -> None:
        """Continue with a separate record that has the content this process inherited.

        Does nothing in the process that created the record or in a ``DataLoader`` worker.
        """
        data = sys.modules.get("torch.utils.data")
        is_worker = data is not None and data.get_worker_info() is not None
        if self._owner == os.getpid() or is_worker:
            return
        self._close()
        self._set_up(None, os.getpid(), self._content)

    def pass_on(self) -> None:
        """Save the content for a process that is about to inherit the record."""
        with self._threads:
            self.part()
            self._share()
            self._content = self.read()

    def read(self) -> _Content:
        """Return the content."""
        return self.change(lambda content: (content, content))

    def update(self, transition: Callable[[_Content], _Content]) -> None:
        """Replace the content by the result of `transition`: see `change`."""
        self.change(lambda content: (transition(content), None))

    def change(self, edit: Callable[[_Content], tuple[_Content, _Result]]) -> _Result:
        """Call `edit` with the record locked, store the content it returns, and return its result.

        This is not a context manager, because Ctrl-C in its methods could leave the record locked.
        Python raises KeyboardInterrupt only after calls, which are inside ``with`` and ``try``
        here.

        Parameters
        ----------
        edit : callable
            Called with the content; returns other content, or the same object, and a result. It is
            called again if a nested call has changed the record in the meantime.
        """
        with self._threads:
            while self._handle is None:
                before = self._content
                content, result = edit(before)
                if self._content is before and self._handle is None:
                    self._content = content
                    return result
            handle = self._handle
            try:
                while True:
                    stored = _locked_content(handle)
                    before = pickle.loads(stored)  # noqa: S301  # this program's own file
                    content, result = edit(before)
                    # Lock again, because a nested call unlocks the file at its end.
                    if _locked_content(handle) == stored:
                        if content is not before:
                            # One call, so Ctrl-C cannot split it. A longer previous content keeps
                            # its end, which unpickling ignores.
                            os.pwrite(handle, pickle.dumps(content), 0)
                        return result
            finally:
                fcntl.lockf(handle, fcntl.LOCK_UN)


def _locked_content(handle: int) -> bytes:
    """Lock a file and return its content. The operating system unlocks it when a process ends."""
    fcntl.lockf(handle, fcntl.LOCK_EX)
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _close(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _inherited(handle: Any, owner: int, content: _Content) -> SharedRecord[_Content]:
    record: SharedRecord[_Content] = SharedRecord.__new__(SharedRecord)
    record._set_up(handle.detach(), owner, content)
    return record


def _all_records() -> list[SharedRecord[Any]]:
    # This is a single call, during which other threads cannot add records.
    references = _records.valuerefs()
    return [record for reference in references if (record := reference()) is not None]


def _pass_all_on() -> None:
    for record in _all_records():
        record.pass_on()


def _unlock_all() -> None:
    for record in _all_records():
        record.unlock()


#: This process's records by id, because a set cannot be listed while a thread adds to it.
_records: weakref.WeakValueDictionary[int, SharedRecord[Any]] = weakref.WeakValueDictionary()

os.register_at_fork(before=_pass_all_on, after_in_child=_unlock_all)
