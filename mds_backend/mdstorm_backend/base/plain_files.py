"""Plain files in directories where other users may put links, pipes or devices in their place."""

from __future__ import annotations

import errno
import os
import stat
from typing import TypeAlias

#: The content of a file, in memory or mapped.
Buffer: TypeAlias = bytes | bytearray | memoryview


def open_plain(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a plain file, and nothing else.

    Parameters
    ----------
    path : str
        The file.
    flags : int
        Flags of `os.open`.

    Returns
    -------
    int
        A descriptor.

    Raises
    ------
    OSError
        If the file cannot be opened, or is a symbolic link, a pipe, a device or a directory.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a plain file", path)
    return fd


def read_plain(path: str) -> bytes:
    """Return the content of a plain file; for errors see `open_plain`."""
    with open(open_plain(path), "rb") as file:
        return file.read()
