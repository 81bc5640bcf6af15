"""`SampleSource`: samples by number, in shards. Readers need no more of a dataset."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property, choose_among
from mdstorm_backend.errors import ArgumentTypeError
from mdstorm_backend.format import Schema
from mdstorm_backend.order import Chunk
from mdstorm_backend.order.chunk import in_ranges
from mdstorm_backend.read.block import Located, OpeningShards
from mdstorm_backend.read.file_reader import FileReader
from mdstorm_backend.read.made_columns import MadeColumn, SampleNumbers
from mdstorm_backend.read.shard import OpenShards, Shard
from mdstorm_backend.storage import Location


def fingerprint_of(content: bytes) -> str:
    """Return a fingerprint of some content."""
    return hashlib.sha256(content).hexdigest()[:16]


def fingerprints_of(source: SampleSource, of: Callable[[str], str]) -> tuple[str, str]:
    """Return `fingerprint` and `former` of a view of a source.

    Parameters
    ----------
    source : SampleSource
        The source.
    of : callable
        Returns what identifies the view, given a fingerprint of the source.
    """
    former = source.former and fingerprint_of(of(source.former).encode())
    return fingerprint_of(of(source.fingerprint).encode()), former


class SampleSource(ABC):
    """Samples numbered from 0, in shards numbered from 0.

    Attributes
    ----------
    url : str
        URL of the dataset, for messages.
    fingerprint : str
        Identity of the content, by which states and ranks recognise their dataset. It does not
        depend on when the files were written. What outlives a process needs `content_identity`.
    former : str
        The fingerprint in states of earlier versions, which depended on the times of Parquet files;
        empty if it is the same.
    schema : Schema
        The columns.
    shard_sizes : tuple of int
        Number of samples in each shard.
    shard_bytes : tuple of int
        Uncompressed bytes of each shard.
    bytes_ahead : int
        Bytes of shards to open ahead of use; 0 unless opening a shard may wait for the network.
    chosen : str or None
        Identifies the rows, if only some rows of a dataset were chosen.
    where : str
        The conditions that chose them, to be shown; empty if there were none.
    root : Location or None
        The dataset's own directory: the one directory or table that the user named, as resolved by
        its catalog or by where it lies, never by what its data or metadata say. None if the user
        named several, or only files. Files that rows name may be read below it.
    cache : CacheOptions or None
        How files are copied to this machine.
    added : mapping of str to MadeColumn
        Make the columns that are not stored.
    file_reader : FileReader or None
        Reads the files whose contents are in such columns.
    """

    url: str
    fingerprint: str
    former: str = ""
    schema: Schema
    shard_sizes: tuple[int, ...]
    shard_bytes: tuple[int, ...]
    bytes_ahead: int = 0
    chosen: str | None = None
    where: str = ""
    root: Location | None = None
    cache: Any = None
    added: Mapping[str, MadeColumn] = MappingProxyType({})
    file_reader: FileReader | None = None
    _open_shards: OpenShards[Any]

    @property
    def all_rows(self) -> SampleSource:
        """The source with all of its samples: another one if this one consists of chosen rows."""
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
        self, chunk: Chunk, kept: OpeningShards | None = None, *, is_first: bool = False
    ) -> Located:
        """Find the shards and rows of samples; see `Located` for the arguments."""
        return Located(chunk, self.bounds, kept, is_first=is_first)

    def may_match(self, filters: Any, unbounded: Collection[str] = ()) -> npt.NDArray[np.bool_]:
        """Return for each shard whether a row may match, as known without reading rows.

        Parameters
        ----------
        filters : Filters
            The conditions.
        unbounded : collection of str
            Columns whose statistics are not valid.
        """
        return np.ones(len(self.shard_sizes), np.bool_)

    def stored_numbers(self, numbers: SampleNumbers) -> SampleNumbers:
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
            raise IndexError(
                f"sample {i} of {len(self)} in {self.url}, whose samples are numbered from 0"
            )
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
        UnsupportedTableError
            If the files of the dataset differ in one of the columns.
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
        self.schema.check_readable(names, self.url)
        return names
