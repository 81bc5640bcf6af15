"""Open a dataset's streams, join them, and register kinds of streams by name."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from itertools import accumulate
from typing import Any, TypeVar, overload

from mdstorm_backend.base import cached_property, choose_among
from mdstorm_backend.datasets import (
    Dataset,
    SampleDataset,
    open_mds,
)
from mdstorm_backend.datasets.stream import Stream, World
from mdstorm_backend.datasets.stream_files import (
    INHERITED,
    StreamDefaults,
    download_lock,
    join,
    size_at,
)
from mdstorm_backend.display import shown_urls
from mdstorm_backend.errors import ArgumentTypeError, DatasetNotFoundError, InvalidArgumentError
from mdstorm_backend.format import Column, Schema
from mdstorm_backend.format.encodings.registry import general_encoding, parse_encoding
from mdstorm_backend.format.index import Index, ShardInfo
from mdstorm_backend.format.stored_schema import joined_form
from mdstorm_backend.read import Shard, fingerprint_of
from mdstorm_backend.read.late import unsafe_type_error
from mdstorm_backend.storage import Location


def open_stream(stream: Stream, defaults: StreamDefaults) -> Dataset:
    """Open the dataset of a stream.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    InvalidArgumentError
        If the stream has neither `remote` nor `local`, or a shard exceeds the cache limit.
    ArgumentTypeError
        If a subclass returns something other than shards.
    """
    stream.apply_default({name: getattr(defaults, name) for name in INHERITED})
    kept = stream._mdstorm
    kept.storage_options = defaults.storage_options
    if kept.is_hooked:
        return _open_own_shards(stream, defaults)
    given, split = kept.own("local"), kept.shown("split")
    keeps_local = stream.remote is not None and given is not None
    try:
        kept.dataset = open_mds(
            join(given if stream.remote is None else stream.remote, split),
            storage_options=defaults.storage_options,
            cache=kept.cache(join(given, split) if keeps_local else None, defaults.cache_limit),
            allow_unsafe_types=defaults.allow_unsafe_types,
        )
    except DatasetNotFoundError as error:
        if stream.remote is not None:
            raise
        raise DatasetNotFoundError(
            f"{error}. No `remote` provided: if the dataset is elsewhere, pass its URL as remote",
            url=error.url,
        ) from None
    if defaults.cache_limit is not None:
        _ = kept.dataset.files  # raises an error if the limit is too small
    return kept.dataset


def refuse_unsafe_types(dataset: Dataset, columns: Sequence[str] | None) -> None:
    """Raise UnsafeTypeError if one of the columns to read holds pickles, according to the index.

    Parameters
    ----------
    dataset : Dataset
        A dataset opened without `allow_unsafe_types`.
    columns : sequence of str, optional
        The columns that are read; all by default.

    Raises
    ------
    UnsafeTypeError
        If one of the columns holds pickles.
    """
    kinds = {(shard.column_names, shard.column_encodings) for shard in dataset.index.shards}
    for name, encoding in (column for kind in kinds for column in zip(*kind, strict=True)):
        if (columns is None or name in columns) and parse_encoding(encoding).is_unsafe:
            raise unsafe_type_error(name, dataset.url)


def check_columns(parts: Sequence[Dataset], columns: Sequence[str] | None) -> list[str]:
    """Check that each of `columns` is in at least one part; return all parts' column names.

    Raises
    ------
    ArgumentTypeError
        If no part has one of `columns`.
    """
    there = list(dict.fromkeys(name for part in parts for name in part.schema.names))
    if there and (unknown := [name for name in columns or () if name not in there]):
        url = shown_urls([part.url for part in parts])
        raise ArgumentTypeError(f"{url} has no columns {unknown}{choose_among(unknown[0], there)}")
    return there


def _open_own_shards(stream: Stream, defaults: StreamDefaults) -> Dataset:
    """Open the dataset of a stream whose subclass lists or downloads the shards itself."""
    kept = stream._mdstorm
    kept.dataset, kept.extra = None, {}
    shards = stream.get_shards(World.detect(), defaults.allow_unsafe_types)
    for shard in shards:
        if not isinstance(shard, ShardInfo):
            raise ArgumentTypeError(
                f"{type(stream).__name__}.get_shards must return shards of mdstorm_backend, as "
                f"super().get_shards does; found {shard!r}"
            )
    directory = kept.directory
    return Dataset(
        Location.of(directory),
        Index(tuple(shards), kept.extra),
        cache=kept.cache(None),
        allow_unsafe_types=defaults.allow_unsafe_types,
        prepare=partial(_prepare, stream, directory),
    )


def _prepare(stream: Stream, directory: str, shard: ShardInfo) -> bool:
    """Let a stream download a shard if it is missing, in one process at a time.

    Returns
    -------
    bool
        Whether this process or another one had to download the file.
    """
    path = os.path.join(directory, shard.raw_data.basename)
    if size_at(path) == shard.raw_data.bytes:
        return False
    with download_lock(path):
        if not os.path.exists(path):
            stream.prepare_shard(shard)
    return True


class JoinedDataset(SampleDataset):
    """Datasets in sequence, with samples and shards numbered consecutively.

    Samples keep the columns of their dataset. Whole batches have the common columns.

    Parameters
    ----------
    parts : sequence of Dataset
        The datasets, at least one.
    """

    def __init__(self, parts: Sequence[Dataset]) -> None:
        first, *others = (part.schema for part in parts)
        #: The columns that all parts have, in the order of the first part.
        self.schema = Schema(
            tuple(
                _joined([column, *(other[column.name] for other in others)])
                for column in first
                if all(column.name in other for other in others)
            )
        )
        common = [column for column in self.schema if _are_alike(column.name, parts)]
        #: The datasets. If a column has the same type in all of them, all get the same description
        #: of it: for example, that it has nulls, even if it has none in one of them.
        self.parts = tuple(part.with_columns(common) for part in parts)
        self.url = shown_urls([part.url for part in parts])
        self.shard_sizes = tuple(size for part in parts for size in part.shard_sizes)
        self.shard_bytes = tuple(size for part in parts for size in part.shard_bytes)
        prints = " ".join(part.fingerprint for part in parts)
        self.fingerprint = fingerprint_of(prints.encode())
        self._first_shards = [0, *accumulate(len(part.shard_sizes) for part in parts)]

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled parts lose the shared descriptions of columns, so the copy joins the parts again.
        return JoinedDataset, (self.parts,)

    @cached_property
    def is_mapped(self) -> bool:
        """Whether opening a shard only maps a local file."""
        return all(part.is_mapped for part in self.parts)

    def files_identity(self) -> str:
        """Identify the state of all parts' files."""
        return "\n".join(part.files_identity() for part in self.parts)

    @property
    def bytes_ahead(self) -> int:  # type: ignore[override]
        """Bytes of shards to open ahead of use."""
        return max(part.bytes_ahead for part in self.parts)

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the columns in whole batches: `columns`, or all if that is None.

        Raises
        ------
        InvalidArgumentError
            If a part does not have one of the columns, or their types differ.
        ArgumentTypeError
            If no part has one of the columns.
        """
        everywhere = check_columns(self.parts, columns)
        names = tuple(everywhere if columns is None else columns)
        differing = [name for name in names if not _are_alike(name, self.parts)]
        if differing:
            common = [name for name in self.schema.names if _are_alike(name, self.parts)]
            remedy = f"Read only the common columns, columns={common}, or" if common else "Read"
            raise InvalidArgumentError(
                f"the columns {differing} are missing in some of {self.url}, or have "
                "different types there, but all rows in a batch need the same columns. "
                f"{remedy} single samples"
            )
        ordered = self.schema.names if columns is None else names
        for part in self.parts:
            part.select(ordered)
        return ordered

    def shard(self, number: int) -> Shard:
        """Open shard `number`, counted across all parts."""
        part, number = self._part(number)
        return part.shard(number)

    def begin_shard(self, number: int) -> Shard:
        """Open shard `number`, which may still be downloading."""
        part, number = self._part(number)
        return part.begin_shard(number)

    def find_open(self, number: int) -> Shard | None:
        """Return shard `number` if it is open, else None."""
        part, number = self._part(number)
        return part.find_open(number)

    def _part(self, number: int) -> tuple[Dataset, int]:
        """Return the part that holds shard `number`, and the shard's number in that part."""
        part = bisect_right(self._first_shards, number) - 1
        return self.parts[part], number - self._first_shards[part]

    def release(self) -> None:
        """Close shards that are kept open; they are reopened when needed."""
        for part in self.parts:
            part.release()


