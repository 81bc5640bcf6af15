"""Find what jobs that were killed have left."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from mdstorm_backend.cache import CachedDataset
from mdstorm_backend.errors import DatasetExistsError
from mdstorm_backend.format.shard_info import INDEX_NAME, MARKER_NAME
from mdstorm_backend.storage import Location
from mdstorm_backend.write.claim import CLAIM_NAME, check_free

#: Where there are no locks, a job that has written nothing for so many seconds was killed.
_PATIENCE = 86_400


def list_unfinished(parent: str, names: re.Pattern[str]) -> Iterator[CachedDataset]:
    """Find directories in which a job has begun to write a dataset that nobody finishes.

    They have our marker, no index, and no writer.

    Parameters
    ----------
    parent : str
        The directory of this machine, or of a mount, that they are in.
    names : re.Pattern
        What their names are like.
    """
    for marker in sorted(Path(parent).glob(f"*/{MARKER_NAME}")):
        location = Location.of(str(marker.parent))
        with suppress(DatasetExistsError, OSError):  # a writer has it, or has removed it
            files = dict(location.list_files())
            if INDEX_NAME in files or not names.fullmatch(marker.parent.name):
                continue
            last = max(info["mtime"] for name, info in files.items() if name != CLAIM_NAME)
            if location.is_local_disk:
                check_free(location)
            elif time.time() - last < _PATIENCE:
                continue
            sizes = [info["size"] for name, info in files.items() if name.startswith("part-")]
            when = datetime.fromtimestamp(last, timezone.utc)
            yield CachedDataset("unfinished job", str(marker.parent), len(sizes), sum(sizes), when)
