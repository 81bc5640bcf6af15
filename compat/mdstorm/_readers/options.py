"""Translate Petastorm's reader arguments to the engine's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mdstorm._datasets.petastorm_source import DecodedSource
from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.cache import NullCache
from mdstorm._readers.fields import select_fields
from mdstorm._readers.kept_shares import KeptShares
from mdstorm._readers.steps import ColumnSelection, Steps
from mdstorm._readers.whole_passes import warn_of_whole_passes
from mdstorm._selection.filters import Filters, RowFilter
from mdstorm._selection.predicate_filter import PredicateFilter
from mdstorm._selection.pruning import prune_by_filters, prune_by_predicate
from mdstorm._selection.selectors import select_row_groups
from mdstorm._selection.shard_views import RankShare, SplitShards
from mdstorm._transforms.pandas_transform import PandasTransform
from mdstorm._transforms.process_transform import ProcessTransform
from mdstorm._transforms.row_transform import RowTransform
from mdstorm._transforms.transform_spec import TransformSpec
from mdstorm.errors import UnsupportedArgumentError
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.format import Schema
from mdstorm_backend.loaders import NullPolicy, ReaderOptions
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.read import SampleSource, Transform


def reader_options(
    arguments: ReaderArguments,
    source: SampleSource,
    order: ExactOrder | ElasticShare,
    *,
    batched: bool = True,
    overlap: int = 0,
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

    Raises
    ------
    NoMatchingFieldsError
        If no column is left to deliver.
    InvalidArgumentError
        If a filter or a predicate looks at columns that are not read.
    """
    schema = select_fields(source.schema, arguments.schema_fields)
    masks = tuple(arguments.null_masks or ())
    names = NullPolicy(schema, arguments.fill_nulls, masks).columns
    source, filters, looked_at = _filtered(arguments, source, schema, batched)
    if overlap and order.follows_world:
        raise UnsupportedArgumentError(
            'n-grams do not go with cur_shard="auto": the rows of the next rank that they reach '
            "into are laid down when the reader is made. Give cur_shard and shard_count as integers"
        )
    if overlap and isinstance(order, ExactOrder) and order.world_size > 1:
        source = RankShare(source, order, overlap)
        order = replace(order, rank=0, world_size=1)
    parts = arguments.shuffle_row_drop_partitions
    if parts != 1:
        source = SplitShards(source, parts, overlap=overlap)
    spec = arguments.transform_spec
    change = None if spec is None else _change(spec, schema, names, batched)
    cache = arguments.cache()
    is_kept = not isinstance(cache, NullCache)
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
        fill_nulls=arguments.fill_nulls,
        null_masks=masks,
        workers=arguments.workers,
        prefetch=arguments.prefetch,
        on_pass=None if arguments.is_share else warn_of_whole_passes,
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
