"""`Dataset`: an open MDS dataset, which opens its shards when they are needed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.collection import no_collection
from mdstorm_backend.cache import CacheOptions, ShardFiles, read_index, shard_files
from mdstorm_backend.cache.dataset_files import DirectFiles
from mdstorm_backend.catalogs import check_no_table_name
from mdstorm_backend.datasets.description import describe_dataset
from mdstorm_backend.datasets.sample_dataset import SampleDataset, Storage
from mdstorm_backend.display import Description, human_bytes, shown_url
from mdstorm_backend.errors import CorruptDatasetError, DatasetNotFoundError, MDStormError
from mdstorm_backend.format import Column, Schema
from mdstorm_backend.format.encodings import registry
from mdstorm_backend.format.index import INDEX_NAME, Index, ShardInfo
from mdstorm_backend.format.stored_schema import restored, schema_of
from mdstorm_backend.read import OpenShards, fingerprint_of
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.storage import (
    Arrival,
    Buffer,
    Location,
    Pin,
    Pins,
    check_map,
    map_of,
    unchanged,
)

#: Number of mapped shards to keep open if the cache is limited, since removing an open file does
#: not free any space.
_KEPT_OF_LIMITED_CACHE = 4
#: Bytes of shards to download ahead of use: more than any network link has in flight. The number of
#: these shards is bounded, because each takes a file descriptor.
_BYTES_AHEAD = 256 << 20
_FEWEST_AHEAD, _MOST_AHEAD = 2, 64
#: Number of shards in which to look for a schema. If all of them are damaged or missing, the index
#: probably belongs to different data, and trying more could download the whole dataset.
_SHARDS_TRIED = 8
#: Shards of up to this many bytes are read into memory rather than mapped.
_SMALL_SHARD = 64 << 10
#: What is pinned besides the shards: the directory and its index.
_PLACES = (".", INDEX_NAME)

_Parsed = TypeVar("_Parsed")


def open_mds(
    url: str,
    *,
    storage_options: dict[str, Any] | None = None,
    cache: CacheOptions | None = None,
    allow_unsafe_types: bool = False,
) -> Dataset:
    """Open an MDS dataset for reading.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    storage_options : dict, optional
        Options for the fsspec file system.
    cache : CacheOptions, optional
        How compressed and remote shards, which cannot be mapped in place, are copied to this
        machine.
    allow_unsafe_types : bool
        Whether to unpickle columns with the encoding ``pkl``. Whoever wrote them can run code on
        this machine.

    Raises
    ------
    DatasetNotFoundError
        If there is no ``index.json``.
    CorruptDatasetError
        If the index cannot be parsed.
    """
    check_no_table_name(url)
    location = Location.of(url, storage_options)
    data, written = read_index(location, cache)
    with no_collection():  # there may be 10,000 shards, each with its entry and its pin
        return Dataset(
            location,
            Index.from_bytes(data, url=location.file_url(INDEX_NAME)),
            fingerprint=fingerprint_of(data),
            cache=cache,
            allow_unsafe_types=allow_unsafe_types,
            written=written,
        )


@dataclass(eq=False, repr=False)
class Dataset(SampleDataset):
    """An open dataset, which threads can share; pickles contain its URL and index, but no samples.

    Parameters
    ----------
    location : Location
        Directory of the dataset.
    index : Index
        The content of its ``index.json``.
    fingerprint : str, optional
        Identity of the content, if known.
    cache, allow_unsafe_types
        See `open_mds`.
    whole : str, optional
        Fingerprint of the dataset that this one is part of; see `with_shards`.
    prepare : callable, optional
        Called with each shard before its file is opened; returns whether it had to bring the file.
        It must be picklable.
    written : str, optional
        When the index was written, if known: see `read_index`.
    pins : Pins, optional
        The pins of the shards on a local disk; by default they are pinned now.
    starts : numpy.ndarray, optional
        The `first_rows` of some shards of a dataset; by default, these are all shards.
    is_named : bool
        Whether the user named the directory, rather than shards in it.

    Attributes
    ----------
    url : str
        URL of the directory.
    shard_sizes : tuple of int
        Number of samples in each shard.
    shard_bytes : tuple of int
        Uncompressed bytes of each shard.
    fingerprint : str
        Identity of the content, by which checkpoints recognise their dataset.
    whole : str
        Fingerprint of the whole dataset, by which caches recognise its files.
    """

    location: Location
    index: Index
    _: KW_ONLY
    fingerprint: str = ""
    cache: CacheOptions | None = None
    allow_unsafe_types: bool = False
    whole: str = ""
    prepare: Callable[[ShardInfo], bool] | None = None
    written: str | None = None
    pins: Pins | None = None
    starts: npt.NDArray[np.int64] | None = None
    is_named: bool = True

    def __post_init__(self) -> None:
        index = self.index
        self.url, self.root = self.location.url, self.location if self.is_named else None
        self.shard_sizes = tuple(shard.samples for shard in index.shards)
        self.shard_bytes = tuple(shard.raw_data.bytes for shard in index.shards)
        self.fingerprint = self.fingerprint or fingerprint_of(index.to_bytes())
        self.whole = self.whole or self.fingerprint
        if self.pins is None and self.location.is_local_disk:
            self.pins = Pins(self.location.path)
            if self.prepare is None:  # otherwise they are pinned when they are brought
                self.pins.pin([*_PLACES, *(shard.stored.basename for shard in index.shards)])
                packed = [shard for shard in index.shards if shard.zip_data is not None]
                self.pins.pin([s.raw_data.basename for s in packed if not self._pin(s)])
        # With a cache limit, keep few shards open: a removed file takes up space until closed.
        limited = self.cache is not None and self.cache.limit is not None
        self._open_shards: OpenShards[MDSShard] = (
            OpenShards(_KEPT_OF_LIMITED_CACHE) if limited else OpenShards()
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Include the classes of users' encodings, which another process has not registered."""
        texts = {text for shard in self.index.shards for text in shard.column_encodings}
        classes = registry.user_classes_of(" ".join(texts))
        return _unpickled, (classes, {f.name: getattr(self, f.name) for f in fields(self)})

    def _mdstorm_description(self, *, full: bool) -> Description:
        stored = sum(shard.stored.bytes for shard in self.index.shards)
        further = [] if stored == self.nbytes else [("stored", human_bytes(stored))]
        schema = None
        if full:  # no shard is opened just to find the schema
            is_known = not self._lost_schema or "schema" in self.__dict__
            schema = self.schema if is_known else Schema.from_shards(self.index.shards)
        return describe_dataset(self, schema, further=further)

    @cached_property
    def schema(self) -> Schema:  # type: ignore[override]
        """The columns in DataFrame order, or in a shard's order if the index has no schema."""
        is_lost = self._lost_schema
        index = self._restored_index() if is_lost else self.index
        schema = schema_of(index, url=self.location.file_url(INDEX_NAME), restored=is_lost)
        return schema.opened(self.url, allow_unsafe_types=self.allow_unsafe_types)

    def _restored_index(self) -> Index:
        """Return the index, completed with the schema in the first shard that can be read.

        Damaged and missing shards are reported when their samples are read.

        Raises
        ------
        CorruptDatasetError, DatasetNotFoundError
            If all shards, or too many at the beginning, are damaged or missing.
        """
        failed: list[CorruptDatasetError | DatasetNotFoundError] = []
        for number, info in enumerate(self.index.shards[:_SHARDS_TRIED]):
            try:
                return self._open_and_parse(
                    partial(restored, self.index, url=self._url(info)), number
                )
            except (CorruptDatasetError, DatasetNotFoundError) as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return self.index

    @property
    def _lost_schema(self) -> bool:
        """Whether the index has no schema, only the column encodings."""
        return not self.index.extra.get("columns")

    def with_columns(self, columns: Iterable[Column]) -> Dataset:
        """Return the dataset with `columns` in its schema, so that it can be joined with others.

        Parameters
        ----------
        columns : iterable of Column
            Columns with the same names, which may have nulls or different lengths in other
            datasets.
        """
        schema = self.schema.with_columns(columns)
        if schema == self.schema:
            return self
        other = replace(self)
        other.schema = schema.opened(self.url, allow_unsafe_types=self.allow_unsafe_types)
        return other

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """Number of each shard's first row in the whole dataset, before shards were left out."""
        return super().first_rows if self.starts is None else self.starts

    def with_shards(self, numbers: Sequence[int]) -> Dataset:
        """Return a dataset with only the shards `numbers`, in that order, for a filter."""
        chosen, shards = [int(number) for number in numbers], self.index.shards
        if chosen == list(range(len(shards))):
            return self
        return replace(
            self,
            index=replace(self.index, shards=tuple(shards[i] for i in chosen)),
            fingerprint=fingerprint_of(f"{self.fingerprint} {chosen}".encode()),
            starts=self.first_rows[chosen],
        )

    def reopened(self) -> Dataset | None:
        """Return the dataset for another reader, unless its index was changed.

        On a local disk, the times of the index and the directory are compared, and shards when they
        are opened. In a store or on a mount, the index is read again.
        """
        if not self._has_same_index():
            return None
        _ = self.schema  # computed once for all readers
        return self._without_open_shards()

    def _has_same_index(self) -> bool:
        if self.pins is not None:
            index = self.pins.get(INDEX_NAME)
            is_read = index is not None and str(index[1]) == self.written
            return is_read and self.pins.agree(_PLACES)
        try:
            content, written = read_index(self.location, self.cache)
        except DatasetNotFoundError:
            return False
        return (fingerprint_of(content), written) == (self.whole, self.written)

    def files_identity(self) -> str:
        """Identify the index's time and, on a local disk, the shards' sizes and times."""
        if self.prepare is not None:  # shards that have not been downloaded have no times
            for info in self.index.shards:
                self._bring(info)
        state = self.files.state
        if self.pins is None:
            return state
        found = [self._pin(info) for info in self.index.shards]
        return f"{state} {[pin and tuple(pin) for pin in found]}"

    def _pin(self, info: ShardInfo) -> Pin | None:
        """Return the pin of a shard's file, pinning it if it has none."""
        assert self.pins is not None
        return self.pins.get(info.stored.basename) or self.pins.get(info.raw_data.basename)

    def _bring(self, info: ShardInfo) -> None:
        """Let a stream's own method bring a shard if it is missing."""
        if self.prepare is not None and self.prepare(info) and self.pins is not None:
            self.pins.forget(info.stored.basename)
            self.pins.forget(info.raw_data.basename)

    @property
    def file_sizes(self) -> tuple[int, ...]:
        """Bytes of each shard file, as stored."""
        return tuple(shard.stored.bytes for shard in self.index.shards)

    def storage(self) -> Storage:
        """Return how the dataset is stored, according to the index."""
        shards = self.index.shards
        encodings: dict[str, Counter[str]] = {name: Counter() for name in self.schema.names}
        layouts = Counter((s.column_names, s.column_encodings) for s in shards)
        for (names, texts), count in layouts.items():
            for name, text in zip(names, texts, strict=True):
                if name in encodings:
                    encodings[name][text] += count
        return Storage(
            {name: dict(found.most_common()) for name, found in encodings.items()},
            self.file_sizes,
            _counts(shard.compression for shard in shards),
            _counts(", ".join(shard.hashes) for shard in shards),
            _counts(str(shard.size_limit or "") for shard in shards),
        )

    @property
    def file_urls(self) -> list[str]:
        """URLs of the shard files, in order."""
        return [self._url(info) for info in self.index.shards]

    def _url(self, info: ShardInfo) -> str:
        return self.location.file_url(info.stored.basename)

    @cached_property
    def files(self) -> ShardFiles:
        """The files from which shards are read."""
        return shard_files(
            self.location,
            self.whole,
            self.cache,
            shards=self.index.shards,
            written=self.written,
            pins=self.pins,
        )

    @cached_property
    def is_mapped(self) -> bool:
        """Whether opening a shard only maps a local file."""
        return (
            isinstance(self.files, DirectFiles)
            and self.location.is_local_disk
            and not any(info.zip_data for info in self.index.shards)
        )

    @cached_property
    def bytes_ahead(self) -> int:  # type: ignore[override]
        """Bytes of shards to open ahead of use; 0 if opening a shard only maps a file.

        At most half of a limited cache, since open shards take up its space.
        """
        if self.is_mapped or not self.shard_bytes:
            return 0
        mean = self.nbytes // len(self.shard_bytes)
        room = min(max(_BYTES_AHEAD, _FEWEST_AHEAD * mean), _MOST_AHEAD * mean)
        limit = self.cache.limit if self.cache else None
        return room if limit is None else min(room, limit // 2)

    def shard(self, number: int) -> MDSShard:
        """Open shard `number`. Shards in use and the most recent ones stay open.

        Raises
        ------
        DatasetNotFoundError
            If the shard file is missing.
        DatasetChangedError
            If the shard file was changed after the dataset was opened.
        CorruptDatasetError
            If the shard file does not match the index.
        StorageError
            If the shard cannot be downloaded to this machine.
        """
        shard = self._open_shards.at_hand.get(number)
        if shard is not None:
            return shard
        parse = partial(self._parse, self.schema)
        return self._open_shards.get(number, partial(self._open_and_parse, parse))

    def begin_shard(self, number: int) -> MDSShard:
        """Open shard `number`, which may still be downloading."""
        if self.prepare is not None or self._lost_schema or self.find_open(number) is not None:
            return self.shard(number)
        info = self.index.shards[number]
        arrival = self.files.stream(info)
        if not isinstance(arrival, Arrival):
            parse = partial(self._parse, self.schema)
            return self._open_shards.get(
                number, partial(self._open_and_parse, parse, content=arrival)
            )
        content, size = arrival.content, info.raw_data.bytes
        # Wait for the offsets, the first of which is the end of the header, then for the header.
        arrival.wait_for(min(4 * (info.samples + 2), size))
        arrival.wait_for(min(int.from_bytes(content[4:8], "little"), size))
        try:
            shard = MDSShard(content, info, self.schema, url=self._url(info))
        except CorruptDatasetError:
            return self.shard(number)  # wait for the whole shard; it is downloaded again if damaged
        shard.arrival = arrival
        return shard

    def _parse(self, schema: Schema, info: ShardInfo, content: Buffer) -> MDSShard:
        if len(content) <= _SMALL_SHARD:  # copied to memory, so that it needs no file descriptor
            with unchanged([map_of(content)]):
                content = bytes(content)
        shard = MDSShard(content, info, schema, url=self._url(info))
        if self._lost_schema:
            _check_nulls(shard)
        return shard

    def _open_and_parse(
        self,
        parse: Callable[[ShardInfo, Buffer], _Parsed],
        number: int,
        content: Buffer | None = None,
    ) -> _Parsed:
        """Open a shard and parse its bytes; if the copy is damaged, download it once more."""
        info = self.index.shards[number]
        self._bring(info)
        if content is None:
            content = self.files.open(info)
        try:
            return parse(info, content)
        except CorruptDatasetError:
            check_map(content)
            if not self.files.discard(info):
                raise
        return parse(info, self.files.open(info))


def _counts(values: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(value or "none" for value in values).most_common())


def _unpickled(classes: dict[str, Any], arguments: dict[str, Any]) -> Dataset:
    registry.receive(classes)
    return Dataset(**arguments)


def _check_nulls(shard: MDSShard) -> None:
    """Raise CorruptDatasetError if a shard holds nulls that the schema does not record.

    Such nulls would be read as values. Nulls in floating-point columns are allowed, because they
    are stored as NaN.

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
            "program has rewritten the index. Rebuild it with `mdstorm reindex --force` or, if the "
            "program merged several datasets, with mdstorm_backend.merge_index",
            url=shard.url,
        )


def describe_place(
    place: str, storage_options: dict[str, Any] | None = None, *, full: bool
) -> Description:
    """Describe a dataset that has not been opened.

    For a `full` description, the index is read if it is on a local disk.
    """
    shown, state = shown_url(place), "not opened"
    if full and (location := Location.of(place, storage_options)).is_local_disk:
        with suppress(MDStormError, OSError):
            if location.exists(INDEX_NAME):
                opened = open_mds(place, storage_options=storage_options)
                return opened._mdstorm_description(full=True)
        if not os.path.exists(location.path):
            state = "nothing is there"
    return Description([repr(shown)], [("location", shown), ("state", state)])
