"""Order-independent checksums of rows: sums of row hashes.

The hash of a row combines one hash per column, and sums modulo 2 ** 64 count every row, including
repeated ones. Besides the total there is a sum per bucket of rows, to find rows that differ without
keeping all of them.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.convert.value_hashes import Hashes, hash_values, mixed

NUM_BUCKETS = 1 << 16


class HashedRows:
    """The hashes of some rows.

    Parameters
    ----------
    names : sequence of str
        The columns.
    arrays : sequence of pyarrow.Array
        Their values.

    Attributes
    ----------
    columns : dict of str to numpy.ndarray
        What each column adds to the hash of its row, ``(2, rows)``.
    rows : numpy.ndarray
        Hashes of the rows.
    buckets : numpy.ndarray
        Bucket of each row.
    """

    def __init__(self, names: Sequence[str], arrays: Sequence[pa.Array]) -> None:
        self.columns = {
            name: mixed(hash_values(values) + _seed(name))
            for name, values in zip(names, arrays, strict=True)
        }
        self.rows = self.keys(())
        self.buckets = (self.rows[0] % np.uint64(NUM_BUCKETS)).astype(np.int64)

    def keys(self, without: Sequence[str]) -> Hashes:
        """Hash the rows without some of their columns."""
        kept = [hashes for name, hashes in self.columns.items() if name not in without]
        return mixed(np.sum(kept, axis=0, dtype=np.uint64)) if kept else np.zeros_like(self.rows)


class RowSums:
    """Sums of the rows of one side; several threads may add to them.

    Attributes
    ----------
    count : int
        Number of rows.
    columns : dict of str to numpy.ndarray
        Sums per column, uint64 ``(2,)``.
    buckets : numpy.ndarray
        Sums and number of the rows of each bucket, uint64 ``(3, NUM_BUCKETS)``.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.count = 0
        self.columns = {name: np.zeros(2, np.uint64) for name in names}
        self.buckets = np.zeros((3, NUM_BUCKETS), np.uint64)
        self._lock = threading.Lock()

    def add(self, hashed: HashedRows) -> None:
        """Add some rows."""
        order = np.argsort(hashed.buckets, kind="stable")
        found, starts = np.unique(hashed.buckets[order], return_index=True)
        ones = np.ones((1, len(order)), np.uint64)
        by_bucket = np.add.reduceat(np.concatenate([hashed.rows[:, order], ones]), starts, axis=1)
        by_column = {
            name: hashes.sum(axis=1, dtype=np.uint64) for name, hashes in hashed.columns.items()
        }
        with self._lock:
            self.count += len(order)
            self.buckets[:, found] += by_bucket
            for name, sums in by_column.items():
                self.columns[name] += sums

    def differing_columns(self, other: RowSums) -> list[str]:
        """Columns whose values differ, each taken by itself."""
        return [n for n, sums in self.columns.items() if (sums != other.columns[n]).any()]

    def differing_buckets(self, other: RowSums) -> npt.NDArray[np.int64]:
        """Buckets whose rows differ."""
        return np.flatnonzero((self.buckets != other.buckets).any(axis=0))


def _seed(name: str) -> Hashes:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.frombuffer(digest, "<u8").reshape(2, 1)
