"""`ReadAhead`: the positions in blocks whose items are used later than they are read.

TensorFlow reads blocks in its own threads before their batches or rows are used. The queue keeps
the offsets of their batches, and computes a position from the number of used items only on request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.loaders.state import write_state

#: Maximum number of blocks whose offsets are kept. If used items are counted, `drop_used` keeps
#: fewer.
_BLOCKS_KEPT = 1024


class _Read(NamedTuple):
    """A block that was read.

    Attributes
    ----------
    segment : Segment
        The segment that the block was read from.
    offsets : list of int
        The offset before the block, and the offsets of its batches.
    ends : sequence of int
        For each offset, the number of items in the iteration up to it.
    """

    segment: Segment
    offsets: list[int]
    ends: Sequence[int]


class ReadAhead:
    """Finds the state that an iteration had after a given number of items.

    Parameters
    ----------
    first : int
        Number of the first item; negative by the number of items skipped in the first block.
    noun : str
        The name of the items in messages, and of the dataset's argument for their number.

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

    def record(
        self, segment: Segment, offsets: Sequence[int], items: Sequence[int] | None = None
    ) -> None:
        """Record a block that was read: the offsets of its batches, and the items in each of them.

        By default, each batch is one item.
        """
        last = self._blocks[-1] if self._blocks else None
        before = last.offsets[-1] if last is not None and last.segment is segment else 0
        first = self.num_read
        # If each batch is one item, a range suffices, and it takes up almost no memory.
        ends: Sequence[int] = range(first, first + len(offsets) + 1)
        if items is not None and items.count(1) < len(items):
            ends = list(accumulate(items, initial=first))
        self._blocks.append(_Read(segment, [before, *offsets], ends))
        self.num_read = ends[-1]

    def drop_used(self, used: int) -> None:
        """Forget the blocks before the one in which the used items end."""
        while len(self._blocks) > 1 and self._blocks[1].ends[0] <= used:
            self._blocks.popleft()

    def following(self, used: int) -> tuple[Segment, list[int]] | None:
        """Return a segment and the offsets of the batches after `used` items that are in one block.

        None if the next batch has not been read, or is not kept.
        """
        if (found := self._find(used)) is None:
            return None
        block, batch = found
        offsets = block.offsets[batch + 1 :]
        return (block.segment, offsets) if offsets else None

    def _find(self, used: int) -> tuple[_Read, int] | None:
        """Return the latest block where `used` items end, and how many of its batches they fill.

        None if the block is not kept, or the items were not read.
        """
        for block in reversed(list(self._blocks)):
            if block.ends[0] <= used <= block.ends[-1]:
                return block, bisect_right(block.ends, used) - 1
        return None

    def reached(self, used: int) -> tuple[Segment, int, int]:
        """Return where `used` items end: a segment, an offset in it, and how many items follow it.

        Raises
        ------
        StateMismatchError
            If the position is no longer kept, or the items were not read.
        """
        if (found := self._find(used)) is not None:
            block, batch = found
            return block.segment, block.offsets[batch], used - block.ends[batch]
        raise StateMismatchError(
            f"no state after {used} {self._noun} is available: {self.num_read} were read, and a "
            f"long iteration keeps only its latest states. Pass the actual number of {self._noun} "
            "that were used"
        )

    def state_dict(self, used: int | None) -> dict[str, Any]:
        """Return the state after `used` items; None if the number of used items is not known.

        Raises
        ------
        StateMismatchError
            If the number is not known, the position is no longer kept, or the items were not read.
        """
        if used is None:
            raise StateMismatchError(
                f"the {self._noun} of this dataset were not counted, because TensorFlow took them "
                "itself, as in Keras, in a tf.function or with batch(), and may have taken some "
                f"ahead of use. Pass the number of {self._noun} that were used since the iteration "
                f"began: state_dict({self._noun}=…)"
            )
        segment, offset, skip = self.reached(used)
        is_end = self.is_over and used == self.num_read
        position = segment.plan.end() if is_end else segment.plan.position(offset)
        return write_state(segment.options, replace(position, skip=skip))
