"""Translate reader arguments into engine options: which rows and columns to read, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from mdstorm._datasets import DecodedSource, typed_columns
from mdstorm._readers.arguments import ReaderArguments, no_cache_with
from mdstorm._readers.kept_shares import KeptShares
from mdstorm._readers.reading_order import warn_of_whole_passes
from mdstorm._readers.schema_fields import select_fields
from mdstorm._readers.succession import FirstEpoch
from mdstorm._selection import (
    PredicateFilter,
    RankShare,
    RowFilter,
    SplitShards,
    described_predicate,
    name_of,
    prune_by_predicate,
    shortened,
)
from mdstorm._transforms import Executor, PandasTransform, RowTransform
from mdstorm.cache import NullCache
from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    NoMatchingFieldsError,
    UnsupportedArgumentError,
)
from mdstorm.selectors import select_row_groups
from mdstorm_backend.datasets import Filters, add_columns, choose_rows
from mdstorm_backend.format import Schema
from mdstorm_backend.loaders import (
    Conditions,
    ReaderOptions,
    Usage,
)
from mdstorm_backend.order import Order, World
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import (
    ImageDecoder,
    NullPolicy,
    SampleSource,
    Transform,
    decoded_names,
    file_columns,
)


def reader_options(
    arguments: ReaderArguments,
    source: SampleSource,
    order: Order,
    *,
    batched: bool = True,
    overlap: int = 0,
    begins: FirstEpoch | None = None,
) -> ReaderOptions:
    """Return the engine's options for reading `source` according to the arguments.

    Parameters
    ----------
    arguments : ReaderArguments
        The user's arguments.
    source : SampleSource
        The dataset.
    order : Order
        The order of the dataset's samples.
    batched : bool
        Whether the user's functions take whole batches, as in the batch reader, rather than
        single rows.
    overlap : int
        Rows that a part of a shard shares with the next part; see `SplitShards` and `RankShare`.
    begins : FirstEpoch, optional
        The epoch to begin with; epoch 0 by default.

    Raises
    ------
    NoMatchingFieldsError
        If there is no column to read.
    InvalidArgumentError
        If a filter or predicate uses columns that are not read.
    UnsupportedArgumentError
        If a cache is combined with a predicate that has to be evaluated on rows.
    """
    added = arguments.added
    decoded = decoded_names(added["decode"])
    with _naming_columns_left_out(source):
        contents = file_columns(source.schema, added["files"], source.url)
        schema = Schema((*source.schema, *contents))
        schema = select_fields(schema, arguments.schema_fields, decoded)
        schema = Schema((*_stored_only(schema), *contents))
    masks = tuple(added["null_masks"] or ())
    _check_read(schema, source.schema, [*(added["fill_nulls"] or ()), *masks])
    whole = source
    with _naming_columns_left_out(source):
        source, filters, filter_columns, conditions = _filtered(arguments, source, schema, batched)
    source, order = _cut(arguments, source, order, overlap)
    chosen = added["rows"], added["where"]
    source = choose_rows(source, *chosen, is_shuffled=order.uses_seed)
    conditions = replace(conditions, rows=source.chosen)
    source = add_columns(source, added)
    schema = source.schema.select(source.select(schema.names))
    names = NullPolicy(schema, added["fill_nulls"], masks).columns
    sizes = added["size"], masks, added["max_image_bytes"]
    images = ImageDecoder.of(schema, decoded, *sizes) if decoded else None
    spec = arguments.transform_spec
    read = schema if images is None else schema.with_columns(images.columns)
    change: Transform | None = None
    if spec is not None:
        change = (PandasTransform if batched else RowTransform)(spec, read, names)
    if images is not None and change is not None:
        change = images.before(change)
    cache = arguments.cache
    is_kept = not isinstance(cache, NullCache)
    if is_kept and any(isinstance(step, PredicateFilter) for step in filters):
        raise no_cache_with("predicates on columns other than partition columns")
    function = None if spec is None else spec.func
    calls_functions = bool(filters) or function is not None
    in_processes = calls_functions and arguments.reader_pool_type == "process"
    if function is not None:
        conditions = replace(conditions, transform=name_of(function))
    options = ReaderOptions(
        source,
        order,
        conditions=conditions,
        columns=(*schema.names, *filter_columns),
        num_epochs=arguments.num_epochs,
        images=images,
        fill_nulls=added["fill_nulls"],
        null_masks=masks,
        source=whole.fingerprint,
        check_ranks=bool(added["check_ranks"]),
        on_corrupt=added["on_corrupt"],
        workers=arguments.workers,
        prefetch=arguments.prefetch,
        first=begins.following if begins else Usage,
        on_pass=begins if arguments.is_share else warn_of_whole_passes,
    )
    if options.files is not None and change is not None:
        change = options.files.before(change, images)
        options = replace(options, slices=True)
    if filters or change is not None or is_kept:
        workers = arguments.workers if in_processes else 0
        options = replace(options, transform=Executor(filters, change, names, workers))
    if is_kept:
        keep = KeptShares(cache, options, spec, filters=filters, batched=batched)
        options = replace(options, keep=keep)
    return options


@contextmanager
def _naming_columns_left_out(source: SampleSource) -> Iterator[None]:
    """Add the columns that cannot be read to errors about columns that do not exist."""
    try:
        yield
    except (InvalidArgumentError, NoMatchingFieldsError) as error:
        left_out = typed_columns(getattr(_stored(source), "left_out", {}))
        if not left_out:
            raise
        raise type(error)(
            f"{error}. The dataset also has {left_out}, which cannot be read"
        ) from error


def _stored(source: SampleSource) -> Any:
    """Return the dataset as stored, without decoding."""
    return source.stored if isinstance(source, DecodedSource) else source


def _stored_only(schema: Schema) -> Schema:
    """Return the columns whose values are not the contents of files."""
    return Schema(tuple(column for column in schema if not column.origin.path_column))


def _check_read(schema: Schema, stored: Schema, names: Iterable[str]) -> None:
    """Raise ArgumentTypeError if columns with null handling exist but are not read."""
    left_out = [name for name in names if name in stored and name not in schema]
    if left_out:
        raise ArgumentTypeError(
            f"fill_nulls and null_masks name columns {left_out} that are not read: list them "
            "in schema_fields (required for nested columns), or leave them out of both arguments"
        )


def _cut(
    arguments: ReaderArguments,
    source: SampleSource,
    order: Order,
    overlap: int,
) -> tuple[SampleSource, Order]:
    """Return a view of the rows to read, and the order in which to read them.

    `_filtered` has already left out some shards of `source`, but no rows.
    """
    if overlap and order.follows_world:
        raise UnsupportedArgumentError(
            'n-grams cannot be combined with cur_shard="auto": they may include rows of the next '
            "rank. Pass cur_shard and shard_count as integers"
        )
    if overlap and order.world_size > 1:
        source = RankShare(source, order.rows(len(source)), order.world, overlap)
        order = order.share_of(World())
    parts = arguments.shuffle_row_drop_partitions
    if parts != 1:
        source = SplitShards(source, parts, overlap=overlap)
    return source, order


def _filtered(
    arguments: ReaderArguments, source: SampleSource, schema: Schema, batched: bool
) -> tuple[SampleSource, list[Transform], Sequence[str], Conditions]:
    """Drop the shards that the selector, filters and predicate exclude.

    Returns
    -------
    source : SampleSource
        The shards that may hold matching rows.
    filters : list of Transform
        The conditions that still have to be evaluated on rows.
    filter_columns : sequence of str
        Columns that are read only to evaluate these conditions.
    conditions : Conditions
        The filters and predicate, for states.
    """
    conditions = Conditions()
    steps: list[Transform] = []
    filter_columns: list[str] = []
    stored = _stored(source)
    over = source.over if isinstance(source, DecodedSource) else lambda stored: stored
    if arguments.rowgroup_selector is not None:
        stored = select_row_groups(arguments.rowgroup_selector, stored)
    if arguments.filters is not None:
        filters = Filters.of("filters", arguments.filters, source.schema, source.url)
        conditions = replace(conditions, filters=shortened(str(filters)))
        done = False
        if isinstance(stored, ParquetDataset):
            left = np.flatnonzero(over(stored).may_match(filters))
            stored = stored.with_shards(left.tolist())
            done = filters.fields <= set(stored.partition_columns)
        if not done:
            filter_columns = sorted(filters.fields - set(schema.names))
            read = Schema((*schema, *source.schema.select(filter_columns)))
            added = arguments.added
            masks = added["null_masks"] or ()
            nulls = NullPolicy(read, added["fill_nulls"], masks, source)
            steps.append(RowFilter(filters, nulls))
    if arguments.predicate is not None:
        predicate = PredicateFilter(arguments.predicate, _stored_only(schema), batched)
        conditions = replace(conditions, predicate=described_predicate(arguments.predicate))
        done = False
        if all(source.schema[name] == stored.schema[name] for name in predicate.fields):
            stored, done = prune_by_predicate(stored, predicate)
        if not done:
            steps.append(predicate)
    return over(stored), steps, filter_columns, conditions
