"""`ExactOrder`: settings for the order in which the ranks together read each row once per epoch.

Each rank reads a contiguous lane of the stored order, for any seed: see
`mdstorm_backend.order.lanes`. Within a lane, shards can be shuffled, and rows can be shuffled
within windows of whole shards: see `mdstorm_backend.order.chunk`. Both are shuffled differently in
each epoch and in each lane: otherwise, the rows of two lanes would always meet in the same batch.

Users pass an `ExactOrder` to readers. `ExactPlan` calls `chunks` to read a rank's lane.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdstorm_backend.base.checks import (
    check_flag,
    check_integer,
    check_required_integer,
    is_integer,
    make_scalars_plain,
    suggests_fields,
)
from mdstorm_backend.errors import InvalidArgumentError, NoDataAvailableError
from mdstorm_backend.order.chunk import Chunk, Numbers, Permutation, RowsOnDemand, ShardWindow
from mdstorm_backend.order.exact_plan import ExactPlan
from mdstorm_backend.order.lanes import EpochLanes, Lanes
from mdstorm_backend.order.order import DEFAULT_SEED, Order, order_named
from mdstorm_backend.order.plan import Batching, Plan, Position
from mdstorm_backend.order.row_plan import RowPlan
from mdstorm_backend.order.state_values import LATEST_RULE, lanes_of, number
from mdstorm_backend.order.weighting import Weighting
from mdstorm_backend.order.windows import Windows
from mdstorm_backend.order.world import World

_SHARDS, _ROWS = 0, 1


@suggests_fields
@dataclass(frozen=True)
class ExactOrder(Order):
    """The order in which a rank reads its rows.

    Attributes
    ----------
    seed : int or None
        Seed for all permutations. For None and 0, see `resolved`.
    shuffle_shards : bool
        Whether to shuffle the rank's shards.
    shuffle_rows : bool
        Whether to shuffle the rows within each shard.
    window : int
        Rows are shuffled within windows of whole shards with at least this many rows. 0 means no
        windows.
    queue : int
        Rows are shuffled within larger windows of whole shards, which mix as much as Petastorm's
        shuffling queue of this capacity. 0 means no queue.
    rank, world_size : int
        Rank of this process and number of ranks, which select the rows to read.
    follows_world : bool or None
        Whether the share is determined when a pass begins: see `share_of`. None, the default, means
        yes for a `StreamingDataset` unless `world_size` is passed, and no for everything else.
    padded_to : int
        Batch size if only the last global batch of a one-epoch pass may need padding, in which case
        its rows fill one rank's batch after another. If 0, the ranks' numbers of rows differ by at
        most one.
    rule : int
        Number of the rule by which a seed determines the order: see `LATEST_RULE`. A state's rule
        takes precedence.

    Examples
    --------
    The share of rank 1 of 3 in a dataset of ten rows:

    >>> from mdstorm_backend import MDSWriter, open_dataset
    >>> with MDSWriter(out="/tmp/ten", columns={"x": "int"}) as writer:
    ...     for x in range(10):
    ...         writer.write({"x": x})
    >>> order = ExactOrder(rank=1, world_size=3)
    >>> [batch["x"].tolist() for batch in open_dataset("/tmp/ten").batches(4, order=order)]
    [[4, 5, 6]]
    """

    seed: int | None = None
    shuffle_shards: bool = False
    shuffle_rows: bool = False
    window: int = 0
    rank: int = 0
    world_size: int = 1
    follows_world: bool | None = None
    padded_to: int = 0
    queue: int = 0
    rule: int = LATEST_RULE

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, lowest=0)
        for name in ("window", "queue", "rank", "world_size", "padded_to"):
            check_required_integer(name, getattr(self, name), 1 if name == "world_size" else 0)
        for name in ("shuffle_shards", "shuffle_rows"):
            check_flag(name, getattr(self, name))
        if not is_integer(self.rule) or not 0 <= self.rule <= LATEST_RULE:
            raise InvalidArgumentError(
                f"rule must be an integer from 0 to {LATEST_RULE}, found {self.rule!r}"
            )
        if self.window and self.queue:
            raise InvalidArgumentError(
                f"window={self.window} and queue={self.queue} both determine the windows in which "
                "rows are shuffled: pass one of them"
            )
        make_scalars_plain(self)
        World(self.rank, self.world_size)  # raises an error if the rank or size is invalid

    name = "exact"
    state_versions = range(5, 7)
    reads_parts = has_fixed_share = True
    zero_is_seed = False

    @classmethod
    def of_reader(cls, seed: int | None, shards: bool, rows: bool, queue: int) -> ExactOrder:
        """Return the order for a reader's arguments."""
        return cls(seed, shards, rows, queue=queue)

    @classmethod
    def of_state(cls, state: Mapping[str, Any], world: World, batch_size: int) -> ExactOrder:
        """Return the order in which a state was taken, for a rank of `world`."""
        seed, ours = number(state, "shuffle_seed"), state["mdstorm"]
        for name in ("window", "queue"):
            if name in ours["settings"]:
                number(ours["settings"], name)  # raises an error if it is damaged
        lanes = lanes_of(ours)
        padded_to = lanes[-1].padded_to if lanes and lanes[-1].size == world.size else 0
        return cls(seed, **ours["settings"], padded_to=padded_to).share_of(world)

    @property
    def world(self) -> World:
        """The rank and the number of ranks, as a `World`."""
        return World(self.rank, self.world_size)

    def plan(self, batching: Batching, bounds: Numbers, start: Position, url: str) -> Plan:
        """Return a plan that numbers samples, or counts the rank's rows if they have no numbers."""
        order = self if start.seed is None else replace(self, seed=start.seed)
        order = order if start.rule is None else replace(order, rule=start.rule)
        if batching.cut == "numbered":
            return ExactPlan(order, bounds, batching=batching, start=start)
        if self.world_size == 1 and not batching.by_shard:  # no other rank needs equal batches
            batching = batching._replace(cut="as returned")
        return RowPlan(order, bounds, batching=batching, start=start)

    @property
    def uses_seed(self) -> bool:
        """Whether a seed has any effect."""
        return self.shuffles or self.shuffle_shards

    @property
    def sequence(self) -> str:
        """A short description, such as ``exact order, rows shuffled, seed 7``."""
        shuffles = (("shards", self.shuffle_shards), ("rows", self.shuffles))
        shuffled = [what for what, is_shuffled in shuffles if is_shuffled]
        if not shuffled:
            return f"{self.name} order, sequential"
        seed = self.seed or (DEFAULT_SEED if self.is_share else "drawn at random")
        return f"{self.name} order, {' and '.join(shuffled)} shuffled, seed {seed}"

    def rows_of_rank(self, num_rows: int) -> int | None:
        """Return how many rows this rank reads, or None if there are fewer rows than ranks."""
        return None if num_rows < self.world_size else len(self.rows(num_rows))

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return the nearest equivalents of MosaicML Streaming's state keys."""
        size, seed = self.world_size, self.seed if position.seed is None else position.seed
        return {"num_canonical_nodes": size, "shuffle_seed": seed, "initial_physical_nodes": size}

    def settings(self) -> dict[str, Any]:
        """Return the settings, other than seed and world, that determine an epoch's samples."""
        return {
            "shuffle_shards": self.shuffle_shards,
            "shuffle_rows": self.shuffles,
            "window": self.window,
            "queue": self.queue,
        }

    def settings_of(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings in a state; older ones have a queue's capacity as the window."""
        if "queue" in state:
            return state
        window = state.get("window")
        return {**state, "window": 0, "queue": window} if self.queue else {**state, "queue": 0}

    @property
    def shuffles(self) -> bool:
        """Whether rows are shuffled within shards."""
        return self.shuffle_rows or self.window > 0 or self.queue > 0

    @property
    def windows(self) -> Windows:
        """How a lane is cut into windows. By rule 0, a queue's are literal, as others are."""
        if self.rule:
            return Windows(self.window, self.queue)
        return Windows(self.window or self.queue)

    def share_of(self, world: World) -> ExactOrder:
        """Return the same order for the rank and size of `world`, which must be known."""
        world = world.known()
        return replace(self, rank=world.rank, world_size=world.size, follows_world=False)

    def padded(self, batch_size: int) -> ExactOrder:
        """Return the same order, with samples dealt out so that the end of a pass can be padded."""
        return replace(self, padded_to=batch_size)

    def with_queue(self, queue: int) -> ExactOrder:
        """Return the same order, with rows shuffled as by a queue of this capacity."""
        return replace(self, window=0, queue=queue)

    def weighted(self, weighting: Weighting) -> Order:
        """Return the order that draws rows by weights, and is shuffled and shared like this one."""
        kind: Any = order_named("weighted")  # its module imports this one
        order: Order = kind(**vars(self), weighting=weighting)
        return order

    def settled(self, *, follows_world: bool) -> ExactOrder:
        """Return the same order with a fixed seed, and a share that may follow the world."""
        return super().settled(follows_world=follows_world).resolved()

    def resolved(self) -> ExactOrder:
        """Return the same order with a fixed seed.

        If no seed was given, it is `DEFAULT_SEED` if several ranks share the rows, which must all
        have the same seed; otherwise, it is drawn from the operating system.
        """
        if self.seed:
            return self
        return replace(self, seed=DEFAULT_SEED if self.is_share else secrets.randbits(63) | 1)

    def rows(self, num_rows: int, first_position: int = 0) -> range:
        """Return this rank's rows in an epoch that begins at `first_position` in its pass.

        Raises
        ------
        NoDataAvailableError
            If there are rows, but fewer of them than ranks.
        """
        if 0 < num_rows < self.world_size:
            raise NoDataAvailableError(
                f"Number of row-groups in the dataset must be greater or equal to the number of "
                f"requested shards: there are {num_rows} rows for {self.world_size} ranks. Use "
                "fewer ranks or more data"
            )
        lanes = Lanes(0, self.world_size, self.padded_to)
        stop = num_rows if self.padded_to else None
        return EpochLanes(num_rows, first_position, stop, (lanes,)).first_lane(self.rank)

    def pieces(self, bounds: Numbers, rows: range, epoch: int, lane: int) -> list[range]:
        """Return the part of `rows` in each shard, with the shards in the order of `epoch`.

        Parameters
        ----------
        bounds : numpy.ndarray
            int64, number of each shard's first row, then the total number of rows.
        rows : range
            The rank's rows, as returned by the method `rows`.
        epoch : int
            Number of the epoch.
        lane : int
            Number of the lane in the first layout of the epoch.
        """
        _, starts, stops = self._pieces(bounds, rows, epoch, lane)
        return [range(*piece) for piece in zip(starts.tolist(), stops.tolist(), strict=True)]

    def _pieces(
        self, bounds: Numbers, rows: range, epoch: int, lane: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Return the shard, start and stop of each of the `pieces`."""
        first = int(np.searchsorted(bounds, rows.start, side="right")) - 1
        last = int(np.searchsorted(bounds, rows.stop, side="left"))
        cuts = np.clip(bounds[first : last + 1], rows.start, rows.stop)
        shards = np.flatnonzero(cuts[1:] > cuts[:-1])
        if self.shuffle_shards:
            generator = np.random.default_rng(self._seed(lane, epoch, _SHARDS))
            shards = shards[generator.permutation(len(shards))]
        return shards + first, cuts[shards], cuts[shards + 1]

    def chunks(
        self, bounds: Numbers, rows: range, epoch: int, lane: int, used: range
    ) -> Iterator[Chunk]:
        """Yield the rows at the positions `used` in the order of `epoch`, by window or shard.

        Parameters
        ----------
        bounds, rows, epoch, lane
            See `pieces`.
        used : range
            Which of the rows to yield, by position in the order of `epoch`.
        """
        if not self.shuffles and not self.shuffle_shards:
            yield range(rows.start + used.start, rows.start + used.stop)
            return
        for begin, window in self._windows(bounds, rows, epoch, lane, used):
            low, high = max(used.start - begin, 0), used.stop - begin
            part = range(low, min(high, len(window)))
            start = int(window.starts[0])
            if self.shuffles:
                yield RowsOnDemand(window, part)
            else:
                yield range(start + part.start, start + part.stop)

    def _windows(
        self, bounds: Numbers, rows: range, epoch: int, lane: int, used: range
    ) -> Iterator[tuple[int, ShardWindow]]:
        """Yield the windows that contain `used` rows, each with the number of rows before it.

        If there are no `windows`, each shard is one.
        """
        shards, starts, stops = self._pieces(bounds, rows, epoch, lane)
        sizes = stops - starts
        begin = first = 0
        for place, stop in enumerate(self.windows.ends(sizes)):
            if begin >= used.stop:
                break
            chosen = slice(first, stop)
            end = begin + int(sizes[chosen].sum())
            if end > used.start:
                found = shards[chosen]
                seed = self._seed(lane, epoch, _ROWS, place)
                window = ShardWindow(found, bounds[found], starts[chosen], sizes[chosen], seed)
                yield begin, window
            begin, first = end, stop

    def permutation(self, num_rows: int, epoch: int, lane: int, number: int) -> Numbers:
        """Return the permutation of the rows in window `number` of a lane in `epoch`."""
        generator = np.random.default_rng(self._seed(lane, epoch, _ROWS, number))
        return Permutation(num_rows, generator).numbers(range(num_rows))

    def _seed(self, lane: int, *stream: int) -> tuple[int, ...]:
        assert self.seed, "resolved() has not been called"
        # The first lane has the seeds of a single rank. By rule 0, all lanes have them.
        return (self.seed, *stream, lane) if lane and self.rule else (self.seed, *stream)
