"""One file from the storage to the disk: whole, checked, tried again where that can help."""

from __future__ import annotations

import errno
import logging
import mmap
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from mdstorm_backend.errors import (
    CorruptDatasetError,
    CredentialsError,
    DatasetNotFoundError,
    MissingDependencyError,
    StorageError,
    UnsupportedURLError,
)
from mdstorm_backend.hashes import digest
from mdstorm_backend.index import FileInfo
from mdstorm_backend.storage import Buffer, Location

__all__ = ["LocalDiskError", "check_hash", "download", "mapped"]

_LONGEST_PAUSE = 30.0
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}

_logger = logging.getLogger(__name__)


class LocalDiskError(OSError):
    """The disk of the cache failed, not the storage."""


def download(
    location: Location,
    file: FileInfo,
    new_path: Callable[[], str],
    *,
    hash_name: str | None,
    attempts: int,
    timeout: float,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Bring a file of a dataset to this machine.

    Parameters
    ----------
    location : Location
        The dataset.
    file : FileInfo
        The file, with the size and the hashes that the index records.
    new_path : callable
        Returns the path for an attempt, another one each time: one that hangs may still write.
    hash_name : str or None
        The hash by which it is checked.
    attempts : int
        Attempts in total, with pauses in between that double.
    timeout : float
        Seconds that an attempt may go without receiving anything.
    sleep : callable
        Makes the pauses.

    Returns
    -------
    str
        The path that holds the file, whole. After an error nothing is left.

    Raises
    ------
    DatasetNotFoundError
        If there is no such file.
    CorruptDatasetError
        If it has another size or another hash than the index says.
    CredentialsError, StorageError
        If the storage refuses, or fails at every attempt.
    LocalDiskError
        If it cannot be written.
    """
    url = location.file_url(file.basename)
    for attempt in range(1, attempts + 1):
        path = new_path()
        try:
            _attempt(location, file, path, timeout)
            _check(file, path, hash_name, url)
            return path
        except FileNotFoundError as error:
            _discard(path)
            raise DatasetNotFoundError(
                f"shard {url} is gone, and the index lists it. Restore it, or write the dataset "
                "again",
                url=url,
            ) from error
        except (CredentialsError, LocalDiskError, MissingDependencyError, UnsupportedURLError):
            _discard(path)
            raise
        except (CorruptDatasetError, OSError) as error:
            _discard(path)
            if attempt == attempts:
                raise _final(error, url, attempts) from error
            pause = min(2.0 ** (attempt - 1), _LONGEST_PAUSE) * (1 + random.random() / 2)
            _logger.warning(
                "attempt %d at %s failed (%s); again in %.1f s", attempt, url, error, pause
            )
            sleep(pause)
        except BaseException:
            _discard(path)
            raise
    raise AssertionError("the last attempt returns or raises")


def _final(error: Exception, url: str, attempts: int) -> Exception:
    tries = f"{attempts} attempts" if attempts > 1 else "1 attempt"
    if isinstance(error, CorruptDatasetError):
        return CorruptDatasetError(f"{error} (after {tries})", url=url)
    return StorageError(
        f"{url} cannot be read, after {tries} ({error}). Check that the storage can be reached "
        "from this machine, or allow more attempts (download_retry) or time (download_timeout)",
        url=url,
    )


def _attempt(location: Location, file: FileInfo, path: str, timeout: float) -> None:
    """Download in a thread of its own, which is left behind if it hangs."""
    outcome: list[BaseException | None] = []
    done = threading.Event()

    def run() -> None:
        try:
            location.download(file.basename, path)
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="mdstorm-download", daemon=True).start()
    received, since = _progress(path), time.monotonic()
    while not done.wait(min(timeout / 4, 1.0)):
        found, now = _progress(path), time.monotonic()
        if found != received:
            received, since = found, now
        elif now - since >= timeout:
            raise StorageError(f"nothing was received for {timeout:g} s")
    (error,) = outcome
    if isinstance(error, OSError) and _is_local(error, path):
        raise LocalDiskError(*error.args) from error
    if error is not None:
        raise error


def _progress(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def _is_local(error: OSError, path: str) -> bool:
    return error.errno in _DISK_ERRORS or error.filename == path


def _check(file: FileInfo, path: str, hash_name: str | None, url: str) -> None:
    size = os.stat(path).st_size
    if size != file.bytes:
        raise CorruptDatasetError(
            f"{url} came with {size} bytes and the index says {file.bytes}: it was cut off or "
            "replaced. Copy it again, or write the dataset again",
            url=url,
        )
    if hash_name is not None:
        check_hash(file, mapped(path), hash_name, url)


def check_hash(file: FileInfo, data: Buffer, hash_name: str, url: str) -> None:
    """Compare the hash of a file's content with the one in the index.

    Raises
    ------
    CorruptDatasetError
        If they differ.
    """
    found, expected = digest(hash_name, [data]), file.hashes[hash_name]
    if found != expected.lower():
        raise CorruptDatasetError(
            f"{url} has the {hash_name} {found} and the index says {expected}: it was damaged or "
            "replaced. Copy it again, or write the dataset again",
            url=url,
        )


def mapped(path: str) -> Buffer:
    """Map a file, read-only."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _discard(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
