"""Open the streams of a dataset, and work with their weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from mdstorm_backend.datasets.dataset import Dataset, open_dataset
from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.datasets.stream_defaults import INHERITED, StreamDefaults
from mdstorm_backend.datasets.stream_files import bringing, join, size_at
from mdstorm_backend.datasets.world_of_streams import World
from mdstorm_backend.elastic import StreamShape, StreamWeight
from mdstorm_backend.errors import ArgumentTypeError, DatasetNotFoundError
from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.index import Index, ShardInfo
from mdstorm_backend.read.late import unsafe_type_error
from mdstorm_backend.storage import Location


def weights_of(stream: Stream) -> StreamShape:
    """Return what a stream was told of its share of an epoch.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If more than one weight was given, or one is not a number or negative.
    """
    own = stream._mdstorm.own
    return StreamShape((), own("proportion"), own("repeat"), own("choose"))


def shape_of(stream: Stream, dataset: Dataset) -> StreamShape:
    """Return what the order needs to know about a stream."""
    weights = weights_of(stream)
    return StreamShape(dataset.shard_sizes, weights.proportion, weights.repeat, weights.choose)


def derive(stream: Stream, weight: StreamWeight) -> None:
    """Set the attributes that state a stream's share of an epoch."""
    stream._mdstorm.derive(weight)


def open_stream(stream: Stream, defaults: StreamDefaults) -> Dataset:
    """Open the dataset of a stream.

    Raises
    ------
    DatasetNotFoundError
        If there is none.
    InvalidArgumentError
        If nobody has said where it is, or a shard does not fit under the cache's limit.
    ArgumentTypeError
        If a subclass returns something else than shards.
    """
    stream.apply_default({name: getattr(defaults, name) for name in INHERITED})
    kept = stream._mdstorm
    kept.storage_options = defaults.storage_options
    if kept.is_hooked:
        return _open_own_shards(stream, defaults)
    given, split = kept.own("local"), kept.shown("split")
    keeps_local = stream.remote is not None and given is not None
    try:
        kept.dataset = open_dataset(
            join(given if stream.remote is None else stream.remote, split),
            storage_options=defaults.storage_options,
            cache=kept.cache(join(given, split) if keeps_local else None, defaults.cache_limit),
            allow_unsafe_types=defaults.allow_unsafe_types,
        )
    except DatasetNotFoundError as error:
        if stream.remote is not None:
            raise
        raise DatasetNotFoundError(
            f"No `remote` provided, but local file index.json does not exist either: {error}. If "
            "it is elsewhere, pass its location as remote",
            url=error.url,
        ) from error
    if defaults.cache_limit is not None:
        _ = kept.dataset.files  # refuses a limit that is too small
    return kept.dataset


def refuse_unsafe_types(dataset: Dataset, columns: Sequence[str] | None) -> None:
    """Refuse columns that are pickles, as soon as the index says so.

    Parameters
    ----------
    dataset : Dataset
        Whoever opens it did not allow them.
    columns : sequence of str, optional
        The columns that are read; all by default.

    Raises
    ------
    UnsafeTypeError
        If one of them is a pickle.
    """
    kinds = {(shard.column_names, shard.column_encodings) for shard in dataset.index.shards}
    for name, encoding in (column for kind in kinds for column in zip(*kind, strict=True)):
        if (columns is None or name in columns) and parse_encoding(encoding).is_unsafe:
            raise unsafe_type_error(name, dataset.url)


def _open_own_shards(stream: Stream, defaults: StreamDefaults) -> Dataset:
    """Open the shards that a subclass names, or brings here."""
    kept = stream._mdstorm
    kept.dataset, kept.extra = None, {}
    shards = stream.get_shards(World.detect(), defaults.allow_unsafe_types)
    for shard in shards:
        if not isinstance(shard, ShardInfo):
            raise ArgumentTypeError(
                f"{type(stream).__name__}.get_shards must return shards of mdstorm_backend, as "
                f"super().get_shards does; found {shard!r}"
            )
    directory = kept.directory(stream)
    return Dataset(
        Location.of(directory),
        Index(tuple(shards), kept.extra),
        cache=kept.cache(None),
        allow_unsafe_types=defaults.allow_unsafe_types,
        prepare=Prepare(stream, directory),
    )


@dataclass(frozen=True)
class Prepare:
    """Lets a stream bring the shards here that are missing. It pickles."""

    stream: Stream
    directory: str

    def __call__(self, shard: ShardInfo) -> None:
        """Have it bring one, if it has to; one process at a time."""
        path = os.path.join(self.directory, shard.raw_data.basename)
        if size_at(path) == shard.raw_data.bytes:
            return
        with bringing(path):
            if not os.path.exists(path):
                self.stream.prepare_shard(shard)
