"""The settings of a `Stream`, and its files if a subclass overrides how they are found."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from mdstorm_backend.base.checks import check_integer, check_seconds
from mdstorm_backend.base.locks import FileLock, wait_for_lock
from mdstorm_backend.cache.directory import NOTES, CacheOptions, default_directory
from mdstorm_backend.cache.download import check_content, decompressed, try_again
from mdstorm_backend.datasets.dataset import Dataset, open_mds
from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.format.index import INDEX_NAME, Index, ShardInfo
from mdstorm_backend.order import StreamShape, StreamWeight
from mdstorm_backend.storage import Location, copy_complete

_WEIGHTS = ("proportion", "repeat", "choose")
#: Seconds to wait for another process to download a file while the file is not growing.
_PATIENCE = 600.0
#: Stands in for a dataset's fingerprint if a subclass of `Stream` lists or downloads the shards.
_OWN_SHARDS = "stream"
#: A stream's method that downloads a file, given its path under the remote and its path under
#: `local`.
_Download = Callable[[str, str], str]


class StreamFiles:
    """A stream's settings, including those of its dataset, and access to its files.

    Parameters
    ----------
    overridden : collection of str
        The methods for shards and files that a subclass overrides.

    Attributes
    ----------
    is_hooked : bool
        Whether a subclass overrides how shards are listed or downloaded.
    applied : dict
        The defaults of the dataset that was last created from the stream.
    dataset : Dataset or None
        The latest dataset opened for the stream.
    extra : dict
        The metadata next to the shards in the index that was last read for a subclass.
    storage_options : dict or None
        Options for the file system; they are not pickled.
    """

    def __init__(self, overridden: Collection[str]) -> None:
        self.is_hooked = bool(overridden)
        self._downloads = "_download_file" in overridden
        self._own: dict[str, Any] = {}
        self._derived: dict[str, Any] = {}
        self.applied: dict[str, Any] = {}
        self.dataset: Dataset | None = None
        self.extra: dict[str, Any] = {}
        self.storage_options: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "storage_options": None}

    def set(self, name: str, value: Any) -> None:
        """Set a stream argument."""
        self._own[name] = value
        if name in _WEIGHTS:
            self._derived = {}

    def own(self, name: str) -> Any:
        """Return the value of an argument that was set on the stream, or None if it was not set."""
        return self._own.get(name)

    def shown(self, name: str) -> Any:
        """Return a stream attribute: the computed share, the stream's own value, or the default."""
        if name in self._derived:
            return self._derived[name]
        own = self._own.get(name)
        if name in INHERITED and (own is None or own == ""):
            own = self.applied.get(name)
        return own or "" if name == "split" else own

    def derive(self, weight: StreamWeight) -> None:
        """Record the stream's share of an epoch as a proportion, as repeats and as samples."""
        self._derived = {name: getattr(weight, name) for name in _WEIGHTS}

    def shape(self, *shard_sizes: int) -> StreamShape:
        """Return the stream's shard sizes and weights, from which an order is computed."""
        return StreamShape(shard_sizes, *map(self.own, _WEIGHTS))

    def local(self) -> str | None:
        """Return the local directory for the shards, which may not exist yet; None if unknown."""
        if (own := self._own.get("local")) is not None:
            return str(own)
        remote = self._own.get("remote")
        if remote is None:
            return None
        if not self.is_hooked:
            if self.dataset is not None and not self.dataset.is_mapped:
                return self.dataset.files.directory
            location = Location.of(remote)
            if location.is_local_disk:
                return location.path
        return default_directory(remote, _OWN_SHARDS)

    def shards(self, download: _Download) -> list[ShardInfo]:
        """Return the shards listed in the index."""
        if self._downloads:
            path = os.path.join(self.directory, INDEX_NAME)
            if not os.path.exists(path):
                with download_lock(path):
                    if not os.path.exists(path):
                        os.replace(download(INDEX_NAME, f"{INDEX_NAME}.tmp"), path)
            with open(path, "rb") as file:
                index = Index.from_bytes(file.read(), url=path)
        else:
            index = self._open_dataset().index
        self.extra = index.extra
        return list(index.shards)

    def prepare(self, shard: ShardInfo, download: _Download, keep_zip: bool) -> int:
        """Download a shard to the local directory, and return the number of bytes added there."""
        raw, packed = shard.raw_data, shard.zip_data
        path = os.path.join(self.directory, raw.basename)
        if os.path.exists(path):
            return 0
        if not self._downloads:
            self._open_dataset().files.open(shard)
            return raw.bytes
        if packed is None:
            download(raw.basename, raw.basename)
            return raw.bytes
        downloaded = os.path.join(self.directory, packed.basename)
        is_new = not os.path.exists(downloaded)
        if is_new:
            download(packed.basename, packed.basename)
        elif keep_zip:
            # The file may be the dataset's own: opening the shard decompresses it into a cache.
            return 0
        with open(downloaded, "rb") as file:
            content = file.read()
        check_content(packed, content, self.shown("validate_hash") or None, downloaded)
        with open(f"{path}.tmp", "wb") as file:
            file.write(decompressed(shard, content, downloaded))
        os.replace(f"{path}.tmp", path)
        gained = raw.bytes + packed.bytes * is_new
        if keep_zip:
            return gained
        os.unlink(downloaded)
        return gained - packed.bytes

    def download(self, source: str, target: str) -> str:
        """Download a file to the local directory and return its path."""
        remote, split = self.shown("remote"), self.shown("split")
        if remote is None:
            raise DatasetNotFoundError(
                f"{source} is not in {self.local()}, and the stream has no remote: pass the "
                "location of the dataset as remote",
                url=str(self.local()),
            )
        path = os.path.join(self.directory, target)
        location = Location.of(join(remote, split), self.storage_options)
        url, attempts = location.file_url(source), self.shown("download_retry") or 1
        try:
            try_again(lambda: copy_complete(location, source, path), url=url, attempts=attempts)
        except FileNotFoundError as error:
            raise DatasetNotFoundError(f"there is no {url}", url=url) from error
        return path

    @property
    def directory(self) -> str:
        """The local directory of the files, including the split."""
        return os.path.join(self.local() or "", self.shown("split"))

    def _open_dataset(self) -> Dataset:
        """Return the dataset at the remote location, with the local directory as its cache."""
        if self.dataset is None:
            self.dataset = open_mds(
                join(self.shown("remote") or self.local(), self.shown("split")),
                storage_options=self.storage_options,
                cache=self.cache(self.directory),
            )
        return self.dataset

    def cache(self, directory: str | None, limit: int | str | None = None) -> CacheOptions:
        """Return the cache options for `directory`; None means the default cache directory."""
        names = {"retry": "download_retry", "timeout": "download_timeout", "keep_zip": "keep_zip"}
        shown = {option: self.shown(name) for option, name in names.items()}
        return CacheOptions(
            directory=directory,
            limit=limit,  # type: ignore[arg-type]  # CacheOptions parses text
            validate_hash=self.shown("validate_hash") or None,
            **{option: value for option, value in shown.items() if value is not None},
        )


