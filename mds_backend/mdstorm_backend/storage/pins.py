"""`Pins`: whether the files of an opened dataset are still the files that were opened.

A pin is the size and the modification time of a file on a local disk. Nothing else is compared: the
inode and the time of the last status change also change if a file is copied up by an overlay, or if
its owner, its permissions or its links change.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from multiprocessing.context import get_spawning_popen
from time import perf_counter
from typing import Any, TypeAlias

import pyarrow as pa

from mdstorm_backend.base import map_files
from mdstorm_backend.base.plain_files import Buffer
from mdstorm_backend.errors import DatasetChangedError
from mdstorm_backend.storage.local_files import map_file

_SECOND = 10**9
#: Precisions of the times that file systems, archives and copies keep, in nanoseconds.
_PRECISIONS = (*(10**power for power in range(1, 10)), 2 * _SECOND)
#: Single samples are copied within microseconds, and a check takes as long. So while samples of one
#: file are read one right after another, its checks are this many seconds apart.
_BETWEEN_CHECKS = 100e-6
#: If pinning a file takes more seconds than this, as on a network file system, so many threads pin
#: the remaining files, each of them some files at a time.
_SLOW, _THREADS, _AT_A_TIME = 100e-6, 32, 32

#: The size of a file in bytes, and its modification time in nanoseconds.
Pin: TypeAlias = tuple[int, int]


class Pins:
    """The pins of the files of one opened dataset.

    A file that had no pin, because it did not exist, gets one when it is first opened. Pins are
    pickled only for processes that `multiprocessing` starts. Other pickles may be loaded on another
    host, where copies have other times, so they get new pins. Safe to share between threads.

    Parameters
    ----------
    directory : str
        Path of a directory on a local disk.
    names : iterable of str
        Names of the files in it.
    known : mapping of str to Pin, optional
        The pins, if they are known.
    """

    def __init__(
        self, directory: str, names: Iterable[str] = (), known: Mapping[str, Pin] | None = None
    ) -> None:
        self.directory = directory
        self._pins = {} if known is None else dict(known)
        #: Inode of the directory when its files were pinned.
        self._inode: int | None = None
        if known is None:
            self.pin(names)

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.directory}/{name}"

    def __reduce__(self) -> tuple[Any, ...]:
        is_spawning = get_spawning_popen() is not None
        return Pins, (self.directory, list(self._pins), self._pins if is_spawning else None)

    def pin(self, names: Iterable[str]) -> None:
        """Pin files, except those that do not exist."""
        try:
            folder = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # reported when a file is opened
            return
        try:
            self._inode = os.fstat(folder).st_ino
            names = list(names)
            groups = [names[at : at + _AT_A_TIME] for at in range(0, len(names), _AT_A_TIME)]
            for number, group in enumerate(groups):
                begun = perf_counter()
                self._pin(folder, group)
                if perf_counter() - begun > _SLOW * len(group):
                    map_files(partial(self._pin, folder), groups[number + 1 :], threads=_THREADS)
                    break
        finally:
            os.close(folder)

    def _pin(self, folder: int, names: Iterable[str]) -> None:
        """Pin files in the directory with the file descriptor `folder`, one after another."""
        pins, stat = self._pins, os.stat
        for name in names:
            try:
                found = stat(name, dir_fd=folder)
            except OSError:
                continue
            pins[name] = found.st_size, found.st_mtime_ns

    def get(self, name: str) -> Pin | None:
        """Return the pin of a file, pinning it if it has none; None if there is no such file."""
        if name not in self._pins and (found := _stat(self.path(name))) is not None:
            self._pins.setdefault(name, _pin(found))
        return self._pins.get(name)

    def forget(self, name: str) -> None:
        """Forget the pin of a file that is about to be copied again."""
        self._pins.pop(name, None)

    def agree(self, names: Iterable[str]) -> bool:
        """Whether files and directories still have the size and time with which they were pinned.

        A directory's time changes if a file in it is added, removed or replaced by another one. A
        directory that was replaced by a copy may have its time, but is another one.
        """
        here = _stat(self.directory)
        if here is None or here.st_ino != self._inode:
            return False
        found = {name: _stat(self.path(name)) for name in names}
        return all(now is not None and self._pins.get(n) == _pin(now) for n, now in found.items())

    def compare(self, name: str, found: os.stat_result) -> None:
        """Raise DatasetChangedError if a file is not as pinned; pin a file that has no pin."""
        now = _pin(found)
        pin = self._pins.setdefault(name, now)
        if pin != now and not _agree(pin, now):
            raise changed(f"file://{self.directory}/{name}", _difference(pin, now))

    def check(self, name: str) -> None:
        """Raise DatasetChangedError if a file that is not open is not as pinned.

        A missing file is reported when it is opened.
        """
        found = _stat(self.path(name))
        if found is not None:
            self.compare(name, found)

    def map(self, name: str) -> Buffer:
        """Open a file and return its content: a `PinnedMap`, or a copy where maps are unsupported.

        Raises
        ------
        DatasetChangedError
            If the file is not as pinned.
        FileNotFoundError, IsADirectoryError
            If there is no such file.
        """
        with open(self.path(name), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            self.compare(name, status)
            content = map_file(file.fileno(), PinnedMap)
            held = map_of(content)
            if held is None:
                self.compare(name, os.fstat(file.fileno()))
            else:
                held.pins, held.name, held.path = self, name, self.path(name)
                held.pin, held.inode = _pin(status), (status.st_dev, status.st_ino)
        return content


class PinnedFile:
    """An open file that has a pin, of which parts are read. Safe to share between threads.

    Parameters
    ----------
    pins : Pins
        The pins of the dataset.
    name : str
        Name of the file.

    Attributes
    ----------
    file : pyarrow.OSFile
        The file. Wherever its path leads by now, this is still the file that was opened.
    size : int
        The size of the file in bytes.

    Raises
    ------
    DatasetChangedError
        If the file is not as pinned.
    FileNotFoundError, IsADirectoryError
        If there is no such file.
    """

    _descriptor: int | None = None

    def __init__(self, pins: Pins, name: str) -> None:
        self._pins, self._name = pins, name
        self.file, self._descriptor = _opened_twice(pins.path(name))
        self.check()
        self.size: int = self.file.size()

    def check(self) -> None:
        """Raise DatasetChangedError if the file was written to."""
        if self._descriptor is not None:  # else a generator that reads it is garbage, too
            self._pins.compare(self._name, os.fstat(self._descriptor))

    def __del__(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def read_last(self, count: int) -> bytes:
        """Return the last bytes of the file."""
        found: bytes = self.file.read_at(count, self.size - count)
        self.check()
        return found


def _opened_twice(path: str) -> tuple[pa.OSFile, int]:
    """Open a file for Arrow, and a descriptor of the same file, which older pyarrow does not give.

    If the path leads to another file in between, both are opened again.
    """
    while True:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            file = pa.OSFile(os.fsencode(path))
            if os.path.samestat(found, os.stat(path)):
                return file, descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


class PinnedMap(mmap.mmap):
    """A memory map of a pinned file. It shows what is written to that file later.

    Attributes
    ----------
    pins : Pins
        The pins of the dataset.
    name, path : str
        Name and path of the file.
    pin : tuple of int
        The size and the time of the file when it was mapped.
    inode : tuple of int
        The device and the inode of the file.
    next_check : float
        When to check again before a sample is copied, as `time.perf_counter` returns it.
    """

    pins: Pins
    name: str
    path: str
    pin: Pin
    inode: tuple[int, int]
    next_check = 0.0

    def check(self) -> None:
        """Raise DatasetChangedError if the file was written to.

        If its path now leads to another file, or to none, the map still has the old content.
        """
        try:
            found = os.stat(self.path)
        except OSError:
            return
        if self.pin != (found.st_size, found.st_mtime_ns) and (
            self.inode == (found.st_dev, found.st_ino)
        ):
            self.pins.compare(self.name, found)

    def check_for_sample(self) -> None:
        """Check like `check`, and do not ask for another check in the next moment."""
        self.check()
        self.next_check = perf_counter() + _BETWEEN_CHECKS


def map_of(content: Buffer) -> PinnedMap | None:
    """Return the map that a file's content is in; None if it is in memory or not pinned."""
    found = content.obj if isinstance(content, memoryview) else None
    return found if isinstance(found, PinnedMap) else None


