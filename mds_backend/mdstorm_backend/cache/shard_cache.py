"""The shard cache: each shard is brought to this machine once, and found there from then on."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mdstorm_backend.cache.directory import CacheDirectory
from mdstorm_backend.cache.download import check_hash, download, mapped
from mdstorm_backend.cache.locks import FileLock, wait_for_lock
from mdstorm_backend.cache.options import CacheOptions
from mdstorm_backend.cache.records import FileIdentity, Record
from mdstorm_backend.cache.space import remove_stale_parts, reserve
from mdstorm_backend.compression import decompress
from mdstorm_backend.errors import (
    CorruptDatasetError,
    InvalidArgumentError,
    MDStormError,
    StorageError,
)
from mdstorm_backend.index import FileInfo, ShardInfo
from mdstorm_backend.storage import Buffer, Location

__all__ = ["ShardCache", "check_hash_is_recorded"]


class ShardCache:
    """Shards of one dataset in a directory of this machine.

    Safe to share between threads, between forked processes, and, through the directory, between
    any processes of the machine. Pickles without any content.

    Parameters
    ----------
    location : Location
        Where the dataset lies.
    fingerprint : str
        Its state: files that were brought for another one are brought anew.
    directory : str
        Where the shards go.
    options : CacheOptions
        How.
    exclusive : bool
        Whether nobody else puts files there, so that whatever is damaged may be replaced.
    sleep : callable
        Makes the pauses between attempts.
    """

    def __init__(
        self,
        location: Location,
        fingerprint: str,
        directory: str,
        options: CacheOptions,
        *,
        exclusive: bool,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.location = location
        self.options = options
        self.directory = CacheDirectory(directory)
        self._fingerprint = fingerprint
        self._exclusive = exclusive
        self._sleep = sleep
        self._swept = False

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.location, self._fingerprint, self.directory.path, self.options)
        return _make, (*arguments, self._exclusive, self._sleep)

    def open(self, info: ShardInfo) -> Buffer:
        """Return the content of a shard, mapped; it stays valid when the file is removed.

        Raises
        ------
        DatasetNotFoundError
            If its file is gone.
        CorruptDatasetError
            If it does not hold what the index says.
        InvalidArgumentError
            If the index does not record the hash to check by.
        CredentialsError, StorageError
            If the storage refuses or fails, or the cache directory cannot be used.
        """
        check_hash_is_recorded(info, self.options.validate_hash)
        try:
            content = self._find(info)
            if content is None:
                with self._lock(info) as lock:
                    content = self._find(info)
                    if content is None:
                        content = self._check_or_bring(info, lock)
            return content
        except MDStormError:
            raise
        except OSError as error:
            raise self.directory.failure(error) from error

    def _find(self, info: ShardInfo) -> Buffer | None:
        """Map the shard if it is there, in the right state and checked; takes no lock."""
        path = self.directory.file(info.raw_data.basename)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            identity = FileIdentity.of(os.fstat(fd))
            note = self.directory.record(info.raw_data.basename)
            if not self._is_good(info, identity, Record.at(note)):
                return None
            with suppress(OSError):
                os.utime(note)
            if identity.size == 0:
                return b""
            return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(fd)

    def _is_good(self, info: ShardInfo, identity: FileIdentity, record: Record) -> bool:
        if identity.size != info.raw_data.bytes or self._is_outdated(info, identity, record):
            return False
        hash_name = self.options.validate_hash
        return hash_name is None or record.checked.get(hash_name) == identity

    def _is_outdated(self, info: ShardInfo, identity: FileIdentity, record: Record) -> bool:
        ours = record.files.get(info.raw_data.basename) == identity
        return ours and record.dataset != self._fingerprint

    def _lock(self, info: ShardInfo) -> FileLock:
        self.directory.make(self.location.url, self._fingerprint)
        if not self._swept:
            remove_stale_parts(self.directory)
            self._swept = True
        path = self.directory.record(info.raw_data.basename)

        def progress() -> object:
            return [(part, _size(part)) for part in self._parts_of(path)]

        return wait_for_lock(path, patience=self._patience, progress=progress)

    def _parts_of(self, record: str) -> list[str]:
        return [part for part, owner in self.directory.parts() if owner == record]

    @property
    def _patience(self) -> float:
        """Seconds that a download may stand still, pauses between attempts included."""
        pauses = sum(1.5 * min(2.0**attempt, 30) for attempt in range(self.options.retry - 1))
        return self.options.retry * self.options.timeout + pauses + 60

    def _check_or_bring(self, info: ShardInfo, lock: FileLock) -> Buffer:
        record = Record.from_bytes(lock.read())
        path = self.directory.file(info.raw_data.basename)
        identity = FileIdentity.at(path)
        if identity is not None:
            ours = self._exclusive or record.files.get(info.raw_data.basename) == identity
            if identity.size != info.raw_data.bytes and not ours:
                raise CorruptDatasetError(
                    f"{path} holds {identity.size} bytes and the index says {info.raw_data.bytes}. "
                    "It was not brought there by this cache, which leaves it alone: remove the "
                    "file, or name another directory",
                    url=path,
                )
            if identity.size == info.raw_data.bytes and not self._is_outdated(
                info, identity, record
            ):
                try:
                    return self._check(info, identity, record, lock)
                except CorruptDatasetError:
                    if not ours:
                        raise
                    os.unlink(path)
        self._bring(info, record, lock)
        content = self._find(info)
        if content is None:
            raise StorageError(
                f"{path} was changed by somebody else while it was brought there. Let nothing else "
                "write to the cache directory, or name another one",
                url=path,
            )
        return content

    def _check(
        self, info: ShardInfo, identity: FileIdentity, record: Record, lock: FileLock
    ) -> Buffer:
        """Check by its hash a file that is there, once; it need not be ours."""
        hash_name = self.options.validate_hash
        path = self.directory.file(info.raw_data.basename)
        if hash_name is not None and record.checked.get(hash_name) != identity:
            check_hash(info.raw_data, mapped(path), hash_name, path)
            checked = {**record.checked, hash_name: identity}
            lock.write(replace(record, checked=checked).to_bytes())
        content = self._find(info)
        if content is None:
            raise CorruptDatasetError(f"{path} was replaced while it was read. Try again", url=path)
        return content

    def _bring(self, info: ShardInfo, record: Record, lock: FileLock) -> None:
        """Download and decompress a shard. The lock is held; nothing is left after an error."""
        if record.reserved:  # by a process that was killed
            for part in self._parts_of(lock.path):
                os.unlink(part)
        before = replace(record, reserved=0)
        parts: dict[str, str] = {}
        self._reserve(info, before, lock)
        try:
            self._make_parts(info, before, lock, parts)
            identities = {name: FileIdentity.of(os.stat(part)) for name, part in parts.items()}
            hash_name = self.options.validate_hash
            raw = identities[info.raw_data.basename]
            note = Record(
                dataset=self._fingerprint,
                files={**before.files, **identities},
                checked={hash_name: raw} if hash_name else {},
            )
            for name in parts:
                os.makedirs(os.path.dirname(self.directory.file(name)), exist_ok=True)
            # Noted first: a file in its place that no record claims would never be removed.
            lock.write(note.to_bytes())
            for name, part in list(parts.items()):
                os.replace(part, self.directory.file(name))
                del parts[name]
        except BaseException:
            for part in parts.values():
                with suppress(OSError):
                    os.unlink(part)
            with suppress(OSError):
                lock.write(before.to_bytes())
            raise

    def _reserve(self, info: ShardInfo, record: Record, lock: FileLock) -> None:
        limit = self.options.limit
        nbytes = info.raw_data.bytes + (info.zip_data.bytes if info.zip_data else 0)
        if limit is None:
            lock.write(replace(record, reserved=nbytes).to_bytes())
            return
        if nbytes > limit:
            raise InvalidArgumentError(
                f"the shard {info.raw_data.basename} of {self.location.url} needs {nbytes} bytes "
                f"in the cache, whose limit is {limit}. Raise the limit (cache_limit), or write "
                "the dataset with smaller shards"
            )
        reserve(self.directory, lock, record, nbytes, limit=limit, patience=self._patience)

    def _make_parts(
        self, info: ShardInfo, record: Record, lock: FileLock, parts: dict[str, str]
    ) -> None:
        """Make the files of a shard under temporary names, added to `parts` as they come."""
        if info.zip_data is None or info.compression is None:
            parts[info.raw_data.basename] = self._download(info.raw_data, lock)
            return
        raw = self.directory.new_part(lock.path)
        parts[info.raw_data.basename] = raw
        if self._decompress_present_zip(info, info.zip_data, record, raw):
            return
        packed = parts[info.zip_data.basename] = self._download(info.zip_data, lock)
        self._decompress(info, packed, raw, self.location.file_url(info.zip_data.basename))
        if not self.options.keep_zip:
            del parts[info.zip_data.basename]
            os.unlink(packed)

    def _download(self, file: FileInfo, lock: FileLock) -> str:
        return download(
            self.location,
            file,
            lambda: self.directory.new_part(lock.path),
            hash_name=self.options.validate_hash,
            attempts=self.options.retry,
            timeout=self.options.timeout,
            sleep=self._sleep,
        )

    def _decompress_present_zip(
        self, info: ShardInfo, file: FileInfo, record: Record, raw: str
    ) -> bool:
        """Decompress from a file that is on a disk of this machine already, if there is one."""
        path = self.directory.file(file.basename)
        elsewhere = self.location.is_local_disk and not self.options.keep_zip
        if elsewhere and FileIdentity.at(path) is None:
            path = os.path.join(self.location.path, file.basename)
        identity = FileIdentity.at(path)
        if identity is None or identity.size != file.bytes:
            return False
        ours = record.files.get(file.basename) == identity
        if ours and record.dataset != self._fingerprint:
            return False
        try:
            if self.options.validate_hash is not None:
                check_hash(file, mapped(path), self.options.validate_hash, path)
            self._decompress(info, path, raw, path)
        except CorruptDatasetError:
            if not ours:
                raise
            os.unlink(path)
            return False
        return True

    def _decompress(self, info: ShardInfo, packed: str, raw: str, url: str) -> None:
        """Decompress a file in one go, into as many bytes as the index says."""
        size, data = info.raw_data.bytes, mapped(packed)
        try:
            content = decompress(info.compression or "", data, size)
            if len(content) != size:
                raise ValueError(f"it gives {len(content)} bytes and the index says {size}")
        except (OSError, ValueError) as error:
            raise CorruptDatasetError(
                f"{url} cannot be decompressed as {info.compression} ({error}). Copy it again, or "
                "write the dataset again",
                url=url,
            ) from error
        with open(raw, "wb") as target:
            target.write(content)


def check_hash_is_recorded(info: ShardInfo, hash_name: str | None) -> None:
    """Raise InvalidArgumentError unless the index records `hash_name` for a shard's files."""
    if hash_name is None:
        return
    for file in (info.raw_data, info.zip_data):
        if file is not None and hash_name not in file.hashes:
            raise InvalidArgumentError(
                f"validate_hash={hash_name!r} cannot be checked: the index records "
                f"{sorted(file.hashes) or 'no hashes'} for {file.basename}. Name one of those, or "
                "write the dataset with hashes=[…]"
            )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _make(
    location: Location,
    fingerprint: str,
    directory: str,
    options: CacheOptions,
    exclusive: bool,
    sleep: Callable[[float], None],
) -> ShardCache:
    return ShardCache(location, fingerprint, directory, options, exclusive=exclusive, sleep=sleep)