def download_lock(path: str) -> FileLock:
    """Take the lock on the download of a file to `path`, which an override may write in pieces.

    Raises
    ------
    StorageError
        If another process holds the lock and the file stops growing.
    """
    directory, name = os.path.split(path)
    notes = os.path.join(directory, NOTES)
    os.makedirs(notes, exist_ok=True)
    return wait_for_lock(
        os.path.join(notes, f"{name}.bringing"),
        patience=_PATIENCE,
        progress=lambda: size_at(path),
    )


def size_at(path: str) -> int | None:
    """Return the size of a file in bytes; None if it does not exist."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def join(directory: str | None, split: str | None) -> str:
    """Return the directory of a split, or `directory` itself without a split."""
    assert directory is not None
    return f"{directory.rstrip('/') or '/'}/{split}" if split else directory


#: Arguments that a stream takes from its dataset if they are unset on the stream.
INHERITED = ("split", "download_retry", "download_timeout", "validate_hash", "keep_zip")


@dataclass(frozen=True, kw_only=True)
class StreamDefaults:
    """Defaults that a stream takes from its `StreamingDataset`.

    Parameters
    ----------
    split, download_retry, download_timeout, validate_hash, keep_zip
        See `Stream`.
    cache_limit : int or str, optional
        Maximum bytes that each stream's shards may take up on the local disk.
    allow_unsafe_types : bool
        Whether values may be unpickled.
    storage_options : dict, optional
        Options for the fsspec file system.
    """

    split: str | None = None
    download_retry: int = 2
    download_timeout: float = 60
    validate_hash: str | None = None
    keep_zip: bool = False
    cache_limit: int | str | None = None
    allow_unsafe_types: bool = False
    storage_options: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_download(self.download_retry, self.download_timeout)


def check_download(retry: int | None, timeout: float | None) -> None:
    """Raise InvalidArgumentError for an invalid number of attempts or an invalid timeout.

    Raises
    ------
    InvalidArgumentError
        If one of them is invalid; None is accepted for both.
    """
    check_integer("download_retry", retry, lowest=1)
    check_seconds("download_timeout", timeout)
