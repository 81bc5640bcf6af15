"""Delete converted copies on request, when the process ends, or after a job was killed."""

from __future__ import annotations

import atexit
import logging
import os
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone

from mdstorm._petastorm_names import public
from mdstorm_backend.cache import CachedDataset, clear_cached
from mdstorm_backend.storage import Location, use_no_executors
from mdstorm_backend.write import list_unfinished, remove_dataset

#: The names that `make_spark_converter` gives copies.
_COPIES = re.compile(r"\d{14}-appid-.+")
_DAY = timedelta(days=1)
#: Copies to remove at exit, with the ID of the process that wrote each.
_doomed: dict[str, int] = {}
_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


def _remove_ours(dir_url: str) -> None:
    rest = remove_dataset(Location.of(dir_url))
    if rest:
        _logger.warning(
            "%s still contains %d files that mdstorm did not write, such as %s",
            dir_url,
            len(rest),
            rest[0],
        )


_handler: Callable[[str], object] = _remove_ours


@public("mdstorm.spark.spark_dataset_converter")
def register_delete_dir_handler(handler: Callable[[str], object] | None) -> None:
    """Replace this process's function for removing converted copies.

    Parameters
    ----------
    handler : callable or None
        Called with the directory URL. None restores the default, which removes the files that
        mdstorm wrote, and then the directory if it is empty.
    """
    global _handler
    _handler = _remove_ours if handler is None else handler


def delete_dir(dir_url: str) -> None:
    """Remove a converted copy with the registered handler, and its shards from the local cache."""
    _handler(dir_url)
    clear_cached(url=dir_url)


def delete_at_exit(dir_url: str) -> None:
    """Remove a converted copy when this process (not a fork of it) exits normally."""
    _doomed[dir_url] = os.getpid()
    # Exit handlers run in reverse order, so this one runs before storage clients are closed.
    atexit.unregister(_delete_doomed)
    atexit.register(_delete_doomed)


def keep_after_exit(dir_url: str) -> None:
    """Undo `delete_at_exit`."""
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


def is_copy(dir_url: str) -> bool:
    """Whether a directory has the name of a converter's copy."""
    return _COPIES.fullmatch(dir_url.rpartition("/")[2]) is not None


def copy_names(names: Iterable[str]) -> list[str]:
    """Return the items of `names` that are names of converter copies."""
    return [name for name in names if _COPIES.fullmatch(name)]


def unfinished_copies(parent: str) -> list[CachedDataset]:
    """List unfinished copies that killed jobs left in a local parent cache directory."""
    return list(list_unfinished(parent, _COPIES))


def delete_abandoned(parent_url: str) -> None:
    """Remove unfinished copies that were left by jobs killed more than a day ago."""
    try:
        for copy in unfinished_copies(parent_url):
            if copy.last_use is not None and datetime.now(timezone.utc) - copy.last_use > _DAY:
                _remove_ours(copy.directory)
    except OSError as error:  # the conversion can continue
        _logger.warning("could not remove unfinished copies under %s: %r", parent_url, error)
