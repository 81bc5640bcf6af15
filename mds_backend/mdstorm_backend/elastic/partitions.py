"""Which sample of an epoch goes to which batch of which rank, before any shuffling.

The epoch's N samples are laid out as C rows of cells, one row per canonical node. Read column by
column the cells make one sequence, and global batch q is the q-th stretch of it, whatever the
number of nodes, ranks and workers that share the work: this is what lets another world take over
in the middle of an epoch. Physical node p takes every P-th entry of the sequence, and a rank every
R-th of its node's.

Nothing here holds the ids of a whole world: a `Partition` computes those of the batches and the
rank asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mdstorm_backend.elastic.arrays import as_integer
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.user_warnings import warn_user

__all__ = ["PARTITION_ALGORITHMS", "Cells", "Partition", "partition"]

#: Names of the partition algorithms.
PARTITION_ALGORITHMS = ("relaxed", "orig")

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """The rows of the canonical nodes, read column by column and dealt to physical nodes.

    Attributes
    ----------
    num_samples, canonical_nodes, physical_nodes, ranks_per_node : int
        N, C, P and R. Of C and P the greater must be a multiple of the smaller.
    drop_first : int
        How many entries of the sequence were seen before; rounded down to a multiple of P.
    """

    num_samples: int
    canonical_nodes: int
    physical_nodes: int
    ranks_per_node: int
    drop_first: int = 0

    def __post_init__(self) -> None:
        nodes = self.canonical_nodes, self.physical_nodes
        if max(nodes) % min(nodes):
            raise InvalidArgumentError(
                f"{self.canonical_nodes} canonical nodes cannot be shared by {self.physical_nodes} "
                "physical nodes: one number must be a multiple of the other. Change "
                "num_canonical_nodes or the number of nodes"
            )
        if self.padding and not self.too_few and self.first_copied < 0:
            raise InvalidArgumentError(
                f"{self.num_samples} samples are too few for {self.physical_nodes} physical nodes "
                f"with {self.canonical_nodes} canonical nodes: use fewer nodes, more canonical "
                "nodes or a larger epoch_size"
            )

    @cached_property
    def filled(self) -> int:
        """Cells of a row before the padding."""
        return -(-self.num_samples // self.canonical_nodes)

    @cached_property
    def padding(self) -> int:
        """Cells that are appended to a row so that its physical nodes share it evenly."""
        return -self.filled % max(self.physical_nodes // self.canonical_nodes, 1)

    @property
    def first_copied(self) -> int:
        """Cell of a row that its first padding cell repeats."""
        return self.filled - self.padding - self.physical_nodes // self.canonical_nodes + 1

    @property
    def too_few(self) -> bool:
        """Whether there is less than one sample for each row, or for each node."""
        return self.num_samples < self.canonical_nodes or (
            self.num_samples == self.canonical_nodes < self.physical_nodes
        )

    @cached_property
    def total(self) -> int:
        """Length of the whole sequence: N, or somewhat more."""
        return self.canonical_nodes * (self.filled + self.padding) if self.num_samples else 0

    @cached_property
    def node_entries(self) -> int:
        """Entries of the sequence that are left for each physical node."""
        left = self.total - self.drop_first + self.drop_first % self.physical_nodes
        return max(left, 0) // self.physical_nodes

    @cached_property
    def rank_entries(self) -> int:
        """Entries of each rank, when its node's list is filled up to the same for all."""
        return -(-self.node_entries // self.ranks_per_node)

    def entries(self, node: int | Ids, position: Ids) -> Ids:
        """Sample ids at positions of the filled-up lists of physical nodes, -1 past their ends.

        Arrays of nodes and of positions are broadcast.
        """
        size, ranks = self.node_entries, self.ranks_per_node
        index, past = position, None
        if position.size and int(position.max()) >= size:
            surplus, missing = position - size, self.rank_entries * ranks - size
            past = surplus >= missing
            start = size - ranks - missing + 1
            repeated = start + surplus if start >= 0 else surplus % max(size, 1)
            index = np.where(surplus >= 0, np.where(past, 0, repeated), position)
        dropped = self.drop_first - self.drop_first % self.physical_nodes
        ids = self._samples(dropped + node + self.physical_nodes * index)
        if past is not None:
            ids[np.broadcast_to(past, ids.shape)] = -1
        return ids

    def _samples(self, sequence: Ids) -> Ids:
        """Sample ids at places of the sequence."""
        count, rows = self.num_samples, self.canonical_nodes
        if not count:
            return np.full(sequence.shape, -1, np.int64)
        column = sequence // rows
        row = sequence - column * rows
        if self.too_few:
            return (row * (self.filled + self.padding) + column) % count
        first = row * count // rows
        last = self.filled - 1
        if self.padding:
            copied = column - last - 1 + self.first_copied
            column = np.where(column > last, copied, column)
        if count % rows:  # shorter rows repeat their last sample
            short = (row + 1) * count // rows - first <= last
            column = column - (short & (column == last))
        return first + column


class Partition:
    """The batches of every rank.

    Parameters are those of `partition`. A global batch has P·R·B entries; batch number q of a rank
    is its share of global batch q.

    Attributes
    ----------
    num_batches : int
        Batches of each rank before they are filled up to a multiple of the workers.
    num_full_batches : int
        How many of them have no padding on any rank.
    """

    def __init__(
        self,
        algo: str,
        num_samples: int,
        num_canonical_nodes: int,
        num_physical_nodes: int,
        ranks_per_node: int,
        batch_size: int,
        drop_first: int = 0,
        initial_physical_nodes: int | None = None,
    ) -> None:
        _check_algorithm(algo)
        nodes, self._batch_size = num_physical_nodes, batch_size
        self._ranks, self._dealt_batch_size = ranks_per_node, batch_size
        if algo == "relaxed" and initial_physical_nodes is not None:
            many, few = max(nodes, num_canonical_nodes), min(nodes, num_canonical_nodes)
            if many % few:
                nodes = initial_physical_nodes
                self._dealt_batch_size = _shared(
                    num_physical_nodes * ranks_per_node * batch_size, nodes * ranks_per_node
                )
        self.cells = Cells(num_samples, num_canonical_nodes, nodes, ranks_per_node, drop_first)
        if num_samples and self.cells.too_few:
            warn_user(
                f"{num_samples} samples are fewer than the canonical or physical nodes "
                f"({num_canonical_nodes}, {nodes}): samples are repeated so that every node has "
                "one. Set a smaller num_canonical_nodes or use more samples"
            )
        _check_dropped(
            drop_first, self.cells, num_physical_nodes * ranks_per_node, self._batch_size, nodes
        )
        self.num_batches = -(-self.cells.rank_entries // self._dealt_batch_size)
        self.num_full_batches = self.cells.rank_entries // self._dealt_batch_size

    def batches(self, numbers: Ids, node: int, rank_of_node: int) -> Ids:
        """Return batches of a rank by number, of shape (numbers, B), padded with -1.

        ``numbers`` may go past the last batch.
        """
        size, ranks = self._dealt_batch_size, self._ranks
        # Places in the global batch: when dealt to other nodes, this rank's samples are those that
        # one or more of the initial ranks would have had.
        place = (node * ranks + rank_of_node) * self._batch_size + np.arange(self._batch_size)
        dealt_rank, sample = place // size, place % size
        position = dealt_rank % ranks + ranks * (numbers[:, None] * size + sample)
        return self.cells.entries(dealt_rank // ranks, position)


def partition(
    algo: str,
    num_samples: int,
    num_canonical_nodes: int,
    num_physical_nodes: int,
    ranks_per_node: int,
    workers_per_rank: int,
    batch_size: int,
    drop_first: int = 0,
    initial_physical_nodes: int | None = None,
) -> Ids:
    """Deal the ids from 0 to `num_samples` to all nodes, ranks, workers and batches.

    Parameters
    ----------
    algo : {"relaxed", "orig"}
        ``orig`` needs physical nodes that divide or are divided by the canonical ones. ``relaxed``
        is the same, and where they are not deals what is left of the epoch to
        `initial_physical_nodes` and cuts their global batches anew; the ranks may then differ in
        length by part of a batch at the end of the epoch.
    drop_first : int
        How many samples the whole world saw before. All of them is allowed: nothing is left then.
    initial_physical_nodes : int, optional
        The number of nodes with which the epoch began.

    Returns
    -------
    numpy.ndarray
        int64 of shape (physical nodes, ranks per node, workers per rank, batches per worker, batch
        size). -1 is padding, at the end of each rank's share only.

    Raises
    ------
    InvalidArgumentError
        For an unknown algorithm, numbers of nodes that do not go together, and a `drop_first`
        beyond the end of the epoch.
    """
    for name, value in (
        ("num_canonical_nodes", num_canonical_nodes),
        ("num_physical_nodes", num_physical_nodes),
        ("ranks_per_node", ranks_per_node),
        ("workers_per_rank", workers_per_rank),
        ("batch_size", batch_size),
    ):
        as_integer(name, value, 1)
    dealt = Partition(
        algo,
        num_samples,
        num_canonical_nodes,
        num_physical_nodes,
        ranks_per_node,
        batch_size,
        drop_first,
        initial_physical_nodes,
    )
    per_worker = -(-dealt.num_batches // workers_per_rank)
    numbers = np.arange(per_worker * workers_per_rank)
    ids = [
        dealt.batches(numbers, node, rank)
        for node in range(num_physical_nodes)
        for rank in range(ranks_per_node)
    ]
    shape = (num_physical_nodes, ranks_per_node, per_worker, workers_per_rank, batch_size)
    dealt_to_workers: Ids = np.stack(ids).reshape(shape).swapaxes(2, 3)
    return dealt_to_workers


def _check_algorithm(algo: str) -> None:
    if algo not in PARTITION_ALGORITHMS:
        raise InvalidArgumentError(
            f"partition_algo must be one of {', '.join(PARTITION_ALGORITHMS)}, found {algo!r}"
        )


def _shared(global_batch: int, ranks: int) -> int:
    if global_batch % ranks:
        raise InvalidArgumentError(
            f"a global batch of {global_batch} samples cannot be shared evenly by the {ranks} "
            "ranks with which the epoch began: change the batch size or the number of ranks"
        )
    return global_batch // ranks


def _check_dropped(drop_first: int, cells: Cells, world: int, batch_size: int, nodes: int) -> None:
    """Refuse to resume beyond the end of the epoch, the padding of its last batch included."""
    count = cells.num_samples
    if drop_first > max(count + world - count % world, cells.total + world * batch_size):
        raise InvalidArgumentError(
            f"cannot resume after {drop_first} samples of an epoch that has {cells.total}: the "
            "state belongs to another dataset, epoch_size or batch size"
        )
