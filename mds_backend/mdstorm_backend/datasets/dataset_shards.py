"""Open the shards of a dataset, keep recent ones open, and recover a lost schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.recorder import count
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.index import Index, ShardInfo
from mdstorm_backend.format.layout import parse_header
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.stored_schema import parse_columns, with_form
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.open_shards import OpenShards
from mdstorm_backend.storage import Arrival, Buffer, Location

if TYPE_CHECKING:
    from mdstorm_backend.cache import CacheOptions, ShardFiles


#: Mapped shards to keep open with a limited cache, which cannot free the space of open files.
_KEPT_OF_LIMITED_CACHE = 4
#: Bytes of shards to download ahead of use: more than any network link has in flight. The number of
#: these shards is bounded, because each takes a file descriptor.
_BYTES_AHEAD = 128 << 20
_FEWEST_AHEAD, _MOST_AHEAD = 2, 64
#: Shards of up to this many bytes are read into memory rather than mapped.
_SMALL_SHARD = 64 << 10

_Parsed = TypeVar("_Parsed")
#: Brings a shard to where it is read.
PrepareShard: TypeAlias = Callable[[ShardInfo], object]


@dataclass(eq=False)
class DatasetShards:
    """The shards of a dataset, opened on request. Safe to share between threads.

    Parameters
    ----------
    location : Location
        Directory of the dataset.
    index : Index
        Index of the dataset.
    fingerprint : str
        Identity of the content.
    cache : CacheOptions or None
        How shards are downloaded to this machine.
    prepare : callable, optional
        Called with each shard before its file is opened.
    written : str, optional
        When the index was written, if known.
    """

    location: Location
    index: Index
    fingerprint: str
    cache: CacheOptions | None
    prepare: PrepareShard | None
    written: str | None

    @cached_property
    def opened(self) -> OpenShards[MDSShard]:
        """The open shards."""
        # The cache limit bounds disk use, and removed files still use the disk while open.
        limited = self.cache is not None and self.cache.limit is not None
        return OpenShards(_KEPT_OF_LIMITED_CACHE) if limited else OpenShards()

    @cached_property
    def files(self) -> ShardFiles:
        """The files from which shards are read."""
        from mdstorm_backend.cache import shard_files

        return shard_files(
            self.location,
            self.fingerprint,
            self.cache,
            shards=self.index.shards,
            written=self.written,
        )

    @cached_property
    def are_mapped(self) -> bool:
        """Whether opening a shard only maps a file."""
        from mdstorm_backend.cache.dataset_files import DirectFiles

        return (
            isinstance(self.files, DirectFiles)
            and self.location.is_local_disk
            and not any(info.zip_data for info in self.index.shards)
        )

    @cached_property
    def bytes_ahead(self) -> int:
        """Bytes of shards to open ahead of use; 0 if opening only maps files.

        At most half of a limited cache, since open shards take up its space.
        """
        shards = self.index.shards
        if self.are_mapped or not shards:
            return 0
        mean = sum(info.raw_data.bytes for info in shards) // len(shards)
        room = min(max(_BYTES_AHEAD, _FEWEST_AHEAD * mean), _MOST_AHEAD * mean)
        limit = self.cache.limit if self.cache else None
        return room if limit is None else min(room, limit // 2)

    @cached_property
    def index_with_schema(self) -> Index:
        """The index; a lost schema is taken from the first shard if that contains one."""
        if not (self._lost_schema and self.index.shards):
            return self.index
        url = self.url(self.index.shards[0])
        return self._opened(lambda _, content: restored(self.index, content, url=url), 0)

    @property
    def _lost_schema(self) -> bool:
        """Whether the index has no schema, only the encodings of the columns."""
        return not self.index.extra.get("columns")

    def url(self, info: ShardInfo) -> str:
        """Return the URL of a shard's file."""
        return self.location.file_url(info.stored.basename)

    def get(self, number: int, schema: Schema) -> MDSShard:
        """Return shard `number`, opening it if necessary."""
        shard = self.opened.at_hand(number)
        if shard is not None:
            return shard
        return self.opened.get(number, partial(self._opened, partial(self._parse, schema)))

    def begin(self, number: int, schema: Schema) -> MDSShard:
        """Return shard `number`, of which possibly only the beginning has arrived."""
        if self.prepare is not None or self._lost_schema or self.opened.find(number) is not None:
            return self.get(number, schema)
        info = self.index.shards[number]
        arrival = self.files.open(info, stream=True)
        if not isinstance(arrival, Arrival):
            parse = partial(self._parse, schema)
            return self.opened.get(number, partial(self._opened, parse, content=arrival))
        content, size = arrival.content, info.raw_data.bytes
        arrival.wait_for(min(4 * (info.samples + 2), size))  # the offsets, then the header
        arrival.wait_for(min(int.from_bytes(content[4:8], "little"), size))
        try:
            shard = MDSShard(content, info, schema, url=self.url(info))
        except CorruptDatasetError:
            return self.get(number, schema)  # waits for the shard, and downloads it again
        shard.arrival = arrival
        return _counted(shard, info)

    def _parse(self, schema: Schema, info: ShardInfo, content: Buffer) -> MDSShard:
        # A small shard in memory takes no file descriptor.
        content = bytes(content) if len(content) <= _SMALL_SHARD else content
        shard = MDSShard(content, info, schema, url=self.url(info))
        if self._lost_schema:
            check_nulls(shard)
        return _counted(shard, info)

    def _opened(
        self,
        parse: Callable[[ShardInfo, Buffer], _Parsed],
        number: int,
        content: Buffer | None = None,
    ) -> _Parsed:
        """Open a shard and parse its bytes; a damaged copy is downloaded once more."""
        info = self.index.shards[number]
        if self.prepare is not None:
            self.prepare(info)
        if content is None:
            content = self.files.open(info)
        try:
            return parse(info, content)
        except CorruptDatasetError:
            if not self.files.discard(info):
                raise
        return parse(info, self.files.open(info))


