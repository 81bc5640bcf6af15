"""A mounted file system that behaves like Databricks' volumes, served by a separate process.

It implements the kernel's FUSE protocol itself, so it needs Linux, root and ``/dev/fuse``, but no
library. Files are stored in a directory on the local disk. As on ``/Volumes`` and ``/dbfs``:

- a file is written once, from start to end, without appending or seeking;
- there are no links, locks, shared memory maps or extended attributes;
- a rename copies and deletes, and modes cannot be changed;
- a listing stays the same for a second, even if files are written or removed.
"""

import ctypes
import errno
import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

#: How long a listing is cached, in seconds.
STALE_SECONDS = 1.0

_ROOT_DIRECTORY = Path(__file__).parents[3]
_MOUNTED = "mounted"
_DETACH = 2
_MOST_BYTES = 1 << 20
_HEADER = struct.Struct("<IIQQIIII")
_ATTRIBUTES = struct.Struct("<6Q10I")
#: Features to request from the kernel: truncation on open, both kinds of locks, large writes and
#: many pages.
_FLAGS = 1 << 3 | 1 << 1 | 1 << 10 | 1 << 5 | 1 << 22
#: Reads and writes bypass the kernel's cache, so shared memory maps are refused.
_DIRECT_IO = 1
_SIZE_CHANGES = 1 << 3
_ROOT = 1


class MountedVolume:
    """A volume that is mounted in `directory` until `close` is called or this process ends.

    Raises
    ------
    OSError
        If this machine, or this user, cannot mount it.
    """

    def __init__(self, directory: Path) -> None:
        self.path, store = directory / "volume", directory / "store"
        self.path.mkdir()
        store.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.servers.volume", str(store), str(self.path)],
            cwd=_ROOT_DIRECTORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A signal that ends this process must not end the child before it has unmounted.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != _MOUNTED:
            _, errors = self._process.communicate()
            raise OSError(f"FUSE is not available: {errors.strip().splitlines()[-1:]}")

    def close(self) -> None:
        """Unmount the volume."""
        self._process.communicate()


