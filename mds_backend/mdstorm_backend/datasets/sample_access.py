"""Index samples by integer, slice or list of integers, and locate samples in shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.shard_info import ShardInfo
from mdstorm_backend.read import SampleSource

Counts = npt.NDArray[np.int64]


class Array:
    """A base class for indexing by integers, slices, and nested lists and arrays of integers.

    Subclasses define `size`, and `get_item` for non-negative integers.
    """

    @property
    def size(self) -> int:
        """Number of items."""
        raise NotImplementedError(f"{type(self).__name__} has to define size")

    def get_item(self, idx: int) -> Any:
        """Return item `idx`, counted from 0."""
        raise NotImplementedError(f"{type(self).__name__} has to define get_item")

    def __getitem__(self, at: Any) -> Any:
        """Return items by number: one for an integer, a list for a slice, list or array.

        Raises
        ------
        IndexError
            If there is no such item.
        InvalidArgumentError
            If `at` is something else.
        """
        if type(at) is int and at >= 0:
            return self.get_item(at)  # raises IndexError if there is no such item
        return pick(at, self.size, self.get_item)


def pick(at: Any, size: int, get_item: Callable[[int], Any]) -> Any:
    """Return the value of ``dataset[at]``.

    Parameters
    ----------
    at : int, slice, list or numpy.ndarray
        Sample numbers, where negative numbers count from the end; lists may be nested.
    size : int
        Number of samples.
    get_item : callable
        Returns one sample by its number.

    Returns
    -------
    object
        A sample for an integer; otherwise a list of the same shape.

    Raises
    ------
    InvalidArgumentError
        If `at` is something else.
    IndexError
        If the index is out of range.
    """
    if isinstance(at, (int, np.integer)):
        number = int(at)
        return get_item(number + size if -size <= number < 0 else number)
    if isinstance(at, slice):
        return [get_item(number) for number in range(*at.indices(size))]
    if isinstance(at, (list, np.ndarray)):
        return [pick(one, size, get_item) for one in at]
    found = repr(at) if isinstance(at, str) else type(at).__name__
    raise InvalidArgumentError(
        f"samples cannot be indexed by {found}: use an integer, a slice, or a list or array of "
        "integers. Each sample is a dict of its columns"
    )


class Spanner:
    """Maps a sample's index to its shard and its row in that shard.

    Parameters
    ----------
    shard_sizes : numpy.ndarray of int64
        Number of samples in each shard.
    span_size : int
        Accepted for compatibility with MosaicML Streaming; not needed for a binary search.

    Attributes
    ----------
    num_samples : int
        Number of samples in all shards.
    shard_bounds : numpy.ndarray of int64
        The index of each shard's first sample, followed by the total number of samples.
    """

    def __init__(self, shard_sizes: Counts, span_size: int = 1 << 10) -> None:
        self.shard_sizes, self.span_size = shard_sizes, span_size
        self.shard_bounds: Counts = np.cumsum([0, *shard_sizes], dtype=np.int64)
        self.num_samples = int(self.shard_bounds[-1])

    def __getitem__(self, index: int) -> tuple[int, int]:
        """Return the index of a sample's shard, and the sample's row in that shard.

        Raises
        ------
        IndexError
            If there is no such sample; negative numbers are not accepted.
        """
        if not 0 <= index < self.num_samples:
            raise IndexError(f"Invalid sample index {index}: there are {self.num_samples} samples")
        shard = int(np.searchsorted(self.shard_bounds, index, side="right")) - 1
        return shard, int(index - self.shard_bounds[shard])


class StoredShard(Array):
    """A shard of a dataset: its samples by number, its sizes, and its index entry.

    Parameters
    ----------
    info : ShardInfo
        The index entry, whose attributes are also attributes of this object.
    dataset : SampleSource
        The dataset.
    number : int
        Number of the shard in the dataset.
    """

    def __init__(self, info: ShardInfo, dataset: SampleSource, number: int) -> None:
        self.info, self._dataset, self._number = info, dataset, number

    def __getattr__(self, name: str) -> Any:
        if name == "info":  # not set yet while unpickling
            raise AttributeError(name)
        return getattr(self.info, name)

    def __len__(self) -> int:
        """Number of samples."""
        return self.info.samples

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.info.samples

    def get_item(self, idx: int) -> dict[str, Any]:
        """Return sample `idx` of the shard."""
        return self._dataset.shard(self._number).sample(idx)

    def get_raw_size(self) -> int:
        """Return the size of the uncompressed shard in bytes."""
        return self.info.raw_data.bytes

    def get_zip_size(self) -> int | None:
        """Return the size of the compressed shard in bytes; None without compression."""
        return None if self.info.zip_data is None else self.info.zip_data.bytes
