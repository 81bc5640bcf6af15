"""End worker processes with their parent, even in the middle of work.

PyTorch's own workers look for their parent every few seconds, when they have nothing else to do;
and those that had not begun when it ended take its successor for it.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import wait

#: Process that is guarded; a fork of it is another one.
_guarded: list[int] = []


def end_with_parent() -> None:
    """Let this process end as soon as the one that started it is gone, however that ends.

    Only processes of `multiprocessing` have such a parent; in others nothing happens.
    """
    parent = multiprocessing.parent_process()
    if parent is None or os.getpid() in _guarded:
        return
    _guarded[:] = [os.getpid()]
    threading.Thread(
        target=_watch, args=(parent.sentinel,), name="mdstorm-guard", daemon=True
    ).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
