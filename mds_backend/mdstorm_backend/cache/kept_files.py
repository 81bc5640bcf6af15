"""Files that were computed from a dataset, kept in its default cache directory.

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
from mdstorm_backend.base.plain_files import read_plain
from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity, Record, default_directory

#: Seconds to wait for a process that computes a file and makes no progress.
_PATIENCE = 600.0

_logger = logging.getLogger(__name__)

#: Computes the content of a file. It is passed a function, which it calls when it makes progress.
Make = Callable[[Callable[[], object]], bytes]


def keep_file(url: str, fingerprint: str, name: str, identity: str, make: Make) -> bytes:
    """Return the content of a file in the cache, or compute and keep it.

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
    """
    directory = CacheDirectory(default_directory(url, fingerprint))
    path, record = directory.file(name), directory.record(name)
    try:
        directory.check()
        if (found := _kept(path, identity)) is not None:
            _touch(record)
            return found
        directory.make(url, fingerprint)
        lock = wait_for_lock(record, patience=_PATIENCE, progress=partial(_modified, record))
    except OSError as error:
        _warn_not_kept(path, error)
        return make(lambda: None)
    with lock:
        if (found := _kept(path, identity)) is not None:
            return found
        content = make(partial(_touch, record))
        try:
            _keep(directory, lock, name, _sealed(identity, content))
        except OSError as error:
            _warn_not_kept(path, error)
        return content


def _keep(directory: CacheDirectory, lock: FileLock, name: str, sealed: bytes) -> None:
    part = directory.new_part(lock.path)
    try:
        Path(part).write_bytes(sealed)
        files = {name: FileIdentity.of(os.stat(part))}
        directory.rewrite(lock, Record(files=files).to_bytes())
        os.replace(part, directory.file(name))
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise


def _sealed(identity: str, content: bytes) -> bytes:
    return f"{identity} {zlib.crc32(content):08x}\n".encode() + content


def _kept(path: str, identity: str) -> bytes | None:
    """Return the content of a kept file; None if it is absent, damaged or of another identity."""
    try:
        sealed = read_plain(path)
    except OSError:
        return None
    content = sealed.partition(b"\n")[2]
    return content if sealed == _sealed(identity, content) else None


def _warn_not_kept(path: str, error: OSError) -> None:
    _logger.warning("%s is not kept, and will be computed again: %s", path, error)


def _touch(record: str) -> None:
    """Set the time of a record, which is that of the latest use, or of the latest progress."""
    with suppress(OSError):
        os.utime(record, follow_symlinks=False)


def _modified(path: str) -> int:
    return os.lstat(path).st_mtime_ns
