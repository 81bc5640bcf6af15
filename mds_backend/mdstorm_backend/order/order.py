"""`Order`: what loaders, readers and states ask of an order of samples.

They ask for plans, for what a state contains, and for what the order can do, but never which order
it is. An order is one module with one class, which registers itself by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import get_annotations
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from mdstorm_backend.base import check_one_of
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, StateMismatchError
from mdstorm_backend.order.chunk import Numbers
from mdstorm_backend.order.plan import Batching, Plan, Position
from mdstorm_backend.order.streams import StreamShape, StreamWeight
from mdstorm_backend.order.weighting import WeighedRows, Weighting
from mdstorm_backend.order.world import World

if TYPE_CHECKING:
    from typing_extensions import Self

#: The default seed. All ranks must have the same seed, or a state taken on one rank would lose and
#: repeat rows on another. MosaicML Streaming has the same default.
DEFAULT_SEED = 9176

_registered: dict[str, type[Order]] = {}


class Order(ABC):
    """The order in which the ranks read a dataset's samples, and the share of one rank.

    A subclass is a frozen dataclass that can be pickled. What it need not override suits an order
    that reads every sample once and has neither weights nor a seed. `ExactPlan` is a plan for any
    such order that reads lanes of samples.

    Attributes
    ----------
    name : str
        Name in states, messages and the readers' argument ``order``; a class that has it registers
        itself.
    spans_epochs : bool
        Whether a batch may have samples of several epochs.
    reads_parts : bool
        Whether each rank reads its `rows`, a range, shard by shard. N-grams, and a cache for parts
        of shards, require this.
    has_fixed_share : bool
        Whether a rank's share of an epoch depends neither on the seed nor on the epoch, apart from
        a few samples. Ranks that differ in them then read every row nevertheless.
    zero_is_seed : bool
        Whether 0 is a seed like others; otherwise, it means that no seed was passed.
    late_settings : tuple of str
        Names of the settings that are determined only where an epoch begins.
    state_versions : range
        Versions of states that it resumes from. The last one is written.
    reads_foreign : bool
        Whether it also resumes from states that MosaicML Streaming wrote.
    counts_peeks : bool
        Whether a state counts a peek that has been left, as MosaicML Streaming's states do.
    follows_world : bool or None
        Whether the share is determined when a pass begins: see `share_of`. None: see `settled`.
    padded_to : int
        See `Lanes`.
    """

    name: ClassVar[str]
    spans_epochs: ClassVar[bool] = True
    reads_parts: ClassVar[bool] = False
    has_fixed_share: ClassVar[bool] = False
    zero_is_seed: ClassVar[bool] = True
    late_settings: ClassVar[tuple[str, ...]] = ()
    state_versions: ClassVar[range] = range(5, 6)
    reads_foreign: ClassVar[bool] = False
    counts_peeks: ClassVar[bool] = False

    follows_world: bool | None = None
    padded_to: int = 0

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            return
        if hidden := [name for name in get_annotations(cls) if name in _taken()]:
            raise TypeError(
                f"fields of {cls.__qualname__} hide {hidden} of Order: give them other names"
            )
        if (other := _registered.setdefault(cls.name, cls)) is not cls:
            raise TypeError(f"{other.__qualname__} already has the name {cls.name!r}")

    @classmethod
    @abstractmethod
    def of_reader(cls, seed: int | None, shards: bool, rows: bool, queue: int) -> Self:
        """Return the order for a reader's arguments: what is shuffled, as in `ExactOrder`."""

    @classmethod
    @abstractmethod
    def of_state(cls, state: Mapping[str, Any], world: World, batch_size: int) -> Self:
        """Return the order in which a state was taken, for a rank of `world`.

        Raises
        ------
        StateMismatchError
            If the state is damaged.
        """

    @property
    @abstractmethod
    def world(self) -> World:
        """The rank, and the ranks among which samples are divided."""

    @abstractmethod
    def share_of(self, world: World) -> Self:
        """Return the same order for a rank of `world`, whose share no longer follows the world."""

    def settled(self, *, follows_world: bool) -> Self:
        """Return the order with a fixed seed.

        Its share follows the world if `follows_world` and the order does not specify it.
        """
        if self.follows_world is not None:
            return self
        return replace(self, follows_world=follows_world)  # type: ignore[type-var]

    @abstractmethod
    def plan(self, batching: Batching, bounds: Numbers, start: Position, url: str) -> Plan:
        """Return this rank's plan.

        Parameters
        ----------
        batching : Batching
            How the samples are cut into batches.
        bounds : numpy.ndarray
            int64, number of each shard's first sample, then the total number of samples.
        start : Position
            Where reading begins or resumes. Its seed takes precedence over the order's.
        url : str
            URL of the dataset, for messages.
        """

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the settings that determine an epoch's samples, without seed and world, as JSON.

        A state contains them.
        """

    def settings_of(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings that a state contains, in the form of `settings`."""
        return state

    def compared_settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the `settings` that ranks compare, and of them those that limit the samples.

        Neither depends on the data, which may differ between ranks.
        """
        return self.settings(), {}

    def over(self, shapes: Sequence[StreamShape], *, chosen: bool) -> Self:
        """Return the order for these streams, or for shards that are read as a single one.

        Parameters
        ----------
        shapes : sequence of StreamShape
            The streams. Their shards are not yet known if a dataset is being constructed.
        chosen : bool
            Whether an epoch consists of chosen rows of all streams.

        Raises
        ------
        InvalidArgumentError
            If the order does not support weights of streams, or chosen rows.
        """
        if weightings := [shape.weighting for shape in shapes if shape.weighting]:
            raise InvalidArgumentError(
                f"a stream has a weight, but the {self.name} order does not weight streams: omit "
                f"its argument {weightings[0]}, or read in the elastic order"
            )
        return self

    def weighted(self, weighting: Weighting) -> Order:
        """Return the order that draws rows by weights, and is shuffled and shared like this one.

        Raises
        ------
        InvalidArgumentError
            If this order cannot draw rows.
        """
        raise InvalidArgumentError(
            f"{weighting.argument} draws the rows of an epoch, which the {self.name} order cannot: "
            "leave out the argument, or read in the exact order"
        )

    def of_data(self, rows: WeighedRows) -> Self:
        """Return the order for a dataset, with what it has to know of the values of the rows."""
        return self

    @property
    def stream_weights(self) -> tuple[StreamWeight, ...]:
        """Each stream's part of an epoch; empty if all samples are read."""
        return ()

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.world.size

    @property
    def num_ranks(self) -> int:
        """Number of ranks that read different samples."""
        return self.world_size

    @property
    def is_share(self) -> bool:
        """Whether other processes are known to read the other rows."""
        return self.follows_world or self.world_size > 1

    @property
    def uses_seed(self) -> bool:
        """Whether a seed affects the order of samples, or which samples an epoch has."""
        return False

    @property
    def sequence(self) -> str:
        """A short description, such as ``exact order, rows shuffled, seed 7``."""
        return f"{self.name} order"

    def rows(self, num_rows: int) -> range:
        """Return this rank's rows, if the order `reads_parts`.

        Raises
        ------
        NoDataAvailableError
            If there are rows, but fewer of them than ranks.
        """
        raise NotImplementedError(f"the {self.name} order does not read a range of rows")

    def rows_of_rank(self, num_rows: int) -> int | None:
        """Return how many of the rows of an epoch this rank reads; None if not known."""
        return None

    def check_batches_unknown(self, num_workers: int) -> None:  # noqa: B027  # most do not
        """Raise InvalidArgumentError if samples depend on a batch size that was not passed."""

    def with_queue(self, queue: int) -> Self:
        """Return the same order, with rows shuffled as by a queue of this capacity.

        Raises
        ------
        InvalidArgumentError
            If the order does not shuffle rows.
        """
        raise InvalidArgumentError(
            f"the {self.name} order does not shuffle rows: leave out shuffling_queue_capacity"
        )

    def padded(self, batch_size: int) -> Self:
        """Return the same order, with samples dealt out so that the end of a pass can be padded.

        The order itself if its batches are equal anyway.
        """
        return self

    def shown_from(self, position: Position) -> dict[str, Any]:
        """Return the `late_settings` of an epoch that begins or resumes at `position`."""
        return {}

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return MosaicML Streaming's state keys, or the nearest equivalents, at a position."""
        size = self.world_size
        return {
            "num_canonical_nodes": size,
            "shuffle_seed": position.seed,
            "initial_physical_nodes": size,
        }

    def recorded(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return those arguments of a dataset's loaders that a state records and compares."""
        return arguments

    def compared_between_epochs(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return those of a state's values that are compared if it is not within an epoch."""
        return values

    def check_seed(self, seed: object, rank: int) -> None:
        """Check that this rank has the seed with which another one took a state within an epoch.

        Raises
        ------
        StateMismatchError
            If seeds differ, so that rows were lost and repeated.
        """
        mine = self.state_keys(Position())["shuffle_seed"]
        if self.world.rank != rank and mine not in (seed, DEFAULT_SEED):
            raise StateMismatchError(
                f"the state was taken by rank {rank} with seed {seed}, and rank {self.world.rank} "
                f"was given seed {mine}: if ranks have different seeds, rows are lost and "
                "repeated. Pass the state's seed on all ranks, without adding the rank"
            )


def order_names() -> tuple[str, ...]:
    """Return the names of all orders."""
    return tuple(_registered)


def order_named(name: str) -> type[Order]:
    """Return the class of an order.

    Raises
    ------
    InvalidArgumentError
        If there is no such order.
    """
    check_one_of("order", name, order_names())
    return _registered[name]


def check_order(order: object) -> Order:
    """Return `order` after checking its type.

    Raises
    ------
    ArgumentTypeError
        If it is not an order.
    """
    if not isinstance(order, Order):
        raise ArgumentTypeError(
            f"order must be an Order, found {order!r}: for example order=ExactOrder("
            "shuffle_rows=True)"
        )
    return order


def _taken() -> set[str]:
    """Return the names that fields must not have, since `Order` has methods of these names.

    A field may be the rank and the number of ranks.
    """
    kinds = (FunctionType, classmethod, property)
    found = {name for name, value in vars(Order).items() if isinstance(value, kinds)}
    return found - {"world", "world_size"}
