"""Retries and timeouts for requests to storage."""

from __future__ import annotations

import errno
import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from mdstorm_backend.errors import CorruptDatasetError, CredentialsError, StorageError
from mdstorm_backend.storage.mapping import NotAFileError
from mdstorm_backend.storage.s3_objects import ReplacedError

T = TypeVar("T")

#: Longest pause between two attempts, in seconds.
LONGEST_PAUSE = 30.0
#: Trying again does not help.
_FINAL = (FileNotFoundError, NotADirectoryError, NotAFileError, CredentialsError, ReplacedError)
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}

_logger = logging.getLogger(__name__)


class LocalDiskError(OSError):
    """The disk of the cache failed, not the storage."""

    @classmethod
    def means(cls, error: BaseException, path: str) -> bool:
        """Whether `error` came from writing to `path`, rather than from the storage."""
        of_disk = isinstance(error, OSError) and error.errno in _DISK_ERRORS
        return of_disk or getattr(error, "filename", None) == path


def try_again(action: Callable[[], T], *, url: str, attempts: int) -> T:
    """Call `action` until it succeeds, with exponential backoff.

    Parameters
    ----------
    action : callable
        Reads something from a storage.
    url : str
        What it reads, for messages.
    attempts : int
        Calls in total.

    Raises
    ------
    FileNotFoundError, NotADirectoryError, CredentialsError, ReplacedError, LocalDiskError
        At once, since trying again does not help.
    CorruptDatasetError, StorageError
        When all attempts have failed.
    """
    attempt = 1
    while True:
        try:
            return action()
        except (*_FINAL, LocalDiskError):
            raise
        except (CorruptDatasetError, OSError) as error:
            if attempt >= attempts:
                raise _given_up(error, url, attempts) from error
            pause = min(2.0 ** (attempt - 1), LONGEST_PAUSE) * (1 + random.random() / 2)
            _logger.warning(
                "attempt %d of %d at %s failed (%s); again in %.1f s",
                attempt,
                attempts,
                url,
                _reason(error),
                pause,
            )
            time.sleep(pause)
        attempt += 1


def _given_up(error: Exception, url: str, attempts: int) -> Exception:
    count = f"{attempts} attempts" if attempts > 1 else "1 attempt"
    if isinstance(error, CorruptDatasetError):
        return CorruptDatasetError(f"{error} ({count})", url=url)
    return StorageError(
        f"{url} cannot be read after {count} ({_reason(error)}). Check that this machine can reach "
        "the storage, or allow more attempts (download_retry) or time (download_timeout)",
        url=url,
    )


def _reason(error: Exception) -> str:
    """Return what went wrong, without the advice that an error of ours already gives."""
    cause = error.__cause__ if isinstance(error, StorageError) else None
    return f"{type(cause).__name__}: {cause}" if cause else str(error)


def watched(
    action: Callable[[], T], *, timeout: float, progress: Callable[[], object] = lambda: None
) -> T:
    """Call `action` in a thread of its own, which is abandoned if it hangs.

    Parameters
    ----------
    action : callable
        What may hang.
    timeout : float
        Seconds to wait while there is no progress.
    progress : callable
        Returns something that changes while there is.

    Raises
    ------
    StorageError
        If nothing has changed for `timeout` seconds.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(action())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="mdstorm-download", daemon=True).start()
    seen, since = progress(), time.monotonic()
    while not wait([result], min(timeout / 4, 1.0)).done:
        found, now = progress(), time.monotonic()
        if found != seen:
            seen, since = found, now
        elif now - since >= timeout:
            raise StorageError(f"no data was received for {timeout:g} s")
    return result.result()
