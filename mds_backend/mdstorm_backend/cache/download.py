"""Download, verify and decompress one file, with retries and timeouts."""

from __future__ import annotations

import errno
import logging
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from typing import TypeVar

from mdstorm_backend import errors
from mdstorm_backend.base.locks import Patience
from mdstorm_backend.base.pools import in_own_thread
from mdstorm_backend.base.recorder import Cause, count, work
from mdstorm_backend.cache.directory import CacheOptions, FileIdentity
from mdstorm_backend.format.compression import decompress, digest
from mdstorm_backend.format.index import FileInfo, ShardInfo
from mdstorm_backend.storage import Arrival, Buffer, Location, ObjectPins, map_file
from mdstorm_backend.storage.s3_objects import ReplacedError


def download(
    location: Location,
    file: FileInfo,
    options: CacheOptions,
    new_path: Callable[[], str],
    arrival: Arrival | None = None,
    objects: ObjectPins | None = None,
) -> str:
    """Download a file of a dataset and verify it.

    Parameters
    ----------
    location : Location
        The dataset.
    file : FileInfo
        The file, with the size and the hashes that the index records.
    options : CacheOptions
        The attempts, the timeout and the hash to verify.
    new_path : callable
        Returns a new path for each attempt, since a hanging attempt may still be writing.
    arrival : Arrival, optional
        The state of the file, if it is read while being downloaded.
    objects : ObjectPins, optional
        Compares the version of an object in a store that states it.

    Returns
    -------
    str
        The path of the complete file. After an error no file is left, except the file of an
        `arrival`.

    Raises
    ------
    DatasetNotFoundError
        If there is no such file, or it is a directory.
    DatasetChangedError
        If it is another object than before, or the dataset was written again.
    CorruptDatasetError
        If its size or hash differs from the index.
    CredentialsError, StorageError
        If the storage denies access, or fails at every attempt.
    LocalDiskError
        If the file cannot be written.
    """
    url = location.file_url(file.basename)

    def attempt() -> str:
        # With `arrival`, other threads may already be reading the file, so each attempt writes to
        # the same path.
        path = new_path() if arrival is None else arrival.path
        try:
            _copy(location, file, path, options.timeout, arrival, objects)
            check_content(file, _arrived(path), options.validate_hash, url)
        except BaseException:
            with suppress(OSError):
                if arrival is None:
                    os.unlink(path)
            raise
        return path

    # On a local disk, another attempt would read the same bytes.
    attempts = 1 if location.is_local_disk else options.retry
    try:
        with work(Cause.DOWNLOADS) as download:
            path = try_again(attempt, url=url, attempts=attempts)
    except ABSENT as error:
        raise missing(url, error) from error
    count("downloaded_bytes", file.bytes)
    count("download_seconds", download.seconds)
    return path


def _arrived(path: str) -> Buffer:
    """Return the content of a file that was downloaded to a path."""
    try:
        return mapped(path)
    except FileNotFoundError as error:
        raise LocalDiskError(error.errno, error.strerror, error.filename) from error


#: Errors that file systems raise for a file that does not exist.
ABSENT = (FileNotFoundError, IsADirectoryError)


def missing(url: str, error: OSError) -> errors.DatasetNotFoundError:
    """Return the error for a file that is missing, or is a directory."""
    found = (
        f"shard {url} is gone, but the index lists it: it was removed, or the dataset was replaced "
        "after it was opened. Open the dataset again, or restore the shard"
    )
    if isinstance(error, IsADirectoryError):
        found = f"shard {url} is a directory, not a file. Restore it, or write the dataset again"
    return errors.DatasetNotFoundError(found, url=url)


def _copy(
    location: Location,
    file: FileInfo,
    path: str,
    timeout: float,
    arrival: Arrival | None,
    objects: ObjectPins | None,
) -> None:
    name, version = file.basename, None
    try:
        if location.is_on_s3:
            version = location.download_known(
                name, path, size=file.bytes, timeout=timeout, arrival=arrival
            )
        else:
            copy, progress = partial(location.download, name, path), partial(FileIdentity.at, path)
            version = watched(copy, timeout=timeout, progress=progress)
    except Exception as error:
        # Storage errors chain their causes; the cause may be a failure of the local disk.
        cause = error if isinstance(error, OSError) and error.errno else error.__cause__ or error
        if isinstance(cause, OSError) and (cause.errno in _DISK_ERRORS or cause.filename == path):
            raise LocalDiskError(cause.errno, cause.strerror, cause.filename) from error
        raise
    if objects is not None and version is not None:
        objects.compare(name, version)


def check_content(file: FileInfo, data: Buffer, hash_name: str | None, url: str) -> None:
    """Check a file's size, and its hash if `hash_name` is given, against the index.

    Raises
    ------
    CorruptDatasetError
        If the size or the hash differs.
    """
    if len(data) != file.bytes:
        raise errors.CorruptDatasetError.of_file(
            url,
            f"holds {len(data)} bytes, but the index records {file.bytes}: it was truncated or "
            "replaced",
        )
    if hash_name is not None:
        check_hash(file, data, hash_name, url)


