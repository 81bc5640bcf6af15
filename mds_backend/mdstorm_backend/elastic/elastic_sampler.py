"""An elastic order with this process's share of it, and its samples as a `Sampler`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.threads import WorkAhead
from mdstorm_backend.elastic.batching import rank_work
from mdstorm_backend.elastic.elastic_order import ElasticOrder
from mdstorm_backend.elastic.sampling import Ids, StreamShape
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.order.chunks import Chunk
from mdstorm_backend.order.lanes import ceil_div
from mdstorm_backend.order.sampler import Place, Sampler
from mdstorm_backend.order.world import World

#: What decides the samples of an epoch and is not in the keys of MosaicML Streaming's states. The
#: batch size may change with the world, as long as the global batch stays the same.
_SETTINGS = (
    "shuffle",
    "shuffle_algo",
    "shuffle_block_size",
    "partition_algo",
    "batching_method",
    "sampling_method",
    "sampling_granularity",
    "epoch_size",
)

#: From so many samples on, to deal out an epoch takes longer than to read a few batches.
_MANY = 1 << 17


@dataclass(frozen=True)
class ElasticShare:
    """An elastic order and which of its ranks this process is.

    Attributes
    ----------
    order : ElasticOrder
        The order.
    world : World
        The world as launched.
    follows_world : bool
        Whether the world in which a pass begins takes the place of `world`: see `share_of`.
    streams : tuple of StreamShape
        The streams of the dataset with their weights; empty for one without.
    states_batch_size : bool
        Whether the batch size of the order was asked for; otherwise it is that of the loader.
    """

    order: ElasticOrder
    world: World = field(default_factory=World)
    streams: tuple[StreamShape, ...] = ()
    states_batch_size: bool = True
    follows_world: bool = False

    #: Its name in states and messages.
    name: ClassVar[str] = "elastic"
    #: What states say that were taken before the first epoch, as MosaicML Streaming's do.
    before_first_epoch: ClassVar[int] = -1
    #: Whether states are refused by any other way of reading, also between epochs.
    is_strict: ClassVar[bool] = False
    #: Whether the seed decides which samples a rank has in an epoch.
    deals_by_seed: ClassVar[bool] = True

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.world.size

    @property
    def shuffles_anything(self) -> bool:
        """Whether a seed has any effect."""
        return self.order.shuffle

    @property
    def sequence(self) -> str:
        """What it does, in a few words."""
        order = self.order
        if not order.shuffle:
            return "elastic order, sequential"
        return f"elastic order, shuffled by {order.shuffle_algo}, seed {order.shuffle_seed}"

    def rows_of_rank(self, num_rows: int) -> int | None:
        """Return None: ranks may repeat samples."""
        return None

    def state_keys(self, place: Place) -> dict[str, Any]:
        """Return MosaicML Streaming's keys of a state."""
        order, nodes = self.resumed(place), self.world.replicated(self.order.replication).num_nodes
        return {
            "num_canonical_nodes": order.num_canonical_nodes,
            "shuffle_seed": order.shuffle_seed,
            "initial_physical_nodes": place.initial_physical_nodes or nodes,
        }

    def settings(self, shard_sizes: Sequence[int]) -> dict[str, Any]:
        """Return what else decides the samples of an epoch, in a few plain values."""
        streams = self.streams or (StreamShape(tuple(shard_sizes)),)
        counts = [weight.choose for weight in self.order.weights(streams)]
        return {
            **{name: getattr(self.order, name) for name in _SETTINGS},
            "weights": hashlib.sha256(repr(counts).encode()).hexdigest()[:8],
        }

    @cached_property
    def num_ranks(self) -> int:
        """Number of ranks that see different samples."""
        return self.world.replicated(self.order.replication).size

    @property
    def is_share(self) -> bool:
        """Whether other processes read other rows, as far as anybody knows."""
        return self.follows_world or self.world_size > 1

    def share_of(self, world: World) -> ElasticShare:
        """Return the same order with the share of a process in `world`."""
        return replace(self, world=world, follows_world=False)

    def resumed(self, place: Place) -> ElasticOrder:
        """Return the order as a place wants it, with its canonical nodes."""
        order = replace(
            self.order,
            num_canonical_nodes=place.num_canonical_nodes or self.order.num_canonical_nodes,
            shuffle_seed=self.order.shuffle_seed if place.seed is None else place.seed,
        )
        return order.resolved(self.world.replicated(order.replication).num_nodes)


