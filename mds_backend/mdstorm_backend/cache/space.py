"""Disk space of a cache: reserved before a download, freed by evicting the least recently used.

Only files that this cache made, according to a record, and that are still the same are removed.

The ledger holds an upper bound of the bytes in use: reservations are added to it, and freed bytes
are not subtracted. The records are counted when it says that there is no room.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from mdstorm_backend.base.locks import FileLock, try_lock
from mdstorm_backend.base.recorded_work import count
from mdstorm_backend.cache.directory import CacheDirectory
from mdstorm_backend.cache.records import FileIdentity, Record, is_record
from mdstorm_backend.errors import StorageError

_PAUSE = 0.02
#: Above this number of records, counting them is slow.
_MANY = 100


def reserve(
    directory: CacheDirectory,
    lock: FileLock,
    record: Record,
    nbytes: int,
    *,
    limit: int | None,
    patience: float,
) -> None:
    """Make room for `nbytes` and note them as taken in the record of `lock`.

    If downloads in progress take all the room, it waits for them. Without a limit there is always
    room.

    Raises
    ------
    StorageError
        If there is still not enough.
    """
    if limit is None and _reserve_uncounted(directory, lock, replace(record, reserved=nbytes)):
        return
    since, seen = time.monotonic(), -1
    while True:
        with directory.lock_ledger() as ledger:
            used = _used_bytes(ledger)
            if limit is not None and (used is None or limit - used < nbytes):
                used = _make_room(directory, lock, nbytes, limit)
            if limit is None or limit - (used or 0) >= nbytes:
                if used is not None:
                    ledger.write(b"%d" % (used + record.nbytes + nbytes))
                lock.write(replace(record, reserved=nbytes).to_bytes())
                return
            free = limit - (used or 0)
        now = time.monotonic()
        if free != seen:
            since, seen = now, free
        elif now - since > patience:
            raise StorageError(
                f"the cache {directory.path} has a limit of {limit} bytes, of which {free} are "
                f"free, and {nbytes} are needed: shards that other threads or processes are "
                "downloading take the rest. Raise the limit (cache_limit), or use fewer threads",
                url=directory.path,
            )
        time.sleep(_PAUSE)


def _reserve_uncounted(directory: CacheDirectory, lock: FileLock, record: Record) -> bool:
    """Write a record where nobody has counted the bytes in use, as others may at the same time."""
    with directory.lock_ledger(shared=True) as ledger:
        is_uncounted = _used_bytes(ledger) is None
        if is_uncounted:
            lock.write(record.to_bytes())
    return is_uncounted


def _used_bytes(ledger: FileLock) -> int | None:
    """Return an upper bound of the bytes in use; None if they were never counted."""
    try:
        return int(ledger.read().partition(b"\n")[0])
    except ValueError:
        return None


def _make_room(directory: CacheDirectory, lock: FileLock, nbytes: int, limit: int) -> int:
    """Remove the least recently used shards; return the bytes that the others take."""
    entries = [entry for entry in _entries(directory) if entry[1] != lock.path]
    used = sum(record.nbytes for _, _, record in entries)
    if limit - used >= nbytes:
        return used
    # Counting many records takes a while, so more is removed than is needed now.
    spare = limit // 32 if len(entries) >= _MANY else 0
    # First the reservations of downloads that were killed: those in progress are locked.
    for _, path, _ in sorted(entries, key=lambda e: (e[2].reserved == 0, e[0], e[1])):
        if limit - used >= nbytes + spare:
            break
        freed = evict(directory, path)
        used -= freed
        count("evictions", freed > 0)
    return used


def _entries(directory: CacheDirectory) -> Iterator[tuple[int, str, Record]]:
    """Last use in ns, path and content of every record that claims something."""
    with os.scandir(directory.notes) as found:
        for entry in found:
            if is_record(entry.name):
                stat = entry.stat()
                if stat.st_size:
                    yield stat.st_mtime_ns, entry.path, Record.at(entry.path)


def evict(directory: CacheDirectory, path: str) -> int:
    """Remove the files of the record at `path`, unless it is in use.

    Returns
    -------
    int
        Bytes that no longer count.
    """
    lock = try_lock(path)
    if lock is None:
        return 0
    with lock:
        return remove_files(directory, lock)


def remove_files(directory: CacheDirectory, lock: FileLock) -> int:
    """Remove the files of the record that is locked; return the bytes that no longer count."""
    record = Record.from_bytes(lock.read())
    for name, identity in record.files.items():
        file = directory.file(name)
        if FileIdentity.at(file) == identity:
            os.unlink(file)
    lock.write(b"")
    return record.nbytes


def remove_stale_parts(directory: CacheDirectory) -> None:
    """Remove temporary files of downloads that were killed, unless they are being made now."""
    for part, owner in directory.parts():
        path = owner if is_record(owner) else directory.ledger
        lock = try_lock(path)
        if lock is None:
            continue
        with lock, suppress(FileNotFoundError):
            os.unlink(part)
