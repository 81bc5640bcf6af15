"""`ElasticShare`: an elastic order and this process's rank. `ElasticSampler`: the rank's samples.

A position of this sampler is how many samples of the epoch the whole world has consumed. The ids of
a rank are dealt out for an epoch at a time, as MosaicML Streaming does; for large datasets, those
of the next epoch are computed in a thread while one is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.threads import WorkAhead
from mdstorm_backend.elastic.batching import rank_work
from mdstorm_backend.elastic.elastic_order import ElasticOrder
from mdstorm_backend.elastic.sampling import Ids, StreamShape
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.order import Chunk, Place, Sampler, World, ceil_div

#: Fields of an order that `ElasticShare.settings` leaves out: MosaicML Streaming's states have keys
#: for two, and the others may change with the world, as long as the global batch stays the same.
_NOT_IN_SETTINGS = ("shuffle_seed", "num_canonical_nodes", "batch_size", "replication")

#: From this many samples on, dealing out an epoch takes longer than reading a few batches.
_MANY = 1 << 17


@dataclass(frozen=True)
class ElasticShare:
    """An elastic order, and the rank of this process.

    Attributes
    ----------
    order : ElasticOrder
        The order.
    world : World
        The world as launched.
    follows_world : bool
        Whether a pass replaces `world` with the world in which it begins: see `share_of`.
    streams : tuple of StreamShape
        The streams of the dataset with their weights; empty for a dataset without streams.
    states_batch_size : bool
        Whether the user gave the batch size of the order; otherwise that of the loader is used.
    """

    order: ElasticOrder
    world: World = field(default_factory=World)
    streams: tuple[StreamShape, ...] = ()
    states_batch_size: bool = True
    follows_world: bool = False

    #: Name of the order in states and messages.
    name: ClassVar[str] = "elastic"
    #: The epoch in states that were taken before the first epoch, as in MosaicML Streaming's.
    before_first_epoch: ClassVar[int] = -1
    #: Whether a state must match all settings of the reader even between epochs.
    is_strict: ClassVar[bool] = False
    #: Whether the seed decides which samples a rank reads in an epoch, not only their order.
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
        """A short description, such as ``elastic order, shuffled by py1e, seed 9176``."""
        order = self.order
        if not order.shuffle:
            return "elastic order, sequential"
        return f"elastic order, shuffled by {order.shuffle_algo}, seed {order.shuffle_seed}"

    def rows_of_rank(self, num_rows: int) -> int | None:
        """Return None, because ranks may repeat samples."""
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
        """Return the settings that MosaicML Streaming's keys of a state lack, as plain values."""
        streams = self.streams or (StreamShape(tuple(shard_sizes)),)
        counts = [weight.choose for weight in self.order.weights(streams)]
        names = [one.name for one in fields(self.order) if one.name not in _NOT_IN_SETTINGS]
        return {
            **{name: getattr(self.order, name) for name in names},
            "weights": hashlib.sha256(repr(counts).encode()).hexdigest()[:8],
        }

    @cached_property
    def num_ranks(self) -> int:
        """Number of ranks that read different samples."""
        return self.world.replicated(self.order.replication).size

    @property
    def is_share(self) -> bool:
        """Whether other processes are known to read other rows."""
        return self.follows_world or self.world_size > 1

    def share_of(self, world: World) -> ElasticShare:
        """Return the same order for the rank and size of `world`."""
        return replace(self, world=world, follows_world=False)

    def resumed(self, place: Place) -> ElasticOrder:
        """Return the order with a place's seed and canonical nodes, and defaults filled in."""
        order = replace(
            self.order,
            num_canonical_nodes=place.num_canonical_nodes or self.order.num_canonical_nodes,
            shuffle_seed=self.order.shuffle_seed if place.seed is None else place.seed,
        )
        return order.resolved(self.world.replicated(order.replication).num_nodes)


