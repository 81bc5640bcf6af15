"""The base class of all datasets: samples by number, batches and whole tables."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, overload

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import check_names, require, warn_user
from mdstorm_backend.datasets.description import describe_dataset
from mdstorm_backend.datasets.filters import check_where
from mdstorm_backend.datasets.kept_values import kept_values
from mdstorm_backend.datasets.matching_rows import matching_numbers
from mdstorm_backend.datasets.row_choice import as_array, numbers_of_rows
from mdstorm_backend.datasets.sample_access import pick
from mdstorm_backend.display import Described, Description
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format import Batch
from mdstorm_backend.order import (
    Batching,
    ExactOrder,
    Order,
    Position,
    Samples,
    StreamShape,
    check_order,
    find_world,
)
from mdstorm_backend.read import (
    SampleSource,
    Stack,
    StackOption,
    check_num_epochs,
    check_outputs,
    checked_stack,
    output_name,
)
from mdstorm_backend.read.batch_formats import formatter, to_table
from mdstorm_backend.read.made_columns import SampleNumbers
from mdstorm_backend.read.reader import BlockReader
from mdstorm_backend.read.steps import Reading
from mdstorm_backend.storage import Buffer, Location

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from typing_extensions import Self, Unpack


class _BatchOptions(TypedDict, total=False):
    columns: Sequence[str] | None
    order: Order | None
    num_epochs: int | None


class Storage(NamedTuple):
    """How a dataset is stored, as far as is known without opening shards.

    Attributes
    ----------
    encodings : dict of str to dict
        For each column, its encodings, each with the number of shards.
    files : tuple of int
        Bytes of each file.
    compressions, hashes, size_limits : dict of str to int
        Compressions, hashes and size limits, each with the number of shards; ``"none"`` for none.
    """

    encodings: dict[str, dict[str, int]]
    files: tuple[int, ...] = ()
    compressions: Mapping[str, int] = MappingProxyType({})
    hashes: Mapping[str, int] = MappingProxyType({})
    size_limits: Mapping[str, int] = MappingProxyType({})


#: Bytes per batch when there should be as few batches as possible.
LARGE_BATCH = 1 << 30


class SampleDataset(Described, SampleSource, ABC):
    """A dataset, whatever its format: rows by number, batches and whole tables.

    A row has the same number here as for loaders: it is what ``rows=`` takes, `Trace` returns and
    ``row_numbers=`` adds.

    Attributes
    ----------
    location : Location
        The directory that contains the files, at any depth.
    file_urls : list of str
        URLs of the files in order.
    table_version : int or None
        The version of a table, or the id of its snapshot; None for data without versions.
    """

    location: Location
    table_version: int | None = None

    def _mdstorm_description(self, *, full: bool) -> Description:
        return describe_dataset(self, self.schema if full else None)

    def reopened(self) -> SampleDataset | None:
        """Return the dataset for another reader, without reading its metadata again.

        Returns
        -------
        SampleDataset or None
            The same dataset, without open shards; None if it has to be opened again, because its
            files were changed or cannot be compared.
        """
        return None

    def _without_open_shards(self) -> Self:
        other = object.__new__(type(self))  # `copy` would compute everything again
        other.__dict__.update(self.__dict__, _open_shards=self._open_shards.emptied())
        return other

    @property
    def file_sizes(self) -> tuple[int, ...]:
        """Bytes of each of these files, as stored."""
        return ()

    @property
    def file_urls(self) -> list[str]:
        """URLs of the files in order, if each can be opened by itself; none otherwise."""
        return []

    def with_shards(self, numbers: Sequence[int]) -> SampleDataset:
        """Return a dataset with only the shards `numbers`, in that order, for a filter.

        Raises
        ------
        InvalidArgumentError
            If the dataset always consists of all its shards.
        """
        raise InvalidArgumentError(
            f"{self.url} has no shards that can be left out: leave out filters and selectors"
        )

    def storage(self) -> Storage:
        """Return how the dataset is stored."""
        shards = len(self.shard_sizes)
        encodings = {column.name: {column.encoding: shards} for column in self.schema}
        return Storage(encodings, self.file_sizes)

    @property
    def columns_left_out(self) -> Mapping[str, pa.DataType]:
        """Columns that are not in the schema, since their types cannot be read."""
        return {}

    @property
    def all_rows(self) -> SampleDataset:
        """The dataset with all of its rows: another one if this one consists of chosen rows."""
        return self

    @property
    def stored(self) -> SampleDataset:
        """The dataset as it is stored: another one if this one is a view."""
        return self

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.sample, range(len(self)))

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
        if not isinstance(columns, str):  # for which the next line has a better message
            check_names("columns", columns)
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
        reader = self._reader(batch_size, names, keeps_nulls=format == "arrow", outputs=outputs)
        order = order.settled(follows_world=False)
        if order.follows_world:
            order = order.share_of(find_world())
        order = order.over([StreamShape(self.shard_sizes)], chosen=self.chosen is not None)
        order = order.of_data(self)
        batching = Batching(int(batch_size), num_epochs=num_epochs and int(num_epochs))
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

    def batches_of(
        self,
        rows: SampleNumbers,
        batch_size: int,
        columns: Sequence[str] | None = None,
        *,
        format: Literal["arrow", "pandas"] = "arrow",
    ) -> Iterator[Any]:
        """Iterate in batches over the samples with some numbers, in the order of the numbers."""
        names = self.select(columns)
        convert = formatter(format, self.schema.select(names))
        reader = self._reader(batch_size, names, keeps_nulls=format == "arrow")
        starts = range(0, len(rows), batch_size)
        sizes = (min(batch_size, len(rows) - start) for start in starts)
        is_spaced = isinstance(rows, range) and rows.step != 1  # readers take others as arrays
        chunk = as_array(rows) if is_spaced else rows
        samples = Samples(iter([chunk]), sizes, iter(starts))
        return (convert(batch) for block in reader.blocks(samples) for batch in block.batches())

    def _reader(
        self,
        batch_size: int,
        columns: Sequence[str],
        *,
        keeps_nulls: bool,
        outputs: Sequence[Stack] = (),
    ) -> BlockReader:
        reading = Reading(self, columns, outputs=outputs, keeps_nulls=keeps_nulls)
        return BlockReader(reading=reading, batch_size=batch_size)

    def numbers(self, where: Any) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows that match conditions, ascending, as int64.

        Parameters
        ----------
        where : list of tuple, list of list of tuple or pyarrow.compute.Expression
            Conditions on columns. They are evaluated once on each machine, which keeps the result
            in its cache.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If the conditions have another form, or do not fit the columns.
        """
        check_where("where", where)
        return np.array(as_array(matching_numbers(self, range(len(self)), where)))

    def keep_values(
        self, column: str, what: str, make: Callable[[Iterator[pa.Array]], bytes]
    ) -> Buffer:
        """Return what is made from the values of a column, once on each machine: see `kept_values`.

        Parameters
        ----------
        column : str
            The column, whose type may be any.
        what : str
            Describes what is made.
        make : callable
            Is called with the values in pieces, one after another, and returns the result.

        Returns
        -------
        bytes or memoryview
            The result; a read-only memory map if it was kept before.

        Raises
        ------
        ArgumentTypeError
            If there is no such column.
        """
        return kept_values(self, column, what, make)

    def to_table(self, columns: Sequence[str] | None = None, *, rows: Any = None) -> pa.Table:
        """Read the dataset, or some rows of it, as one Arrow table.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read; all by default.
        rows : sequence of int, slice or boolean array, optional
            Numbers of the rows, in the order of the table. Only their shards are read.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If there is no such column or row.
        """
        schema = self.schema.select(self.select(columns))
        numbers: SampleNumbers = range(len(self))
        if rows is not None:
            numbers = numbers_of_rows(self, rows)
        return to_table(self.batches_of(numbers, self._large_batch, columns), schema)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read the whole dataset as one pandas DataFrame."""
        numbers = range(len(self))
        frames = list(self.batches_of(numbers, self._large_batch, columns, format="pandas"))
        if not frames:
            frames = [self.to_table(columns).to_pandas()]
        whole: pd.DataFrame = frames[0]
        return require("pandas").concat(frames, ignore_index=True) if frames[1:] else whole

    @property
    def _large_batch(self) -> int:
        """Rows of batches that are few, but small enough for Arrow's 32-bit offsets."""
        shards = zip(self.shard_bytes, self.shard_sizes, strict=True)
        largest = max((-(-nbytes // samples) for nbytes, samples in shards if samples), default=1)
        return max(LARGE_BATCH // largest, 1)


def _warn_of_whole_passes(url: str) -> None:
    """Warn if each of several processes reads all rows, which is rarely intended."""
    if (world := find_world()).size > 1:
        warn_user(
            f"every process reads all rows of {url}, and this is process {world.rank} of "
            f"{world.size}, according to {world.source}: pass "
            "order=ExactOrder(follows_world=True) to give each its share, or follows_world=False "
            "if each should read all rows"
        )
