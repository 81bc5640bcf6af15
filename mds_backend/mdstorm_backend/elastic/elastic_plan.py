"""`ElasticPlan`: one rank's batches in the elastic order.

A rank's ids are computed for one epoch at a time, as in MosaicML Streaming; for large datasets, the
next epoch's ids are computed in a thread while the current epoch is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, repeat
from typing import Any

import numpy as np

from mdstorm_backend.base import cached_property
from mdstorm_backend.elastic.batching import rank_work, samples_of_ranks, stored_order
from mdstorm_backend.elastic.elastic_settings import ElasticSettings
from mdstorm_backend.elastic.sampling import Ids
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.order import Chunk, Plan, Position, Samples, ceil_div
from mdstorm_backend.order.chunk import numbers_of

#: With this many samples or more, computing an epoch's ids takes longer than reading a few batches.
MANY_SAMPLES = 1 << 17


@dataclass(frozen=True, eq=False)
class ElasticPlan(Plan):
    """One rank's batches in the elastic order: a `Plan` up to the end of an epoch.

    Ids are divided among worker processes as in MosaicML Streaming. A batch's offset is its number,
    starting at 1. The batches from several workers are numbered as PyTorch's loader takes them:
    from each in turn, skipping workers that have ended.

    Attributes
    ----------
    order : ElasticSettings
        The order, with this process's world and at least one stream.
    url : str
        URL of the dataset, for messages.
    """

    order: ElasticSettings
    url: str = ""

    @property
    def num_samples(self) -> int:
        """Number of samples in an epoch of all ranks together, not counting padding."""
        return self.order.num_samples

    @property
    def _batch_size_of_order(self) -> int:
        return self.order.batch_size if self.order.states_batch_size else self.batching.size

    @property
    def _ids_of_parts(self) -> list[Chunk]:
        """The samples of each part, from the beginning of the plan to the end of the epoch.

        Raises
        ------
        StateMismatchError
            If the epoch cannot be resumed there.
        """
        position = self.start
        # At the end of an epoch nothing is left, even if this world would pad the epoch further.
        if position.consumed and position.is_end:
            return [np.empty(0, np.int64)] * self.batching.num_parts
        arguments = self._arguments_of_ids(position)
        try:
            return self.order.cache.get(arguments, partial(_remaining_ids, *arguments))
        except InvalidArgumentError as error:
            if not position.consumed:
                raise
            raise StateMismatchError(
                f"the state does not fit {self.url} read by {self.order.num_ranks} ranks in "
                f"batches of {self._batch_size_of_order}: {error}"
            ) from error

    def _prepare(self) -> None:
        """Start computing the next epoch in a thread, if that takes a long time."""
        if self.num_samples >= MANY_SAMPLES:
            arguments = self._arguments_of_ids(self.start.beginning_of(self.start.epoch + 1))
            self.order.cache.begin(arguments, partial(_remaining_ids, *arguments))

    @cached_property
    def unequal_because(self) -> str:
        """Why ranks have different numbers of batches in this epoch or in later ones."""
        position, nodes = self.start, self.start.initial_physical_nodes
        if nodes is None:
            return ""
        order, *_ = self._arguments_of_ids(position)
        try:
            epochs = [
                samples_of_ranks(order, consumed, nodes)
                for consumed in {0, 0 if position.is_end else position.consumed}
            ]
        except InvalidArgumentError:  # raised again when the epoch is read
            return ""
        if all(len(set(map(self._num_batches_of, samples))) <= 1 for samples in epochs):
            return ""
        return (
            f"neither the number of nodes nor the {order.num_canonical_nodes} canonical nodes of "
            "the state is a multiple of the other"
        )

    def _arguments_of_ids(self, position: Position) -> tuple[Any, ...]:
        order = replace(self.order.resumed(position), batch_size=self._batch_size_of_order)
        nodes = position.initial_physical_nodes
        return order, position.epoch, position.consumed, nodes, self.batching.num_parts

    @cached_property
    def resolved_start(self) -> Position:
        """The position where the plan begins, with `end` set to the end of its epoch."""
        position = self.start
        end = position.consumed + self.order.num_ranks * sum(self._samples_of_parts)
        return replace(position, first_epoch=position.pass_epoch, end=end)

    def position(self, offset: int) -> Position:
        """Return the position after a number of batches.

        Within an epoch, the position has a `reason` if the number of batches does not determine
        which samples they contain.
        """
        begin, size, parts = self.resolved_start, self._batch_size_of_order, self.batching.num_parts
        if not offset:
            return begin
        consumed = begin.consumed + self._num_read(offset) * self.order.num_ranks
        reason, is_within = "", consumed < (begin.end or 0)
        if parts > 1 and size != self.batching.size and is_within:
            reason = (
                f"the dataset has batch_size={size}, its loader batch_size={self.batching.size}, "
                f"and each of {parts} workers makes batches of different samples, so the number of "
                "batches does not determine which samples were read. Pass the same batch_size to "
                "both, or read with num_workers=0"
            )
        is_over = self.following() is None and offset >= self.num_batches()
        end = consumed if is_over and self.batching.num_epochs is not None else begin.end
        return begin.advanced(begin.epoch, consumed, end=end, reason=reason)

    def end(self) -> Position:
        """Return the position after the last batch, marked as the epoch's end in a finite pass."""
        position = self.position(self.num_batches())
        return position if self.batching.num_epochs is None else position.ended()

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return the replication, which is no setting that is compared, for `Order.of_state`."""
        replication = self.order.replication
        return {} if replication is None else {"replication": replication}

    def resumed(self, ours: Mapping[str, Any]) -> Position:
        """Return the start: as in MosaicML Streaming, a pass may resume with other settings."""
        return self.start

    def position_of_part(self, part: int, offset: int) -> tuple[Position, int]:
        """Return a worker's position after a batch, counting only samples of the worker's part."""
        taken = _taken_of_each(offset, self._batches_of_parts)[part] * self.batching.size
        return replace(self.resolved_start, skip=min(taken, self._samples_of_parts[part])), part

    @cached_property
    def _samples_of_parts(self) -> list[int]:
        """Number of samples in each part, kept after their ids have been dropped."""
        return list(map(len, self._ids_of_parts))

    @cached_property
    def _batches_of_parts(self) -> list[int]:
        """Number of batches in each part."""
        return list(map(self._num_batches_of, self._samples_of_parts))

    def _num_batches_of(self, samples: int) -> int:
        size = self.batching.size
        return samples // size if self.batching.drop_last else ceil_div(samples, size)

    def offset_after_epoch(self, epoch: int) -> int:
        """Return an offset past the last batch, since all batches in a plan belong to one epoch."""
        return self.num_batches() + 1

    def _num_read(self, offset: int) -> int:
        """Return how many samples this rank has read after `offset` batches."""
        size, taken = self.batching.size, _taken_of_each(offset, self._batches_of_parts)
        pairs = zip(taken, self._samples_of_parts, strict=True)
        return sum(min(batches * size, samples) for batches, samples in pairs)

    def reached(self, samples: int, *, from_beginning: bool = False) -> Position:
        """Return the position after all ranks together have read this many samples."""
        before = 0 if from_beginning else self.start.consumed
        return replace(self.start, consumed=before + samples, skip=0)

    def samples(self, part: int | None = 0) -> Samples:
        """Return the remaining samples of a part, and the batches that its worker makes of them.

        For None, return those of all parts in turn.
        """
        if part is None:
            return self._of_all_parts()
        ids, size, skipped = self._ids_of_parts[part], self.batching.size, self.resolved_start.skip
        full, rest = divmod(len(ids) - skipped, size)
        last = [rest] if rest and not self.batching.drop_last else []
        sizes = chain(repeat(size, full), last)
        return Samples(
            self._in_two_parts(ids[skipped:]), sizes, self._offsets(part, skipped // size)
        )

    def _of_all_parts(self) -> Samples:
        found: dict[int, Ids] = {}
        size = self.batching.size
        for part, chunk in enumerate(self._ids_of_parts):
            ids = numbers_of(chunk)
            for number, offset in enumerate(self._offsets(part, 0)):
                found[offset] = ids[number * size : (number + 1) * size]
        batches = [found[offset] for offset in sorted(found)]
        joined = np.concatenate([np.empty(0, np.int64), *batches])
        return Samples(iter([joined]), map(len, batches), count(1))

    def _in_two_parts(self, ids: Chunk) -> Iterator[Chunk]:
        """Yield the first eighth of the ids and the rest; start computing the next epoch between.

        Early, because an epoch of short rows is read in the time that it takes to compute the next.
        What a peek at a small dataset starts, is used by the next epoch.
        """
        first = len(ids) // 8
        if first:
            yield ids[:first]
        self._prepare()
        if len(ids):
            yield ids[first:]

    def _offsets(self, part: int, first: int) -> Iterator[int]:
        """Yield the numbers of a part's batches, counted over all parts."""
        batches = self._batches_of_parts
        least = min(batches)
        for taken in range(first, batches[part]):
            if taken <= least:
                yield taken * len(batches) + part + 1
            else:
                before = sum(count > taken for count in batches[: part + 1])
                yield sum(min(count, taken) for count in batches) + before

    def epoch_sizes(self) -> Iterator[int]:
        """Yield the number of this rank's samples in the plan, all of one epoch."""
        yield sum(self._samples_of_parts)

    def num_batches(self) -> int:
        """Return this rank's number of batches up to the end of the epoch."""
        return sum(self._batches_of_parts)

    def length(self) -> int | None:
        """Return the number of batches in a pass; as in MosaicML Streaming, repeats do not count.

        Of ranks with different numbers, this is the largest: see `unequal_because`.

        None if the number of epochs is infinite.
        """
        if (num_epochs := self.batching.num_epochs) is None:
            return None
        return num_epochs * self._num_batches_of(self.rows_per_epoch)

    @property
    def rows_per_epoch(self) -> int:
        """Samples per rank and epoch, without repeated samples, as in MosaicML Streaming."""
        return ceil_div(self.num_samples, self.order.num_ranks)

    def following(self) -> ElasticPlan | None:
        """Return the plan of the next epoch of the pass; None after the last one."""
        last = self.start.last_epoch(self.batching.num_epochs)
        if last is not None and self.start.epoch >= last:
            return None
        return replace(self, start=self.start.advanced(self.start.epoch + 1))


def _taken_of_each(offset: int, batches: list[int]) -> list[int]:
    """Return how many of the first `offset` batches are of each part, when parts take turns.

    Parameters
    ----------
    offset : int
        Number of batches taken of all parts.
    batches : list of int
        Number of batches that each part has.
    """
    low, high = 0, max(batches)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(count, middle) for count in batches) <= offset:
            low = middle
        else:
            high = middle - 1
    taken = [min(count, low) for count in batches]
    left = offset - sum(taken)
    longer = [part for part, count in enumerate(batches) if count > low]
    for part in longer[:left]:
        taken[part] += 1
    return taken


def _remaining_ids(order: ElasticSettings, *arguments: Any) -> list[Chunk]:
    """Return the remaining sample ids of each worker's part, without padding."""
    in_order = stored_order(order, *arguments)
    if in_order is not None:
        return [in_order]
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
