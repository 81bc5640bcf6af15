"""Options of the shard cache, and the download and decompression of a shard's files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from mdstorm_backend.base.checks import check_integer, check_seconds
from mdstorm_backend.base.locks import FileLock
from mdstorm_backend.base.recorder import Cause, count_download, work
from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity, Record
from mdstorm_backend.cache.download import LONGEST_PAUSE, check_hash, decompressed, download, mapped
from mdstorm_backend.errors import CorruptDatasetError, InvalidArgumentError
from mdstorm_backend.format.compression import check_hashes
from mdstorm_backend.format.index import FileInfo, ShardInfo
from mdstorm_backend.format.shard_info import parse_size
from mdstorm_backend.storage import Arrival, Location, normalize_url


def parse_bytes(value: int | float | str, *, name: str) -> int:
    """Return a number of bytes, given as a number or as text such as ``"10gb"`` (units of 1024).

    Raises
    ------
    InvalidArgumentError
        If `value` is neither, or not positive; the message calls it `name`.
    """
    try:
        size = parse_size(value)
    except InvalidArgumentError:
        size = 0
    if size <= 0 or isinstance(value, bool):
        raise InvalidArgumentError(
            f"{name} must be a positive number of bytes, or text such as '500mb' or '10gb'; "
            f"found {value!r}"
        )
    return size


@dataclass(frozen=True)
class CacheOptions:
    """Options for downloading and caching shards. Can be pickled; holds no secrets.

    Attributes
    ----------
    directory : str or None
        Local directory for the shards, in the layout that other readers of the format expect. If
        None, each dataset has a directory below the default cache directory: the environment
        variable ``MDSTORM_CACHE_DIR``, or else ``mdstorm-cache-<uid>`` in the system's directory
        for temporary files.
    limit : int or None
        Largest total size in bytes of the cache's files in the directory, including the index; may
        be given as text such as ``"10gb"``. If the files need more, the least recently used shards
        are removed. None means no limit.
    validate_hash : str or None
        Name of a hash in the index by which every shard is verified.
    retry : int
        Number of download attempts.
    timeout : float
        Seconds that a download may wait without receiving data.
    keep_zip : bool
        Whether to keep compressed files beside the decompressed shards.
    """

    directory: str | None = None
    limit: int | None = None
    validate_hash: str | None = None
    retry: int = 2
    timeout: float = 60.0
    keep_zip: bool = False

    def __post_init__(self) -> None:
        if self.directory is not None:
            object.__setattr__(self, "directory", _local_path(self.directory))
        if self.limit is not None:
            object.__setattr__(self, "limit", parse_bytes(self.limit, name="the cache limit"))
        if self.validate_hash is not None:
            check_hashes([self.validate_hash])
        check_integer("retry", self.retry, lowest=1)
        check_seconds("timeout", self.timeout)


def _local_path(directory: str) -> str:
    directory = os.fspath(directory)
    url = normalize_url(directory)
    if not url.startswith("file:///"):
        raise InvalidArgumentError(
            f"the cache directory must be a local path, found {directory!r}: choose a directory "
            "on a disk of this machine"
        )
    return url[len("file://") :]


#: Seconds that decompressing and hashing a shard may take.
_WORK = 60.0


@dataclass(frozen=True)
class ShardSource:
    """Downloads and decompresses the shards of one dataset. Can be pickled; holds no state.

    Attributes
    ----------
    location : Location
        Where the dataset is.
    fingerprint : str
        State of the dataset: files that were downloaded for another state are downloaded again.
    directory : CacheDirectory
        Where the files are cached.
    options : CacheOptions
        How the files are downloaded and cached.
    """

    location: Location
    fingerprint: str
    directory: CacheDirectory
    options: CacheOptions

    @property
    def patience(self) -> float:
        """Seconds that making a shard may take without progress."""
        retry = self.options.retry
        pauses = sum(1.5 * min(2.0**attempt, LONGEST_PAUSE) for attempt in range(retry - 1))
        return retry * self.options.timeout + pauses + _WORK

    @property
    def limit(self) -> int | None:
        """The cache limit less the copy of the index, in bytes; None for no limit."""
        limit = self.options.limit
        return None if limit is None else limit - self.directory.index_bytes

    def check_limit(self, shards: Iterable[ShardInfo]) -> None:
        """Raise InvalidArgumentError if one of `shards` needs more than the limit."""
        limit = self.limit
        largest = max(shards, key=room_for, default=None)
        if limit is not None and largest is not None and room_for(largest) > limit:
            index = self.directory.index_bytes
            raise InvalidArgumentError(
                f"the shard {largest.raw_data.basename} of {self.location.url} needs "
                f"{room_for(largest)} bytes in the cache{f', the index {index}' if index else ''}, "
                f"and the limit is {self.options.limit}. Raise the limit (cache_limit), or write "
                "the dataset with smaller shards"
            )

    def is_outdated(self, info: ShardInfo, record: Record) -> bool:
        """Whether the files were made for another state of the dataset, or from another file."""
        return record.dataset != self.fingerprint or record.is_from_another(
            origin(self.location, info)
        )

    def make_parts(
        self,
        info: ShardInfo,
        record: Record,
        lock: FileLock,
        parts: dict[str, str],
        arrival: Arrival | None,
    ) -> None:
        """Download or decompress the files that are kept for a shard.

        Parameters
        ----------
        info : ShardInfo
            The shard.
        record : Record
            The shard's record.
        lock : FileLock
            The lock on the record, which the caller holds.
        parts : dict of str to str
            Receives the temporary path of each file, by the file's name.
        arrival : Arrival or None
            The state of the file, if it is read while it is downloaded.
        """
        if info.zip_data is None or info.compression is None:
            name = info.raw_data.basename
            if arrival is not None:
                part = self.directory.new_part(lock.path)
                parts[name] = arrival.begin(part, info.raw_data.bytes)
            parts[name] = self._download(info.raw_data, lock, arrival)
            return
        raw = parts[info.raw_data.basename] = self.directory.new_part(lock.path)
        if self._decompress_present_zip(info, info.zip_data, record, raw):
            return
        packed = parts[info.zip_data.basename] = self._download(info.zip_data, lock)
        self._decompress(info, packed, raw, self.location.file_url(info.zip_data.basename))
        if not self.options.keep_zip:
            del parts[info.zip_data.basename]
            os.unlink(packed)

    def _download(self, file: FileInfo, lock: FileLock, arrival: Arrival | None = None) -> str:
        with work(Cause.DOWNLOADS):
            path = download(
                self.location,
                file,
                lambda: self.directory.new_part(lock.path),
                hash_name=self.options.validate_hash,
                # Retrying a local disk would give the same bytes.
                attempts=1 if self.location.is_local_disk else self.options.retry,
                timeout=self.options.timeout,
                arrival=arrival,
            )
        count_download(file.bytes)
        return path

    def _decompress_present_zip(
        self, info: ShardInfo, file: FileInfo, record: Record, raw: str
    ) -> bool:
        """Decompress the shard from a file that is already on a local disk; False if none."""
        path = url = self.directory.file(file.basename)
        in_place = self.location.is_local_disk and not self.options.keep_zip
        if in_place and FileIdentity.at(path) is None:
            path = os.path.join(self.location.path, file.basename)
            url = self.location.file_url(file.basename)
        identity = FileIdentity.at(path)
        if identity is None or identity.size != file.bytes:
            return False
        ours = record.files.get(file.basename) == identity
        if ours and self.is_outdated(info, record):
            return False
        try:
            if self.options.validate_hash is not None:
                check_hash(file, mapped(path), self.options.validate_hash, url)
            self._decompress(info, path, raw, url)
        except CorruptDatasetError:
            if not ours:
                raise
            os.unlink(path)
            return False
        return True

    def _decompress(self, info: ShardInfo, packed: str, raw: str, url: str) -> None:
        content = decompressed(info, mapped(packed), url)
        with open(raw, "wb") as target:
            target.write(content)


def room_for(info: ShardInfo) -> int:
    """Return the bytes that a shard takes while it is downloaded and decompressed."""
    return info.raw_data.bytes + (info.zip_data.bytes if info.zip_data else 0)


def origin(location: Location, info: ShardInfo) -> FileIdentity | None:
    """Return the identity of the file that a shard is made from; None if it is remote or gone."""
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
                f"{sorted(file.hashes) or 'no hashes'} for {file.basename}. Choose one of those, "
                "or write the dataset with hashes=[…]"
            )
