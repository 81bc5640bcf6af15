"""`Stream`: one of several datasets that are read together."""

from __future__ import annotations

import os
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from mdstorm_backend.elastic import StreamShape, StreamWeight
from mdstorm_backend.errors import DatasetNotFoundError, InvalidArgumentError
from mdstorm_backend.storage import check_no_secrets

if TYPE_CHECKING:
    from mdstorm_backend.cache import CacheOptions
    from mdstorm_backend.datasets.dataset import Dataset


class StreamDefaults:
    """Defaults that a stream takes from its `StreamingDataset`.

    Parameters
    ----------
    split, download_retry, download_timeout, validate_hash, keep_zip
        See `Stream`.
    cache_limit : int or str, optional
        Bytes that the shards of each stream may take on the local disk.
    allow_unsafe_types : bool
        Whether values may be unpickled.
    storage_options : dict, optional
        Options of the fsspec file system.
    """

    def __init__(
        self,
        *,
        split: str | None = None,
        download_retry: int = 2,
        download_timeout: float = 60,
        validate_hash: str | None = None,
        keep_zip: bool = False,
        cache_limit: int | str | None = None,
        allow_unsafe_types: bool = False,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        _check_download(download_retry, download_timeout)
        self.split = split
        self.download_retry = download_retry
        self.download_timeout = download_timeout
        self.validate_hash = validate_hash
        self.keep_zip = keep_zip
        self.cache_limit = cache_limit
        self.allow_unsafe_types = allow_unsafe_types
        self.storage_options = storage_options

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to send credentials to other processes."""
        check_no_secrets(self.storage_options or {})
        return self.__dict__


class Stream:
    """A dataset, its location, and its share of an epoch.

    Streams can be used in any number of datasets, also at the same time.

    Parameters
    ----------
    remote : str, optional
        URL or path of the dataset.
    local : str, optional
        Local directory: the dataset itself or, with `remote`, the directory to cache its shards in.
    split : str, optional
        Sub-directory of both to use.
    proportion : float, optional
        The stream's share of an epoch, relative to the other streams.
    repeat : float, optional
        How often its samples appear in an epoch.
    choose : int, optional
        How many of its samples an epoch has. At most one of the three is given; without any, every
        sample comes once.
    download_retry : int, optional
        Number of download attempts.
    download_timeout : float, optional
        Seconds that a download may wait without receiving data.
    validate_hash : str, optional
        Hash to verify shards by; the index must record it.
    keep_zip : bool, optional
        Whether to keep compressed files beside the decompressed shards.

    Attributes
    ----------
    proportion, repeat, choose
        As given, None by default. Once a `StreamingDataset` is made: the stream's share of its
        epochs, expressed in each of the three ways.

    Raises
    ------
    InvalidArgumentError
        If more than one of the weights is given, or a value is invalid.
    """

    def __init__(
        self,
        *,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        proportion: float | None = None,
        repeat: float | None = None,
        choose: int | None = None,
        download_retry: int | None = None,
        download_timeout: float | None = None,
        validate_hash: str | None = None,
        keep_zip: bool | None = None,
    ) -> None:
        if remote is None and local is None:
            raise InvalidArgumentError(
                "a stream needs remote, local, or both: the URL or path of the dataset, and the "
                "local directory for its shards"
            )
        self._weights = StreamShape((), proportion, repeat, choose)
        _check_download(download_retry, download_timeout)
        self.remote = None if remote is None else os.fspath(remote)
        self.local = None if local is None else os.fspath(local)
        self.split = split
        self.download_retry = download_retry
        self.download_timeout = download_timeout
        self.validate_hash = validate_hash
        self.keep_zip = keep_zip
        self.proportion, self.repeat, self.choose = proportion, repeat, choose

    def __repr__(self) -> str:
        return f"Stream(remote={self.remote!r}, local={self.local!r}, split={self.split!r})"

    @property
    def is_weighted(self) -> bool:
        """Whether it was given a proportion, repeat or choose."""
        return self._weights.weighting is not None

    def shape(self, dataset: Dataset) -> StreamShape:
        """Return what the order needs to know about it."""
        return replace(self._weights, shard_sizes=dataset.shard_sizes)

    def derive(self, weight: StreamWeight) -> None:
        """Set the attributes that state its share of an epoch."""
        self.proportion, self.repeat, self.choose = (
            weight.proportion,
            weight.repeat,
            weight.choose,
        )

    def open(self, defaults: StreamDefaults) -> Dataset:
        """Open the dataset.

        Raises
        ------
        DatasetNotFoundError
            If there is none.
        """
        from mdstorm_backend.datasets.dataset import open_dataset

        split = defaults.split if self.split is None else self.split
        url = _join(self.local if self.remote is None else self.remote, split)
        try:
            dataset = open_dataset(
                url,
                storage_options=defaults.storage_options,
                cache=self._cache(split, defaults),
                allow_unsafe_types=defaults.allow_unsafe_types,
            )
        except DatasetNotFoundError as error:
            if self.remote is not None:
                raise
            raise DatasetNotFoundError(
                f"{error}. If it is elsewhere, give that place as remote", url=error.url
            ) from error
        return dataset

    def _cache(self, split: str | None, defaults: StreamDefaults) -> CacheOptions:
        from mdstorm_backend.cache import CacheOptions

        def chosen(name: str) -> Any:
            own = getattr(self, name)
            return getattr(defaults, name) if own is None else own

        keeps_local = self.remote is not None and self.local is not None
        return CacheOptions(
            directory=_join(self.local, split) if keeps_local else None,
            limit=defaults.cache_limit,  # type: ignore[arg-type]  # CacheOptions parses text
            validate_hash=chosen("validate_hash") or None,
            retry=chosen("download_retry"),
            timeout=chosen("download_timeout"),
            keep_zip=chosen("keep_zip"),
        )


def _join(directory: str | None, split: str | None) -> str:
    assert directory is not None
    return f"{directory.rstrip('/') or '/'}/{split}" if split else directory


def _check_download(retry: int | None, timeout: float | None) -> None:
    if retry is not None and not (_is_a(Integral, retry) and retry >= 1):
        raise InvalidArgumentError(
            f"download_retry must be a number of attempts of at least 1, found {retry!r}"
        )
    if timeout is not None and not (_is_a(Real, timeout) and timeout > 0):
        raise InvalidArgumentError(
            f"download_timeout must be a positive number of seconds, found {timeout!r}"
        )


def _is_a(kind: type, value: object) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
