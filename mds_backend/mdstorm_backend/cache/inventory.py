"""List and clear the cache."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone

from mdstorm_backend.base.locks import try_lock
from mdstorm_backend.cache.directory import CacheDirectory, cache_root, default_prefix
from mdstorm_backend.cache.records import FileIdentity, Record, is_record
from mdstorm_backend.cache.space import evict, remove_stale_parts
from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage import normalize_url

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedDataset:
    """One cached dataset, in one state of its content.

    Attributes
    ----------
    url : str
        Where it came from.
    directory : str
        Where it is cached.
    shards : int
        Shards whose files this cache made there.
    bytes : int
        Size of these files.
    last_use : datetime.datetime or None
        When one of them was last opened, in UTC; None if there are none.
    """

    url: str
    directory: str
    shards: int
    bytes: int
    last_use: datetime | None


def list_cached(root: str | None = None) -> list[CachedDataset]:
    """List the datasets in the cache, the least recently used first.

    Parameters
    ----------
    root : str, optional
        A directory that holds caches, or is one; the default cache directory if None.

    Raises
    ------
    StorageError
        If it cannot be read. One that does not exist is empty.
    """
    never = datetime.min.replace(tzinfo=timezone.utc)
    found = [_described(directory) for directory in _directories(root)]
    return sorted(found, key=lambda dataset: (dataset.last_use or never, dataset.directory))


def clear_cached(root: str | None = None, url: str | None = None) -> int:
    """Remove cached datasets: the files that the cache made, nothing else.

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
        If something cannot be removed.
    """
    wanted = None if url is None else normalize_url(url)
    prefix = default_prefix(wanted) if root is None and wanted is not None else ""
    removed = 0
    for directory in _directories(root, prefix):
        if wanted is None or _url(directory) == wanted:
            with directory.used():
                removed += _clear(directory)
    return removed


def clear_former_states(directory: CacheDirectory, url: str) -> None:
    """Remove cached shards of earlier states of a dataset, unless they are being read.

    Parameters
    ----------
    directory : CacheDirectory
        The default directory for its present state.
    url : str
        Where the dataset is.
    """
    root = os.path.dirname(directory.path)
    for other in _directories(root, default_prefix(url)):
        if other.path in (root, directory.path):
            continue
        try:
            lock = try_lock(other.users)
            if lock is not None:
                with lock:
                    _clear(other)
        except OSError as error:
            _logger.warning("%s is outdated and cannot be removed (%s)", other.path, error)


def _directories(root: str | None, prefix: str = "") -> Iterator[CacheDirectory]:
    """Caches in a directory, those whose names begin with `prefix`, and the directory itself."""
    root = os.path.abspath(root or cache_root())
    if os.path.exists(CacheDirectory(root).descriptor):
        yield CacheDirectory(root)
    try:
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"the cache directory {root} cannot be read ({error})") from error
    for name in names:
        if not name.startswith(prefix):
            continue
        directory = CacheDirectory(os.path.join(root, name))
        if os.path.exists(directory.descriptor):
            yield directory


def _url(directory: CacheDirectory) -> str:
    return directory.described().get("url", "?")


def _records(directory: CacheDirectory) -> list[str]:
    with suppress(FileNotFoundError):
        return [
            os.path.join(directory.notes, name)
            for name in sorted(os.listdir(directory.notes))
            if is_record(name)
        ]
    return []


def _described(directory: CacheDirectory) -> CachedDataset:
    shards = nbytes = 0
    last_use = 0.0
    for path in _records(directory):
        record = Record.at(path)
        if record.files:
            shards += 1
            nbytes += record.nbytes
            with suppress(FileNotFoundError):
                last_use = max(last_use, os.stat(path).st_mtime)
    when = datetime.fromtimestamp(last_use, timezone.utc) if shards else None
    return CachedDataset(_url(directory), directory.path, shards, nbytes, when)


def _clear(directory: CacheDirectory) -> int:
    records = _records(directory)
    made = {
        os.path.dirname(directory.file(name)) for path in records for name in Record.at(path).files
    }
    removed = sum(evict(directory, path) for path in records)
    remove_stale_parts(directory)
    with directory.lock_ledger():
        _remove_index(directory)
        _remove_notes(directory)
    # Bottom up; a directory in which anything is left stays.
    for path in sorted({*made, directory.notes, directory.path}, key=len, reverse=True):
        with suppress(OSError):
            os.rmdir(path)
    return removed


def _remove_notes(directory: CacheDirectory) -> None:
    for path in _records(directory):
        lock = try_lock(path)
        if lock is not None:
            with lock:
                # Another process may have downloaded the shard again in the meantime.
                if not Record.from_bytes(lock.read()).files:
                    lock.remove_file()
    if not _records(directory) and not directory.parts():
        for path in (
            directory.index_note,
            directory.descriptor,
            directory.users,
            directory.ledger,
        ):
            with suppress(FileNotFoundError):
                os.unlink(path)


def _remove_index(directory: CacheDirectory) -> None:
    for name, identity in Record.at(directory.index_note).files.items():
        path = directory.file(name)
        if FileIdentity.at(path) == identity:
            os.unlink(path)
