"""Translate reader arguments into engine options: which rows and columns to read, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from mdstorm._datasets import DecodedSource
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
from mdstorm._transforms import PandasTransform, RowTransform, WorkerPool, pickle_function
from mdstorm.cache import NullCache
from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    NoMatchingFieldsError,
    UnsupportedArgumentError,
)
from mdstorm.selectors import select_row_groups
from mdstorm_backend.datasets import Filters, SampleDataset, add_columns, choose_rows, typed_columns
from mdstorm_backend.format import Schema
from mdstorm_backend.loaders import (
    Conditions,
    ReaderOptions,
    Usage,
)
from mdstorm_backend.order import Order, World
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import (
    Reading,
    Steps,
    calls_apart,
    decoded_names,
    file_columns,
)


def reader_options(
    arguments: ReaderArguments,
    source: SampleDataset,
    order: Order,
    *,
    batched: bool = True,
    overlap: int = 0,
    first_epoch: FirstEpoch | None = None,
) -> ReaderOptions:
    """Return the engine's options for reading `source` according to the arguments.

    Parameters
    ----------
    arguments : ReaderArguments
        The user's arguments.
    source : SampleDataset
        The dataset.
    order : Order
        The order of the dataset's samples.
    batched : bool
        Whether the user's functions take whole batches, as in the batch reader, rather than
        single rows.
    overlap : int
        Rows that a part of a shard shares with the next part; see `SplitShards` and `RankShare`.
    first_epoch : FirstEpoch, optional
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
        others = (*_made_by(arguments), *source.columns_left_out)
        schema = select_fields(schema, arguments.schema_fields, decoded, others)
        schema = Schema((*_stored_only(schema), *contents))
    masks = tuple(added["null_masks"] or ())
    _check_read(schema, source.schema, [*(added["fill_nulls"] or ()), *masks])
    whole = source
    with _naming_columns_left_out(source):
        source, filters, predicates, conditions = _filtered(arguments, source, schema, batched)
    source, order = _cut(arguments, source, order, overlap)
    chosen = added["rows"], added["where"]
    source = choose_rows(source, *chosen, is_shuffled=order.uses_seed)
    conditions = replace(conditions, rows=source.chosen)
    source = add_columns(source, added)
    schema = source.schema.select(source.select(schema.names))
    hidden = sorted({name for one in filters for name in one.columns} - {*schema.names})
    columns = (*schema.names, *hidden)
    steps = Steps.declared(added, filters=filters, predicates=predicates, hidden=hidden)
    steps = _with_functions(arguments, Reading(source, columns, steps), batched)
    cache, spec = arguments.cache, arguments.transform_spec
    is_kept = not isinstance(cache, NullCache)
    if is_kept and predicates:
        raise no_cache_with("predicates on columns other than partition columns")
    if spec is not None and spec.func is not None:
        conditions = replace(conditions, transform=name_of(spec.func))
    options = ReaderOptions(
        source,
        order,
        conditions=conditions,
        columns=columns,
        num_epochs=arguments.num_epochs,
        steps=steps,
        source=whole.fingerprint,
        check_ranks=bool(added["check_ranks"]),
        workers=arguments.workers,
        prefetch=arguments.prefetch,
        first=first_epoch.following if first_epoch else Usage,
        on_pass=first_epoch if arguments.is_share else warn_of_whole_passes,
    )
    if is_kept:
        options = replace(options, keep=KeptShares(cache, options, spec, filters, batched=batched))
    return options


def _made_by(arguments: ReaderArguments) -> list[str]:
    """Return the columns that arguments other than ``schema_fields`` make."""
    added, spec = arguments.added, arguments.transform_spec
    edited = [] if spec is None else spec._mdstorm_edited()
    return [*Steps.declared(added).made, *edited, *filter(None, [added["row_numbers"]])]


def _with_functions(arguments: ReaderArguments, reading: Reading, batched: bool) -> Steps:
    """Return the steps of a reading with the user's function, in other processes if requested."""
    steps, spec = reading.steps, arguments.transform_spec
    given, schema = reading.given, reading.given_schema  # raise errors about columns to treat
    if spec is not None:
        kind = PandasTransform if batched else RowTransform
        steps = replace(steps, transform=kind(spec, schema, given))
    has_function = spec is not None and spec.func is not None
    is_in_processes = arguments.reader_pool_type == "process"
    if (steps.filters or steps.predicates or has_function) and is_in_processes:
        function = pickle_function(calls_apart(replace(reading, steps=steps)))
        steps = replace(steps, pool=WorkerPool(function, arguments.workers))
    return steps


@contextmanager
def _naming_columns_left_out(source: SampleDataset) -> Iterator[None]:
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


def _stored(source: SampleDataset) -> Any:
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
    source: SampleDataset,
    order: Order,
    overlap: int,
) -> tuple[SampleDataset, Order]:
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
    parts = int(arguments.shuffle_row_drop_partitions)
    if parts != 1:
        source = SplitShards(source, parts, overlap=overlap)
    return source, order


def _filtered(
    arguments: ReaderArguments, source: SampleDataset, schema: Schema, batched: bool
) -> tuple[SampleDataset, list[RowFilter], list[PredicateFilter], Conditions]:
    """Drop the shards that the selector, filters and predicate exclude.

    Returns
    -------
    source : SampleDataset
        The shards that may hold matching rows.
    filters : list of RowFilter
        The filters that still have to be evaluated on rows.
    predicates : list of PredicateFilter
        The predicates that still have to be evaluated on rows.
    conditions : Conditions
        The filters and predicate, for states.
    """
    conditions = Conditions()
    row_filters: list[RowFilter] = []
    predicates: list[PredicateFilter] = []
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
            row_filters.append(RowFilter(filters, source.schema))
    if arguments.predicate is not None:
        predicate = PredicateFilter(arguments.predicate, _stored_only(schema), batched)
        conditions = replace(conditions, predicate=described_predicate(arguments.predicate))
        done = False
        if all(source.schema[name] == stored.schema[name] for name in predicate.fields):
            stored, done = prune_by_predicate(stored, predicate)
        if not done:
            predicates.append(predicate)
    return over(stored), row_filters, predicates, conditions