@dataclass(frozen=True, eq=False)
class ElasticSampler(Sampler):
    """The samples of one rank in the elastic order: a `Sampler`.

    Its positions are the samples of the epoch that all ranks have had.

    Attributes
    ----------
    share : ElasticShare
        The order, the world, and the streams, at least one.
    batch_size : int
        Samples of a batch of one rank.
    num_epochs : int or None
        Epochs of a pass.
    drop_last : bool
        Leave out batches that are not full.
    num_parts : int
        Worker processes, whose ids are as MosaicML Streaming deals them out.
    ahead : WorkAhead
        Works out the next epoch while this one is read.
    url : str
        The dataset, for messages.
    """

    share: ElasticShare
    batch_size: int
    num_epochs: int | None = 1
    drop_last: bool = False
    num_parts: int = 1
    ahead: WorkAhead[_Dealt] = field(default_factory=WorkAhead)
    url: str = ""
    spans_epochs: ClassVar[bool] = False
    has_windows: ClassVar[bool] = False

    @property
    def num_samples(self) -> int:
        """Samples of an epoch over the whole world, without repetitions."""
        return self.share.order.num_samples(self.share.streams)

    @property
    def _batch_size_of_order(self) -> int:
        return self.share.order.batch_size if self.share.states_batch_size else self.batch_size

    def _dealt(self, place: Place) -> _Dealt:
        """Return the samples of this rank from a place on.

        Raises
        ------
        StateMismatchError
            If they cannot be continued there.
        """
        if place.consumed and place.is_end:  # whatever is padded here
            nothing = np.empty((self.num_parts, 0, self._batch_size_of_order), np.int64)
            return _Dealt(nothing, [0] * self.num_parts)
        asked = self._asked(place)
        try:
            return self.ahead.get(asked, partial(_deal, *asked))
        except InvalidArgumentError as error:
            if not place.consumed:
                raise
            raise StateMismatchError(
                f"the state does not fit {self.url} read by {self.share.num_ranks} ranks in "
                f"batches of {self._batch_size_of_order}: {error}"
            ) from error

    def prepare(self, place: Place) -> None:
        """Begin to work out the samples of the epoch after that of a place, if that takes long."""
        if self.num_samples >= _MANY:
            asked = self._asked(place.beginning_of(place.epoch + 1))
            self.ahead.begin(asked, partial(_deal, *asked))

    def _asked(self, place: Place) -> tuple[Any, ...]:
        share = self.share
        order = replace(share.resumed(place), batch_size=self._batch_size_of_order)
        return (
            order,
            share.streams,
            share.world,
            place.epoch,
            place.consumed,
            place.initial_physical_nodes,
            self.num_parts,
        )

    def begun(self, place: Place) -> Place:
        """Return the same place, where it is known where its epoch ends."""
        samples = sum(self._dealt(place).counts)
        first_epoch = place.pass_epoch
        end = place.consumed + self.share.num_ranks * samples
        return replace(place, first_epoch=first_epoch, end=end)

    def position(self, place: Place) -> int:
        """Return the samples of the epoch that all ranks have had."""
        return place.consumed

    def advanced(self, position: int, mark: int) -> int:
        """Return the position after a batch of so many samples on each rank."""
        return position + mark * self.share.num_ranks

    def place(self, begun: Place, position: int) -> Place:
        """Return the place of a position in an epoch that has begun at another place.

        Raises
        ------
        StateMismatchError
            If the number of samples does not say which ones were delivered.
        """
        size = self._batch_size_of_order
        is_within = begun.consumed < position < (begun.end or 0)
        if self.num_parts > 1 and size != self.batch_size and is_within:
            raise StateMismatchError(
                f"the dataset has batch_size={size}, and its loader {self.batch_size}: with "
                f"{self.num_parts} workers, each of which makes batches of its own samples, "
                "their number within an epoch does not say which samples were delivered. Pass "
                "the same batch_size to both, or read with num_workers=0"
            )
        return replace(begun, consumed=position)

    def end(self, begun: Place) -> int:
        """Return the position of the end of an epoch that has begun at a place."""
        return begun.consumed if begun.end is None else begun.end

    def has_batches(self, place: Place) -> bool:
        """Whether there are batches from a place on."""
        return self.num_batches(place) > 0

    def is_over(self, place: Place) -> bool:
        """Whether an epoch has delivered its last sample."""
        return place.is_end

    def milestone(self, begun: Place, position: int) -> int:
        """Return the position from which on it is time to `prepare` the next epoch."""
        middle = (begun.consumed + self.end(begun)) // 2
        return middle if position < middle else self.end(begun) + 1

    @property
    def num_ranks(self) -> int:
        """Number of ranks that see different samples."""
        return self.share.num_ranks

    @property
    def needs_batch_size(self) -> bool:
        """Whether the samples depend on batches of a size that nobody has said."""
        depends = self.num_parts > 1 or self.share.order.batching_method != "random"
        return depends and not self.share.states_batch_size

    def after_samples(self, begun: Place, samples: int) -> int:
        """Return the position after so many samples of this rank, and of each other."""
        return begun.consumed + samples * self.num_ranks

    def part(
        self, place: Place, part: int = 0, skipped: int = 0
    ) -> tuple[Iterator[Chunk], Iterator[int]]:
        """Return the numbers of the samples of a part from a place on, and its batches' sizes."""
        dealt = self._dealt(place)
        ids = dealt.ids[part].reshape(-1)
        if len(ids) > dealt.counts[part]:
            ids = ids[ids >= 0]
        full, rest = divmod(len(ids) - skipped, self.batch_size)
        last = [rest] if rest and not self.drop_last else []
        return self._halves(place, ids[skipped:]), chain(repeat(self.batch_size, full), last)

    def _halves(self, place: Place, ids: Ids) -> Iterator[Chunk]:
        """Yield samples, and begin to work out the next epoch in the middle of them."""
        middle = len(ids) // 2
        if middle:
            yield ids[:middle]
        self.prepare(place)
        if len(ids):
            yield ids[middle:]

    def after_part(
        self, place: Place, skipped: int, part: int, mark: int
    ) -> tuple[Place, int, int]:
        """Return where a part goes on after its first batch: with its own samples."""
        return place, skipped + mark, part

    def num_batches(self, place: Place) -> int:
        """Batches of this rank from a place up to the end of the epoch."""
        size, counts = self.batch_size, self._dealt(place).counts
        return sum(n // size if self.drop_last else ceil_div(n, size) for n in counts)

    def length(self) -> int:
        """Batches of a whole pass, as MosaicML Streaming counts them: there may be more.

        Raises
        ------
        TypeError
            If epochs never end.
        """
        if self.num_epochs is None:
            raise TypeError(
                "num_epochs=None never ends, so there is no number of batches: pass num_epochs=1"
            )
        rows, size = self.rows_per_epoch, self.batch_size
        return self.num_epochs * (rows // size if self.drop_last else ceil_div(rows, size))

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in one epoch, as MosaicML Streaming counts them."""
        return ceil_div(self.num_samples, self.share.num_ranks)


class _Dealt(NamedTuple):
    """Ids of (workers, batches, batch size), -1 where there is no sample, and samples by worker."""

    ids: Ids
    counts: list[int]


def _deal(order: ElasticOrder, *asked: Any) -> _Dealt:
    ids = rank_work(order, *asked)
    return _Dealt(ids, [int(np.count_nonzero(of_worker >= 0)) for of_worker in ids])
