"""Wait until a directory of a mount is listed as it is.

Mounts of remote storage, such as Databricks', remember listings for a moment: a file that was just
written may be missing, and one that was removed be there. Looked up by name, files are as they are.
"""

from __future__ import annotations

import os
import time

#: Files that are written last, by Spark and by us: listed without it, a directory that has one is
#: listed as it was before.
_LAST_WRITTEN = ("_SUCCESS", "index.json")
_LONGEST_SECONDS = 10.0
_PAUSE_SECONDS = 0.1


def wait_until_current(path: str, *, is_mount: bool) -> None:
    """Return when the listing of a directory is not known to be stale, or after ten seconds.

    Parameters
    ----------
    path : str
        A directory of this machine's file tree, or anything else, of which nothing is known.
    is_mount : bool
        Whether it is on a mount where also each listed file is to be looked up.
    """
    deadline = time.monotonic() + _LONGEST_SECONDS
    while _is_stale(path, is_mount=is_mount) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


def _is_stale(path: str, *, is_mount: bool) -> bool:
    try:
        names = frozenset(os.listdir(path))
    except OSError:  # no directory, or one that cannot be listed
        return False
    if any(name not in names and os.path.exists(f"{path}/{name}") for name in _LAST_WRITTEN):
        return True
    return is_mount and not all(os.path.lexists(f"{path}/{name}") for name in names)
