"""An MDS dataset, opened: its schema and its shards."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mdstorm_backend.compression import decompress
from mdstorm_backend.encodings import parse_encoding
from mdstorm_backend.errors import ArgumentTypeError, CorruptDatasetError, DatasetNotFoundError
from mdstorm_backend.index import INDEX_NAME, Index
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.open_shards import OpenShards
from mdstorm_backend.schema import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.stored_schema import schema_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Dataset", "open_dataset"]


def open_dataset(url: str, *, storage_options: dict[str, Any] | None = None) -> Dataset:
    """Open an MDS dataset for reading.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    storage_options : dict, optional
        Arguments of the fsspec file system.

    Raises
    ------
    DatasetNotFoundError
        If there is no ``index.json``.
    CorruptDatasetError
        If it cannot be understood.
    """
    location = Location.of(url, storage_options)
    try:
        data = bytes(location.read(INDEX_NAME))
    except FileNotFoundError as error:
        raise DatasetNotFoundError(
            f"there is no dataset at {location.url}: it has no {INDEX_NAME}. Check the URL; if the "
            "dataset was deleted or its job failed, write it again",
            url=location.url,
        ) from error
    return Dataset(location, Index.from_bytes(data, url=location.file_url(INDEX_NAME)))


class Dataset:
    """An open dataset. Safe to share between threads; pickles as its URL.

    Parameters
    ----------
    location : Location
        Its directory.
    index : Index
        The content of its ``index.json``.
    """

    def __init__(self, location: Location, index: Index) -> None:
        self.location = location
        self.index = index
        self._shards = OpenShards()

    def __len__(self) -> int:
        return self._bounds[-1]

    def __getitem__(self, i: int) -> dict[str, Any]:
        """Return sample `i`: NumPy scalars and arrays, Python objects for the rest, None for null.

        Raises
        ------
        IndexError
            If there is no such sample.
        UnsupportedEncodingError
            If this version cannot decode one of the columns.
        """
        shard, row = self.locate(i)
        batch = self.shard(shard).read(np.array([row]), self.schema.names, exact_nulls=True)
        return {
            name: values[0] if isinstance(values, np.ndarray) else values[0].as_py()
            for name, values in batch.items()
        }

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
        return Dataset, (self.location, self.index)

    def __repr__(self) -> str:
        return f"Dataset({self.url!r}, {len(self)} samples, {len(self.index.shards)} shards)"

    @property
    def url(self) -> str:
        """URL of the directory."""
        return self.location.url

    @cached_property
    def schema(self) -> Schema:
        """The columns in the order of the DataFrame."""
        return schema_of(self.index, url=self.location.file_url(INDEX_NAME))

    @cached_property
    def shard_sizes(self) -> tuple[int, ...]:
        """Samples of each shard."""
        return tuple(shard.samples for shard in self.index.shards)

    @cached_property
    def _bounds(self) -> list[int]:
        """Number of the first sample of each shard, and of all samples."""
        return [0, *accumulate(self.shard_sizes)]

    @property
    def nbytes(self) -> int:
        """Bytes of all shards, uncompressed."""
        return sum(shard.raw_data.bytes for shard in self.index.shards)

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the content, by which a checkpoint knows its dataset."""
        return hashlib.sha256(self.index.to_bytes()).hexdigest()[:16]

    @property
    def file_urls(self) -> list[str]:
        """URLs of the shard files in order."""
        files = (shard.zip_data or shard.raw_data for shard in self.index.shards)
        return [self.location.file_url(file.basename) for file in files]

    def shard(self, number: int) -> MDSShard:
        """Open shard `number`. It stays open while somebody holds it; the last few always do.

        Raises
        ------
        DatasetNotFoundError
            If its file is gone.
        CorruptDatasetError
            If its file does not hold what the index says.
        """
        return self._shards.get(number, self._open)

    def _open(self, number: int) -> MDSShard:
        info = self.index.shards[number]
        file = info.zip_data or info.raw_data
        url = self.location.file_url(file.basename)
        try:
            buffer = self.location.read(file.basename)
        except FileNotFoundError as error:
            raise DatasetNotFoundError(
                f"shard {url} is gone, and the index lists it. Write the dataset again", url=url
            ) from error
        if info.compression:
            try:
                buffer = decompress(info.compression, buffer, info.raw_data.bytes)
            except (OSError, ValueError) as error:
                raise CorruptDatasetError(
                    f"{url} cannot be decompressed as {info.compression} ({error}). Copy it again, "
                    "or write the dataset again",
                    url=url,
                ) from error
        return MDSShard(buffer, info, self.schema, url=url)

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names in `columns`, or of all columns for None.

        Raises
        ------
        ArgumentTypeError
            If the dataset has no such column.
        UnsupportedEncodingError
            If this version cannot decode one of them.
        """
        names = self.schema.names if columns is None else tuple(columns)
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
        import pyarrow as pa

        schema = self.schema.select(self.select(columns)).arrow_schema
        return pa.Table.from_batches(
            self.batches(1 << 16, format="arrow", columns=columns), schema=schema
        )

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read the whole dataset as one pandas DataFrame."""
        frames = list(self.batches(max(len(self), 1), format="pandas", columns=columns))
        frame: pd.DataFrame = frames[0] if frames else self.to_table(columns).to_pandas()
        return frame
