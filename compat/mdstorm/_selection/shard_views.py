"""Views of a dataset that select or split its shards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm._selection.predicate_filter import PredicateFilter
from mdstorm_backend.datasets import DatasetView, Filters, Mask, SampleDataset, fingerprint_of
from mdstorm_backend.format import Batch, slice_batch
from mdstorm_backend.order import World
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import Rows, Shard


class ShardView(DatasetView):
    """A `SampleDataset` whose shards are pieces of another source's shards.

    Its `fingerprint`, which states compare, identifies the other source and the pieces. It can be
    pickled if the other source can.

    Parameters
    ----------
    source : SampleDataset
        The other source.
    owners, starts, sizes : numpy.ndarray
        The shard number, first row within the shard, and number of rows for each piece.
    identity : bytes, optional
        Identifies the pieces in the fingerprint; by default, the pieces do, so that two values of
        an argument that choose the same pieces are equal. States of earlier versions have the
        identities of the views below.
    """

    def __init__(
        self,
        source: SampleDataset,
        owners: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        identity: bytes = b"",
    ) -> None:
        super().__init__(source, sizes.tolist())
        self._owners = owners
        self._starts = starts
        identity = identity or np.stack([owners, starts, sizes]).astype(np.int64).tobytes()
        self.fingerprint = fingerprint_of(f"{source.fingerprint} ".encode() + identity)
        self.former = source.former and fingerprint_of(f"{source.former} ".encode() + identity)

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """Number of each piece's first row in the whole dataset."""
        return self.source.first_rows[self._owners] + self._starts

    def may_match(self, filters: Filters, unbounded: Collection[str] = ()) -> Mask:
        """Return for each piece whether a row of its shard may match."""
        return self.source.may_match(filters, unbounded)[self._owners]

    def shard(self, number: int) -> Shard:
        """Return a piece, opening its shard if necessary."""
        return self._piece(number, self.source.shard(int(self._owners[number])))

    def begin_shard(self, number: int) -> Shard:
        """Return a piece, whose shard may still be downloading."""
        return self._piece(number, self.source.begin_shard(int(self._owners[number])))

    def find_open(self, number: int) -> Shard | None:
        """Return a piece if its shard is open."""
        shard = self.source.find_open(int(self._owners[number]))
        return None if shard is None else self._piece(number, shard)

    def _piece(self, number: int, shard: Shard) -> Shard:
        start, size = int(self._starts[number]), self.shard_sizes[number]
        return shard if size == shard.num_samples else _ShardPiece(shard, start, start + size)


class SplitShards(ShardView):
    """A view that splits every shard into pieces, for ``shuffle_row_drop_partitions``.

    Each piece contains consecutive rows, and piece sizes differ by at most one row. A shard with
    fewer rows than `parts` is split into single rows. Unlike in Petastorm, which visits a row group
    several times, pieces without `overlap` never share or omit a row, however rows are shuffled
    within them.

    Parameters
    ----------
    source : SampleDataset
        The source whose shards are split.
    parts : int
        Pieces per shard, 1 or more.
    overlap : int
        Rows of the next piece that are repeated at the end of each piece. With one row less than
        the length of an n-gram, every n-gram in the shard is in exactly one piece.
    """

    def __init__(self, source: SampleDataset, parts: int, *, overlap: int = 0) -> None:
        sizes = np.array(source.shard_sizes, np.int64)
        counts = np.minimum(sizes, parts)
        owners = np.repeat(np.arange(len(sizes)), counts)
        cut = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows, cuts = sizes[owners], counts[owners]
        starts = -(-cut * rows // cuts)  # rounded up, as in Petastorm
        stops = np.minimum(-(-(cut + 1) * rows // cuts) + overlap, rows)
        identity = f"in {parts} with {overlap}".encode()
        super().__init__(source, owners, starts, stops - starts, identity)


class RankShare(ShardView):
    """One rank's share of the rows; each piece also includes the next `overlap` rows of its shard.

    If `overlap` is one less than the length of an n-gram, every n-gram belongs to the rank that has
    its first row, and no n-gram is lost at the end of a rank's share.

    Parameters
    ----------
    source : SampleDataset
        The source that all ranks share.
    rows : range
        This rank's rows.
    share : World
        The rank, and the number of ranks.
    overlap : int
        Number of subsequent rows to add, which belong to the next rank.
    """

    def __init__(self, source: SampleDataset, rows: range, share: World, overlap: int) -> None:
        bounds = source.bounds
        cuts = np.clip(bounds, rows.start, rows.stop)
        owners = np.flatnonzero(cuts[1:] > cuts[:-1])
        starts, ends = bounds[owners], bounds[owners + 1]
        stops = np.minimum(cuts[owners + 1] + overlap, ends) - starts
        starts = cuts[owners] - starts
        identity = f"rank {share.rank} of {share.size} with {overlap}".encode()
        super().__init__(source, owners, starts, stops - starts, identity)


class _ShardPiece(Shard):
    """A shard that consists of the rows `start` to `stop` of another shard."""

    def __init__(self, shard: Shard, start: int, stop: int) -> None:
        self._shard = shard
        self._start = start
        self.num_samples = stop - start

    @property
    def memory(self) -> int:
        """Bytes of memory held by the whole shard."""
        return self._shard.memory

    def will_need(self) -> None:
        """Prefetch the whole shard."""
        self._shard.will_need()

    def make_ready(self, columns: Sequence[str], *, exact_nulls: bool = False) -> None:
        """Prepare the whole shard."""
        self._shard.make_ready(columns, exact_nulls=exact_nulls)

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch | None:
        """Return all samples as views of the shard's data; None if they are not in memory."""
        batch = self._shard.decoded(columns, exact_nulls=exact_nulls)
        stop = self._start + self.num_samples
        return None if batch is None else slice_batch(batch, self._start, stop)

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Copy some columns of the samples `rows` (ascending, without duplicates)."""
        return self._shard.read(rows + self._start, columns, exact_nulls=exact_nulls)

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample; None for `columns` means all columns."""
        if not 0 <= row < self.num_samples:
            raise IndexError(f"sample {row} of {self.num_samples}")
        return self._shard.sample(row + self._start, columns)


def prune_by_predicate(
    source: SampleDataset, predicate: PredicateFilter
) -> tuple[SampleDataset, bool]:
    """Drop row groups that a predicate on partition columns excludes.

    Returns
    -------
    source : SampleDataset
        The remaining data.
    done : bool
        Whether the predicate includes all remaining rows; False if it also uses other columns.
    """
    if not isinstance(source, ParquetDataset) or not predicate.fields <= set(
        source.partition_columns
    ):
        return source, False
    mask = predicate.mask(dict(source.partition_values))
    return source.with_shards(np.flatnonzero(mask).tolist()), True
