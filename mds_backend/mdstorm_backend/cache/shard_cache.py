"""The shard cache: each shard is downloaded once per machine."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mdstorm_backend.base.locks import FileLock, share_lock, wait_for_lock
from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.base.work_ahead import hand_off
from mdstorm_backend.cache import download, space
from mdstorm_backend.cache.directory import CacheDirectory, CacheOptions, FileIdentity, Record
from mdstorm_backend.errors import CorruptDatasetError, InvalidArgumentError, StorageError
from mdstorm_backend.format.index import FileInfo, ShardInfo
from mdstorm_backend.storage import Arrival, Buffer, Location, ObjectPins, Pins, map_file

#: Number of attempts to lock a shard, since `mdstorm cache clear` may remove the directory.
_LOCK_ATTEMPTS = 5
#: Shards of at most this many bytes are not streamed, since they are downloaded quickly.
SOON_WHOLE = 8 << 20
#: Seconds that decompressing and hashing a shard may take.
_WORK = 60.0


@dataclass(eq=False)
class ShardCache:
    """The shards of one dataset, cached in a local directory.

    Safe to share between threads, between forked processes and, through the directory, between any
    processes on the machine. Can be pickled, without its content.

    Parameters
    ----------
    location : Location
        Where the dataset is.
    state : str
        State of the dataset. Files downloaded for a different state are downloaded again.
    cache_dir : CacheDirectory
        Where the files are cached.
    options : CacheOptions
        How the files are downloaded and cached.
    exclusive : bool
        Whether only the cache puts files in the directory, so that damaged files may be replaced.
    pins : Pins or None
        The pins of the files that are copied, if they are on a local disk. Copies are not pinned.
    objects : ObjectPins or None
        Compares the versions of objects in a store that states them.
    """

    location: Location
    state: str
    cache_dir: CacheDirectory
    options: CacheOptions
    exclusive: bool
    pins: Pins | None = None
    objects: ObjectPins | None = None
    _is_swept = _is_user = _is_made = False

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.location, self.state, self.cache_dir, self.options, self.exclusive
        return ShardCache, (*parts, self.pins, self.objects)

    @property
    def directory(self) -> str:
        """Path of the cache directory."""
        return self.cache_dir.path

    def open(self, info: ShardInfo, arrival: Arrival | None = None) -> Buffer:
        """Open a shard.

        Parameters
        ----------
        info : ShardInfo
            The shard.
        arrival : Arrival, optional
            Used to read the shard while it is being downloaded.

        Returns
        -------
        bytes-like
            The uncompressed bytes, memory-mapped where possible; they stay readable if the file is
            removed.

        Raises
        ------
        DatasetNotFoundError
            If the shard's file is missing.
        DatasetChangedError
            If the file on a local disk that it is copied from has changed.
        CorruptDatasetError
            If the content does not match the index.
        InvalidArgumentError
            If the index does not record the hash to verify.
        CredentialsError, StorageError
            If the storage denies access or fails, or the cache directory cannot be used.
        """
        check_hash_is_recorded(info, self.options.validate_hash)
        self._join()
        with self._source_unchanged(info), self.cache_dir.used():
            self.cache_dir.check()
            content = self._find(info)
            if content is None:
                with self._lock(info) as lock:
                    content = self._check(info, lock)
                    if content is None:
                        return self._bring(info, lock, arrival)
            return content

    @contextmanager
    def _source_unchanged(self, info: ShardInfo) -> Iterator[None]:
        """Check the file that a shard is copied from before and after a block."""
        if self.pins is None:
            yield
            return
        self.pins.check(info.stored.basename)
        try:
            yield
        finally:
            self.pins.check(info.stored.basename)

    def stream(self, info: ShardInfo) -> Buffer | Arrival:
        """Open a shard; its first bytes may be readable while the rest is still downloading.

        Returns
        -------
        bytes-like or Arrival
            The content, as `open` returns it; or, if the shard is large enough for streaming to pay
            off, an `Arrival` with at least one byte available.
        """
        if self._is_worth_streaming(info):
            arrival = Arrival()
            if hand_off(partial(arrival.make, partial(self.open, info, arrival))):
                with work(Cause.DOWNLOADS):
                    arrival.wait_for(1)
                if self.objects is not None and arrival.source is not None:
                    self.objects.compare(info.raw_data.basename, arrival.source)
                return arrival
        return self.open(info)

    def _path(self, info: ShardInfo) -> str:
        return self.cache_dir.file(info.raw_data.basename)

    def _is_worth_streaming(self, info: ShardInfo) -> bool:
        return (
            info.raw_data.bytes > SOON_WHOLE
            and info.zip_data is None
            and self.options.validate_hash is None
            and self.location.is_on_s3
            and not os.path.exists(self._path(info))
        )

    @property
    def _limit(self) -> int | None:
        """The cache limit minus the size of the copied index, in bytes; None for no limit."""
        limit = self.options.limit
        return None if limit is None else limit - self.cache_dir.index_bytes

    def check_limit(self, shards: Iterable[ShardInfo]) -> None:
        """Raise InvalidArgumentError if one of `shards` needs more than the limit."""
        limit, largest = self._limit, max(shards, key=_room_for, default=None)
        if limit is not None and largest is not None and _room_for(largest) > limit:
            index = self.cache_dir.index_bytes
            raise InvalidArgumentError(
                f"the shard {largest.raw_data.basename} of {self.location.url} needs "
                f"{_room_for(largest)} bytes in the cache{f', the index {index}' if index else ''}"
                f", and the limit is {self.options.limit}. Raise the limit (cache_limit), or "
                "write the dataset with smaller shards"
            )

    def discard(self, info: ShardInfo) -> bool:
        """Remove the copy of a shard whose content was found to be damaged.

        Returns
        -------
        bool
            Whether `open` will download the shard again. If False, the file remains, because this
            cache did not make it or could not remove it.
        """
        path = self._path(info)
        try:
            with self._lock(info) as lock:
                space.remove_files(self.cache_dir, lock)
                if self.exclusive:
                    with suppress(FileNotFoundError):
                        os.unlink(path)
        except OSError:  # the caller is already raising an error about the damage
            return False
        return not os.path.exists(path)

    def _find(self, info: ShardInfo) -> Buffer | None:
        """Return the mapped shard without a lock; None if it is missing, outdated or unverified."""
        try:
            fd = os.open(self._path(info), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            identity = FileIdentity.of(os.fstat(fd))
            note = self.cache_dir.record(info.raw_data.basename)
            record = Record.at(note)
            if not self._is_current(info, identity, record):
                return None
            hash_name = self.options.validate_hash
            if hash_name is not None and record.checked.get(hash_name) != identity:
                return None
            with suppress(OSError):
                os.utime(note, follow_symlinks=False)
            return map_file(fd)
        finally:
            os.close(fd)

    def _is_current(self, info: ShardInfo, identity: FileIdentity, record: Record) -> bool:
        """Whether a file has the right size and is not an outdated file that this cache made."""
        ours = identity == record.files.get(info.raw_data.basename)
        is_outdated = ours and self._is_outdated(info, record)
        return identity.size == info.raw_data.bytes and not is_outdated

    def _is_outdated(self, info: ShardInfo, record: Record) -> bool:
        """Whether a shard's files were made for another dataset state or from another file."""
        source = origin(self.location, info)
        return record.dataset != self.state or record.is_from_another(source)

    def _join(self) -> None:
        """Mark a default directory as in use, so that other processes do not remove it."""
        if self.exclusive and not self._is_user:
            with suppress(OSError):  # the directory does not exist yet, or is not writable
                weakref.finalize(self, os.close, share_lock(self.cache_dir.users))
                self._is_user = True

    @property
    def _patience(self) -> float:
        """Seconds to wait without progress while another thread or process is making a shard."""
        retry = self.options.retry
        pauses = sum(min(2.0**attempt, download.LONGEST_PAUSE) for attempt in range(retry - 1))
        return retry * self.options.timeout + 1.5 * pauses + _WORK

    @contextmanager
    def _lock(self, info: ShardInfo) -> Iterator[FileLock]:
        """Hold the lock on a shard during a ``with`` block."""
        path = self.cache_dir.record(info.raw_data.basename)

        def progress() -> object:
            return [(part, FileIdentity.at(part)) for part in self.cache_dir.parts_of(path)]

        for attempt in range(_LOCK_ATTEMPTS):
            if attempt or not self._is_made:
                self._make()
            try:
                with work(Cause.DOWNLOADS):
                    lock = wait_for_lock(path, patience=self._patience, progress=progress)
                break
            except FileNotFoundError:
                if attempt == _LOCK_ATTEMPTS - 1:
                    raise
        with lock:
            if not self._is_swept:
                space.remove_stale_parts(self.cache_dir)
                self._is_swept = True
            yield lock

    def _make(self) -> None:
        """Create the directory, or create it again if it was removed in the meantime."""
        url = self.location.url
        is_new = self.cache_dir.make(url, self.state)
        self._join()
        if is_new and self.exclusive:
            space.clear_former_states(self.cache_dir, url)
        self._is_made = True

    def _check(self, info: ShardInfo, lock: FileLock) -> Buffer | None:
        """Return the shard if its file is current and valid; None if it must be replaced."""
        record = Record.from_bytes(lock.read())
        path = self._path(info)
        identity = FileIdentity.at(path)
        if identity is None or not self._is_current(info, identity, record):
            return None
        hash_name = self.options.validate_hash
        if hash_name is not None and record.checked.get(hash_name) != identity:
            try:
                download.check_hash(info.raw_data, download.mapped(path), hash_name, path)
            except CorruptDatasetError:
                if not self._is_ours(info.raw_data.basename, record):
                    raise
                os.unlink(path)
                return None
            checked = {**record.checked, hash_name: identity}
            self.cache_dir.rewrite(lock, replace(record, checked=checked).to_bytes())
        return self._find(info)

    def _bring(self, info: ShardInfo, lock: FileLock, arrival: Arrival | None) -> Buffer:
        """Download or decompress a shard, move its files into place, and return its bytes."""
        record = replace(self._clean(lock), reserved=0)
        parts: dict[str, str] = {}
        made_from = origin(self.location, info)
        try:
            self.check_limit([info])
            with work(Cause.DOWNLOADS):
                limit, patience = self._limit, self._patience
                space.reserve(self.cache_dir, lock, _room_for(info), limit=limit, patience=patience)
            self._make_parts(info, lock, parts, arrival)
            self._put(info, replace(record, source=made_from), lock, parts)
        except BaseException:
            for part in parts.values():
                with suppress(OSError):
                    os.unlink(part)
            with suppress(OSError):
                self.cache_dir.rewrite(lock, record.to_bytes())
            raise
        content = self._find(info)
        if content is None and origin(self.location, info) != made_from:
            return self._bring(info, lock, None)  # a copy has taken the place of the source
        if content is None:
            path = self._path(info)
            raise StorageError(
                f"{path} was changed by another program while it was being downloaded. Make sure "
                "that nothing else writes to the cache directory, or choose another directory",
                url=path,
            )
        return content

    def _make_parts(
        self, info: ShardInfo, lock: FileLock, parts: dict[str, str], arrival: Arrival | None
    ) -> None:
        """Create a shard's files at temporary paths, by downloading or decompressing.

        `parts` receives the temporary path of each file, by the file's name.
        """
        new_part = partial(self.cache_dir.new_part, lock.path)
        name, packed = info.raw_data.basename, info.zip_data
        if packed is None or info.compression is None:
            if arrival is not None:
                parts[name] = arrival.begin(new_part(), info.raw_data.bytes)
            parts[name] = download.download(
                self.location, info.raw_data, self.options, new_part, arrival, self.objects
            )
            return
        raw = parts[name] = new_part()
        if self._decompress_present_zip(info, packed, Record.from_bytes(lock.read()), raw):
            return
        part = download.download(
            self.location, packed, self.options, new_part, objects=self.objects
        )
        parts[packed.basename] = part
        self._decompress(info, part, raw, self.location.file_url(packed.basename))
        if not self.options.keep_zip:
            del parts[packed.basename]
            os.unlink(part)

    def _decompress_present_zip(
        self, info: ShardInfo, file: FileInfo, record: Record, raw: str
    ) -> bool:
        """Decompress a shard from a compressed file on this machine; False if none is usable."""
        path = url = self.cache_dir.file(file.basename)
        in_place = self.location.is_local_disk and not self.options.keep_zip
        if in_place and FileIdentity.at(path) is None:
            path = os.path.join(self.location.path, file.basename)
            url = self.location.file_url(file.basename)
        identity = FileIdentity.at(path)
        if identity is None or identity.size != file.bytes:
            return False
        ours = record.files.get(file.basename) == identity
        if ours and self._is_outdated(info, record):
            return False
        try:
            if self.options.validate_hash is not None:
                download.check_hash(file, download.mapped(path), self.options.validate_hash, url)
            self._decompress(info, path, raw, url)
        except CorruptDatasetError:
            if not ours:
                raise
            os.unlink(path)
            return False
        return True

    def _decompress(self, info: ShardInfo, packed: str, raw: str, url: str) -> None:
        content = download.decompressed(info, download.mapped(packed), url)
        with open(raw, "wb") as target:
            target.write(content)

    def _clean(self, lock: FileLock) -> Record:
        """Remove temporary files that a killed process left behind; return the shard's record."""
        record = Record.from_bytes(lock.read())
        if record.reserved or record.files:
            for part in self.cache_dir.parts_of(lock.path):
                os.unlink(part)
        return record

    def _put(self, info: ShardInfo, record: Record, lock: FileLock, parts: dict[str, str]) -> None:
        identities = {name: FileIdentity.of(os.stat(part)) for name, part in parts.items()}
        files, hash_name = {**record.files, **identities}, self.options.validate_hash
        checked = {hash_name: identities[info.raw_data.basename]} if hash_name else {}
        stored = info.stored.basename
        tag = "" if self.objects is None else self.objects.get(stored)
        tags = {stored: tag} if tag else {}
        note = replace(record, dataset=self.state, files=files, checked=checked, tags=tags)
        for name, part in parts.items():
            self._refuse_to_replace(name, part, record)
        for name in filter(os.path.dirname, parts):
            os.makedirs(os.path.dirname(self.cache_dir.file(name)), exist_ok=True)
        # The record is written first: a file that no record lists would never be removed.
        self.cache_dir.rewrite(lock, note.to_bytes())
        # The shard itself is moved last: while it is missing, the next process cleans up.
        for name in sorted(parts, key=lambda name: name == info.raw_data.basename):
            os.replace(parts[name], self.cache_dir.file(name))
            del parts[name]

    def _is_ours(self, name: str, record: Record) -> bool:
        return self.exclusive or self.cache_dir.holds(record, name)

    def _refuse_to_replace(self, name: str, part: str, record: Record) -> None:
        """Raise CorruptDatasetError if replacing an existing file with `part` would lose content.

        Nothing is lost if this cache made the file, if both have the same size, or if the file is
        the beginning of `part`, because it was truncated or only partly copied.
        """
        path = self.cache_dir.file(name)
        identity = FileIdentity.at(path)
        if identity is None:
            return
        present, size = identity.size, os.path.getsize(part)
        if present == size or self._is_ours(name, record):
            return
        if present > size or download.mapped(part)[:present] != download.mapped(path):
            raise CorruptDatasetError(
                f"{path} holds {present} bytes, but the index records {size}. The cache did not "
                "create this file: remove it, or pass a different directory as local=",
                url=path,
            )


def _room_for(info: ShardInfo) -> int:
    """Return the disk space, in bytes, needed to download and decompress a shard."""
    return info.raw_data.bytes + (info.zip_data.bytes if info.zip_data else 0)


def origin(location: Location, info: ShardInfo) -> FileIdentity | None:
    """Return the identity of a shard's source file, or None if the file is remote or missing."""
    if not location.is_local_disk:
        return None
    return FileIdentity.at(os.path.join(location.path, info.stored.basename))


def check_hash_is_recorded(info: ShardInfo, hash_name: str | None) -> None:
    """Raise InvalidArgumentError unless the index records `hash_name` for a shard's files."""
    if hash_name is None:
        return
    for file in (info.raw_data, info.zip_data):
        if file is not None and hash_name not in file.hashes:
            raise InvalidArgumentError(
                f"validate_hash={hash_name!r} cannot be checked: the index records "
                f"{sorted(file.hashes) or 'no hashes'} for {file.basename}. Choose one of "
                "these, or write the dataset with hashes=[…]"
            )
