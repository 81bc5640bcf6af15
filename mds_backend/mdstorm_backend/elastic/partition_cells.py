"""Lay out an epoch's samples and deal them to physical nodes.

The epoch's N samples are laid out as C rows of cells, one row per canonical node. Read column by
column the cells make one sequence. Physical node p takes every P-th entry of the sequence, and a
rank every R-th of its node's. Ids are computed only for the requested entries, never for a whole
world.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.user_warnings import warn_user
from mdstorm_backend.elastic.id_arrays import Ids
from mdstorm_backend.errors import InvalidArgumentError


@dataclass(frozen=True)
class Cells:
    """The rows of the canonical nodes, read column by column and dealt to physical nodes.

    Attributes
    ----------
    num_samples, canonical_nodes, physical_nodes, ranks_per_node : int
        N, C, P and R. The larger of C and P must be a multiple of the smaller.
    drop_first : int
        Number of entries of the sequence already seen; rounded down to a multiple of P.
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
        if self.num_samples and self.too_few:
            warn_user(
                f"Trying to partition {self.num_samples} samples, which are fewer than the "
                f"canonical or physical nodes ({self.canonical_nodes}, {self.physical_nodes}): "
                "samples are repeated so that every node has one. Set a smaller "
                "num_canonical_nodes or use more samples"
            )
        elif self.num_samples and not self.drop_first and self._first_repeated < 0:
            warn_user(
                f"Attempting to partition {self.node_entries} samples of a physical node among "
                f"{self.ranks_per_node} ranks, so few that several ranks get the same ones. Use "
                "more samples or fewer ranks"
            )

    @cached_property
    def filled(self) -> int:
        """Cells of a row before the padding."""
        return -(-self.num_samples // self.canonical_nodes)

    @cached_property
    def padding(self) -> int:
        """Cells appended to a row so that its physical nodes share it evenly."""
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
        """Length of the whole sequence: N or slightly more."""
        return self.canonical_nodes * (self.filled + self.padding) if self.num_samples else 0

    @cached_property
    def node_entries(self) -> int:
        """Remaining entries of the sequence for each physical node."""
        left = self.total - self.drop_first + self.drop_first % self.physical_nodes
        return max(left, 0) // self.physical_nodes

    @cached_property
    def rank_entries(self) -> int:
        """Entries of each rank, after the node's list is padded to equal length for all ranks."""
        return -(-self.node_entries // self.ranks_per_node)

    @property
    def _missing(self) -> int:
        """Entries that are appended to each node's list."""
        return self.rank_entries * self.ranks_per_node - self.node_entries

    @property
    def _first_repeated(self) -> int:
        """Entry of a node that the first appended one repeats; negative if it has too few."""
        return self.node_entries - self.ranks_per_node - self._missing + 1

    def canonical(self, nodes: Iterable[int]) -> list[int]:
        """Canonical nodes that the samples of some physical nodes belong to, ascending."""
        rows = self.canonical_nodes
        step = 1 if self.too_few else min(rows, self.physical_nodes)
        return sorted({row for node in nodes for row in range(node % step, rows, step)})

    def entries(self, node: int | Ids, position: Ids) -> Ids:
        """Sample ids at positions of the padded lists of physical nodes, -1 past their ends.

        Arrays of nodes and of positions are broadcast.
        """
        size = self.node_entries
        index, past = position, None
        if position.size and int(position.max()) >= size:
            surplus, start = position - size, self._first_repeated
            past = surplus >= self._missing
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
