"""Delete converted copies: on request, at exit, and where their job was killed."""

from __future__ import annotations

import atexit
import logging
import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from mdstorm._public import public
from mdstorm_backend.cache import CachedDataset, clear_cached
from mdstorm_backend.storage import Location, use_no_executors
from mdstorm_backend.write import list_unfinished, remove_dataset

#: What `directory_name` calls copies.
_COPIES = re.compile(r"\d{14}-appid-.+")
_DAY = timedelta(days=1)

#: Copies to remove at the end, each with the process that wrote it.
_doomed: dict[str, int] = {}

_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


def _remove_ours(dir_url: str) -> None:
    rest = remove_dataset(Location.of(dir_url))
    if rest:
        _logger.warning(
            "%s keeps %d files that mdstorm did not write, %s among them",
            dir_url,
            len(rest),
            rest[0],
        )


_handler: Callable[[str], object] = _remove_ours


@public("mdstorm.spark.spark_dataset_converter")
def register_delete_dir_handler(handler: Callable[[str], object] | None) -> None:
    """Replace the function that removes a converted copy, for the whole process.

    Parameters
    ----------
    handler : callable or None
        Called with the URL of the directory. None restores the default, which removes the files
        that mdstorm wrote, and then the directory if it is empty.
    """
    global _handler
    _handler = _remove_ours if handler is None else handler


def delete_dir(dir_url: str) -> None:
    """Remove a converted copy with the handler that is registered now.

    What this machine has cached of it is removed too.
    """
    _handler(dir_url)
    clear_cached(url=dir_url)


def delete_at_exit(dir_url: str) -> None:
    """Remove a converted copy when this process, and not a fork of it, ends normally."""
    _doomed[dir_url] = os.getpid()
    # The last handler is called first: before the clients that have written the copy are closed.
    atexit.unregister(_delete_doomed)
    atexit.register(_delete_doomed)


def keep_after_exit(dir_url: str) -> None:
    """Take back `delete_at_exit`."""
    _doomed.pop(dir_url, None)


def _delete_doomed() -> None:
    for dir_url, writer in _doomed.items():
        if writer != os.getpid():
            continue
        try:
            if not Location.of(dir_url).is_in_file_tree:
                use_no_executors()
            delete_dir(dir_url)
        except Exception as error:
            _logger.warning("Delete cache data %s failed due to %r", dir_url, error)


def unfinished_copies(parent: str) -> list[CachedDataset]:
    """List what killed jobs have left of copies in a parent cache directory of this machine."""
    return list(list_unfinished(parent, _COPIES))


def delete_abandoned(parent_url: str) -> None:
    """Remove what jobs that were killed a day ago, or earlier, have left of copies."""
    try:
        for copy in unfinished_copies(parent_url):
            if copy.last_use is not None and datetime.now(timezone.utc) - copy.last_use > _DAY:
                _remove_ours(copy.directory)
    except OSError as error:  # a conversion does not need it
        _logger.warning("could not remove unfinished copies below %s: %r", parent_url, error)
