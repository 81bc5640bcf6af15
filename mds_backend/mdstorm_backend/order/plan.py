"""`Plan`: a rank's batches; `Batching`: how they are cut; `Position`: a position in a pass.

A plan begins at a `Position` and lists one rank's batches from there on: which samples they have,
and where they are cut. `Plan.position` computes the position after any batch, which is the content
of a state. It is the same on all ranks, so a different number of ranks can resume from it.

A plan yields chunks of samples, which readers cut into batches.

`ExactPlan` and `ElasticPlan` number the samples across all ranks. A `RowPlan` counts
one rank's rows if samples cannot be numbered. For any order, loaders use only this interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.order.chunk import Chunk
from mdstorm_backend.order.lanes import Lanes
from mdstorm_backend.order.state_values import damaged

#: Which rows are counted to cut batches: see `Batching`.
Cut: TypeAlias = Literal["numbered", "as stored", "as returned"]


@dataclass(frozen=True)
class Position:
    """How far the world has read in a pass; the same on all ranks, except for `row`.

    Attributes
    ----------
    epoch : int
        Number of the epoch, from 0.
    consumed : int
        Number of samples that all ranks together have read in the epoch; at its end, all of them.
    first_epoch : int or None
        First epoch of the pass; None if a pass is to begin here.
    lanes : tuple of Lanes
        Layouts of the epoch in the ``exact`` order, one for each world that has read some of it.
        Empty at the beginning or end of an epoch.
    seed : int or None
        Seed from a state; None for the order's seed.
    rule : int or None
        Number of the rule in a state of the ``exact`` order: see `LATEST_RULE`; None for the
        order's.
    num_canonical_nodes, initial_physical_nodes : int or None
        Values of the ``elastic`` order from a state; None for the order's and the world's values.
    end : int or None
        Value of `consumed` at the end of the epoch, including padding; None if not known. In the
        ``exact`` order, it is set only at the end of a pass.
    row : int
        Number of rows that this rank has read in the epoch, if samples cannot be numbered.
    skip : int
        Number of items from here on that have already been returned: rows or n-grams of a reader's
        next batch, or samples in a worker process's part.
    reason : str
        Why no pass can resume here; empty if a pass can resume.
    """

    epoch: int = 0
    consumed: int = 0
    first_epoch: int | None = None
    lanes: tuple[Lanes, ...] = ()
    seed: int | None = None
    rule: int | None = None
    num_canonical_nodes: int | None = None
    initial_physical_nodes: int | None = None
    end: int | None = None
    row: int = 0
    skip: int = 0
    reason: str = ""

    @property
    def pass_epoch(self) -> int:
        """The first epoch of the pass, or of a pass that would begin here."""
        return self.epoch if self.first_epoch is None else self.first_epoch

    def last_epoch(self, num_epochs: int | None) -> int | None:
        """Return the last epoch of a pass of this many epochs; None if it never ends."""
        return None if num_epochs is None else self.pass_epoch + num_epochs - 1

    @property
    def is_end(self) -> bool:
        """Whether the end of the epoch is known and has been reached."""
        return self.end is not None and self.consumed >= self.end

    def resumes_with(self, epoch: int, num_epochs: int | None) -> bool:
        """Whether a pass that resumes here has samples left and contains `epoch`.

        An endless pass counts as containing only its first epoch and the current one.
        """
        epochs = range(self.pass_epoch, self.pass_epoch + (num_epochs or 1))
        has_begun = self.consumed > 0 or self.skip > 0
        return has_begun and not self.is_end and (epoch == self.epoch or epoch in epochs)

    def advanced(
        self,
        epoch: int,
        consumed: int = 0,
        *,
        lanes: tuple[Lanes, ...] = (),
        row: int = 0,
        end: int | None = None,
        reason: str = "",
    ) -> Position:
        """Return another position in the same pass and order."""
        order = self.seed, self.rule, self.num_canonical_nodes, self.initial_physical_nodes
        return Position(epoch, consumed, self.pass_epoch, lanes, *order, end, row, reason=reason)

    def beginning_of(self, epoch: int) -> Position:
        """Return the beginning of a pass that starts with `epoch`, in the same order."""
        return replace(self.advanced(epoch), first_epoch=None)

    def ended(self) -> Position:
        """Return the same position, as the end of its epoch."""
        return replace(self, end=self.consumed)


class Batching(NamedTuple):
    """How a rank's samples are cut into batches.

    Attributes
    ----------
    size : int
        Number of rows after which a batch ends; of the largest batch if they end with shards.
    cut : {"numbered", "as stored", "as returned"}
        Which rows are counted: samples that are numbered across ranks, or the rank's own rows,
        because only reading shows how many a transform returns, or how large shards are. With
        ``as stored``, a batch ends after `size` stored rows, so that ranks have equal numbers of
        batches, even if the transform drops some. With ``as returned``, it ends after `size` rows
        that the transform returns. An order may number samples in any case, as the elastic one.
    by_shard : bool
        Whether a batch of the rank's own rows ends with each of its parts of shards, or with each
        window of such parts.
    largest : int or None
        Number of rows after which a batch also ends if batches end with shards.
    drop_last : bool
        Whether to drop batches that are not full.
    num_epochs : int or None
        Number of epochs in a pass; None for a pass that never ends.
    num_parts : int
        Number n of worker processes that share the batches. Unless the plan is elastic, part k has
        the batches k, k + n, …
    """

    size: int = 1
    cut: Cut = "numbered"
    by_shard: bool = False
    drop_last: bool = False
    num_epochs: int | None = 1
    num_parts: int = 1
    largest: int | None = None


class Samples(NamedTuple):
    """The samples that a process reads, in order, and the batches that they are cut into.

    Attributes
    ----------
    chunks : iterator of Chunk
        The samples.
    sizes : iterator of int
        Number of samples in each batch.
    offsets : iterator of int
        Offset of each batch in its plan.
    """

    chunks: Iterator[Chunk]
    sizes: Iterator[int]
    offsets: Iterator[int]


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(ABC):
    """One rank's batches, from a position to the end of the pass or epoch.

    A plan is pure and can be pickled. Each batch has an *offset*, an integer that records how far
    the plan is once that batch has been taken. The offset travels with the batch, and `position`
    computes the position from it. A *part* is the share of one worker process.

    Attributes
    ----------
    batching : Batching
        How the samples are cut into batches.
    start : Position
        Where the plan begins, as given: see `resolved_start`.
    """

    batching: Batching
    start: Position = Position()

    @property
    def counts_own_rows(self) -> bool:
        """Whether positions count the rank's own rows, by which functions' rows are cut.

        Otherwise, samples are numbered across ranks, and all ranks have the same positions.
        """
        return False

    @property
    def unequal_because(self) -> str:
        """Why ranks may have different numbers of batches; empty if the numbers are equal."""
        return ""

    @property
    @abstractmethod
    def num_samples(self) -> int:
        """Number of samples in an epoch, over all ranks."""

    @property
    @abstractmethod
    def rows_per_epoch(self) -> int:
        """Number of this rank's samples in one epoch; other epochs may differ by one."""

    @property
    @abstractmethod
    def resolved_start(self) -> Position:
        """The position where the plan begins, with missing values filled in for this world.

        Raises
        ------
        StateMismatchError, NoDataAvailableError
            If a pass cannot resume there.
        """

    @abstractmethod
    def epoch_sizes(self) -> Iterator[int]:
        """Yield the number of this rank's samples in each epoch, from the plan's beginning on."""

    @abstractmethod
    def samples(self, part: int | None = 0) -> Samples:
        """Return the samples and batches of a part; for None, those of all parts in turn."""

    @abstractmethod
    def position(self, offset: int) -> Position:
        """Return the position after the batch with this offset; for 0, `resolved_start`."""

    @abstractmethod
    def end(self) -> Position:
        """Return the position after the end of the pass; `resolved_start` if it never ends."""

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return what a state at a position contains besides the position that ranks share."""
        return {}

    def resumed(self, ours: Mapping[str, Any]) -> Position:
        """Return where a state resumes whose position the plan starts at, after checking it.

        Parameters
        ----------
        ours : mapping
            The state's values under ``"mdstorm"``.

        Raises
        ------
        StateMismatchError
            If no such plan reaches the position, or if it does not describe this rank.
        NoDataAvailableError
            If too few rows remain for this world.
        """
        epochs, num_epochs = self.start.epoch - self.start.pass_epoch, self.batching.num_epochs
        if num_epochs is not None and epochs >= num_epochs:
            raise damaged(
                f"its epoch in the pass is {epochs}, counting from 0, but num_epochs is "
                f"{num_epochs}"
            )
        is_of_rank, counts_own_rows = "row" in ours, self.counts_own_rows
        if self.start.consumed and is_of_rank != counts_own_rows:
            raise StateMismatchError(
                f"the state counts the rows of {'one rank' if is_of_rank else 'all ranks'}, but "
                f"here the rows of {'one rank' if counts_own_rows else 'all ranks'} are counted. "
                "Readers of row groups, and transforms that may drop rows (without "
                "keeps_rows=True), count the rows of one rank. Load the state into a reader with "
                "the arguments of that run, or start again without it"
            )
        return self.start

    def position_of_part(self, part: int, offset: int) -> tuple[Position, int]:
        """Return where a worker process resumes after a batch, and which part it then reads."""
        return self.position(offset), self.batching.num_parts - 1

    @abstractmethod
    def num_batches(self) -> int | None:
        """Return the number of batches in all parts; None if it is not known or infinite."""

    def length(self) -> int | None:
        """Return the number of batches in a whole pass, for a plan that begins one.

        None if it is not known or infinite.
        """
        return self.num_batches()

    def offset_after(self, batches: int) -> int | None:
        """Return the offset after this many batches, at least one; None if the plan has fewer.

        Raises
        ------
        StateMismatchError
            If only reading shows where batches end.
        """
        count = self.num_batches()
        return batches if count is None or batches <= count else None

    @abstractmethod
    def offset_after_epoch(self, epoch: int) -> int:
        """Return the offset at which batches begin to contain samples from after `epoch`."""

    @abstractmethod
    def reached(self, samples: int, *, from_beginning: bool = False) -> Position:
        """Return the position after all ranks together have read this many samples.

        Samples are counted from `resolved_start`, or else from the beginning of the pass, or of its
        epoch if no batch spans two epochs.

        Raises
        ------
        StateMismatchError
            If numbers of samples do not determine a position.
        """

    def following(self) -> Plan | None:
        """Return the plan for the next epoch of the pass.

        None if this is the last epoch, or if batches may span epochs.
        """
        return None

    def onward(self) -> Iterator[Plan]:
        """Yield this plan and the following ones."""
        plan: Plan | None = self
        while plan is not None:
            yield plan
            plan = plan.following()
