"""Shards of random bytes for the cache tests, and a store that can fail."""

import errno
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from mdstorm_backend.base.locks import FileLock, try_lock
from mdstorm_backend.cache import CacheOptions, ShardFiles, download, shard_files
from mdstorm_backend.format.compression import compress, digests, extension
from mdstorm_backend.format.index import FileInfo, ShardInfo
from mdstorm_backend.storage import Location

FINGERPRINT = "0123456789abcdef"
COMPRESSIONS = pytest.mark.parametrize("compression", [None, "zstd"])

#: A function called in place of a download, with the paths of the file and of its copy.
Fault = Callable[[str, str], None]


class RemoteFileSystem(LocalFileSystem):  # type: ignore[misc]
    """A directory that acts as a remote store, counts downloads, and fails on request."""

    protocol = "faulty"
    cachable = False
    downloads: ClassVar[Counter[str]] = Counter()
    faults: ClassVar[list[Fault]] = []
    lock = threading.Lock()

    @classmethod
    def reset(cls) -> None:
        cls.downloads.clear()
        cls.faults.clear()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(path.removeprefix("faulty://"))

    @classmethod
    def next_fault(cls) -> Fault | None:
        with cls.lock:
            return cls.faults.pop(0) if cls.faults else None

    def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        with self.lock:
            self.downloads[os.path.basename(rpath)] += 1
        (self.next_fault() or super().get_file)(rpath, lpath)

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        if fault := self.next_fault():
            fault(path, os.devnull)
        return bytes(super().cat_file(path, *args, **kwargs))


#: Type of the `storage` fixture.
Storage = type[RemoteFileSystem]

fsspec.register_implementation("faulty", RemoteFileSystem, clobber=True)


def truncated(source: str, target: str) -> None:
    Path(target).write_bytes(Path(source).read_bytes()[:-1])


def damaged(source: str, target: str) -> None:
    content = bytearray(Path(source).read_bytes())
    content[len(content) // 2] ^= 1
    Path(target).write_bytes(content)


def disconnected(source: str, target: str) -> None:
    Path(target).write_bytes(Path(source).read_bytes()[:10])
    raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


def refused(*_: object, **__: object) -> None:
    raise PermissionError("Access Denied")


def disk_full(source: str, target: str) -> None:
    Path(target).write_bytes(b"some")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_fault(source: str, target: str) -> None:
    Path(target).write_bytes(Path(source).read_bytes())


def make_shards(
    directory: Path,
    count: int = 3,
    size: int = 1000,
    *,
    compression: str | None = None,
    hashes: Sequence[str] = ("sha1",),
    seed: int = 0,
) -> list[ShardInfo]:
    """Write files of random bytes and describe them as shards."""
    directory.mkdir(parents=True, exist_ok=True)
    generator = random.Random(seed)
    infos = []
    for number in range(count):
        content = generator.randbytes(size // 2) * 2
        raw = FileInfo(f"shard.{number:05}.mds", len(content), digests(hashes, [content]))
        packed = None
        if compression:
            content = compress(compression, [content])
            name = f"{raw.basename}.{extension(compression)}"
            packed = FileInfo(name, len(content), digests(hashes, [content]))
        (directory / (packed or raw).basename).write_bytes(content)
        columns = ("x",), ("bytes",), (None,)
        infos.append(ShardInfo(*columns, 1, raw, packed, compression, tuple(hashes)))
    return infos


def contents(infos: Sequence[ShardInfo], size: int = 1000, seed: int = 0) -> list[bytes]:
    """The uncompressed contents of the files written by `make_shards`."""
    generator = random.Random(seed)
    return [generator.randbytes(size // 2) * 2 for _ in infos]


def remote(directory: Path) -> Location:
    """Return a location whose files are downloaded even though the directory is local."""
    return Location.of(f"faulty://{directory}")


def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process retry requests without pausing."""
    clock = SimpleNamespace(sleep=lambda seconds: None, monotonic=time.monotonic)
    monkeypatch.setattr(download, "time", clock)


def cache(source: Path, *, fingerprint: str = FINGERPRINT, **options: Any) -> ShardFiles:
    """Return the dataset files in a directory that is treated as remote."""
    if "directory" in options:
        options["directory"] = str(options["directory"])
    return shard_files(remote(source), fingerprint, CacheOptions(**options))


def files_in(directory: Path) -> list[str]:
    """Files in a cache directory, excluding the cache's own records."""
    return sorted(
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and ".mdstorm" not in path.parts
    )


def parts_in(directory: Path) -> list[Path]:
    return list(directory.rglob("*.part"))


def locked(path: str) -> FileLock:
    """Hold the lock on a record or the ledger, as another process would."""
    lock = try_lock(path)
    assert lock is not None
    return lock
