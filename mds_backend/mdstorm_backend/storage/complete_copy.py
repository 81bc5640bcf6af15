"""Copy a file of a storage to this machine: complete, or not at all."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress

from mdstorm_backend.storage.location import Location


def copy_complete(location: Location, name: str, path: str) -> None:
    """Copy a file to the local `path`, whose directory is made if there is none.

    A file that is there is replaced. After an error nothing is left beside it.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    CredentialsError, StorageError
        If the storage denies access, or fails.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        location.download(name, temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
