"""A directory that one writer has for itself, so that two cannot mix their shards.

The ranks of a training job that all write the same dataset come at the same moment, when looking
whether a file exists does not tell them apart. Creating one does, on a local disk.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress

from mdstorm_backend.errors import DatasetExistsError, WriteError
from mdstorm_backend.storage import Location

__all__ = ["CLAIM_NAME", "Claim", "taken_error"]

#: Is there while a writer is at work, or after it was killed.
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
        path = os.path.join(location.path, CLAIM_NAME)
        try:
            with open(path, "x") as file:
                file.write(f"process {os.getpid()}\n")
        except FileExistsError as error:
            raise taken_error(location) from error
        except OSError as error:
            raise WriteError(
                f"{location.url} cannot be written to ({error}). Choose a directory that this "
                "process may write to"
            ) from error
        self._finalizer = weakref.finalize(self, _remove, path, os.getpid())

    def release(self) -> None:
        """Give the directory back; a second call does nothing."""
        if hasattr(self, "_finalizer"):
            self._finalizer()


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        with suppress(OSError):
            os.remove(path)


def taken_error(location: Location) -> DatasetExistsError:
    """Return the error that another writer has a directory."""
    return DatasetExistsError(
        f"another writer has the same directory, {location.url}: it holds {CLAIM_NAME}. Write to a "
        "directory of your own, from one process only; if that writer was killed, remove what it "
        "left there"
    )
