"""``cache_type`` and the arguments beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdstorm._readers.cache import CacheBase, NullCache
from mdstorm._readers.local_disk_cache import LocalDiskCache
from mdstorm._transforms.function_pickles import function_identity
from mdstorm.errors import InvalidArgumentError, UnsupportedArgumentError
from mdstorm_backend.format.batch import Batch
from mdstorm_backend.loaders.reader_options import ReaderOptions

__all__ = ["KeptShares", "make_cache"]


def make_cache(arguments: Mapping[str, Any]) -> CacheBase:
    """Return the cache that the arguments of a reader ask for.

    Raises
    ------
    InvalidArgumentError
        If the type is unknown, or the limit is too small; also ValueError.
    ArgumentTypeError
        If a number is missing; also TypeError.
    UnsupportedArgumentError
        If it does not go with other arguments; also RuntimeError.
    """
    cache_type = arguments.get("cache_type")
    if cache_type in (None, "null"):
        return NullCache()
    if cache_type != "local-disk":
        raise InvalidArgumentError(
            f"Unknown cache_type: {cache_type}. Use 'null', None or 'local-disk'"
        )
    if arguments.get("predicate") is not None:
        raise _not_together("predicates")
    if arguments.get("shuffle_row_drop_partitions", 1) != 1:
        raise _not_together("shuffle_row_drop_partitions > 1")
    if arguments.get("order") == "elastic":
        raise _not_together("order='elastic'")
    settings = {"cleanup": True, **(arguments.get("cache_extra_settings") or {})}
    return LocalDiskCache(
        arguments.get("cache_location"),  # type: ignore[arg-type]  # which the class checks
        arguments.get("cache_size_limit"),  # type: ignore[arg-type]
        arguments.get("cache_row_size_estimate"),  # type: ignore[arg-type]
        **settings,
    )


def _not_together(other: str) -> UnsupportedArgumentError:
    return UnsupportedArgumentError(
        f"Local cache is not supported together with {other}: leave out one of them"
    )


class KeptShares:
    """Keeps what a reader makes of shards' shares, under keys that tell all that it depends on.

    Parameters
    ----------
    cache : CacheBase
        Where to keep it.
    options : ReaderOptions
        What is read, and how.
    arguments : mapping
        The arguments of the reader.
    filters : sequence of RowFilter
        What leaves out rows.
    batched : bool
        Whether the user's function takes batches.
    """

    def __init__(
        self,
        cache: CacheBase,
        options: ReaderOptions,
        arguments: Mapping[str, Any],
        *,
        filters: Sequence[Any],
        batched: bool,
    ) -> None:
        self._cache = cache
        spec = arguments.get("transform_spec")
        what = [
            options.dataset.fingerprint,
            options.columns,
            options.delivered,
            options.fill_nulls,
            tuple(options.null_masks),
            # Not as the user gave them: NumPy writes long arrays with dots in the middle.
            [row_filter.filters for row_filter in filters],
            batched,
            None if spec is None else (spec.edited(), spec.removed_fields, spec.selected_fields),
        ]
        code = function_identity(None if spec is None else spec.func)
        self._prefix = hashlib.sha256(repr(what).encode() + code).hexdigest()

    def __call__(self, name: str, make: Callable[[], Batch]) -> Batch:
        """Return what is kept of a share, or make it."""
        batch: Batch = self._cache.get(f"{self._prefix} {name}", make)
        return batch
