"""Files that were computed for a dataset or fetched for it, kept in a cache directory.

Each has a record like a shard, so that it is listed, evicted and removed like one. Its first line
identifies what it was computed from, and has a checksum. A file that is kept only saves work: if
the cache cannot be used, the content is computed and not kept.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from mdstorm_backend.base.locks import FileLock, wait_for_lock
from mdstorm_backend.base.plain_files import open_plain
from mdstorm_backend.cache import space
from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity, Record, default_directory
from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage import Buffer, map_file

#: Seconds to wait for a process that computes a file and makes no progress.
_PATIENCE = 600.0

_logger = logging.getLogger(__name__)

#: Computes the content of a file. It is passed a function, which it calls when it makes progress.
Make = Callable[[Callable[[], object]], bytes]


def keep_file(
    url: str,
    fingerprint: str,
    name: str,
    identity: str,
    make: Make,
    *,
    directory: str | None = None,
    limit: int | None = None,
) -> Buffer:
    """Return the content of a file in the cache, as a memory map, or compute and keep it.

    Of several processes and threads, one computes it, and the others wait.

    Parameters
    ----------
    url, fingerprint : str
        The dataset.
    name : str
        The name of the file.
    identity : str
        Identifies what the content is computed from, in one line. A file with another identity, or
        a damaged file, counts as absent.
    make : callable
        Computes the content.
    directory : str, optional
        The cache directory, by default the dataset's default directory.
    limit : int, optional
        Maximum number of bytes that the cache may use. Files that were not used for long make room.
    """
    cache = CacheDirectory(directory or default_directory(url, fingerprint))
    path, record = cache.file(name), cache.record(name)
    try:
        cache.check()
        if (kept := _kept(path, identity)) is not None:
            _touch(record)
            return kept
        if not cache.is_cache:
            cache.make(url, fingerprint)
        lock = wait_for_lock(record, patience=_PATIENCE, progress=partial(_modified, record))
    except OSError as error:
        _warn_not_kept(path, error)
        return make(lambda: None)
    with lock:
        if (kept := _kept(path, identity)) is not None:
            return kept
        content = make(partial(_touch, record))
        try:
            _keep(cache, lock, name, identity, content, limit)
        except OSError as error:
            _warn_not_kept(path, error)
        return content


def _keep(
    cache: CacheDirectory,
    lock: FileLock,
    name: str,
    identity: str,
    content: bytes,
    limit: int | None,
) -> None:
    path, part = cache.file(name), cache.new_part(lock.path)
    seal = _seal(identity, content)
    size = len(seal) + len(content)
    if limit is not None:
        limit -= cache.index_bytes
        if size > limit:
            raise StorageError(f"it has {size} bytes, but the cache may use only {limit}")
    try:
        space.reserve(cache, lock, size, limit=limit, patience=_PATIENCE)
        Path(part).write_bytes(seal + content)
        files = {name: FileIdentity.of(os.stat(part))}
        cache.rewrite(lock, Record(files=files).to_bytes())
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise


def _seal(identity: str, content: Buffer) -> bytes:
    """Return the first line of a file, after which numbers of up to 8 bytes are aligned."""
    line = f"{identity} {zlib.crc32(content):08x}".encode()
    return line + b" " * (-(len(line) + 1) % 8) + b"\n"


def _kept(path: str, identity: str) -> Buffer | None:
    """Return the content of a kept file; None if it is absent, damaged or of another identity."""
    start = len(_seal(identity, b""))
    try:
        with open(open_plain(path), "rb") as file:
            sealed = map_file(file.fileno())
    except OSError:
        return None
    content = sealed[start:]
    return content if sealed[:start] == _seal(identity, content) else None


def _warn_not_kept(path: str, error: OSError) -> None:
    _logger.warning("%s is not kept, and will be computed again: %s", path, error)


def _touch(record: str) -> None:
    """Set the time of a record, which is that of the latest use, or of the latest progress."""
    with suppress(OSError):
        os.utime(record, follow_symlinks=False)


def _modified(path: str) -> int:
    return os.lstat(path).st_mtime_ns