def check_hash(file: FileInfo, data: Buffer, hash_name: str, url: str) -> None:
    """Check the hash of a file's content against the index.

    Raises
    ------
    CorruptDatasetError
        If the hash differs.
    """
    found, expected = digest(hash_name, [data]), file.hashes[hash_name]
    if found != expected.lower():
        raise errors.CorruptDatasetError.of_file(
            url,
            f"has the {hash_name} {found}, but the index records {expected}: it was damaged or "
            "replaced",
        )


def decompressed(info: ShardInfo, packed: Buffer, url: str) -> Buffer:
    """Return a file's decompressed content, after checking its size against the index.

    Raises
    ------
    CorruptDatasetError
        If the file cannot be decompressed, or gives a different number of bytes.
    """
    try:
        with work(Cause.DECODING):
            return decompress(info.compression or "", packed, info.raw_data.bytes)
    except (OSError, ValueError) as error:
        what = f"cannot be decompressed as {info.compression} ({error})"
        raise errors.CorruptDatasetError.of_file(url, what) from error


def mapped(path: str) -> Buffer:
    """Return a file's content as a read-only memory map, or a copy where maps are unsupported."""
    with open(path, "rb") as file:
        return map_file(file.fileno())


_T = TypeVar("_T")

#: Maximum pause between two attempts, in seconds.
LONGEST_PAUSE = 30.0
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}

_logger = logging.getLogger(__name__)


class LocalDiskError(OSError):
    """The cache's local disk failed, not the remote storage."""


#: Errors for which retrying does not help.
_FINAL = (
    *ABSENT,
    NotADirectoryError,
    errors.CredentialsError,
    errors.NameNodeError,
    ReplacedError,
    LocalDiskError,
)


def with_retries(
    location: Location, name: str, options: CacheOptions, action: Callable[[], _T]
) -> _T:
    """Return the result of `action`, a short request for a file, with retries and a timeout."""

    def attempt() -> _T:
        return action() if location.is_local_disk else watched(action, timeout=options.timeout)

    return try_again(attempt, url=location.file_url(name), attempts=options.retry)


def try_again(action: Callable[[], _T], *, url: str, attempts: int) -> _T:
    """Call `action` until it succeeds, with exponential backoff.

    Parameters
    ----------
    action : callable
        Reads from storage.
    url : str
        The URL that `action` reads, for messages.
    attempts : int
        Maximum number of calls.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, NotADirectoryError
    CredentialsError, NameNodeError, ReplacedError, LocalDiskError
        Immediately, since retrying does not help.
    CorruptDatasetError, StorageError
        When all attempts have failed.
    """
    attempt = 1
    while True:
        try:
            return action()
        except _FINAL:
            raise
        except (errors.CorruptDatasetError, OSError) as error:
            if attempt >= attempts:
                raise _given_up(error, url, attempts) from error
            pause = min(2.0 ** (attempt - 1), LONGEST_PAUSE) * (1 + random.random() / 2)
            failed = f"attempt {attempt} of {attempts} at {url} failed ({_reason(error)})"
            _logger.warning("%s; retrying in %.1f s", failed, pause)
            time.sleep(pause)
        attempt += 1


def _given_up(error: Exception, url: str, attempts: int) -> Exception:
    count = f"{attempts} attempts" if attempts > 1 else "1 attempt"
    if isinstance(error, errors.CorruptDatasetError):
        return errors.CorruptDatasetError(f"{error} ({count})", url=url)
    return errors.StorageError(
        f"{url} cannot be read after {count} ({_reason(error)}). Check that this machine can reach "
        "the storage, or allow more attempts (download_retry) or time (download_timeout)",
        url=url,
    )


def _reason(error: Exception) -> str:
    """Return the cause of an error, without the advice that a StorageError contains."""
    cause = error.__cause__ if isinstance(error, errors.StorageError) else None
    return f"{type(cause).__name__}: {cause}" if cause else str(error)


def watched(
    action: Callable[[], _T], *, timeout: float, progress: Callable[[], object] = lambda: None
) -> _T:
    """Return the result of `action`, called in its own thread, which is abandoned if it hangs.

    Parameters
    ----------
    action : callable
        The call that may hang.
    timeout : float
        Seconds to wait without progress.
    progress : callable
        Returns a value that changes while there is progress.

    Raises
    ------
    StorageError
        If nothing has changed for `timeout` seconds.
    """
    result = in_own_thread(action, "mdstorm-download")
    waiting = Patience(timeout, progress())
    while not wait([result], min(timeout / 4, 1.0)).done:
        if waiting.is_over(progress()):
            raise errors.StorageError(f"no data was received for {timeout:g} s")
    return result.result()
