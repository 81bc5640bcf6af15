"""The base class for datasets: samples by number, batches and whole tables."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property, choose_among, require, warn_user
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets.filters import Filters, Mask
from mdstorm_backend.datasets.sample_access import pick
from mdstorm_backend.display import Described
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format import Batch, Schema
from mdstorm_backend.order import (
    Batching,
    Chunk,
    ExactOrder,
    Order,
    Position,
    StreamShape,
    check_order,
    find_world,
)
from mdstorm_backend.order.chunk import in_ranges
from mdstorm_backend.read import (
    FileReader,
    OpenShards,
    SampleSource,
    Shard,
    Stack,
    StackOption,
    check_num_epochs,
    check_outputs,
    checked_stack,
    output_name,
)
from mdstorm_backend.read.added_columns import AddedColumn, Numbers
from mdstorm_backend.read.batch_formats import formatter, to_table
from mdstorm_backend.read.block import Located, Opened
from mdstorm_backend.read.reader import BlockReader
from mdstorm_backend.read.steps import Reading
from mdstorm_backend.storage import Location

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from typing_extensions import Unpack


class _BatchOptions(TypedDict, total=False):
    columns: Sequence[str] | None
    order: Order | None
    num_epochs: int | None


#: Bytes per batch when there should be as few batches as possible.
LARGE_BATCH = 1 << 30


def fingerprint_of(content: bytes) -> str:
    """Return a fingerprint of some content."""
    return hashlib.sha256(content).hexdigest()[:16]


class SampleDataset(Described, ABC):
    """A dataset that consists of shards and is read as samples, batches or whole tables.

    Attributes
    ----------
    url : str
        URL of the dataset, for messages.
    fingerprint : str
        Identity of the content, by which states and ranks recognise their dataset. For MDS, it does
        not depend on when the files were written. What outlives a process needs `content_identity`.
    schema : Schema
        The columns.
    shard_sizes : tuple of int
        Number of samples in each shard.
    shard_bytes : tuple of int
        Uncompressed bytes of each shard.
    bytes_ahead : int
        Bytes of shards to open ahead of use; 0 unless opening a shard may wait for the network.
    chosen : str or None
        Identifies the rows, if only some rows of `all_rows` were chosen.
    where : str
        The conditions that chose them, to be shown; empty if there were none.
    root : Location or None
        The dataset's own directory: the one directory or table that the user named, as resolved by
        its catalog or by where it lies, never by what its data or metadata say. None if the user
        named several, or only files. Files that rows name may be read below it.
    cache : CacheOptions or None
        How files are copied to this machine.
    added : mapping of str to AddedColumn
        Make the columns that are not stored.
    file_reader : FileReader or None
        Reads the files whose contents are in such columns.
    """

    url: str
    fingerprint: str
    schema: Schema
    shard_sizes: tuple[int, ...]
    shard_bytes: tuple[int, ...]
    bytes_ahead: int = 0
    chosen: str | None = None
    where: str = ""
    root: Location | None = None
    cache: CacheOptions | None = None
    added: Mapping[str, AddedColumn] = MappingProxyType({})
    file_reader: FileReader | None = None
    _open_shards: OpenShards[Any]

    @property
    def all_rows(self) -> SampleSource:
        """The dataset with all of its rows."""
        return self

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """Number of each shard's first row in the whole dataset, before shards were left out."""
        return self.bounds[:-1]

    @cached_property
    def _shifts(self) -> npt.NDArray[np.int64]:
        """For each shard, what a row's number in the whole dataset exceeds its number here by."""
        return self.first_rows - self.bounds[:-1]

    @property
    @abstractmethod
    def is_mapped(self) -> bool:
        """Whether opening a shard only maps a local file."""

    @abstractmethod
    def shard(self, number: int) -> Shard:
        """Open shard `number`."""

    def begin_shard(self, number: int) -> Shard:
        """Open shard `number`, which may still be downloading."""
        return self.shard(number)

    def located(
        self, chunk: Chunk, kept: Opened | None = None, *, is_first: bool = False
    ) -> Located:
        """Find the shards and rows of samples; see `Located` for the arguments."""
        return Located(chunk, self.bounds, kept, is_first=is_first)

    def may_match(self, filters: Filters, unbounded: Collection[str] = ()) -> Mask:
        """Return for each shard whether a row may match, as known without reading rows.

        Parameters
        ----------
        filters : Filters
            The conditions.
        unbounded : collection of str
            Columns whose statistics are not valid.
        """
        return np.ones(len(self.shard_sizes), np.bool_)

    def stored_numbers(self, numbers: Numbers) -> Numbers:
        """Return the numbers that samples have in the whole dataset."""
        if not self._shifts.any():
            return numbers
        found = np.asarray(numbers)
        return found + self._shifts[np.searchsorted(self.bounds, found, side="right") - 1]

    def samples_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the samples that are rows of the whole dataset, ascending.

        Parameters
        ----------
        rows : numpy.ndarray
            int64, numbers of rows, ascending and each once.
        """
        at, shards = in_ranges(rows, self.first_rows, np.diff(self.bounds))
        return np.unique(rows[at] - self._shifts[shards])

    def content_identity(self) -> str:
        """Identify the dataset and the time of its files.

        What is kept beyond a process, and was computed from the data, is kept under this identity.
        Unlike `fingerprint`, it changes if other values are written to the same files, even if all
        sizes stay the same. It also changes if the files are copied without their times. It is
        computed when it is called, without opening shards.

        Returns
        -------
        str
            Hexadecimal digits, derived from the fingerprint and:

            - on a local disk, the time of the index, and the sizes and times of the shards;
            - in a store or on a mount, the time of the index. A shard that is replaced without its
              index is not noticed;
            - for Parquet files, their sizes, times and tags;
            - for a table, its version, and the sizes and times of the files in its log.

        Raises
        ------
        MDStormError
            If the dataset cannot be accessed.
        """
        files = self.files_identity()
        return fingerprint_of(f"{self.fingerprint} {files}".encode()) if files else self.fingerprint

    @abstractmethod
    def files_identity(self) -> str:
        """Identify the state of the files, as far as the fingerprint does not."""

    def find_open(self, number: int) -> Shard | None:
        """Return shard `number` if it is open, else None."""
        return self._open_shards.find(number)

    def release(self) -> None:
        """Close shards that are kept open; they are reopened when needed."""
        self._open_shards.release()

    def __len__(self) -> int:
        return self._bounds[-1]

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, at: Any) -> Any: ...

    def __getitem__(self, at: Any) -> Any:
        """Return samples by number: one for an integer, a list for a slice, list or array.

        Raises
        ------
        IndexError
            If the index is out of range.
        InvalidArgumentError
            If `at` is something else.
        """
        return self.sample(at) if type(at) is int else pick(at, len(self), self.sample)

    def sample(self, i: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return sample `i`.

        Parameters
        ----------
        i : int
            Number of the sample; negative numbers count from the end.
        columns : sequence of str, optional
            Columns to decode; all by default.

        Returns
        -------
        dict
            The values of the columns as MDS decodes them: NumPy scalars and arrays, other Python
            objects, None for null.

        Raises
        ------
        IndexError
            If the index is out of range.
        """
        bounds = self._bounds
        if not 0 <= i < bounds[-1]:
            number, row = self.locate(i)
            i = bounds[number] + row
        number = bisect_right(bounds, i) - 1
        return self.shard(number).sample(i - bounds[number], columns)

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the shard that holds sample `i`, and the sample's row in it.

        Raises
        ------
        IndexError
            If the index is out of range.
        """
        if not -len(self) <= i < len(self):
            raise IndexError(f"sample {i} of {len(self)} in {self.url}")
        position = int(i) % len(self)
        shard = bisect_right(self._bounds, position) - 1
        return shard, position - self._bounds[shard]

    @cached_property
    def _bounds(self) -> list[int]:
        """The number of each shard's first sample, followed by the total number of samples."""
        return [0, *accumulate(self.shard_sizes)]

    @cached_property
    def bounds(self) -> npt.NDArray[np.int64]:
        """The number of each shard's first sample, followed by the total number of samples."""
        return np.array(self._bounds, np.int64)

    @cached_property
    def nbytes(self) -> int:
        """Uncompressed bytes of all shards."""
        return sum(self.shard_bytes)

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the columns to read: `columns`, or all if that is None.

        Raises
        ------
        ArgumentTypeError
            If the dataset has no such column, or a column is listed twice.
        UnsupportedEncodingError
            If this version cannot decode one of the columns.
        """
        if isinstance(columns, str):
            raise ArgumentTypeError(f"columns={columns!r} is a string: pass a list, [{columns!r}]")
        names = self.schema.names if columns is None else tuple(columns)
        if len(set(names)) < len(names):
            raise ArgumentTypeError(f"columns={list(names)} lists a column twice: list each once")
        unknown = [name for name in names if name not in self.schema]
        if unknown:
            raise ArgumentTypeError(
                f"{self.url} has no columns {unknown}{choose_among(unknown[0], self.schema.names)}"
            )
        for name in names:
            self.schema[name].parsed_encoding.check_decodable(name)
        return names

    @overload
    def batches(
        self,
        batch_size: int,
        *,
        format: Literal["numpy"] = "numpy",
        stack: Literal[True] | str | type[np.number[Any]] | np.dtype[Any],
        **options: Unpack[_BatchOptions],
    ) -> Iterator[npt.NDArray[Any]]: ...

    @overload
    def batches(
        self,
        batch_size: int,
        *,
        format: Literal["numpy"] = "numpy",
        **options: Unpack[_BatchOptions],
    ) -> Iterator[dict[str, npt.NDArray[Any]]]: ...

    @overload
    def batches(
        self, batch_size: int, *, format: Literal["arrow"], **options: Unpack[_BatchOptions]
    ) -> Iterator[pa.RecordBatch]: ...

    @overload
    def batches(
        self, batch_size: int, *, format: Literal["pandas"], **options: Unpack[_BatchOptions]
    ) -> Iterator[pd.DataFrame]: ...

    def batches(
        self,
        batch_size: int,
        *,
        format: Literal["numpy", "arrow", "pandas"] = "numpy",
        columns: Sequence[str] | None = None,
        order: Order | None = None,
        num_epochs: int | None = 1,
        stack: StackOption = False,
    ) -> Iterator[Any]:
        """Iterate over the dataset in batches.

        Parameters
        ----------
        batch_size : int
            Rows per batch. Only the last one may be shorter, since batches span epochs; in the
            elastic order, the last one of each epoch.
        format : {"numpy", "arrow", "pandas"}
            Type of a batch. ``"numpy"``: dict of arrays of shape ``(rows, *shape)``; integer and
            boolean columns with nulls are float64 with NaN, strings and ragged arrays have dtype
            object. ``"arrow"``: `pyarrow.RecordBatch`, nulls exactly as written. ``"pandas"``:
            DataFrame, like NumPy with ``None`` and ``NaT`` for nulls. The caller owns every batch.
        columns : sequence of str, optional
            Columns to read, in that order; all by default.
        order : Order, optional
            Order and share of the rows; by default all in stored order.
        num_epochs : int, optional
            Passes over the data; None for infinitely many.
        stack : bool or str
            Whether a batch is one array of shape ``(rows, columns)``. The columns must hold
            numbers, and no nulls unless they are floats. The array has the columns' dtype, NumPy's
            promotion of several, or the specified dtype, such as ``"float32"``. Floats may be
            rounded; any other value that would change is an error.

        Raises
        ------
        ArgumentTypeError
            If there is no such column, or `order` is not an `Order`.
        InvalidArgumentError
            If columns cannot be stacked, or another argument is out of range. While iterating, if a
            value does not fit into the matrix.
        NullValueError
            If columns to be stacked hold nulls that are not NaN.
        """
        is_given, order = order is not None, check_order(ExactOrder() if order is None else order)
        if is_given and order.follows_world is None and order.world_size == 1:
            _warn_of_whole_passes(self.url)
        check_num_epochs(num_epochs)
        names = self.select(columns)
        convert = formatter(format, self.schema.select(names))
        stacked = checked_stack(stack)
        outputs: tuple[Stack, ...] = ()
        if stacked:
            outputs = (Stack.of(names, stacked),)
            if format != "numpy":
                raise InvalidArgumentError(
                    f"stack={stack!r} makes NumPy arrays, not format={format!r}: pass only one"
                )
            check_outputs(outputs, self.schema.get)
            convert = itemgetter(output_name(*outputs))
        reading = Reading(self, names, outputs=outputs, keeps_nulls=format == "arrow")
        reader = BlockReader(reading=reading, batch_size=batch_size)
        order = order.settled(follows_world=False)
        if order.follows_world:
            order = order.share_of(find_world())
        order = order.over([StreamShape(self.shard_sizes)], chosen=self.chosen is not None)
        batching = Batching(batch_size, num_epochs=num_epochs)
        first = order.plan(batching, self.bounds, Position(), self.url)
        _ = first.resolved_start  # raises an error if there are more ranks than rows
        blocks = (block for plan in first.onward() for block in reader.blocks(plan.samples()))
        return (convert(batch) for block in blocks for batch in block.batches())

    def stored_batches(
        self, samples: range, columns: Sequence[str], rows: int, *, use_threads: bool = False
    ) -> Iterator[Batch]:
        """Yield consecutive samples as they are stored, for copies and comparisons.

        Unlike `batches`, this reads in the caller's thread and holds one batch in memory, and nulls
        stay nulls. The sizes of batches depend on where shards end.

        Parameters
        ----------
        samples : range
            Numbers of the samples.
        columns : sequence of str
            Columns to read, in this order.
        rows : int
            Maximum number of rows per batch.
        use_threads : bool
            Whether to decode several columns at a time, where that is possible.
        """
        start = samples.start
        while start < samples.stop:
            number, row = self.locate(start)
            shard = self.shard(number)
            stop = min(row + rows, shard.num_samples, row + samples.stop - start)
            yield shard.read(np.arange(row, stop), columns, exact_nulls=True)
            start += stop - row

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the whole dataset as one Arrow table."""
        schema = self.schema.select(self.select(columns))
        return to_table(self._large_batches("arrow", columns), schema)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read the whole dataset as one pandas DataFrame."""
        frames = list(self._large_batches("pandas", columns))
        if not frames:
            frames = [self.to_table(columns).to_pandas()]
        whole: pd.DataFrame = frames[0]
        return require("pandas").concat(frames, ignore_index=True) if frames[1:] else whole

    def _large_batches(
        self, format: Literal["arrow", "pandas"], columns: Sequence[str] | None
    ) -> Iterator[Any]:
        """Iterate over the dataset in batches small enough for Arrow's 32-bit offsets."""
        shards = zip(self.shard_bytes, self.shard_sizes, strict=True)
        largest = max((-(-nbytes // samples) for nbytes, samples in shards if samples), default=1)
        return self.batches(max(LARGE_BATCH // largest, 1), format=format, columns=columns)


def _warn_of_whole_passes(url: str) -> None:
    """Warn if each of several processes reads all rows, which is rarely intended."""
    if (world := find_world()).size > 1:
        warn_user(
            f"every process reads all rows of {url}, and this is process {world.rank} of "
            f"{world.size}, according to {world.source}: pass "
            "order=ExactOrder(follows_world=True) to give each its share, or follows_world=False "
            "if each should read all rows"
        )
