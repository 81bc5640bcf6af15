"""Claim a directory for one writer, so that two cannot mix their shards.

The ranks of a training job that all write the same dataset come at the same moment, when looking
whether a file exists does not tell them apart. A lock does, and it ends with the process that holds
it, however that ends.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress

from mdstorm_backend.base.locks import NO_LOCKS, FileLock, try_lock
from mdstorm_backend.errors import DatasetExistsError
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import unwritable

#: Is there while a writer is at work, which then holds a lock on it, and after one was killed.
CLAIM_NAME = "_mdstorm_writing"


class Claim:
    """Holds a directory on a local disk until it is released, or garbage.

    Parameters
    ----------
    location : Location
        The directory, which exists. Elsewhere than on a local disk nothing happens.

    Raises
    ------
    DatasetExistsError
        If another writer has it.
    WriteError
        If it cannot be written to.
    """

    def __init__(self, location: Location) -> None:
        if not location.is_local_disk:
            return
        lock = _lock(location)
        if lock is not None:
            lock.write(f"process {os.getpid()}".encode())
            self._finalizer = weakref.finalize(self, _give_back, lock, os.getpid())

    def release(self) -> None:
        """Give the directory back; a second call does nothing."""
        if hasattr(self, "_finalizer"):
            self._finalizer()


def _give_back(lock: FileLock, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        with suppress(OSError):
            lock.remove_file()
        lock.release()


def check_free(location: Location) -> None:
    """Raise DatasetExistsError if the writer that has a directory of a local disk is at work.

    One that was killed leaves `CLAIM_NAME` there as well, but no lock on it.
    """
    lock = _lock(location)
    if lock is not None:
        lock.release()


def _lock(location: Location) -> FileLock | None:
    """Lock the directory; None where there are no locks."""
    path = os.path.join(location.path, CLAIM_NAME)
    try:
        lock = try_lock(path)
    except OSError as error:
        if error.errno in NO_LOCKS:  # there a directory is as one of an object store
            os.unlink(path)
            return None
        raise unwritable(location, error) from error
    if lock is None:
        raise _taken_error(location)
    return lock


def _taken_error(location: Location) -> DatasetExistsError:
    holder = ""
    with suppress(OSError):
        holder = f" by {bytes(location.read(CLAIM_NAME)).decode().strip()}"
    return DatasetExistsError(
        f"another writer has the same directory, {location.url}: {CLAIM_NAME} in it is locked"
        f"{holder}. Write to a directory of your own, from one process only, or finish that writer "
        "before"
    )