def check_map(content: Buffer) -> None:
    """Raise DatasetChangedError if a file was written to, before its content is called damaged."""
    held = map_of(content)
    if held is not None:
        held.check()


@contextmanager
def unchanged(maps: Iterable[PinnedMap | None]) -> Iterator[None]:
    """Check maps before and after a block that copies from them, also if it raises an error.

    Raises
    ------
    DatasetChangedError
        If one of the files was written to.
    """
    held = [one for one in maps if one is not None]
    for one in held:
        one.check()
    try:
        yield
    finally:
        for one in held:
            one.check()


def _pin(found: os.stat_result) -> Pin:
    return found.st_size, found.st_mtime_ns


def _agree(one: Pin, other: Pin) -> bool:
    """Whether two pins may be of the same content.

    A time agrees with itself cut to a lower precision, as by a mount, an archive or a copy.
    """
    (size, time_ns), (other_size, other_time_ns) = one, other
    cut, whole = sorted((time_ns, other_time_ns))
    return size == other_size and any(cut == whole // unit * unit for unit in _PRECISIONS)


def _stat(path: str) -> os.stat_result | None:
    """Return the state of the file at a path; None if there is none, or it cannot be reached."""
    try:
        return os.stat(path)
    except OSError:
        return None


def _difference(pin: Pin, now: Pin) -> str:
    if pin[0] != now[0]:
        return f"it had {pin[0]:,} bytes, and now has {now[0]:,}"
    was, is_now = _time(pin[1]), _time(now[1])
    return f"only its modification time differs: it was {was}, and is now {is_now}"


def changed(url: str, found: str) -> DatasetChangedError:
    """Return the error for a file or object that differs from the one that was pinned."""
    return DatasetChangedError(
        f"{url} was changed after the dataset was opened ({found}), so old and new rows would be "
        "mixed. Open the dataset again. Next time, write to a new directory instead",
        url=url,
    )


def _time(mtime_ns: int) -> str:
    seconds, rest = divmod(mtime_ns, _SECOND)
    found = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{found:%Y-%m-%d %H:%M:%S}.{rest:09} UTC"