def _counted(shard: MDSShard, info: ShardInfo) -> MDSShard:
    count("shards")
    count("shard_bytes", info.raw_data.bytes)
    return shard


def restored(index: Index, first: Buffer, *, url: str) -> Index:
    """Return the index with the columns in a shard's header, if there are any.

    Parameters
    ----------
    index : Index
        An index without a schema.
    first : bytes-like
        The first shard, uncompressed.
    url : str
        Where the shard came from, for error messages.

    Raises
    ------
    CorruptDatasetError
        If the shard does not match the index.
    """
    _, extra = parse_header(np.frombuffer(first, np.uint8), index.shards[0], url=url)
    columns: Any = extra.get("columns")
    if isinstance(columns, list) and all(isinstance(column, dict) for column in columns):
        columns = [_with_form(column, index) for column in columns]
    return replace(index, extra={**index.extra, "columns": columns}) if columns else index


def _with_form(column: dict[str, Any], index: Index) -> dict[str, Any]:
    """Return a column with the length and shape that hold for all shards together."""
    bare = {**column, "length": None, "shape": None, "uneven": False}
    try:
        (parsed,) = parse_columns([bare])
    except (KeyError, TypeError, ValueError):
        return bare  # opening the dataset raises the error
    encodings = {
        encoding
        for shard in index.shards
        for name, encoding in zip(shard.column_names, shard.column_encodings, strict=True)
        if name == parsed.name
    }
    return Schema((with_form(parsed, encodings),)).to_json()[0]


def check_nulls(shard: MDSShard) -> None:
    """Raise for nulls that the schema does not record, which would be delivered as values.

    Nulls of floating-point columns are allowed, because they are stored as NaN.

    Raises
    ------
    CorruptDatasetError
        If the shard holds such nulls.
    """
    schema = shard.schema
    hidden = {n for n in (*shard.validity.rows, *shard.validity.elements) if n in schema}
    if any(not schema[name].is_floating for name in hidden):
        raise CorruptDatasetError(
            f"{shard.url} holds nulls in {sorted(hidden)} that the index does not record: another "
            "program has rewritten it. Restore the index with `mdstorm reindex`, or "
            "merge the datasets with mdstorm_backend.merge_index",
            url=shard.url,
        )
