"""`ReadAhead`: the offsets and positions of batches that TensorFlow has read ahead of use.

TensorFlow reads blocks in its own threads before their batches or rows are used. The queue keeps
the numbers that travel with them, and computes a position only on request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import Segment
from mdstorm_backend.loaders.state import write_state

#: Number of recent blocks whose offsets are kept, for iterations whose items are not counted.
_BLOCKS_KEPT = 1024


class _Read(NamedTuple):
    """A block that was read.

    Attributes
    ----------
    first : int
        Number of items in the iteration before the block.
    segment : Segment
        The segment that the block was read from.
    offsets : list of int
        The offset before the block, and the offsets of its batches.
    items : int
        Number of items in each batch.
    """

    first: int
    segment: Segment
    offsets: list[int]
    items: int

    @property
    def end(self) -> int:
        """Number of items in the iteration up to the end of the block."""
        return self.first + (len(self.offsets) - 1) * self.items


class ReadAhead:
    """Finds an iteration's state after a given number of the items that it has read.

    Parameters
    ----------
    first : int
        Number of the first item; negative by the number of items skipped in the first block.
    noun : str
        The name of the items in messages.

    Attributes
    ----------
    num_read : int
        Number of items that were read, including items ahead of use.
    is_over : bool
        Whether the end was requested.
    """

    def __init__(self, first: int = 0, noun: str = "batches") -> None:
        self._noun = noun
        self.num_read = first
        self.is_over = False
        self._blocks: deque[_Read] = deque(maxlen=_BLOCKS_KEPT)

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def record(self, segment: Segment, offsets: Sequence[int], items: int = 1) -> None:
        """Record a block that was read: the offsets of its batches, and the size of each batch."""
        last = self._blocks[-1] if self._blocks else None
        before = last.offsets[-1] if last is not None and last.segment is segment else 0
        block = _Read(self.num_read, segment, [before, *offsets], items)
        self._blocks.append(block)
        self.num_read = block.end

    def drop_used(self, used: int) -> None:
        """Forget the blocks before the one that contains the latest used item."""
        while len(self._blocks) > 1 and self._blocks[1].first <= used:
            self._blocks.popleft()

    def latest(self, batches: int) -> tuple[Segment, int] | None:
        """Return the segment and offset of a batch, counted from 1; None if they are not kept."""
        for block in list(self._blocks):
            if block.first < batches <= block.end:
                return block.segment, block.offsets[batches - block.first]
        return None

    def first_of_next_epoch(self, segment: Segment, epoch: int, latest: int) -> int:
        """Return the first batch after `latest` that is in another epoch or not read yet."""
        blocks = list(self._blocks)
        for block in blocks:
            if block.segment is segment:
                border = segment.plan.offset_after_epoch(epoch)
                if block.offsets[-1] >= border:
                    return block.first + bisect_left(block.offsets, border)
            elif block.first >= latest:
                return block.first + 1
        return blocks[-1].end + 1

    def state_dict(self, used: int) -> tuple[dict[str, Any], int]:
        """Return the last available state at or before `used` items, and the number of items since.

        Raises
        ------
        StateMismatchError
            If the position is no longer kept, or the items were not read.
        """
        for block in reversed(list(self._blocks)):
            if block.first <= used <= block.end:
                batches, rest = divmod(used - block.first, max(block.items, 1))
                plan, is_end = block.segment.plan, self.is_over and used == self.num_read
                position = plan.end() if is_end else plan.position(block.offsets[batches])
                return write_state(block.segment.options, block.segment.batching, position), rest
        raise StateMismatchError(
            f"no state after {used} {self._noun} is available: {self.num_read} were read, and a "
            f"long iteration keeps only its latest states. Pass the actual number of {self._noun} "
            "that were used"
        )
