"""A cache on a local disk, mirroring ``petastorm.local_disk_cache``."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from mdstorm._petastorm_names import other_names
from mdstorm.cache import CacheBase
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedArgumentError
from mdstorm_backend.base import is_integer, open_plain, warn_user

__all__ = [
    "LocalDiskCache",
]

__getattr__ = other_names(__name__)

_SUFFIX = ".mdstorm-cached"
#: Matches all files in a cache, including temporary files that a killed process may have left.
_FILES = f"*{_SUFFIX}*"
_MAGIC = b"mdstorm cached value 1\n"
_CHECKSUM_BYTES = 4
#: Which values a full cache removes first. With ``none``, a full cache keeps its values and does
#: not store any new ones.
_POLICIES = ("least-recently-stored", "least-recently-used", "none")
_ROWS_PER_SHARD = 5


class LocalDiskCache(CacheBase):
    """A cache that stores each value as a file in a local directory, shared between processes.

    Values are pickled. Files that are damaged or owned by another user are treated as missing. If
    the disk is full or read-only, a warning is issued once, and no more values are stored.

    Parameters
    ----------
    path : str or None
        The directory. If it does not exist, it is created so that only this user can access it.
        None means a new temporary directory.
    size_limit_bytes : int
        Maximum total size of the files in bytes.
    expected_row_size_bytes : int
        Approximate size of a row in bytes. It is an error if a few rows would exceed the limit.
    shards : int
        Number of parts into which Petastorm divides a cache, each with its share of the limit. Used
        only to check the limit.
    cleanup : bool
        Whether `cleanup` removes the values.
    eviction_policy : str
        ``least-recently-stored``, ``least-recently-used`` or ``none``.
    **settings
        Other settings of Petastorm's cache, which have no effect.

    Raises
    ------
    ArgumentTypeError
        If a number or the directory is missing; also TypeError.
    InvalidArgumentError
        If the limit is too small; also ValueError.
    """

    def __init__(
        self,
        path: str | None,
        size_limit_bytes: int,
        expected_row_size_bytes: int,
        shards: int = 6,
        cleanup: bool = False,
        *,
        eviction_policy: str = "least-recently-stored",
        **settings: Any,
    ) -> None:
        _check(path, size_limit_bytes, expected_row_size_bytes, shards, eviction_policy)
        self._mdstorm_directory = Path(path or f"{tempfile.gettempdir()}/mdstorm-{uuid4()}")
        self._mdstorm_limit = int(size_limit_bytes)
        self._mdstorm_removes = cleanup
        self._mdstorm_policy = eviction_policy
        self._mdstorm_can_store = True

    def get(self, key: str, fill_cache_func: Callable[[], Any]) -> Any:
        """Return the value for a key; if there is none, call the function and store its result."""
        path = self._mdstorm_directory / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}{_SUFFIX}"
        found = self._mdstorm_read(path)
        if found is None:
            found = (fill_cache_func(),)
            self._mdstorm_store(path, found)
        return found[0]

    def cleanup(self) -> None:
        """Remove the values, and then the directory if it is empty.

        Does nothing unless the cache was created with ``cleanup=True``. Warns if a file cannot be
        removed.
        """
        if not self._mdstorm_removes:
            return
        try:
            for path in self._mdstorm_directory.glob(_FILES):
                path.unlink(missing_ok=True)
        except OSError as error:
            warn_user(
                f"Error cleaning cache: {error}. {self._mdstorm_directory} can be removed by hand"
            )
            return
        with suppress(OSError):
            self._mdstorm_directory.rmdir()

    def _mdstorm_read(self, path: Path) -> tuple[Any] | None:
        try:
            with open(open_plain(str(path)), "rb") as file:
                if os.fstat(file.fileno()).st_uid != os.getuid():
                    return None
                content = memoryview(file.read())
        except OSError:
            return None
        start = len(_MAGIC) + _CHECKSUM_BYTES
        if content[:start] != _MAGIC + _checksum(content[start:]):
            return None
        if self._mdstorm_policy == "least-recently-used":
            with suppress(OSError):
                os.utime(path)
        value: tuple[Any] = pickle.loads(content[start:])  # noqa: S301  # this user's own file
        return value

    def _mdstorm_store(self, path: Path, value: tuple[Any]) -> None:
        """Store a value, unless an earlier write failed."""
        if not self._mdstorm_can_store:
            return
        try:
            self._mdstorm_write(path, value)
        except OSError as error:
            self._mdstorm_can_store = False
            warn_user(
                f"the cache in {self._mdstorm_directory} cannot store values ({error}). They are "
                "read again in each epoch: free space there, or choose another cache_location or a "
                "smaller cache_size_limit"
            )

    def _mdstorm_write(self, path: Path, value: tuple[Any]) -> None:
        """Store a value if there is room for it or room can be made."""
        data = pickle.dumps(value, protocol=5)
        size = len(_MAGIC) + _CHECKSUM_BYTES + len(data)
        if not self._mdstorm_make_room(size):
            return
        descriptor, temporary = self._mdstorm_new_file()
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines([_MAGIC, _checksum(data), data])
            with suppress(FileNotFoundError):  # another process removed it to make room
                os.replace(temporary, path)  # atomic, so readers never see a partial file
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _mdstorm_new_file(self) -> tuple[int, str]:
        while True:
            self._mdstorm_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Another process may have removed the empty directory in the meantime.
            with suppress(FileNotFoundError):
                return tempfile.mkstemp(dir=self._mdstorm_directory, suffix=f"{_SUFFIX}.tmp")

    def _mdstorm_make_room(self, size: int) -> bool:
        files = []
        for path in self._mdstorm_directory.glob(_FILES):
            with suppress(FileNotFoundError):  # another process has removed it
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        used = sum(file_size for _, file_size, _ in files)
        if used + size <= self._mdstorm_limit:
            return True
        if self._mdstorm_policy == "none" or size > self._mdstorm_limit:
            return False
        for _, file_size, path in sorted(files):
            path.unlink(missing_ok=True)
            used -= file_size
            if used + size <= self._mdstorm_limit:
                break
        return True


def _checksum(data: bytes | memoryview) -> bytes:
    return zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "little")


def _check(path: Any, limit: Any, row_size: Any, shards: Any, policy: Any) -> None:
    if not isinstance(path, (str, os.PathLike, type(None))):
        raise ArgumentTypeError(f"cache_location must be a directory, found {path!r}")
    if "://" in str(path) or os.path.isfile(path or ""):
        raise InvalidArgumentError(f"cache_location must be a local directory, found {path!r}")
    for name, value in (("cache_size_limit", limit), ("cache_row_size_estimate", row_size)):
        if not is_integer(value):
            raise ArgumentTypeError(
                f"{name} must be a number of bytes for cache_type='local-disk', found {value!r}"
            )
    if not is_integer(shards) or shards < 1:
        raise InvalidArgumentError(f"shards must be a positive integer, found {shards!r}")
    if policy not in _POLICIES:
        raise UnsupportedArgumentError(
            f"eviction_policy={policy!r} is not supported: use one of {_POLICIES}"
        )
    if policy != "none" and limit / shards < _ROWS_PER_SHARD * row_size:
        raise InvalidArgumentError(
            f"Condition 'size_limit_bytes / shards < {_ROWS_PER_SHARD} * expected_row_size_bytes' "
            f"needs to hold for no cache: each shard must have room for {_ROWS_PER_SHARD} rows of "
            f"{row_size} bytes, found {limit} bytes in {shards} shards. Raise cache_size_limit, or "
            "use fewer shards: cache_extra_settings={'shards': 1}"
        )
