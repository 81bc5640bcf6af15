"""The files of a dataset: its index, and shards from a local disk, memory or the shard cache."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from mdstorm_backend import errors
from mdstorm_backend.cache import download
from mdstorm_backend.cache.directory import CacheDirectory, CacheOptions, Record, default_directory
from mdstorm_backend.cache.shard_cache import ShardCache, check_hash_is_recorded, origin
from mdstorm_backend.format.index import INDEX_NAME, FileInfo, ShardInfo
from mdstorm_backend.storage import Buffer, Location, ObjectPins, Pins, check_map, map_of, unchanged

_logger = logging.getLogger(__name__)


def shard_files(
    location: Location,
    fingerprint: str,
    options: CacheOptions | None = None,
    *,
    shards: Iterable[ShardInfo] = (),
    written: str | None = None,
    pins: Pins | None = None,
    tags: Mapping[str, str] | None = None,
) -> ShardFiles:
    """Return the files of a dataset's shards.

    Uncompressed shards on a local disk, and datasets in memory, are read in place. Other shards,
    including those on mounts of remote storage, are read through a `ShardCache`, in the directory
    that `options` specifies or in one under the default cache directory.

    Parameters
    ----------
    location : Location
        Where the dataset is.
    fingerprint : str
        Identity of the dataset's content. Each combination of a fingerprint and the time when the
        index was written has its own default directory.
    options : CacheOptions, optional
        How to cache.
    shards : iterable of ShardInfo, optional
        The shards that will be opened, so that too small a cache limit is reported immediately.
    written : str, optional
        When the index was written, if known: see `read_index`.
    pins : Pins, optional
        The pins of files on a local disk; by default, a file is pinned when it is first opened.
    tags : mapping of str to str, optional
        The entity tags of objects in a store, if they are known.

    Raises
    ------
    InvalidArgumentError
        If one of `shards` exceeds the cache limit.
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    options = options or CacheOptions()
    local = options.directory is None or options.directory == _local_directory(location)
    if pins is None and location.is_local_disk:
        pins = Pins(location.path)
    if local and (location.is_local_disk or location.url.startswith("memory:")):
        return DirectFiles(location, fingerprint, options, written, pins)
    cache = _cache(location, fingerprint, options, written, pins, tags)
    cache.check_limit(shards)
    return cache


def _local_directory(location: Location) -> str | None:
    return os.path.abspath(location.path) if location.is_local_disk else None


def _cache(
    location: Location,
    fingerprint: str,
    options: CacheOptions,
    written: str | None = None,
    pins: Pins | None = None,
    tags: Mapping[str, str] | None = None,
) -> ShardCache:
    directory = options.directory
    if directory == _local_directory(location) and not os.access(directory or "", os.W_OK):
        directory = None  # a read-only disk cannot take decompressed shards
    state = _state(location, fingerprint, directory, options, written)
    cache_dir = CacheDirectory(directory or default_directory(location.url, state))
    objects = None
    if location.has_versions:
        objects = ObjectPins(location, written, tags, partial(cache_dir.tags, state))
    return ShardCache(location, state, cache_dir, options, directory is None, pins, objects)


def _state(
    location: Location,
    fingerprint: str,
    directory: str | None,
    options: CacheOptions,
    written: str | None,
) -> str:
    """Return the fingerprint combined with the time at which the index was written.

    The time is needed because a dataset that is rewritten with shards of the same sizes has the
    same index, unless the index holds hashes.
    """
    if written is not None:
        return f"{fingerprint} {written}".rstrip()
    try:
        modified = download.with_retries(
            location, INDEX_NAME, options, lambda: location.modified(INDEX_NAME)
        )
    except (errors.CredentialsError, FileNotFoundError, errors.StorageError) as error:
        # The storage has no index or is unreachable: use the state recorded in the cache directory
        # that the options specify, if any.
        known = CacheDirectory(directory).described().get("fingerprint") if directory else None
        if known is not None and known.startswith(fingerprint):
            return known
        if isinstance(error, FileNotFoundError) or (directory and known is None):
            return fingerprint
        raise
    return f"{fingerprint} {modified}".rstrip()


