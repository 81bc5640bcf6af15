"""`ElasticShare`: an elastic order and this process's rank. `ElasticPlan`: the rank's batches.

A rank's ids are computed for one epoch at a time, as in MosaicML Streaming; for large datasets, the
next epoch's ids are computed in a thread while the current epoch is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, ClassVar

import numpy as np

from mdstorm_backend.base import cached_property
from mdstorm_backend.elastic.batching import rank_work
from mdstorm_backend.elastic.elastic_order import ElasticOrder
from mdstorm_backend.elastic.epoch_cache import EpochCache
from mdstorm_backend.elastic.sampling import Ids, StreamShape, StreamWeight
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.order import Chunk, Plan, Position, Samples, World, ceil_div

#: Fields of an order that `ElasticShare.settings` omits. MosaicML Streaming's states have
#: their own keys for the first two. The other two may change with the world, if the global batch
#: size stays the same.
_NOT_IN_SETTINGS = ("shuffle_seed", "num_canonical_nodes", "batch_size", "replication")

#: With this many samples or more, computing an epoch's ids takes longer than reading a few batches.
MANY_SAMPLES = 1 << 17


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
        Whether the user specified the order's batch size; otherwise the loader's is used.
    cache : EpochCache
        Computes the next epoch while an epoch is being read. Shared by all plans of the order.
    """

    order: ElasticOrder
    world: World = field(default_factory=World)
    streams: tuple[StreamShape, ...] = ()
    states_batch_size: bool = True
    follows_world: bool = False
    cache: EpochCache[list[Ids]] = field(default_factory=EpochCache, repr=False, compare=False)

    #: Name of the order in states and messages.
    name: ClassVar[str] = "elastic"
    #: The epoch number in states that were saved before the first epoch, as in MosaicML Streaming.
    before_first_epoch: ClassVar[int] = -1
    #: Whether a state must match all reader settings even between epochs.
    is_strict: ClassVar[bool] = False

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.world.size

    @property
    def uses_seed(self) -> bool:
        """Whether the seed affects the order of samples, or which samples an epoch has."""
        order = self.order
        is_part = order.epoch_size is not None or any(one.weighting for one in self.streams)
        mixes_streams = order.batching_method != "random" and len(self.streams) > 1
        return order.shuffle or mixes_streams or is_part

    @property
    def sequence(self) -> str:
        """A short description, such as ``elastic order, shuffled by py1e, seed 9176``."""
        order = self.order
        if not order.shuffle:
            return "elastic order, sequential"
        return f"elastic order, shuffled by {order.shuffle_algo}, seed {order.shuffle_seed}"

    def check_batches_unknown(self, num_workers: int) -> None:
        """Raise InvalidArgumentError if the order depends on a batch size that was not given."""
        depends = num_workers > 1 or self.order.batching_method != "random"
        if depends and not self.states_batch_size:
            raise InvalidArgumentError(
                "the order of samples depends on the batches: please pass `batch_size` to the "
                "StreamingDataset, the same as to the loader"
            )

    def rows_of_rank(self, num_rows: int) -> int | None:
        """Return None: the number of rows is unknown, because ranks may repeat samples."""
        return None

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return the state entries that MosaicML Streaming defines."""
        order = self.order
        nodes = self.world.replicated(order.replication).num_nodes
        canonical = position.num_canonical_nodes or order.canonical_nodes_for(nodes)
        return {
            "num_canonical_nodes": canonical,
            "shuffle_seed": order.shuffle_seed if position.seed is None else position.seed,
            "initial_physical_nodes": position.initial_physical_nodes or nodes,
        }

    def settings(self, shard_sizes: Sequence[int]) -> dict[str, Any]:
        """Return the settings that MosaicML Streaming's state entries do not cover."""
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
        """Whether other processes are known to read different rows."""
        return self.follows_world or self.world_size > 1

    def share_of(self, world: World) -> ElasticShare:
        """Return the same order for the rank and size of `world`."""
        return replace(self, world=world, follows_world=False)

    def contiguous_share(self) -> None:
        """Return None: a rank's samples are not a contiguous range of rows."""

    def of_streams(
        self, shapes: Callable[[], tuple[StreamShape, ...]]
    ) -> tuple[ElasticShare, tuple[StreamWeight, ...]]:
        """Return the share with its streams, and the weights of the streams.

        `shapes` opens the streams' data and returns their shapes. A share that already has streams
        is returned unchanged, with () for the weights.
        """
        if self.streams:
            return self, ()
        streams = shapes()
        return replace(self, streams=streams), self.order.weights(streams)

    def padded(self, batch_size: int) -> ElasticShare:
        """Return the order unchanged, since it already repeats samples to fill batches."""
        return self

    def with_window(self, window: int) -> ElasticShare:
        """Return the order, shuffled in blocks of `window` samples; 1 means the default size."""
        block_size = window if window > 1 else None
        return replace(self, order=replace(self.order, shuffle=True, shuffle_block_size=block_size))

    def resumed(self, position: Position) -> ElasticOrder:
        """Return the order with the seed and canonical nodes of `position`, and defaults set."""
        keys = self.state_keys(position)
        canonical, seed = keys["num_canonical_nodes"], keys["shuffle_seed"]
        order = replace(self.order, num_canonical_nodes=canonical, shuffle_seed=seed)
        return order.resolved(self.world.replicated(order.replication).num_nodes)


