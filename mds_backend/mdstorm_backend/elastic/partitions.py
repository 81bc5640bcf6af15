"""Assign the samples in an epoch to each rank's batches, before shuffling.

Imagine one row for each canonical node, whose cells are consecutive sample ids. `Cells` reads these
rows column by column, as one sequence, and deals its entries to the physical nodes in turn, then
each node's entries to its ranks. `Partition` cuts a rank's entries into batches. Global batch q is
the q-th section of the sequence, for any number of nodes, ranks and workers, which lets a
different world take over in the middle of an epoch.

In docstrings, N is the number of samples, C the number of canonical nodes, P the number of physical
nodes, R the number of ranks on a node, and B the batch size.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mdstorm_backend.base import check_one_of, warn_user
from mdstorm_backend.elastic.sampling import Ids, as_integer
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order import ceil_div

#: Names of the partition algorithms.
PARTITION_ALGORITHMS = ("relaxed", "orig")


class Partition:
    """Divides the samples in an epoch into each rank's batches.

    The parameters are as in `partition`. A global batch has P·R·B entries, and batch q of a rank
    is its share of global batch q.

    Attributes
    ----------
    num_batches : int
        Batches per rank before they are padded to a multiple of the number of workers.
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
        check_one_of("partition_algo", algo, PARTITION_ALGORITHMS)
        nodes, world_size = num_physical_nodes, num_physical_nodes * ranks_per_node
        self._ranks, self._batch_size = ranks_per_node, batch_size
        self._dealt_batch_size = batch_size
        few, many = sorted((nodes, num_canonical_nodes))
        if algo == "relaxed" and initial_physical_nodes is not None and many % few:
            nodes = initial_physical_nodes
            global_batch, ranks = world_size * batch_size, nodes * ranks_per_node
            if global_batch % ranks:
                raise InvalidArgumentError(
                    f"a global batch of {global_batch} samples cannot be shared evenly by the "
                    f"{ranks} ranks with which the epoch began: change the batch size or the "
                    "number of ranks"
                )
            self._dealt_batch_size = global_batch // ranks
        self._cells = Cells(num_samples, num_canonical_nodes, nodes, ranks_per_node, drop_first)
        if drop_first > self._cells.total + world_size * batch_size:
            raise InvalidArgumentError(
                "Resuming further into the dataset than it has samples: cannot resume after "
                f"{drop_first} samples of an epoch that has {self._cells.total}. The state belongs "
                "to a different dataset, epoch_size or batch size"
            )
        self.num_batches = ceil_div(self._cells.rank_entries, self._dealt_batch_size)
        self.num_full_batches = self._cells.rank_entries // self._dealt_batch_size

    def batches(self, numbers: Ids, rank: int) -> Ids:
        """Return the ids in some of a rank's batches, with shape (numbers, B), padded with -1.

        ``numbers`` may exceed the last batch's number.
        """
        dealt_rank, sample = self._dealt(rank)
        node, rank_of_node = np.divmod(dealt_rank, self._ranks)
        entry = numbers[:, None] * self._dealt_batch_size + sample
        return self._cells.entries(node, rank_of_node + self._ranks * entry)

    def num_samples(self, rank: int) -> int:
        """Return how many samples a rank has, which only its last batch determines."""
        before = max(self.num_batches - 1, 0)
        last = self.batches(np.arange(before, self.num_batches), rank)
        return before * self._batch_size + int((last >= 0).sum())

    def canonical_nodes(self, rank: int) -> list[int]:
        """Return the canonical nodes that a rank's samples belong to, in ascending order."""
        dealt_rank, _ = self._dealt(rank)
        return self._cells.canonical((dealt_rank // self._ranks).tolist())

    def _dealt(self, rank: int) -> tuple[Ids, Ids]:
        """Return the rank that each sample of a batch is dealt to, and its place in that rank's.

        Usually that is the same rank. If ``relaxed`` deals to the initial nodes, it is one of the
        ranks at the start of the epoch.
        """
        place = rank * self._batch_size + np.arange(self._batch_size)
        dealt_rank, sample = np.divmod(place, self._dealt_batch_size)
        return dealt_rank, sample


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
        ``orig`` requires the number of physical nodes to divide the number of canonical nodes, or
        vice versa. ``relaxed`` then does the same; otherwise it deals the remaining samples to
        `initial_physical_nodes` and divides their global batches again, and ranks may differ by
        part of a batch at the end of the epoch.
    drop_first : int
        Number of samples that the whole world has already read, possibly all.
    initial_physical_nodes : int, optional
        The number of nodes at the start of the epoch.

    Returns
    -------
    numpy.ndarray
        int64 of shape (physical nodes, ranks per node, workers per rank, batches per worker, batch
        size). -1 is padding, which occurs only in the last batches of the epoch.

    Raises
    ------
    InvalidArgumentError
        For an unknown algorithm, incompatible numbers of nodes, or a `drop_first` beyond the end of
        the epoch, including the padding of its last batch.
    """
    for name, value, least in (
        ("num_samples", num_samples, 0),
        ("num_canonical_nodes", num_canonical_nodes, 1),
        ("num_physical_nodes", num_physical_nodes, 1),
        ("ranks_per_node", ranks_per_node, 1),
        ("workers_per_rank", workers_per_rank, 1),
        ("batch_size", batch_size, 1),
        ("drop_first", drop_first, 0),
        ("initial_physical_nodes", initial_physical_nodes or 1, 1),
    ):
        as_integer(name, value, least)
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
    per_worker = ceil_div(dealt.num_batches, workers_per_rank)
    numbers = np.arange(per_worker * workers_per_rank)
    world_size = num_physical_nodes * ranks_per_node
    ids = [dealt.batches(numbers, rank) for rank in range(world_size)]
    shape = (num_physical_nodes, ranks_per_node, per_worker, workers_per_rank, batch_size)
    dealt_to_workers: Ids = np.stack(ids).reshape(shape).swapaxes(2, 3)
    return dealt_to_workers


class Cells:
    """One row of samples per canonical node, dealt column by column to the physical nodes.

    Parameters
    ----------
    num_samples, canonical_nodes, physical_nodes, ranks_per_node : int
        N, C, P and R. The larger of C and P must be a multiple of the smaller.
    drop_first : int
        Number of entries of the sequence already read; rounded down to a multiple of P.

    Attributes
    ----------
    total : int
        Length of the whole sequence: N or slightly more.
    rank_entries : int
        Remaining entries of each rank, after its node's list is padded to a multiple of R.
    """

    def __init__(
        self,
        num_samples: int,
        canonical_nodes: int,
        physical_nodes: int,
        ranks_per_node: int,
        drop_first: int = 0,
    ) -> None:
        self._num_samples = num_samples
        self._canonical, self._physical = canonical_nodes, physical_nodes
        if max(canonical_nodes, physical_nodes) % min(canonical_nodes, physical_nodes):
            raise InvalidArgumentError(
                f"{canonical_nodes} canonical nodes cannot be shared by {physical_nodes} physical "
                "nodes: one number must be a multiple of the other. Change num_canonical_nodes or "
                "the number of nodes"
            )
        nodes_per_row = physical_nodes // canonical_nodes
        #: Number of cells in a row before padding, which lets physical nodes share the row evenly.
        self._filled = ceil_div(num_samples, canonical_nodes)
        self._padding = -self._filled % max(nodes_per_row, 1)
        #: Index, within a row, of the cell that the first padding cell repeats.
        self._first_copied = self._filled - self._padding - nodes_per_row + 1
        #: Whether there are fewer samples than rows, or only one sample per row and fewer rows than
        #: physical nodes.
        self._too_few = num_samples < canonical_nodes or (
            num_samples == canonical_nodes < physical_nodes
        )
        self.total = canonical_nodes * (self._filled + self._padding) if num_samples else 0
        self._dropped = drop_first - drop_first % physical_nodes
        #: Remaining entries of each physical node. `_missing` entries are appended to them so that
        #: all ranks of the node have `rank_entries`.
        self._node_entries = max(self.total - self._dropped, 0) // physical_nodes
        self.rank_entries = ceil_div(self._node_entries, ranks_per_node)
        self._missing = self.rank_entries * ranks_per_node - self._node_entries
        #: Index of the entry that the first appended entry repeats; negative if the node has too
        #: few entries.
        self._first_repeated = self._node_entries - ranks_per_node - self._missing + 1
        if self._padding and not self._too_few and self._first_copied < 0:
            raise InvalidArgumentError(
                f"{num_samples} samples are too few for {physical_nodes} physical nodes with "
                f"{canonical_nodes} canonical nodes: use fewer nodes, more canonical nodes or a "
                "larger epoch_size"
            )
        if num_samples and self._too_few:
            warn_user(
                f"Trying to partition {num_samples} samples, which are fewer than the canonical or "
                f"physical nodes ({canonical_nodes}, {physical_nodes}): samples are repeated so "
                "that every node has one. Set a smaller num_canonical_nodes or use more samples"
            )
        elif num_samples and not drop_first and self._first_repeated < 0:
            warn_user(
                f"Attempting to partition {self._node_entries} samples of a physical node among "
                f"{ranks_per_node} ranks, so few that several ranks get the same ones. Use more "
                "samples or fewer ranks"
            )

    def canonical(self, nodes: Iterable[int]) -> list[int]:
        """Return, in ascending order, the canonical nodes that the physical `nodes` read from."""
        rows = self._canonical
        step = 1 if self._too_few else min(rows, self._physical)
        return sorted({row for node in nodes for row in range(node % step, rows, step)})

    def entries(self, node: int | Ids, position: Ids) -> Ids:
        """Return the sample ids at positions in nodes' padded lists, or -1 past the end of a list.

        `node` and `position` are broadcast.
        """
        size = self._node_entries
        index, past = position, None
        if position.size and int(position.max()) >= size:
            surplus, start = position - size, self._first_repeated
            past = surplus >= self._missing
            repeated = start + surplus if start >= 0 else surplus % max(size, 1)
            index = np.where(surplus >= 0, np.where(past, 0, repeated), position)
        ids = self._samples(self._dropped + node + self._physical * index)
        if past is not None:
            ids[np.broadcast_to(past, ids.shape)] = -1
        return ids

    def _samples(self, sequence: Ids) -> Ids:
        """Return the sample ids at positions in the whole sequence."""
        count, rows = self._num_samples, self._canonical
        if not count:
            return np.full(sequence.shape, -1, np.int64)
        column = sequence // rows
        row = sequence - column * rows
        if self._too_few:
            return (row * (self._filled + self._padding) + column) % count
        first = row * count // rows
        last = self._filled - 1
        if self._padding:
            copied = column - last - 1 + self._first_copied
            column = np.where(column > last, copied, column)
        if count % rows:  # shorter rows repeat their last sample
            short = (row + 1) * count // rows - first <= last
            column = column - (short & (column == last))
        return first + column
