"""A new kind of data that is not in Parquet files: a directory with an array for each column."""

from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format import Column, Schema
from mdstorm_backend.kinds import Kind, Place
from mdstorm_backend.read import OpenShards, fingerprint_of, fingerprints_of
from mdstorm_backend.read.shard import MemoryShard
from mdstorm_backend.storage import Location

_MARKER = "_ARRAYS"
_ROWS = 8


class ArrayFolder(Kind):
    """A directory with a marker, and columns of numbers."""

    name = "a directory of NumPy files"

    def is_at(self, place: Place) -> bool:
        """Whether the only URL is that of a directory with the marker."""
        return place.location is not None and place.location.exists(_MARKER)

    def open(self, place: Place) -> "ArrayDataset":
        """Open the files."""
        location = place.locations[0]
        names = [name.removesuffix(".npy") for name in location.list_matches("*.npy")]
        arrays = {name: _array(location, name) for name in names}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) != 1:
            raise CorruptDatasetError(f"{location.url} has {lengths}", url=location.url)
        rows = next(iter(lengths.values()))
        schema = Schema(tuple(Column(name, a.dtype.name) for name, a in arrays.items()))
        fingerprint = fingerprint_of(f"{rows} {schema.to_json()}".encode())
        ends = (*range(0, rows, _ROWS), rows)
        return ArrayDataset(location, schema, tuple(pairwise(ends)), fingerprint)


def _array(location: Location, name: str) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.load(BytesIO(location.read(f"{name}.npy")), allow_pickle=False)
    return array


@dataclass(eq=False, repr=False)
class ArrayDataset(SampleDataset):
    """The arrays, in shards of a few rows."""

    location: Location
    schema: Schema
    ranges: tuple[tuple[int, int], ...]
    fingerprint: str

    def __post_init__(self) -> None:
        self.url, self.root = self.location.url, self.location
        self.shard_sizes = tuple(stop - start for start, stop in self.ranges)
        row = sum(np.dtype(column.encoding).itemsize for column in self.schema)
        self.shard_bytes = tuple(rows * row for rows in self.shard_sizes)
        self._open_shards: OpenShards[MemoryShard] = OpenShards()

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayDataset, (self.location, self.schema, self.ranges, self.fingerprint)

    @property
    def is_mapped(self) -> bool:
        """Always False, since files are read."""
        return False

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """Number of each shard's first row in the files."""
        return np.array([start for start, _ in self.ranges], np.int64)

    def with_shards(self, numbers: Any) -> "ArrayDataset":
        """Return a dataset with only some shards."""
        ranges = tuple(self.ranges[number] for number in numbers)
        fingerprint, _ = fingerprints_of(self, lambda of: f"{of} {ranges}")
        return replace(self, ranges=ranges, fingerprint=fingerprint)

    def files_identity(self) -> str:
        """Identify the times of the files."""
        return str([self.location.modified(f"{name}.npy") for name in self.schema.names])

    def shard(self, number: int) -> MemoryShard:
        """Open a shard."""
        return self._open_shards.get(number, self._open)

    def _open(self, number: int) -> MemoryShard:
        rows, names = slice(*self.ranges[number]), self.schema.names
        return MemoryShard({name: _array(self.location, name)[rows] for name in names})
