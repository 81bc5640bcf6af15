"""Translate reader arguments into engine options: which data to read, and in which order."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np

from mdstorm._datasets import DecodedSource, typed_columns
from mdstorm._readers.arguments import ReaderArguments, no_cache_with
from mdstorm._readers.schema_fields import select_fields
from mdstorm._readers.succession import Succession
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
from mdstorm._transforms import Executor, PandasTransform, RowTransform, function_identity
from mdstorm.cache import CacheBase, NullCache
from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    NoMatchingFieldsError,
    UnsupportedArgumentError,
)
from mdstorm.selectors import select_row_groups
from mdstorm.transform import TransformSpec
from mdstorm_backend.base import warn_user
from mdstorm_backend.datasets import Filters, choose_rows
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.format import Batch, Schema, holds_decimals
from mdstorm_backend.loaders import (
    Conditions,
    Epochs,
    NullPolicy,
    ReaderOptions,
    Usage,
)
from mdstorm_backend.order import DEFAULT_SEED, ExactOrder, Position, World, find_world
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import ImageDecoder, SampleSource, Transform, decoded_names

_logger = logging.getLogger(__name__)
#: The loaders of each share that was read without a seed.
successions: dict[tuple[Any, ...], Succession] = {}
Framework: TypeAlias = Literal["PyTorch", "TensorFlow"]
_FORMS = {"PyTorch": "a list of Decimal", "TensorFlow": "text"}


def reader_options(
    arguments: ReaderArguments,
    source: SampleSource,
    order: ExactOrder | ElasticOrder,
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
    order : ExactOrder or ElasticOrder
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
        schema = select_fields(source.schema, arguments.schema_fields, decoded)
    masks = tuple(added["null_masks"] or ())
    _check_read(schema, source.schema, [*(added["fill_nulls"] or ()), *masks])
    names = NullPolicy(schema, added["fill_nulls"], masks).columns
    whole = source
    with _naming_columns_left_out(source):
        source, filters, filter_columns, conditions = _filtered(arguments, source, schema, batched)
    source, order = _cut(arguments, source, order, overlap)
    chosen = added["rows"], added["where"]
    source = choose_rows(source, *chosen, is_shuffled=order.uses_seed)
    conditions = replace(conditions, rows=source.chosen)
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
        transform=Executor(filters, change, names, arguments.workers if in_processes else 0)
        if filters or change is not None or is_kept
        else None,
        images=images,
        fill_nulls=added["fill_nulls"],
        null_masks=masks,
        source=whole.fingerprint,
        check_ranks=bool(added["check_ranks"]),
        on_corrupt=added["on_corrupt"],
        workers=arguments.workers,
        prefetch=arguments.prefetch,
        first=begins.following if begins else Usage,
        on_pass=begins if arguments.is_share else _warn_of_whole_passes,
    )
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
    order: ExactOrder | ElasticOrder,
    overlap: int,
) -> tuple[SampleSource, ExactOrder | ElasticOrder]:
    """Return a view of the rows to read, and the order in which to read them.

    `_filtered` has already left out some shards of `source`, but no rows.
    """
    if overlap and order.follows_world:
        raise UnsupportedArgumentError(
            'n-grams cannot be combined with cur_shard="auto": they may include rows of the next '
            "rank. Pass cur_shard and shard_count as integers"
        )
    if overlap and (share := order.contiguous_share()) is not None:
        source = RankShare(source, share, overlap)
        order = replace(share, rank=0, world_size=1)
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
            read = source.schema.select([*schema.names, *filter_columns])
            added = arguments.added
            masks = added["null_masks"] or ()
            nulls = NullPolicy(read, added["fill_nulls"], masks, source)
            steps.append(RowFilter(filters, nulls))
    if arguments.predicate is not None:
        predicate = PredicateFilter(arguments.predicate, schema, batched)
        conditions = replace(conditions, predicate=described_predicate(arguments.predicate))
        done = False
        if all(source.schema[name] == stored.schema[name] for name in predicate.fields):
            stored, done = prune_by_predicate(stored, predicate)
        if not done:
            steps.append(predicate)
    return over(stored), steps, filter_columns, conditions


def _warn_of_whole_passes(_epochs: Epochs) -> None:
    """Log a warning if there are several processes and each reads all rows.

    Invalid launcher variables are also logged rather than raised, because no data depends on them.
    """
    try:
        world = find_world()
    except InvalidArgumentError as error:
        seen = str(error)
    else:
        if world.size == 1:
            return
        seen = f"this is process {world.rank} of {world.size}, according to {world.source}"
    log_whole_passes(seen)


@cache
def log_whole_passes(seen: str) -> None:
    """Log once that every process reads all rows.

    Parameters
    ----------
    seen : str
        Why there are several processes.
    """
    _logger.warning(
        "Every process reads all rows, because cur_shard and shard_count were not passed (%s). "
        'Pass cur_shard="auto" to give each process its share, or cur_shard=0, shard_count=1 if '
        "each should read all rows",
        seen,
    )


def sample_order(
    arguments: ReaderArguments, *, is_shared: bool = False
) -> ExactOrder | ElasticOrder:
    """Return the sample order, choosing a seed if the user passed none.

    Parameters
    ----------
    arguments : ReaderArguments
        The user's arguments.
    is_shared : bool
        Whether other processes read in the same order, even without shard arguments.
    """
    if arguments.shard_seed is not None:
        warn_user("shard_seed was deprecated and will be removed in future versions: use seed")
    seed = _seed(arguments, is_shared or arguments.is_share)
    shuffle_shards, shuffle_rows = bool(arguments.shuffle_row_groups), bool(arguments.shuffle_rows)
    window = max(int(arguments.shuffling_queue_capacity or 0), 0)
    world, follows_world = World(), arguments.is_auto
    if arguments.is_share and not follows_world:
        world = World(int(arguments.cur_shard or 0), int(arguments.shard_count or 1))
    if not arguments.is_elastic:
        return ExactOrder(
            seed,
            shuffle_shards,
            shuffle_rows,
            window,
            world.rank,
            world.size,
            follows_world=follows_world,
        ).resolved()
    return ElasticOrder(
        batch_size=1,  # replaced by the loader's batch size
        shuffle=shuffle_shards or shuffle_rows or window > 0,
        shuffle_seed=secrets.randbits(32) | 1 if seed is None else seed,
        shuffle_block_size=window if window > 1 else None,
        world=world,
        states_batch_size=False,
        follows_world=follows_world,
    )


@dataclass(frozen=True)
class FirstEpoch:
    """The first epoch of a loader.

    Calling an instance when a pass begins records that pass, so that later loaders do not repeat
    its epochs.

    Attributes
    ----------
    share : tuple
        Identifies the data: URL, rank and world size.
    epoch : int
        The lower bound, which is the next epoch when the loader was created, possibly in another
        process.
    """

    share: tuple[Any, ...]
    epoch: int

    def __call__(self, epochs: Epochs) -> None:
        _succession_of(self.share).record(epochs)

    def following(self) -> Usage:
        """Return the first iteration of a loader that begins now."""
        found = _succession_of(self.share).following()
        own = Usage(Position(self.epoch))
        return own if self.epoch > found.start.epoch else found


def _succession_of(share: tuple[Any, ...]) -> Succession:
    return successions.setdefault(share, Succession())


def first_epoch(arguments: ReaderArguments, url: str) -> FirstEpoch | None:
    """Return the first epoch of a new loader for `url`; None for epoch 0.

    All shares that are read without a seed use the same default seed. Without a later first epoch,
    each loader would repeat the permutations of the previous one.
    """
    shuffles = arguments.shuffle_row_groups or arguments.shuffle_rows
    shuffles = shuffles or (arguments.shuffling_queue_capacity or 0) > 0
    if not (shuffles and arguments.is_share) or _seed(arguments, is_shared=False) is not None:
        return None
    share = (url, arguments.cur_shard, arguments.shard_count)
    return FirstEpoch(share, _succession_of(share).following().start.epoch)


def draws_seed(arguments: ReaderArguments) -> bool:
    """Whether each process that uses these arguments draws its own random permutations."""
    shuffles = arguments.shuffle_row_groups or arguments.shuffle_rows
    return bool(shuffles) and _seed(arguments, arguments.is_share) is None


def _seed(arguments: ReaderArguments, is_shared: bool) -> int | None:
    """Return the user's seed, the default seed if the order is shared, or None."""
    given = (arguments.seed, arguments.shard_seed)
    # In Petastorm, and therefore in the exact order, 0 means no seed.
    seeds = [int(seed) for seed in given if seed or (arguments.is_elastic and seed is not None)]
    if seeds:
        return seeds[0]
    return DEFAULT_SEED if is_shared else None


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
        *,
        filters: Sequence[Any],
        batched: bool,
    ) -> None:
        self._cache = cache
        what = [
            options.dataset.content_identity(),
            options.columns,
            options.output_columns,
            options.fill_nulls,
            tuple(options.null_masks),
            options.images,
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


def undecided_decimals(
    options: ReaderOptions, arguments: ReaderArguments, names: Iterable[str]
) -> tuple[str, ...]:
    """Return the decimal columns among `names`; none if the user chose a type for decimals.

    Columns that the user's function returns are not counted.
    """
    if arguments.added["decimals"] is not None:
        return ()
    found = (column for column in map(options.column, names) if column is not None)
    return tuple(
        column.name
        for column in found
        if not column.parsed_encoding.is_opaque
        and (column.parsed_encoding.kind == "str_decimal" or holds_decimals(column.arrow_type))
    )


@cache
def warn_of_decimals(url: str, names: tuple[str, ...], framework: Framework) -> None:
    """Warn once per process about how decimal columns are returned."""
    if not names:
        return
    columns, hold = ("columns", "hold") if len(names) > 1 else ("column", "holds")
    listed = ", ".join(map(repr, names))
    warn_user(
        f"{columns} {listed} of {url} {hold} decimals, which reach {framework} as "
        f'{_FORMS[framework]}, and no model can use them. For numbers, pass decimals="float64" or '
        '"float32" to make_spark_converter, or to the function that creates the reader or '
        'loader. decimals="decimal" keeps decimals, without this warning'
    )
