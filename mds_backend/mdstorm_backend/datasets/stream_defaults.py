"""What streams take from their dataset where they do not say it themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mdstorm_backend.base.checks import check_integer, check_seconds
from mdstorm_backend.storage import check_no_secrets

#: What a stream may say, and otherwise takes from its dataset.
INHERITED = ("split", "download_retry", "download_timeout", "validate_hash", "keep_zip")


@dataclass(frozen=True, kw_only=True)
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

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to send credentials to other processes."""
        check_no_secrets(self.storage_options or {})
        return self.__dict__


def check_download(retry: int | None, timeout: float | None) -> None:
    """Refuse what is no number of attempts, or no number of seconds.

    Raises
    ------
    InvalidArgumentError
        If one of them is not.
    """
    check_integer("download_retry", retry, lowest=1)
    check_seconds("download_timeout", timeout)
