"""Find, and remove, what jobs that were killed have left."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from itertools import compress
from typing import TYPE_CHECKING

from mdstorm_backend.base.shard_threads import map_files
from mdstorm_backend.errors import DatasetExistsError
from mdstorm_backend.format.shard_info import INDEX_NAME, MARKER_NAME
from mdstorm_backend.storage import Location, seconds_of
from mdstorm_backend.write.claim import CLAIM_NAME, check_free
from mdstorm_backend.write.commit import is_ours

if TYPE_CHECKING:
    from mdstorm_backend.cache import CachedDataset

#: Where there are no locks, a job that has written nothing for so many seconds was killed.
_PATIENCE = 86_400


def list_unfinished(parent: str, names: re.Pattern[str]) -> Iterator[CachedDataset]:
    """Find directories in which a job has begun to write a dataset that nobody finishes.

    They have our marker, no index, and no writer.

    Parameters
    ----------
    parent : str
        Path or URL of the directory that they are in.
    names : re.Pattern
        What their names are like.
    """
    location = Location.of(parent)
    found = [location.child(name) for name in location.list_matches("*") if names.fullmatch(name)]
    begun = map_files(lambda directory: not directory.exists(INDEX_NAME), found)
    for directory in compress(found, begun):
        if left := _left_in(directory):
            yield left


def remove_unfinished(location: Location) -> None:
    """Remove the shards that a job has left in a directory which nobody finishes."""
    if _left_in(location):
        map_files(location.remove, [name for name in location.list_names() if is_ours(name)])


def _left_in(location: Location) -> CachedDataset | None:
    from mdstorm_backend.cache import CachedDataset  # which executors do without

    with suppress(DatasetExistsError, OSError):  # a writer has it, or has removed it
        files = dict(location.list_files())
        if INDEX_NAME in files or MARKER_NAME not in files:
            return None
        last = max(seconds_of(info) for name, info in files.items() if name != CLAIM_NAME)
        if location.is_local_disk:
            check_free(location)
        elif time.time() - last < _PATIENCE:
            return None
        sizes = [info["size"] for name, info in files.items() if name.startswith("part-")]
        directory = location.path if location.is_in_file_tree else location.url
        when = datetime.fromtimestamp(last, timezone.utc)
        return CachedDataset("unfinished job", directory, len(sizes), sum(sizes), when)
    return None
