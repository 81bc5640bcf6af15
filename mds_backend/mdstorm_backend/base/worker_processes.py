"""Worker processes that end with their parent."""

from __future__ import annotations

import os
import threading
from multiprocessing import connection, parent_process

#: Id of the process in which `end_with_parent` was called; a forked process has a different id.
_guarded: list[int] = []


def end_with_parent() -> None:
    """End this process as soon as its parent process has ended for any reason.

    PyTorch's own workers check for their parent every few seconds, when they are idle. Workers that
    had not started when the parent ended mistake its successor for the parent.

    Only `multiprocessing` processes have such a parent; in others, nothing happens.
    """
    parent = parent_process()
    if parent is None or os.getpid() in _guarded:
        return
    _guarded[:] = [os.getpid()]
    threading.Thread(
        target=_watch, args=(parent.sentinel,), name="mdstorm-guard", daemon=True
    ).start()


def _watch(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
