"""An MDS dataset, opened: its schema and its shards."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from mdstorm_backend.dataset_shards import DatasetShards
from mdstorm_backend.encodings import parse_encoding
from mdstorm_backend.errors import ArgumentTypeError
from mdstorm_backend.frameworks.sample_access import pick
from mdstorm_backend.index import INDEX_NAME, Index, ShardInfo
from mdstorm_backend.optional import require
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.schema import Column, Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.stored_schema import schema_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from mdstorm_backend.cache import CacheOptions, ShardFiles

__all__ = ["Dataset", "open_dataset"]

#: Bytes of a batch where as few of them as possible are wanted.
_LARGE_BATCH = 1 << 30


def open_dataset(
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
        Arguments of the fsspec file system.
    cache : CacheOptions, optional
        How shards that cannot be mapped where they are, because they are compressed or elsewhere,
        are brought to this machine.
    allow_unsafe_types : bool
        Unpickle columns with the encoding ``pkl``. Whoever wrote them can run code of theirs here.

    Raises
    ------
    DatasetNotFoundError
        If there is no ``index.json``.
    CorruptDatasetError
        If it cannot be understood.
    """
    from mdstorm_backend.cache import read_index

    location = Location.of(url, storage_options)
    data = read_index(location, cache)
    return Dataset(
        location,
        Index.from_bytes(data, url=location.file_url(INDEX_NAME)),
        fingerprint=_fingerprint(data),
        cache=cache,
        allow_unsafe_types=allow_unsafe_types,
    )