def _are_alike(name: str, parts: Sequence[Dataset]) -> bool:
    """Whether all parts have a column with this name and the same type."""
    columns = [part.schema.get(name) for part in parts]
    kinds = {(c.parsed_encoding.kind, str(c.arrow_type)) for c in columns if c is not None}
    return None not in columns and len(kinds) == 1


def _joined(columns: Sequence[Column]) -> Column:
    """Return one column that describes all parts' columns."""
    first = columns[0]
    encodings = sorted({column.encoding for column in columns})
    return replace(
        joined_form(columns),
        encoding=first.encoding if len(encodings) == 1 else general_encoding(encodings),
    )


StreamMaker = Callable[..., Stream]
_Made = TypeVar("_Made", bound=StreamMaker)

#: Entry-point group in which installed packages list their kinds of streams, as for MosaicML
#: Streaming.
_ENTRY_POINTS = "streaming_streams_registry"


class StreamRegistry:
    """A registry of kinds of streams: subclasses of `Stream`, or functions that make streams.

    Attributes
    ----------
    namespace : tuple of str
        The group of entry points that MosaicML Streaming uses.
    """

    namespace = ("streaming", "streams_registry")

    def __init__(self) -> None:
        self._kinds: dict[str, StreamMaker] = {"stream": Stream}

    def __contains__(self, name: object) -> bool:
        return name in self._kinds or name in self.get_entry_points()

    @overload
    def register(self, name: str, *, func: _Made) -> _Made: ...

    @overload
    def register(self, name: str, *, func: None = None) -> Callable[[_Made], _Made]: ...

    def register(self, name: str, *, func: Any = None) -> Any:
        """Register a kind of stream, replacing any kind with the same name.

        Parameters
        ----------
        name : str
            The value of ``stream_name`` that selects the kind.
        func : callable, optional
            Creates a stream from keyword arguments. Without it, `register` returns a decorator.
        """

        def register(made: _Made) -> _Made:
            self._kinds[name] = made
            return made

        return register if func is None else register(func)

    register_class = register
    __call__ = register

    def get(self, name: str) -> StreamMaker:
        """Return the kind registered under a name.

        Raises
        ------
        InvalidArgumentError
            If no kind has that name.
        """
        known = self._kinds if name in self._kinds else self.get_all()
        if name not in known:
            raise InvalidArgumentError(
                f"stream_name={name!r} is not registered: register it with "
                f"streams_registry.register({name!r}, func=…), or use one of {sorted(known)}"
            )
        return known[name]

    def get_all(self) -> dict[str, StreamMaker]:
        """Return all kinds, by name."""
        return {**self.get_entry_points(), **self._kinds}

    def get_entry_points(self) -> dict[str, StreamMaker]:
        """Return the kinds that installed packages provide, by name."""
        return {point.name: point.load() for point in entry_points(group=_ENTRY_POINTS)}


#: The registered kinds of streams.
streams_registry = StreamRegistry()