class _Volume:
    """Answers the kernel's requests in one thread, one request at a time."""

    def __init__(self, store: str) -> None:
        self._paths = {_ROOT: store}
        self._numbers = {store: _ROOT}
        self._next = _ROOT + 1
        #: Number of bytes written to each file that is open for writing.
        self._written: dict[int, int] = {}
        self._listings: dict[str, tuple[float, list[tuple[str, int]]]] = {}
        self._answers: dict[int, Callable[[int, bytes], bytes]] = {
            1: lambda node, data: self._entry(self._path(node, data[:-1])),
            3: self._attributes,
            4: self._change,
            9: self._make_directory,
            10: lambda node, data: self._remove(node, data, os.unlink),
            11: lambda node, data: self._remove(node, data, os.rmdir),
            12: lambda node, data: self._rename(node, data, 8),
            14: self._open,
            15: self._read,
            16: self._write,
            17: lambda node, data: struct.pack("<5Q4I24x", *[1 << 30] * 5, 4096, 255, 4096, 0),
            18: self._release,
            26: self._begin,
            27: lambda node, data: struct.pack("<QII", 0, 0, 0),
            28: self._list,
            35: self._create,
            45: lambda node, data: self._rename(node, data, 16),
            **dict.fromkeys((20, 25, 29, 30, 34), lambda node, data: b""),
        }

    def serve(self, device: int) -> None:
        """Answer requests until this process ends."""
        while True:
            try:
                request = os.read(device, _MOST_BYTES + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                raise
            _, code, unique, node, *_ = _HEADER.unpack_from(request)
            if code in (2, 42):  # FUSE_FORGET and FUSE_BATCH_FORGET have no response
                continue
            number, data = 0, b""
            try:
                if code not in self._answers:  # for example copy_file_range and locks
                    raise OSError(errno.ENOSYS, "not supported")
                data = self._answers[code](node, request[_HEADER.size :])
            except OSError as error:
                number = error.errno or errno.EIO
            os.write(device, struct.pack("<IiQ", 16 + len(data), -number, unique) + data)

    def _begin(self, node: int, data: bytes) -> bytes:
        flags, pages = _FLAGS & struct.unpack_from("<4I", data)[3], _MOST_BYTES // 4096
        return struct.pack("<4IHHIIHH32x", 7, 31, 0, flags, 12, 9, _MOST_BYTES, 1, pages, 0)

    def _path(self, node: int, name: bytes = b"") -> str:
        path = self._paths.get(node)
        if path is None:
            raise OSError(errno.ENOENT, "gone")
        return f"{path}/{os.fsdecode(name)}" if name else path

    def _entry(self, path: str) -> bytes:
        attributes = self._attributes_of(path)
        if path not in self._numbers:
            self._numbers[path], self._paths[self._next] = self._next, path
            self._next += 1
        return struct.pack("<4QII", self._numbers[path], 0, 0, 0, 0, 0) + attributes

    def _attributes_of(self, path: str) -> bytes:
        found = os.lstat(path)
        kind = stat.S_IFDIR if stat.S_ISDIR(found.st_mode) else stat.S_IFREG
        times = [found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns]
        seconds, rest = [ns // 10**9 for ns in times], [ns % 10**9 for ns in times]
        size = found.st_ino, found.st_size, (found.st_size + 511) // 512
        return _ATTRIBUTES.pack(*size, *seconds, *rest, kind | 0o777, 1, 0, 0, 0, 4096, 0)

    def _attributes(self, node: int, data: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self._attributes_of(self._path(node))

    def _change(self, node: int, data: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", data)
        if valid & _SIZE_CHANGES and size != os.stat(self._path(node)).st_size:
            raise OSError(errno.EOPNOTSUPP, "file sizes cannot be changed")
        return self._attributes(node, data)  # changes of modes and times are ignored

    def _make_directory(self, node: int, data: bytes) -> bytes:
        path = self._path(node, data[8:-1])
        os.mkdir(path)
        return self._entry(path)

    def _remove(self, node: int, data: bytes, remove: Callable[[str], None]) -> bytes:
        path = self._path(node, data[:-1])
        remove(path)
        self._forget(path)
        return b""

    def _rename(self, node: int, data: bytes, names_at: int) -> bytes:
        (directory,) = struct.unpack_from("<Q", data)
        old, new = (os.fsdecode(name) for name in data[names_at:-1].split(b"\0"))
        source, target = f"{self._path(node)}/{old}", f"{self._path(directory)}/{new}"
        if os.path.isdir(source):
            shutil.copytree(source, target)
            shutil.rmtree(source)
        else:
            shutil.copyfile(source, target)
            os.unlink(source)
        self._forget(source)
        return b""

    def _forget(self, path: str) -> None:
        for known in [p for p in self._numbers if p == path or p.startswith(f"{path}/")]:
            del self._paths[self._numbers.pop(known)]

    def _open(self, node: int, data: bytes) -> bytes:
        return self._opened(self._path(node), struct.unpack_from("<I", data)[0], os.O_RDONLY)

    def _create(self, node: int, data: bytes) -> bytes:
        path = self._path(node, data[16:-1])
        opened = self._opened(path, struct.unpack_from("<I", data)[0], os.O_CREAT)
        return self._entry(path) + opened

    def _opened(self, path: str, flags: int, more: int) -> bytes:
        if flags & os.O_APPEND:
            raise OSError(errno.EOPNOTSUPP, "appending is not supported")
        kept = os.O_ACCMODE | os.O_TRUNC | os.O_EXCL
        file = os.open(path, flags & kept | more, 0o666)
        if flags & os.O_ACCMODE != os.O_RDONLY:
            self._written[file] = 0
        return struct.pack("<QII", file, _DIRECT_IO, 0)

    def _read(self, node: int, data: bytes) -> bytes:
        file, offset, size = struct.unpack_from("<QQI", data)
        return os.pread(file, size, offset)

    def _write(self, node: int, data: bytes) -> bytes:
        file, offset, size = struct.unpack_from("<QQI", data)
        if offset != self._written[file] or offset != os.fstat(file).st_size:
            raise OSError(errno.EOPNOTSUPP, "files must be written from start to end")
        written = os.pwrite(file, data[40 : 40 + size], offset)
        self._written[file] += written
        return struct.pack("<II", written, 0)

    def _release(self, node: int, data: bytes) -> bytes:
        (file,) = struct.unpack_from("<Q", data)
        self._written.pop(file, None)
        os.close(file)
        return b""

    def _list(self, node: int, data: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", data)
        names, result = self._listing(self._path(node)), b""
        for place, (name, kind) in enumerate(names[offset:], start=offset + 1):
            text = os.fsencode(name)
            entry = struct.pack("<QQII", 1 << 40, place, len(text), kind) + text
            entry += bytes(-len(entry) % 8)
            if len(result) + len(entry) > size:
                break
            result += entry
        return result

    def _listing(self, path: str) -> list[tuple[str, int]]:
        taken, names = self._listings.get(path, (-STALE_SECONDS, []))
        if time.monotonic() - taken >= STALE_SECONDS:
            with os.scandir(path) as entries:
                names = [(e.name, stat.S_IFMT(e.stat().st_mode) >> 12) for e in entries]
            self._listings[path] = (time.monotonic(), names)
        return names


def main(store: str, mountpoint: str) -> None:
    """Mount the file system, print a line, and serve it until the input ends."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"volume", mountpoint.encode(), b"fuse", 0, options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), mountpoint)
    print(_MOUNTED, flush=True)

    def unmount_at_the_end() -> None:
        sys.stdin.read()
        libc.umount2(mountpoint.encode(), _DETACH)
        os._exit(0)  # do not wait until other processes have closed all files

    threading.Thread(target=unmount_at_the_end, daemon=True).start()
    _Volume(store).serve(device)


if __name__ == "__main__":
    main(*sys.argv[1:])
