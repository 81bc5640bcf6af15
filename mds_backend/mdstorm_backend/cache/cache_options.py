"""Options of the shard cache."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mdstorm_backend.base.checks import check_integer, check_seconds
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.compression import check_hashes
from mdstorm_backend.format.shard_info import parse_size
from mdstorm_backend.storage import normalize_url


def parse_bytes(value: int | float | str, *, name: str) -> int:
    """Return a number of bytes, given as one or as text such as ``"10gb"`` (units of 1024).

    Raises
    ------
    InvalidArgumentError
        If it is neither, or not positive; the message calls it `name`.
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
    """How shards are downloaded to this machine and kept there. Picklable; holds no secret.

    Attributes
    ----------
    directory : str or None
        Local directory for the shards, in the layout that other readers of the format expect. With
        None each dataset has a directory below the default cache directory: the environment
        variable ``MDSTORM_CACHE_DIR``, or else ``mdstorm-cache-<uid>`` in the system's directory
        for temporary files.
    limit : int or None
        Largest size in bytes of the cache's files in the directory, including the index, also as
        text such as ``"10gb"``. Beyond that, the least recently used shards are removed. None means
        no limit.
    validate_hash : str or None
        Name of a hash in the index with which every shard is verified.
    retry : int
        Number of download attempts.
    timeout : float
        Seconds that a download may wait without receiving data.
    keep_zip : bool
        Whether to keep the compressed file beside the shard.
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