class Dataset:
    """An open dataset. Safe to share between threads; pickles as its URL.

    Parameters
    ----------
    location : Location
        Its directory.
    index : Index
        The content of its ``index.json``.
    fingerprint : str, optional
        Identity of the content, if it is known.
    cache, allow_unsafe_types
        See `open_dataset`.

    Attributes
    ----------
    fingerprint : str
        Identity of the content, by which a checkpoint and a cache know their dataset.
    """

    def __init__(
        self,
        location: Location,
        index: Index,
        *,
        fingerprint: str | None = None,
        cache: CacheOptions | None = None,
        allow_unsafe_types: bool = False,
    ) -> None:
        self.location = location
        self.index = index
        self.fingerprint = fingerprint or _fingerprint(index.to_bytes())
        self.cache = cache
        self.allow_unsafe_types = allow_unsafe_types
        self._shards = DatasetShards(location, index, self.fingerprint, cache)

    def __len__(self) -> int:
        return self._bounds[-1]

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, at: Any) -> Any: ...

    def __getitem__(self, at: Any) -> Any:
        """Return samples by number, see `sample`: one for an integer, a list for a slice or list.

        Raises
        ------
        IndexError
            If there is no such sample.
        InvalidArgumentError
            If `at` is something else.
        """
        return self.sample(at) if type(at) is int else pick(at, len(self), self.sample)

    def sample(self, i: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample.

        Parameters
        ----------
        i : int
            Its number; negative ones count from the end.
        columns : sequence of str, optional
            Columns to decode; all by default.

        Returns
        -------
        dict
            What the format's own decoder gives for each column: NumPy scalars and arrays, Python
            objects for the rest, None for null.

        Raises
        ------
        IndexError
            If there is no such sample.
        """
        bounds = self._bounds
        if not 0 <= i < bounds[-1]:
            number, row = self.locate(i)
            i = bounds[number] + row
        number = bisect_right(bounds, i) - 1
        return self._shards.get(number, self.schema).sample(i - bounds[number], columns)

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the shard that holds sample `i`, and its row there.

        Raises
        ------
        IndexError
            If there is no such sample.
        """
        if not -len(self) <= i < len(self):
            raise IndexError(f"sample {i} of {len(self)} in {self.url}")
        position = int(i) % len(self)
        shard = bisect_right(self._bounds, position) - 1
        return shard, position - self._bounds[shard]

    def __reduce__(self) -> tuple[Any, ...]:
        options = (self.fingerprint, self.cache, self.allow_unsafe_types)
        return _dataset, (self.location, self.index, *options)

    def __repr__(self) -> str:
        return f"Dataset({self.url!r}, {len(self)} samples, {len(self.index.shards)} shards)"

    @property
    def url(self) -> str:
        """URL of the directory."""
        return self.location.url

    @cached_property
    def schema(self) -> Schema:
        """The columns in the order of the DataFrame."""
        schema = schema_of(self._shards.index_with_schema, url=self.location.file_url(INDEX_NAME))
        return schema.opened(self.url, allow_unsafe_types=self.allow_unsafe_types)

    def with_columns(self, columns: Iterable[Column]) -> Dataset:
        """Return the dataset with some columns as parts of a whole that says more of them.

        Parameters
        ----------
        columns : iterable of Column
            Columns of the same names, which may have nulls or other lengths elsewhere.
        """
        found = {column.name: column for column in columns}
        schema = Schema(tuple(found.get(column.name, column) for column in self.schema))
        if schema == self.schema:
            return self
        options = (self.fingerprint, self.cache, self.allow_unsafe_types)
        other = _dataset(self.location, self.index, *options)
        other.schema = schema.opened(self.url, allow_unsafe_types=self.allow_unsafe_types)
        return other

    @cached_property
    def shard_sizes(self) -> tuple[int, ...]:
        """Samples of each shard."""
        return tuple(shard.samples for shard in self.index.shards)

    @cached_property
    def _bounds(self) -> list[int]:
        """Number of the first sample of each shard, and of all samples."""
        return [0, *accumulate(self.shard_sizes)]

    @cached_property
    def bounds(self) -> npt.NDArray[np.int64]:
        """Number of the first sample of each shard, and of all samples."""
        return np.array(self._bounds, np.int64)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of all shards, uncompressed."""
        return sum(shard.raw_data.bytes for shard in self.index.shards)

    @property
    def file_urls(self) -> list[str]:
        """URLs of the shard files in order."""
        return [self._shards.url(info) for info in self.index.shards]

    def shard(self, number: int) -> MDSShard:
        """Open shard `number`. It stays open while somebody holds it; the last ones always do.

        Raises
        ------
        DatasetNotFoundError
            If its file is gone.
        CorruptDatasetError
            If its file does not hold what the index says.
        StorageError
            If it cannot be brought to this machine.
        """
        return self._shards.get(number, self.schema)

    def find_open(self, number: int) -> MDSShard | None:
        """Return shard `number` if it is open."""
        return self._shards.find(number)

    @property
    def is_mapped(self) -> bool:
        """Whether opening a shard is no more than mapping a file."""
        return self._shards.are_mapped

    @property
    def files(self) -> ShardFiles:
        """Where the bytes of the shards come from."""
        return self._shards.files

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names in `columns`, or of all columns for None.

        Raises
        ------
        ArgumentTypeError
            If the dataset has no such column, or one is named twice.
        UnsupportedEncodingError
            If this version cannot decode one of them.
        """
        if isinstance(columns, str):
            raise ArgumentTypeError(f"columns={columns!r} is a text: give a list, [{columns!r}]")
        names = self.schema.names if columns is None else tuple(columns)
        if len(set(names)) < len(names):
            raise ArgumentTypeError(f"columns={list(names)} names a column twice: name each once")
        unknown = [name for name in names if name not in self.schema]
        if unknown:
            raise ArgumentTypeError(
                f"{self.url} has no columns {unknown}; it has {list(self.schema.names)}"
            )
        for name in names:
            parse_encoding(self.schema[name].encoding).check_decodable(name)
        return names

    def batches(
        self,
        batch_size: int,
        *,
        format: Literal["numpy", "arrow", "pandas"] = "numpy",
        columns: Sequence[str] | None = None,
        order: ExactOrder | None = None,
        num_epochs: int | None = 1,
    ) -> Iterator[Any]:
        """Iterate over the dataset in batches.

        Parameters
        ----------
        batch_size : int
            Rows of a batch. Batches span epochs; only the last one may be shorter.
        format : {"numpy", "arrow", "pandas"}
            What a batch is. ``"numpy"``: dict of arrays of shape ``(rows, *shape)``; integer and
            boolean columns with nulls are float64 with NaN, strings and ragged arrays have dtype
            object. ``"arrow"``: `pyarrow.RecordBatch`, nulls exactly as written. ``"pandas"``:
            DataFrame, as NumPy with ``None`` and ``NaT`` for nulls. All of it owned by the caller.
        columns : sequence of str, optional
            Columns to read, in that order; all by default.
        order : ExactOrder, optional
            Order and share of the rows; by default all in stored order.
        num_epochs : int, optional
            Passes over the data; None never ends.
        """
        from mdstorm_backend.frameworks.formats import formatter
        from mdstorm_backend.read.batch_reader import BatchReader

        names = self.select(columns)
        convert = formatter(format, self.schema.select(names))
        reader = BatchReader(
            self,
            order or ExactOrder(),
            batch_size=batch_size,
            num_epochs=num_epochs,
            columns=names,
            exact_nulls=format == "arrow",
        )
        return (convert(batch) for batch in reader)

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the whole dataset as one Arrow table."""
        from mdstorm_backend.frameworks.formats import to_table

        schema = self.schema.select(self.select(columns))
        return to_table(self._large_batches("arrow", columns), schema)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read the whole dataset as one pandas DataFrame."""
        frames = list(self._large_batches("pandas", columns))
        if not frames:
            frames = [self.to_table(columns).to_pandas()]
        whole = require("pandas").concat(frames, ignore_index=True) if frames[1:] else frames[0]
        frame: pd.DataFrame = whole
        return frame

    def _large_batches(
        self, format: Literal["arrow", "pandas"], columns: Sequence[str] | None
    ) -> Iterator[Any]:
        """Iterate over the dataset in batches that Arrow's 32-bit offsets reach into."""
        largest = max((-(-info.raw_data.bytes // info.samples) for info in self._filled), default=1)
        return self.batches(max(_LARGE_BATCH // largest, 1), format=format, columns=columns)

    @property
    def _filled(self) -> Iterator[ShardInfo]:
        return (info for info in self.index.shards if info.samples)


def _dataset(
    location: Location,
    index: Index,
    fingerprint: str,
    cache: CacheOptions | None,
    allow_unsafe_types: bool,
) -> Dataset:
    return Dataset(
        location,
        index,
        fingerprint=fingerprint,
        cache=cache,
        allow_unsafe_types=allow_unsafe_types,
    )


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
