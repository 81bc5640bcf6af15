"""`KeptShares`: a cache for the transformed rows that a reader has read from parts of shards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from mdstorm._selection import RowFilter
from mdstorm._transforms import function_identity
from mdstorm.cache import CacheBase
from mdstorm.transform import TransformSpec
from mdstorm_backend.format import Batch
from mdstorm_backend.loaders import ReaderOptions


class KeptShares:
    """A cache for the transformed rows that a reader has read from parts of shards.

    Parameters
    ----------
    cache : CacheBase
        The cache that stores the rows.
    options : ReaderOptions
        The reader's options.
    spec : TransformSpec or None
        The transform.
    filters : sequence of RowFilter
        The filters that drop rows.
    batched : bool
        Whether the user's function takes batches.
    """

    def __init__(
        self,
        cache: CacheBase,
        options: ReaderOptions,
        spec: TransformSpec | None,
        filters: Sequence[RowFilter],
        *,
        batched: bool,
    ) -> None:
        self._cache = cache
        steps = options.steps
        what = [
            options.dataset.content_identity(),
            options.columns,
            options.output_columns,
            steps.fill_nulls,
            steps.made,
            options.reading.images,
            # Use the parsed filters, because NumPy abbreviates the repr of long arrays.
            [row_filter.filters for row_filter in filters],
            batched,
            None
            if spec is None
            else (spec._mdstorm_edited(), spec.removed_fields, spec.selected_fields),
        ]
        code = function_identity(None if spec is None else spec.func)
        self._prefix = hashlib.sha256(repr(what).encode() + code).hexdigest()

    def __call__(self, name: str, make: Callable[[], Batch]) -> Batch:
        """Return the cached rows for a part of a shard, or read them."""
        batch: Batch = self._cache.get(f"{self._prefix} {name}", make)
        return batch
