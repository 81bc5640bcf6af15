"""`AddedColumns`: a dataset with columns that are not stored: row numbers, contents of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import check_integer
from mdstorm_backend.cache import CacheOptions, FetchedFiles
from mdstorm_backend.datasets.dataset_view import DatasetView
from mdstorm_backend.datasets.sample_dataset import SampleDataset
from mdstorm_backend.errors import ArgumentTypeError
from mdstorm_backend.format import Batch, Schema
from mdstorm_backend.order import Chunk
from mdstorm_backend.read import FileReader, column_to_numpy
from mdstorm_backend.read.block import Block, Located, OpeningShards
from mdstorm_backend.read.made_columns import (
    MadeColumn,
    SampleNumbers,
    check_new,
    file_columns,
    paths_of_files,
    row_numbers,
)
from mdstorm_backend.storage import FilesBelow, NamedFiles

#: Assumed size of a file, which decides how many rows are read at a time for a transform.
_FILE_BYTES = 64 << 10
#: Rows that are read at a time for a table, since the content of files may be large.
_ROWS_AT_ONCE = 256


def check_row_numbers(name: str, column: object) -> None:
    """Raise ArgumentTypeError unless `column` is None or can be the name of a column."""
    if column is not None and not (isinstance(column, str) and column):
        raise ArgumentTypeError(
            f"{name} must be the name of the column to add, found {column!r}: for example "
            f'{name}="row"'
        )


def check_files(name: str, columns: object) -> None:
    """Raise ArgumentTypeError unless `columns` is None or maps names of columns to others."""
    is_mapping = columns is None or isinstance(columns, Mapping)
    texts = [*columns, *columns.values()] if isinstance(columns, Mapping) else []
    if not is_mapping or not all(isinstance(text, str) and text for text in texts):
        raise ArgumentTypeError(
            f"{name} must map the name of each column to add to a column of paths, found "
            f'{columns!r}: for example {name}={{"image": "path"}}'
        )


def check_file_bytes(name: str, limit: object) -> None:
    """Raise InvalidArgumentError unless `limit` is a positive number of bytes."""
    check_integer(name, limit, lowest=1)


def add_columns(source: SampleDataset, arguments: Mapping[str, Any]) -> SampleDataset:
    """Return a dataset with the columns that arguments add; `source` itself if they add none.

    Parameters
    ----------
    source : SampleDataset
        The dataset.
    arguments : mapping
        Has `files`, `files_below`, `max_file_bytes` and `row_numbers`, as they were checked.

    Raises
    ------
    InvalidArgumentError
        If the dataset has a column of the same name, or no column of paths.
    """
    if arguments["files"]:
        below, limit = arguments["files_below"], arguments["max_file_bytes"]
        source = with_files(source, arguments["files"], below, limit)
    if (name := arguments["row_numbers"]) is not None:
        numbers = row_numbers(name, source.all_rows.stored_numbers)
        source = AddedColumns(source, [numbers], "row_numbers")
    return source


def with_added(source: SampleDataset, **arguments: Any) -> SampleDataset:
    """Check the arguments of `add_columns`, and return a dataset with the columns that they add."""
    check_row_numbers("row_numbers", arguments["row_numbers"])
    check_file_bytes("max_file_bytes", arguments["max_file_bytes"])
    return add_columns(source, arguments)


def with_files(
    source: SampleDataset, files: Mapping[str, str], below: FilesBelow | None, max_file_bytes: int
) -> AddedColumns:
    """Return a dataset with columns of the contents of files.

    Raises
    ------
    ArgumentTypeError
        If an argument has the wrong type.
    InvalidArgumentError
        If the dataset has a column of the same name, or no column of paths, or the limit is not
        positive.
    """
    check_files("files", files)
    check_file_bytes("max_file_bytes", max_file_bytes)
    added = [paths_of_files(one) for one in file_columns(source.schema, files, source.url)]
    named = NamedFiles(source.root, below or (), max_bytes=max_file_bytes)
    options = source.cache or CacheOptions()
    fetched = FetchedFiles(named, options, source.url, source.all_rows.fingerprint)
    reader = FileReader(dict(files), fetched.read, source.url, at_once=fetched.at_once)
    return AddedColumns(source, added, "files", reader, named)


class AddedColumns(DatasetView):
    """A dataset with further columns, which come last and are read with any other columns.

    Parameters
    ----------
    source : SampleDataset
        The dataset.
    columns : sequence of MadeColumn
        The columns.
    argument : str
        Name of the argument that adds them, for messages.
    file_reader : FileReader, optional
        Reads the files whose contents are in the columns.
    named_files : NamedFiles, optional
        Which of these files are allowed, and their versions.

    Raises
    ------
    InvalidArgumentError
        If the dataset has a column of the same name.
    """

    def __init__(
        self,
        source: SampleDataset,
        columns: Sequence[MadeColumn],
        argument: str,
        file_reader: FileReader | None = None,
        named_files: NamedFiles | None = None,
    ) -> None:
        super().__init__(source, source.shard_sizes)
        self.named_files = named_files
        self._own = {one.column.name: one for one in columns}
        check_new(argument, self._own, source.schema, source.url)
        self.schema = Schema((*source.schema, *(one.column for one in columns)))
        self.fingerprint, self.former, self.chosen = (
            source.fingerprint,
            source.former,
            source.chosen,
        )
        self.where = source.where
        self.added = {**source.added, **self._own}
        self.file_reader = file_reader or source.file_reader
        if file_reader is not None:
            nbytes = _FILE_BYTES * len(columns)
            sizes = zip(self.shard_bytes, self.shard_sizes, strict=True)
            self.shard_bytes = tuple(stored + nbytes * rows for stored, rows in sizes)

    @property
    def all_rows(self) -> SampleDataset:
        """The dataset with all of its rows, without the columns."""
        return self.source.all_rows

    def files_identity(self) -> str:
        """Identify the state of the dataset's files, and which columns name further files."""
        paths = "" if self.file_reader is None else f" {self.file_reader.columns}"
        return f"{self.source.files_identity()}{paths}"

    def located(
        self, chunk: Chunk, kept: OpeningShards | None = None, *, is_first: bool = False
    ) -> Located:
        """Find the shards and rows of samples."""
        return self.source.located(chunk, kept, is_first=is_first)

    def stored_numbers(self, numbers: SampleNumbers) -> SampleNumbers:
        """Return the numbers that samples have in the whole dataset."""
        return self.source.stored_numbers(numbers)

    def samples_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the samples that are rows of the whole dataset, ascending."""
        return self.source.samples_of(rows)

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the columns to read, the added ones last."""
        others = None if columns is None else [name for name in columns if name not in self._own]
        return (*self.source.select(others), *self._own)

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the stored shard that holds sample `i`, and its row there."""
        return self.source.locate(i)

    def sample(self, i: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return sample `i` with the added columns."""
        names = self.select(columns)
        needed = [name for one in self._own.values() for name in one.needs]
        others = [name for name in names if name not in self._own]
        sample = self.source.sample(i, [*dict.fromkeys([*others, *needed])])
        number = i % len(self)
        parts = [self.located(range(number, number + 1))]
        batch: Batch = {name: pa.array([sample[name]], pa.string()) for name in needed}
        added = {name: one.make(parts, batch) for name, one in self._own.items()}
        if self.file_reader is not None:
            block = Block([1], batch=added, numbered=[number])
            self.file_reader.complete(block)
            added = block.batch
        found = {name: column_to_numpy(values, None)[0] for name, values in added.items()}
        # A row number is an int, as in a column of MosaicML's ints.
        sample |= {n: int(v) if isinstance(v, np.integer) else v for n, v in found.items()}
        return {name: sample[name] for name in names}

    def numbers(self, where: Any) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows that match conditions on stored columns, ascending."""
        return self.source.numbers(where)

    @property
    def _large_batch(self) -> int:
        return _ROWS_AT_ONCE
