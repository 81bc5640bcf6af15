"""Map files into memory, where their file system can."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

#: What file systems say that have no memory maps, as mounts of object stores.
_NO_MAPS = {errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP}


class NotAFileError(OSError):
    """Something else is in the place of a file."""


def open_file(path: str) -> int:
    """Open a local file for reading; a pipe without a writer would be waited for forever.

    Raises
    ------
    NotAFileError
        If it is a pipe, a directory, a link to one or a link to itself.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotAFileError(*error.args) if error.errno == errno.ELOOP else error from None
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    what = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "Not a regular file"
    raise NotAFileError(errno.EISDIR, what, path)


def map_file(fd: int) -> Buffer:
    """Return the content of an open file, read-only.

    A memory map, which stays valid after the file is closed or removed; a copy where the file
    system has no maps, and for an empty file.
    """
    if os.fstat(fd).st_size == 0:
        return b""
    try:
        return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
    except OSError as error:
        if error.errno not in _NO_MAPS:
            raise
    with open(fd, "rb", closefd=False) as file:
        return file.read()
