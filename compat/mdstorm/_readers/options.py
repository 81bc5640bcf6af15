"""Translate Petastorm's reader arguments to the engine's options."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mdstorm._datasets.decoded_source import DecodedSource
from mdstorm._readers.arguments import ReaderArguments, no_cache_with
from mdstorm._readers.kept_shares import KeptShares
from mdstorm._readers.sample_order import FirstEpoch
from mdstorm._readers.schema_fields import select_fields
from mdstorm._selection.filters import Filters, RowFilter
from mdstorm._selection.predicate_filter import PredicateFilter
from mdstorm._selection.shard_views import (
    RankShare,
    SplitShards,
    prune_by_filters,
    prune_by_predicate,
)
from mdstorm._transforms.pandas_transform import PandasTransform
from mdstorm._transforms.process_transform import ProcessTransform
from mdstorm._transforms.row_transform import DeclaredTransform, RowTransform
from mdstorm.cache import NullCache
from mdstorm.errors import InvalidArgumentError, UnsupportedArgumentError
from mdstorm.selectors import select_row_groups
from mdstorm.transform import TransformSpec
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.format import Batch, Schema, num_rows
from mdstorm_backend.loaders import NullPolicy, ReaderOptions
from mdstorm_backend.order import ExactOrder, find_world
from mdstorm_backend.read import ImageDecoder, SampleSource, Transform

_logger = logging.getLogger(__name__)
_warned = False


def reader_options(
    arguments: ReaderArguments,
    source: SampleSource,
    order: ExactOrder | ElasticShare,
    *,
    batched: bool = True,
    overlap: int = 0,
    begins: FirstEpoch | None = None,
) -> ReaderOptions:
    """Return how to read `source` as the arguments say.

    Parameters
    ----------
    arguments : ReaderArguments
        What the user gave.
    source : SampleSource
        The dataset.
    order : ExactOrder or ElasticShare
        The order of its samples.
    batched : bool
        Whether functions of the user's own take whole batches, as in the batch reader, and not the
        values of one row.
    overlap : int
        Rows that a part of a shard has in common with the next one, see `SplitShards` and
        `RankShare`.
    begins : FirstEpoch, optional
        With which epoch to begin; by default the first one.

    Raises
    ------
    NoMatchingFieldsError
        If no column is left to deliver.
    InvalidArgumentError
        If a filter or a predicate looks at columns that are not read.
    UnsupportedArgumentError
        If there is a cache, and a predicate that has to look at rows.
    """
    schema = select_fields(source.schema, arguments.schema_fields)
    masks = tuple(arguments.null_masks or ())
    names = NullPolicy(schema, arguments.fill_nulls, masks).columns
    source, filters, looked_at = _filtered(arguments, source, schema, batched)
    if overlap and order.follows_world:
        raise UnsupportedArgumentError(
            'n-grams cannot be combined with cur_shard="auto": they may include rows of the next '
            "rank. Pass cur_shard and shard_count as integers"
        )
    if overlap and isinstance(order, ExactOrder) and order.world_size > 1:
        source = RankShare(source, order, overlap)
        order = replace(order, rank=0, world_size=1)
    parts = arguments.shuffle_row_drop_partitions
    if parts != 1:
        source = SplitShards(source, parts, overlap=overlap)
    decode = arguments.decode
    images = ImageDecoder.of(schema, decode, arguments.size, masks) if decode else None
    spec = arguments.transform_spec
    read = schema if images is None else schema.with_columns(images.columns)
    change = None if spec is None else _change(spec, read, names, batched)
    if images is not None and change is not None:
        change = images.before(change)
    cache = arguments.cache
    is_kept = not isinstance(cache, NullCache)
    if is_kept and any(isinstance(step, PredicateFilter) for step in filters):
        raise no_cache_with("predicates, unless they look at partition columns alone")
    transform = Steps(filters, change, names) if filters or is_kept else change
    calls_functions = bool(filters) or (spec is not None and spec.func is not None)
    if transform is not None and calls_functions and arguments.reader_pool_type == "process":
        transform = ProcessTransform(transform, arguments.workers)
    options = ReaderOptions(
        source,
        order,
        columns=(*schema.names, *looked_at),
        num_epochs=arguments.num_epochs,
        transform=transform,
        images=images,
        fill_nulls=arguments.fill_nulls,
        null_masks=masks,
        workers=arguments.workers,
        prefetch=arguments.prefetch,
        first_epoch=begins.epoch if begins else 0,
        on_pass=begins if arguments.is_share else _warn_of_whole_passes,
    )
    if is_kept:
        keep = KeptShares(cache, options, spec, filters=filters, batched=batched)
        options = replace(options, keep=keep)
    return options


def _change(spec: TransformSpec, schema: Schema, names: Sequence[str], batched: bool) -> Transform:
    """Return what changes columns as a TransformSpec says."""
    if spec.func is None and not spec.edit_fields:
        return ColumnSelection(spec, schema, names)
    make = PandasTransform if batched else RowTransform
    return make(spec, schema, names)


def _filtered(
    arguments: ReaderArguments, source: SampleSource, schema: Schema, batched: bool
) -> tuple[SampleSource, list[Transform], Sequence[str]]:
    """Leave out what filters and a predicate leave out.

    Returns
    -------
    source : SampleSource
        The shards that may hold rows for which they hold.
    filters : list of Transform
        What is left to be asked of the rows.
    looked_at : sequence of str
        Columns that are read for that alone.
    """
    steps: list[Transform] = []
    looked_at: list[str] = []
    stored: Any = source.stored if isinstance(source, DecodedSource) else source
    if arguments.rowgroup_selector is not None:
        stored = select_row_groups(arguments.rowgroup_selector, stored)
    if arguments.filters is not None:
        filters = Filters.of(
            arguments.filters, source.schema, getattr(stored, "partition_columns", ())
        )
        stored, done = prune_by_filters(stored, filters)
        if not done:
            looked_at = sorted(filters.fields - set(schema.names))
            read = source.schema.select([*schema.names, *looked_at])
            steps.append(RowFilter(filters, read))
    if arguments.predicate is not None:
        predicate = PredicateFilter(arguments.predicate, schema, batched)
        done = False
        if all(source.schema[name] == stored.schema[name] for name in predicate.fields):
            stored, done = prune_by_predicate(stored, predicate)
        if not done:
            steps.append(predicate)
    if isinstance(source, DecodedSource):
        stored = source.over(stored)
    return stored, steps, looked_at


class ColumnSelection(DeclaredTransform):
    """A `TransformSpec` that changes no value: it has no function, and declares nothing."""

    @property
    def unchanged(self) -> frozenset[str]:
        """Columns that are as they are stored: all."""
        return frozenset(self.columns)

    def __call__(self, batch: Batch) -> Batch:
        """Return the columns that stay."""
        return {name: batch[name] for name in self.columns}


class Steps:
    """Filters of rows, and then what changes columns, one after the other.

    Parameters
    ----------
    filters : sequence of Transform
        They leave out rows and change no value.
    change : Transform or None
        What changes columns: the user's function.
    columns : sequence of str
        The columns that go into `change`: the others are there for the filters alone.

    Attributes
    ----------
    columns : tuple of str
        The columns that come out.
    unchanged : frozenset of str
        Those of them whose values are as they are stored.
    leaves_out_rows : bool
        Whether there are filters.
    """

    def __init__(
        self, filters: Sequence[Transform], change: Transform | None, columns: Sequence[str]
    ) -> None:
        self._filters = tuple(filters)
        self._change = change
        self._read = tuple(columns)
        self.columns = self._read if change is None else tuple(change.columns)
        kept = self._read if change is None else getattr(change, "unchanged", ())
        self.unchanged = frozenset(kept)
        self.leaves_out_rows = bool(self._filters)

    def __call__(self, batch: Batch) -> Batch:
        """Return what is left of a batch, changed. The function never sees a batch of no rows."""
        for step in self._filters:
            batch = step(batch)
        batch = {name: batch[name] for name in self._read}
        if self._change is None:
            return batch
        if num_rows(batch) == 0:
            return {name: pa.nulls(0) for name in self.columns}
        return self._change(batch)


def _warn_of_whole_passes(_epoch: int) -> None:
    """Log a warning if there are several processes, once in this one.

    What the launcher says and makes no sense is logged too: nothing that is read depends on it.
    """
    global _warned
    if _warned:
        return
    try:
        world = find_world()
    except InvalidArgumentError as error:
        seen = str(error)
    else:
        if world.size == 1:
            return
        seen = f"this is process {world.rank} of {world.size}, say {world.source}"
    _warned = True
    _logger.warning(
        "Every process reads all rows, because cur_shard and shard_count were not passed (%s). "
        'Pass cur_shard="auto" to give each process its share, or cur_shard=0, shard_count=1 if '
        "each should read all rows",
        seen,
    )
