"""Files by which processes on any machine can tell that another process is still alive.

Locks would not require clocks and waiting, but object stores and many mounts do not support them.
Instead, a process renews the modification times of its files every minute. If a file has not been
renewed for five minutes, its process is assumed to have ended.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from typing import Any

from mdstorm_backend.storage import Location, seconds_of

#: Seconds without renewal after which a file's process is assumed to have ended.
PATIENCE = 300.0
_RENEWAL_SECONDS = 60.0

#: Directory and name of each file to renew.
_renewed: dict[object, tuple[str, str]] = {}
_thread: threading.Thread | None = None
_logger = logging.getLogger(__name__)


class Renewed:
    """A file that this process renews while the object exists.

    A process that unpickles the object renews the file as well.

    Parameters
    ----------
    directory_url : str
        URL of the directory.
    name : str
        Name of the file in it.
    """

    def __init__(self, directory_url: str, name: str) -> None:
        self._file = directory_url, name
        key = object()
        _renewed[key] = self._file
        self._finalizer = weakref.finalize(self, _renewed.pop, key, None)
        self._finalizer.atexit = False
        _start()

    def __reduce__(self) -> tuple[Any, ...]:
        return Renewed, self._file

    def renew(self) -> None:
        """Renew the file now. Errors are only logged, because users may have read-only access."""
        _renew(*self._file)

    def stop(self) -> None:
        """Stop renewing the file."""
        self._finalizer()


def renew_all() -> None:
    """Renew all of this process's files."""
    for directory_url, name in set(_renewed.values()):
        _renew(directory_url, name)


def is_alive(location: Location, name: str) -> bool:
    """Whether a file exists and was renewed recently."""
    try:
        info = location.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return is_recent(seconds_of(info))


def is_recent(seconds: float) -> bool:
    """Whether a file that was renewed at the given Unix time may still belong to a live process."""
    return time.time() - seconds < PATIENCE


def _renew(directory_url: str, name: str) -> None:
    location = Location.of(directory_url)
    try:
        if location.is_local_disk:
            os.utime(f"{location.path}/{name}")
        else:
            location.write(name, [location.read(name)])
    except Exception as error:
        _logger.debug("could not renew %s: %r", location.file_url(name), error)


def _start() -> None:
    """Start the renewal thread, even after a fork, which inherits the files but not the thread."""
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_run, name="mdstorm-renewal", daemon=True)
        _thread.start()


def _run() -> None:
    while True:
        time.sleep(_RENEWAL_SECONDS)
        renew_all()