@dataclass(frozen=True, eq=False)
class ElasticSampler(Sampler):
    """The samples of one rank in the elastic order: a `Sampler`.

    A position is the number of samples of the epoch that all ranks together have consumed.

    Attributes
    ----------
    share : ElasticShare
        The order, the world, and at least one stream.
    batch_size : int
        Samples in a batch of one rank.
    num_epochs : int or None
        Epochs of a pass; None for a pass that never ends.
    drop_last : bool
        Leave out batches that are not full.
    num_parts : int
        Number of worker processes, to which ids are dealt as MosaicML Streaming does.
    ahead : WorkAhead
        Computes the next epoch while this one is read.
    url : str
        URL of the dataset, for messages.
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
        """Samples of an epoch over the whole world, without repetitions as padding."""
        return self.share.order.num_samples(self.share.streams)

    @property
    def _batch_size_of_order(self) -> int:
        return self.share.order.batch_size if self.share.states_batch_size else self.batch_size

    def _dealt(self, place: Place) -> _Dealt:
        """Return the samples of this rank from a place to the end of its epoch.

        Raises
        ------
        StateMismatchError
            If the epoch cannot be resumed there.
        """
        if place.consumed and place.is_end:  # over, whatever this world would pad
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
        """Start computing the epoch after that of a place in a thread, if that takes long."""
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
        """Return `place` completed with the end of its epoch."""
        samples = sum(self._dealt(place).counts)
        end = place.consumed + self.share.num_ranks * samples
        return replace(place, first_epoch=place.pass_epoch, end=end)

    def position(self, place: Place) -> int:
        """Return how many samples of the epoch all ranks together have consumed."""
        return place.consumed

    def advanced(self, position: int, mark: int) -> int:
        """Return the position after a batch of `mark` samples on each rank."""
        return position + mark * self.share.num_ranks

    def place(self, begun: Place, position: int) -> Place:
        """Return the place of a position in an epoch that was begun or resumed at `begun`.

        Raises
        ------
        StateMismatchError
            If the number of samples does not determine which ones were delivered.
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
        """Return the position at the end of the epoch that was begun or resumed at `begun`."""
        return begun.consumed if begun.end is None else begun.end

    def has_batches(self, place: Place) -> bool:
        """Whether there are batches from a place on."""
        return self.num_batches(place) > 0

    def is_over(self, place: Place) -> bool:
        """Whether all samples of the epoch have been read."""
        return place.is_end

    def milestone(self, begun: Place, position: int) -> int:
        """Return the position at which to `prepare` the next epoch: the middle of what is left."""
        middle = (begun.consumed + self.end(begun)) // 2
        return middle if position < middle else self.end(begun) + 1

    @property
    def num_ranks(self) -> int:
        """Number of ranks that read different samples."""
        return self.share.num_ranks

    @property
    def needs_batch_size(self) -> bool:
        """Whether the samples depend on a batch size that was not given."""
        depends = self.num_parts > 1 or self.share.order.batching_method != "random"
        return depends and not self.share.states_batch_size

    def after_samples(self, begun: Place, samples: int) -> int:
        """Return the position after every rank has read so many samples."""
        return begun.consumed + samples * self.num_ranks

    def part(
        self, place: Place, part: int = 0, skipped: int = 0
    ) -> tuple[Iterator[Chunk], Iterator[int]]:
        """Return a part's chunks after a place and `skipped` samples, and its batch sizes."""
        dealt = self._dealt(place)
        ids = dealt.ids[part].reshape(-1)
        if len(ids) > dealt.counts[part]:
            ids = ids[ids >= 0]
        full, rest = divmod(len(ids) - skipped, self.batch_size)
        last = [rest] if rest and not self.drop_last else []
        return self._halves(place, ids[skipped:]), chain(repeat(self.batch_size, full), last)

    def _halves(self, place: Place, ids: Ids) -> Iterator[Chunk]:
        """Yield the ids in two halves, and start computing the next epoch in between."""
        middle = len(ids) // 2
        if middle:
            yield ids[:middle]
        self.prepare(place)
        if len(ids):
            yield ids[middle:]

    def after_part(
        self, place: Place, skipped: int, part: int, mark: int
    ) -> tuple[Place, int, int]:
        """Return where a part resumes after a batch: `mark` samples further."""
        return place, skipped + mark, part

    def num_batches(self, place: Place) -> int:
        """Return the number of batches of this rank from a place to the end of the epoch."""
        size, counts = self.batch_size, self._dealt(place).counts
        return sum(n // size if self.drop_last else ceil_div(n, size) for n in counts)

    def length(self) -> int:
        """Return the batches of a whole pass as MosaicML Streaming counts them; there may be more.

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
    """Ids of shape (workers, batches, batch size), -1 for padding, and each worker's samples."""

    ids: Ids
    counts: list[int]


def _deal(order: ElasticOrder, *asked: Any) -> _Dealt:
    ids = rank_work(order, *asked)
    return _Dealt(ids, [int(np.count_nonzero(of_worker >= 0)) for of_worker in ids])