@dataclass(eq=False)
class DirectFiles:
    """Shards on a local disk or in memory.

    Compressed shards on a disk are decompressed once, into a cache. In memory, and if the cache
    cannot be used, they are decompressed each time they are opened.

    Parameters
    ----------
    location : Location
        Where the dataset is.
    fingerprint : str
        Identity of the dataset's content.
    options : CacheOptions
        How to cache decompressed shards.
    written : str, optional
        When the index was written, if known: see `read_index`.
    pins : Pins or None
        The pins of the files; None for a dataset in memory.
    """

    location: Location
    fingerprint: str
    options: CacheOptions
    written: str | None = None
    pins: Pins | None = None
    _checked: set[str] = field(default_factory=set, init=False, repr=False)
    _keeps: bool = field(default=True, init=False, repr=False)
    _cache: ShardCache | None = field(default=None, init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.location, self.fingerprint, self.options, self.written, self.pins
        return DirectFiles, parts

    @property
    def directory(self) -> str | None:
        """Directory for decompressed shards; None for a dataset in memory, which needs none."""
        return self._copies().directory if self.location.is_local_disk else None

    @property
    def state(self) -> str:
        """State of the dataset: the fingerprint, and the time at which the index was written."""
        return _state(self.location, self.fingerprint, None, self.options, self.written)

    def stream(self, info: ShardInfo) -> Buffer:
        """Return the bytes of a shard, like `open`: local shards need no streaming."""
        return self.open(info)

    def open(self, info: ShardInfo) -> Buffer:
        """Return the bytes of a shard, like `ShardCache.open`."""
        check_hash_is_recorded(info, self.options.validate_hash)
        packed, pins = info.zip_data, self.pins
        if packed is None:
            return self._read_file(info.raw_data, pins)
        if pins is not None:
            pins.check(packed.basename)
            if pins.get(packed.basename) is not None:
                pins = None  # the uncompressed file is a copy, which may be removed and made again
        try:
            if not self._is_outdated(info):
                return self._read_file(info.raw_data, pins)
        except errors.DatasetNotFoundError:
            pass
        if self.location.is_local_disk and self._keeps:
            copies = self._copies()
            try:
                return copies.open(info)
            except errors.StorageError as error:
                is_first, self._keeps = self._keeps, False  # of several threads
                if is_first:
                    _logger.warning("shards are decompressed each time they are opened: %s", error)
        url, content = self.location.file_url(packed.basename), self._read_file(packed, self.pins)
        with unchanged([map_of(content)]):
            return download.decompressed(info, content, url)

    def discard(self, info: ShardInfo) -> bool:
        """Discard a decompressed copy, like `ShardCache.discard`."""
        if info.zip_data is None or not self.location.is_local_disk:
            return False
        return self._copies().discard(info)

    def _copies(self) -> ShardCache:
        if self._cache is None:
            self._cache = _cache(self.location, self.fingerprint, self.options, pins=self.pins)
        return self._cache

    def _is_outdated(self, info: ShardInfo) -> bool:
        """Whether a cache made the raw file from a compressed file that has since been replaced."""
        if not self.location.is_local_disk:
            return False
        directory, name = CacheDirectory(self.location.path), info.raw_data.basename
        record = Record.at(directory.record(name))
        is_ours = directory.holds(record, name)
        return is_ours and record.is_from_another(origin(self.location, info))

    def _read_file(self, file: FileInfo, pins: Pins | None) -> Buffer:
        """Return a file's content after checking its size and, on the first read, its hash."""
        url, is_new = self.location.file_url(file.basename), file.basename not in self._checked
        hash_name = self.options.validate_hash if is_new else None
        try:
            name = file.basename
            content = self.location.read(name) if pins is None else pins.map(name)
        except download.ABSENT as error:
            raise download.missing(url, error) from error
        try:
            download.check_content(file, content, hash_name, url)
        except errors.CorruptDatasetError:
            check_map(content)
            raise
        self._checked.add(file.basename)
        return content


#: Reads the bytes of shards. Safe to share between threads, to pickle and to fork.
ShardFiles: TypeAlias = DirectFiles | ShardCache


def read_index(location: Location, options: CacheOptions | None = None) -> tuple[bytes, str | None]:
    """Return the content of a dataset's ``index.json`` and when the index was written.

    If `options` specifies a directory, a copy of the index is kept there, as other readers of the
    format do. If the storage cannot be reached, denies access, or no longer has the dataset, the
    copy is used, with a warning in the log.

    Parameters
    ----------
    location : Location
        Where the dataset is.
    options : CacheOptions, optional
        The number of attempts, the timeout and the directory.

    Returns
    -------
    content : bytes
        The content of the index.
    written : str or None
        The time as `Location.modified` returns it; None for the copy.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    InvalidArgumentError
        If the directory contains a different dataset's index that this cache did not put there.
    CredentialsError, StorageError
        If the storage denies access or fails, or the directory cannot be used.
    """
    options = options or CacheOptions()
    named = options.directory
    if named is None or named == _local_directory(location):
        return _read_index(location, options)
    directory = CacheDirectory(named)
    try:
        content, written = _read_index(location, options)
    except (errors.CredentialsError, errors.DatasetNotFoundError, errors.StorageError) as error:
        copy = directory.index()
        if copy is None or directory.described().get("url", location.url) != location.url:
            raise
        _logger.warning("%s; reading the copy of the index in %s instead", error, named)
        return copy, None
    with directory.used():
        directory.keep_index(location.url, content)
    return content, written


def _read_index(location: Location, options: CacheOptions) -> tuple[bytes, str | None]:
    try:
        return download.with_retries(
            location, INDEX_NAME, options, lambda: location.read_dated(INDEX_NAME)
        )
    except (*download.ABSENT, NotADirectoryError) as error:
        found = "" if location.is_local_disk else f" ({error})"
        raise errors.DatasetNotFoundError(
            f"there is no dataset at {location.url}: it has no {INDEX_NAME}{found}. Check the "
            "URL; if the dataset was deleted or its job failed, write it again",
            url=location.url,
        ) from (None if location.is_local_disk else error)
