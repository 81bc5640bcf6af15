"""File locks, which let processes and threads share a cache directory.

The kernel releases them when their process ends, even if it is killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress

from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.base.plain_files import open_plain
from mdstorm_backend.errors import StorageError

#: Error numbers of file systems without locks, such as mounts of remote storage.
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP})

#: Shortest and longest pause, in seconds, between two attempts to take a lock.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


class FileLock(OwnContext):
    """An exclusive lock that is held on a file; only its holder changes the file's content.

    The content is one line. A killed holder may have left more data, which is ignored.
    """

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path
        _held[fd] = self

    def read(self) -> bytes:
        """Return the file's content."""
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)

    def write(self, line: bytes) -> None:
        """Replace the file's content with `line`, which must not contain a newline."""
        data = line + b"\n" if line else b""
        if os.pwrite(self._fd, data, 0) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        os.ftruncate(self._fd, len(data))

    def replace(self, line: bytes, part: str) -> None:
        """Replace the file's content with `line`, but not in other directories.

        If the file has further names, another user may have put a hard link to it here. It is then
        left as it is, and a new file takes its place here, with the lock.

        Parameters
        ----------
        line : bytes
            The content, without a newline.
        part : str
            Path for a new file until it is complete, in the same directory. A file there is
            removed.
        """
        if os.fstat(self._fd).st_nlink <= 1:
            self.write(line)
            return
        with suppress(FileNotFoundError):
            os.unlink(part)
        fd = open_plain(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        other = FileLock(fd, part)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # before other processes can find the file
            other.write(line)
            os.rename(part, self.path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part)
            other.release()
            raise
        self.release()
        self._fd = fd
        _held[fd] = self

    def remove_file(self) -> None:
        """Remove the file unless it has been replaced; waiting processes then create a new one."""
        if _is_at(self.path, self._fd):
            os.unlink(self.path)

    def release(self) -> None:
        """Release the lock."""
        # A forked child may hold a copy of the descriptor, so closing the file alone would not
        # release the lock.
        if _held.pop(self._fd, None) is self:
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self.release()


def try_lock(path: str) -> FileLock | None:
    """Lock the file `path`, creating it if necessary; return None if it is already locked.

    Raises
    ------
    OSError
        If the file cannot be created, or its file system has no locks.
    """
    while True:
        with suppress(_RemovedError):  # the file was removed in the meantime: create it again
            try:
                return FileLock(_open_locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB), path)
            except BlockingIOError:
                return None


def wait_for_lock(path: str, *, patience: float, progress: Callable[[], object]) -> FileLock:
    """Lock the file `path` as soon as its holder releases it.

    Parameters
    ----------
    path : str
        The file.
    patience : float
        Seconds to wait for a holder that makes no progress.
    progress : callable
        Returns a value that changes while the holder makes progress.

    Raises
    ------
    StorageError
        If the holder makes no progress for `patience` seconds.
    """
    pause, waiting = _FIRST_PAUSE, Patience(patience)
    while (lock := try_lock(path)) is None:
        if waiting.is_over(progress()):
            raise StorageError(
                f"another process or thread has held {path} for {patience:.0f} s without "
                "progress. Kill the process that hangs",
                url=path,
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return lock


class Patience:
    """Limits how long to wait for something that makes no progress.

    Parameters
    ----------
    seconds : float
        Seconds to wait without progress.
    progress : object
        A value that changes whenever there is progress.
    """

    def __init__(self, seconds: float, progress: object = None) -> None:
        self._seconds, self._since, self._progress = seconds, time.monotonic(), progress

    def is_over(self, progress: object) -> bool:
        """Whether too much time has passed since the last progress."""
        now = time.monotonic()
        if progress != self._progress:
            self._since, self._progress = now, progress
        return now - self._since > self._seconds


def share_lock(path: str) -> int:
    """Wait for a shared lock on the file `path`, which prevents exclusive locks on it.

    Returns
    -------
    int
        A descriptor. The lock is held until it and its copies in forked children are closed.

    Raises
    ------
    OSError
        If the file cannot be created, its file system has no locks, or the file is removed.
    """
    return _open_locked(path, fcntl.LOCK_SH)


class _RemovedError(FileNotFoundError):
    """The file was removed before it was locked."""


def _open_locked(path: str, operation: int) -> int:
    fd = open_plain(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, operation)
        if not _is_at(path, fd):
            raise _RemovedError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _is_at(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


#: Locks that this process holds, by file descriptor.
_held: dict[int, FileLock] = {}


def _drop_copies() -> None:
    """Close the copies of locks in a forked child: the locks belong to the parent."""
    for fd in list(_held):
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_drop_copies)
