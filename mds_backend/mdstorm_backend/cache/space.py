"""Manage the disk space of caches: reserve, evict, list and clear.

A file is removed only if a record lists it as made by the cache and it has not changed since.

The ledger holds an upper bound on the bytes in use: reservations are added to it, and freed bytes
are not subtracted. If the ledger shows no free space, the records are counted.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from mdstorm_backend.base.locks import FileLock, Patience, try_lock
from mdstorm_backend.cache.directory import CacheDirectory, Record, cache_root, default_directory
from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage import normalize_url

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedDataset:
    """One cached dataset, in one state of its content.

    Attributes
    ----------
    url : str
        URL of the dataset.
    directory : str
        Where the dataset is cached.
    shards : int
        Number of shards that are cached there.
    bytes : int
        Total size of their files.
    last_use : datetime.datetime or None
        When one of the shards was last opened, in UTC; None if there are no shards.
    """

    url: str
    directory: str
    shards: int
    bytes: int
    last_use: datetime | None


def list_cached(root: str | None = None) -> list[CachedDataset]:
    """List the cached datasets, least recently used first.

    Parameters
    ----------
    root : str, optional
        A directory that contains caches, or is one; the default cache directory if None.

    Raises
    ------
    StorageError
        If the directory cannot be read. A directory that does not exist counts as empty.
    """
    never = datetime.min.replace(tzinfo=timezone.utc)
    found = [_described(directory) for directory in _directories(root)]
    return sorted(found, key=lambda dataset: (dataset.last_use or never, dataset.directory))


def clear_cached(root: str | None = None, url: str | None = None) -> int:
    """Remove the files that the cache created for datasets; other files are kept.

    Shards that other processes are downloading are kept. Open shards stay readable.

    Parameters
    ----------
    root : str, optional
        As in `list_cached`.
    url : str, optional
        Only datasets from this URL.

    Returns
    -------
    int
        Number of bytes removed.

    Raises
    ------
    StorageError
        If a file cannot be removed.
    """
    wanted = None if url is None else normalize_url(url)
    removed = 0
    for directory in _directories(root):
        if wanted is None or _url(directory) == wanted:
            with directory.used():
                removed += _clear(directory)
    return removed


def clear_former_states(directory: CacheDirectory, url: str) -> None:
    """Remove cached shards of earlier states of a dataset, unless they are being read.

    Parameters
    ----------
    directory : CacheDirectory
        The default directory for the dataset's current state.
    url : str
        Where the dataset is.
    """
    for other in _directories(os.path.dirname(directory.path)):
        default = default_directory(url, other.described().get("fingerprint", ""))
        if other.path == directory.path or other.path != default:
            continue
        try:
            if (lock := try_lock(other.users)) is not None:
                with lock:
                    _clear(other)
        except OSError as error:
            _logger.warning("%s is outdated and cannot be removed (%s)", other.path, error)


def _directories(root: str | None) -> Iterator[CacheDirectory]:
    """Yield `root` if it is a cache, then its subdirectories that are caches."""
    root = os.path.abspath(root or cache_root())
    try:
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"the cache directory {root} cannot be read ({error})") from error
    for path in (root, *(os.path.join(root, name) for name in names)):
        directory = CacheDirectory(path)
        if directory.is_cache:
            yield directory


def _url(directory: CacheDirectory) -> str:
    return directory.described().get("url", "?")


def _described(directory: CacheDirectory) -> CachedDataset:
    used = [(when, record.nbytes) for when, _, record in entries_of(directory) if record.files]
    last = datetime.fromtimestamp(max(used)[0] / 1e9, timezone.utc) if used else None
    nbytes = sum(nbytes for _, nbytes in used)
    return CachedDataset(_url(directory), directory.path, len(used), nbytes, last)


def _clear(directory: CacheDirectory) -> int:
    made: set[str] = set()
    removed = 0
    for path in directory.records():
        if (lock := try_lock(path)) is not None:
            with lock:
                files = Record.from_bytes(lock.read()).files
                made.update(os.path.dirname(directory.file(name)) for name in files)
                removed += remove_files(directory, lock)
                lock.remove_file()
    remove_stale_parts(directory)
    with directory.lock_ledger():
        _remove_listed(directory, Record.at(directory.index_note))
        if not directory.records() and not directory.parts():
            notes = directory.index_note, directory.descriptor, directory.users, directory.ledger
            for path in notes:
                with suppress(FileNotFoundError):
                    os.unlink(path)
    # Innermost directories first; directories that still contain files are kept.
    for path in sorted({*made, directory.notes, directory.path}, key=len, reverse=True):
        with suppress(OSError):
            os.rmdir(path)
    return removed


_PAUSE = 0.02
#: With this many records or more, reading all of them to add up their sizes is slow.
MANY_RECORDS = 100


def reserve(
    directory: CacheDirectory, lock: FileLock, nbytes: int, *, limit: int | None, patience: float
) -> None:
    """Reserve `nbytes` in the record that `lock` holds, and evict shards if there is no room.

    If downloads in progress take up all the room, the call waits for them. Without a limit, there
    is always room.

    Raises
    ------
    StorageError
        If the free space has not changed for `patience` seconds and is still too small.
    """
    record = replace(Record.from_bytes(lock.read()), reserved=nbytes)
    waiting = Patience(patience)
    while True:
        with directory.lock_ledger() as ledger:
            used = _used_bytes(ledger)
            if limit is not None and used + nbytes > limit:
                used = _make_room(directory, lock, limit - nbytes)
            if limit is None or used + nbytes <= limit:
                directory.rewrite(ledger, b"%d" % min(used + record.nbytes, _UNKNOWN))
                directory.rewrite(lock, record.to_bytes())
                return
        free = limit - used
        if waiting.is_over(free):
            raise StorageError(
                f"the cache {directory.path} has a limit of {limit} bytes, of which {free} are "
                f"free, and {nbytes} are needed: shards that other threads or processes are "
                "downloading take the remaining space. Raise the limit (cache_limit), or use "
                "fewer threads",
                url=directory.path,
            )
        time.sleep(_PAUSE)


#: More bytes than any limit: what is in use before it was first counted.
_UNKNOWN = 1 << 63


def _used_bytes(ledger: FileLock) -> int:
    """Return an upper bound on the bytes in use."""
    try:
        return int(ledger.read().partition(b"\n")[0])
    except ValueError:
        return _UNKNOWN


def _make_room(directory: CacheDirectory, lock: FileLock, most: int) -> int:
    """Evict the least recently used shards; return the bytes used by the remaining shards.

    Shards are evicted if more than `most` bytes are in use, except the shard that `lock` holds.
    """
    entries = [entry for entry in entries_of(directory) if entry[1] != lock.path]
    used = sum(record.nbytes for _, _, record in entries)
    if used <= most:
        return used
    # Reading many records is slow, so remove more than is needed now, to read them less often.
    spare = most // 32 if len(entries) >= MANY_RECORDS else 0
    # Reservations of killed downloads are removed first; active downloads hold locks on theirs.
    for _, path, _ in sorted(entries, key=lambda e: (e[2].reserved == 0, e[0], e[1])):
        if used + spare <= most:
            break
        used -= evict(directory, path)
    return used


def entries_of(directory: CacheDirectory) -> Iterator[tuple[int, str, Record]]:
    """Yield every non-empty record's last use in ns, its path and its content."""
    for path in directory.records():
        with suppress(FileNotFoundError):
            found = os.lstat(path)
            if found.st_size:
                yield found.st_mtime_ns, path, Record.at(path)


def evict(directory: CacheDirectory, path: str) -> int:
    """Remove the files of the record at `path`, unless the record is locked.

    Returns
    -------
    int
        Bytes that no longer count towards the limit.
    """
    if (lock := try_lock(path)) is None:
        return 0
    with lock:
        return remove_files(directory, lock)


def remove_files(directory: CacheDirectory, lock: FileLock) -> int:
    """Remove the files of a locked record; return how many bytes of the limit this frees."""
    record = Record.from_bytes(lock.read())
    _remove_listed(directory, record)
    directory.rewrite(lock, b"")
    return record.nbytes


def _remove_listed(directory: CacheDirectory, record: Record) -> None:
    for name in record.files:
        if directory.holds(record, name):
            os.unlink(directory.file(name))


def remove_stale_parts(directory: CacheDirectory) -> None:
    """Remove temporary files left behind by killed downloads, but not by downloads in progress."""
    for part, owner in directory.parts():
        if (lock := try_lock(owner)) is not None:
            with lock, suppress(FileNotFoundError):
                os.unlink(part)
