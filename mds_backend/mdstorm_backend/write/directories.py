"""Create, claim and remove the directories and files of a dataset in any storage.

The ranks of a training job that all write the same dataset come at the same moment, when looking
whether a file exists does not tell them apart. A lock does, and it ends with the process that holds
it, however that ends.
"""

from __future__ import annotations

import logging
import os
import random
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from mdstorm_backend.base.locks import NO_LOCKS, FileLock, try_lock
from mdstorm_backend.errors import DatasetExistsError, MDStormError, StorageError, WriteError
from mdstorm_backend.storage import Location

#: How often writing a file is tried again.
DEFAULT_RETRY = 2

_FIRST_PAUSE_SECONDS = 0.5

_Result = TypeVar("_Result")

_logger = logging.getLogger(__name__)


def make_directory(location: Location) -> bool:
    """Create a directory of this machine if there is none, and say whether there was none.

    Object stores have no directories.

    Raises
    ------
    WriteError
        If it cannot be made.
    """
    if not location.url.startswith("file:///") or os.path.isdir(location.path):
        return False
    try:
        location.make_directory()
    except OSError as error:
        raise unwritable(location, error) from error
    return True


def unwritable(location: Location, error: OSError) -> WriteError:
    """Return the error that a directory cannot be written to."""
    return WriteError(
        f"{location.url} cannot be written to ({error}). Choose a directory that this process, and "
        "every Spark executor that takes part, may write to"
    )


def retried(location: Location, call: Callable[[], _Result], retry: int = DEFAULT_RETRY) -> _Result:
    """Call `call`, and again where the storage of `location` failed and may get better.

    On a local disk nothing gets better.
    """
    for attempt in range(0 if location.is_local_disk else retry):
        try:
            return call()
        except Exception as error:
            if not _may_get_better(error):
                raise
            _logger.warning("writing to %s failed, trying again: %r", location.url, error)
            time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * (1 + random.random()))
    return call()


@contextmanager
def file_errors(location: Location, name: str) -> Iterator[None]:
    """Raise WriteError in a block that writes the file `name` where its storage fails."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MDStormError) and not isinstance(error, StorageError):
            raise
        raise WriteError(
            f"{location.file_url(name)} could not be written ({error!r}). No index is written, so "
            "nothing there counts as a dataset; check the storage, and write again"
        ) from error


def _may_get_better(error: Exception) -> bool:
    if isinstance(error, MDStormError):
        return isinstance(error, StorageError)
    return not isinstance(error, (FileNotFoundError, PermissionError))


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
