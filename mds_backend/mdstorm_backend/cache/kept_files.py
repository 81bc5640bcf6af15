"""Files that were computed from a dataset, kept in its default cache directory.

Each has a record like a shard, so that it is listed, evicted and removed like one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mdstorm_backend.base.locks import wait_for_lock
from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity, Record, default_directory

#: Seconds to wait for a process that computes a file and makes no progress.
_PATIENCE = 600.0


def keep_file(
    url: str, fingerprint: str, name: str, make: Callable[[Callable[[], object]], bytes]
) -> bytes:
    """Return the content of a file in the cache, or compute and keep it.

    Of several processes and threads, one computes it, and the others wait.

    Parameters
    ----------
    url, fingerprint : str
        The dataset.
    name : str
        The name of the file.
    make : callable
        Returns the content. It is passed a function, which it calls whenever it makes progress.

    Raises
    ------
    StorageError
        If the cache directory cannot be used.
    """
    directory = CacheDirectory(default_directory(url, fingerprint))
    path, record = directory.file(name), directory.record(name)
    with directory.used():
        directory.make(url, fingerprint)
        lock = wait_for_lock(record, patience=_PATIENCE, progress=partial(_modified, record))
        with lock:
            if directory.holds(Record.from_bytes(lock.read()), name):
                os.utime(record)  # its time is that of the latest use
                return Path(path).read_bytes()
            content = make(partial(os.utime, record))
            part = directory.new_part(record)
            Path(part).write_bytes(content)
            identity = FileIdentity.of(os.stat(part))
            lock.write(Record(dataset=fingerprint, files={name: identity}).to_bytes())
            os.replace(part, path)
            return content


def _modified(path: str) -> int:
    return os.stat(path).st_mtime_ns
