"""Create and remove the directories and files of a dataset in any storage."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from mdstorm_backend.errors import MDStormError, StorageError, WriteError
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