@dataclass(frozen=True, eq=False)
class ElasticPlan(Plan):
    """One rank's batches in the elastic order: a `Plan` up to the end of an epoch.

    Ids are divided among worker processes as in MosaicML Streaming. A batch's offset is its number,
    starting at 1. The batches from several workers are numbered as PyTorch's loader takes them:
    from each in turn, skipping workers that have ended.

    Attributes
    ----------
    share : ElasticShare
        The order, the world, and at least one stream.
    batch_size : int
        Samples per batch on each rank.
    url : str
        URL of the dataset, for messages.
    """

    share: ElasticShare
    batch_size: int
    url: str = ""

    @property
    def num_samples(self) -> int:
        """Number of samples in an epoch of all ranks together, not counting padding."""
        return self.share.order.num_samples(self.share.streams)

    @property
    def _batch_size_of_order(self) -> int:
        return self.share.order.batch_size if self.share.states_batch_size else self.batch_size

    @property
    def _dealt(self) -> list[Ids]:
        """The samples of each part, from the beginning of the plan to the end of the epoch.

        Raises
        ------
        StateMismatchError
            If the epoch cannot be resumed there.
        """
        position = self.start
        # At the end of an epoch nothing is left, even if this world would pad the epoch further.
        if position.consumed and position.is_end:
            return [np.empty(0, np.int64)] * self.num_parts
        arguments = self._deal_arguments(position)
        try:
            return self.share.cache.get(arguments, partial(_deal, *arguments))
        except InvalidArgumentError as error:
            if not position.consumed:
                raise
            raise StateMismatchError(
                f"the state does not fit {self.url} read by {self.share.num_ranks} ranks in "
                f"batches of {self._batch_size_of_order}: {error}"
            ) from error

    def prepare(self) -> None:
        """Start computing the next epoch in a thread, if that takes a long time."""
        if self.num_samples >= MANY_SAMPLES:
            arguments = self._deal_arguments(self.start.beginning_of(self.start.epoch + 1))
            self.share.cache.begin(arguments, partial(_deal, *arguments))

    def _deal_arguments(self, position: Position) -> tuple[Any, ...]:
        share = self.share
        order = replace(share.resumed(position), batch_size=self._batch_size_of_order)
        return (
            order,
            share.streams,
            share.world,
            position.epoch,
            position.consumed,
            position.initial_physical_nodes,
            self.num_parts,
        )

    @cached_property
    def begin(self) -> Position:
        """The position where the plan begins, with `end` set to the end of its epoch."""
        position = self.start
        end = position.consumed + self.share.num_ranks * sum(self._counts)
        return replace(position, first_epoch=position.pass_epoch, end=end)

    def position(self, offset: int) -> Position:
        """Return the position after a number of batches.

        Within an epoch, the position has a `reason` if the number of batches does not determine
        which samples they contain.
        """
        begin, size = self.begin, self._batch_size_of_order
        if not offset:
            return begin
        consumed = begin.consumed + self._num_read(offset) * self.share.num_ranks
        reason, is_within = "", consumed < (begin.end or 0)
        if self.num_parts > 1 and size != self.batch_size and is_within:
            reason = (
                f"the dataset has batch_size={size}, its loader batch_size={self.batch_size}, and "
                f"each of {self.num_parts} workers makes batches of different samples, so the "
                "number of batches does not determine which samples were read. Pass the same "
                "batch_size to both, or read with num_workers=0"
            )
        is_over = self.following() is None and offset >= self.num_batches()
        end = consumed if is_over and self.num_epochs is not None else begin.end
        return begin.advanced(begin.epoch, consumed, end=end, reason=reason)

    def end(self) -> Position:
        """Return the position after the last batch, marked as the epoch's end in a finite pass."""
        position = self.position(self.num_batches())
        return position if self.num_epochs is None else position.ended()

    def position_of_part(self, part: int, offset: int) -> tuple[Position, int]:
        """Return a worker's position after a batch, counting only samples of the worker's part."""
        taken = _taken(offset, self._lists)[part] * self.batch_size
        return replace(self.begin, skip=min(taken, self._counts[part])), part

    @cached_property
    def _counts(self) -> list[int]:
        """Number of samples in each part, kept after their ids have been dropped."""
        return list(map(len, self._dealt))

    @cached_property
    def _lists(self) -> list[int]:
        """Number of batches in each part."""
        size = self.batch_size
        return [n // size if self.drop_last else ceil_div(n, size) for n in self._counts]

    def offset_after_epoch(self, epoch: int) -> int:
        """Return an offset past the last batch, since all batches in a plan belong to one epoch."""
        return self.num_batches() + 1

    def _num_read(self, offset: int) -> int:
        """Return how many samples this rank has read after `offset` batches."""
        pairs = zip(_taken(offset, self._lists), self._counts, strict=True)
        return sum(min(taken * self.batch_size, count) for taken, count in pairs)

    def reached(self, samples: int, *, from_beginning: bool = False) -> Position:
        """Return the position after all ranks together have read this many samples."""
        before = 0 if from_beginning else self.start.consumed
        return replace(self.start, consumed=before + samples, skip=0)

    def reached_here(self, samples: int) -> Position:
        """Return the position after each rank has read this many samples."""
        return self.reached(samples * self.share.num_ranks)

    def samples(self, part: int = 0) -> Samples:
        """Return the remaining samples of a part, and the batches that its worker makes of them."""
        ids, size, skipped = self._dealt[part], self.batch_size, self.begin.skip
        full, rest = divmod(len(ids) - skipped, size)
        last = [rest] if rest and not self.drop_last else []
        sizes = chain(repeat(size, full), last)
        return Samples(self._halves(ids[skipped:]), sizes, self._offsets(part, skipped // size))

    def after(self, batches: int) -> Samples:
        """Return the samples and batches of all parts after this many of their batches in turn."""
        found: dict[int, Ids] = {}
        size = self.batch_size
        for part, ids in enumerate(self._dealt):
            for number, offset in enumerate(self._offsets(part, 0)):
                found[offset] = ids[number * size : (number + 1) * size]
        offsets = range(batches + 1, len(found) + 1)
        taken = [found[offset] for offset in offsets]
        joined = np.concatenate([np.empty(0, np.int64), *taken])
        return Samples(iter([joined]), map(len, taken), iter(offsets))

    def _halves(self, ids: Ids) -> Iterator[Chunk]:
        """Yield the ids in two halves, and start computing the next epoch in between."""
        middle = len(ids) // 2
        if middle:
            yield ids[:middle]
        self.prepare()
        if len(ids):
            yield ids[middle:]

    def _offsets(self, part: int, first: int) -> Iterator[int]:
        """Yield the numbers of a part's batches, counted over all parts."""
        lists = self._lists
        least = min(lists)
        for taken in range(first, lists[part]):
            if taken <= least:
                yield taken * len(lists) + part + 1
            else:
                before = sum(count > taken for count in lists[: part + 1])
                yield sum(min(count, taken) for count in lists) + before

    def num_batches(self) -> int:
        """Return this rank's number of batches up to the end of the epoch."""
        return sum(self._lists)

    def length(self) -> int | None:
        """Return the number of batches in a pass; as in MosaicML Streaming, repeats do not count.

        None if the number of epochs is infinite.
        """
        if self.num_epochs is None:
            return None
        rows, size = self.rows_per_epoch, self.batch_size
        return self.num_epochs * (rows // size if self.drop_last else ceil_div(rows, size))

    @property
    def rows_per_epoch(self) -> int:
        """Samples per rank and epoch, without repeated samples, as in MosaicML Streaming."""
        return ceil_div(self.num_samples, self.share.num_ranks)

    def following(self) -> ElasticPlan | None:
        """Return the plan of the next epoch of the pass; None after the last one."""
        if self.last_epoch is not None and self.start.epoch >= self.last_epoch:
            return None
        return replace(self, start=self.start.advanced(self.start.epoch + 1))


def _taken(offset: int, lists: list[int]) -> list[int]:
    """Return how many of the first `offset` batches come from each list when lists take turns."""
    low, high = 0, max(lists)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(count, middle) for count in lists) <= offset:
            low = middle
        else:
            high = middle - 1
    taken = [min(count, low) for count in lists]
    left = offset - sum(taken)
    longer = [part for part, count in enumerate(lists) if count > low]
    for part in longer[:left]:
        taken[part] += 1
    return taken


def _deal(order: ElasticOrder, *arguments: Any) -> list[Ids]:
    """Return the remaining sample ids of each worker's part, without padding."""
    return [_without_padding(part.reshape(-1)) for part in rank_work(order, *arguments)]


def _without_padding(ids: Ids) -> Ids:
    """Return the ids that are not -1, moved together in the same memory.

    Only the last batches have padding, so few ids are copied.
    """
    padding = np.flatnonzero(ids < 0)
    first = int(padding[0]) if len(padding) else len(ids)
    rest = ids[first:][ids[first:] >= 0]
    stop = first + len(rest)
    ids[first:stop] = rest
    return ids[:stop]
