"""`Loader`: the loop that runs the passes of PyTorch loaders and readers.

An adapter passes `Loader.run` a `MakeBatches` function, which makes the batches of a `Segment`. The
loop begins a `Pass`, calls the function for each of its segments, drops short last batches, records
the offset of each batch, and ends the threads that read ahead. The loader's position is the
position of the pass that was advanced last; a state describes that position. A peek that has been
left does not count: its state, its trace and its copies begin where the next iteration begins.

TensorFlow drives its iterations itself, so `TFRuns` begins and advances the passes of a `Loader`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeAlias

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.base.work_ahead import PassThreads
from mdstorm_backend.loaders.consumer import CONSUMER, Consumer
from mdstorm_backend.loaders.epochs import Epochs
from mdstorm_backend.loaders.passes import Pass
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.loaders.state import read_state, write_state
from mdstorm_backend.loaders.trace import Trace
from mdstorm_backend.loaders.used_batches import UsedBatches
from mdstorm_backend.order import Position
from mdstorm_backend.read.block import Block

_logger = logging.getLogger(__name__)

#: Used in place of a batch to advance the pass without yielding anything.
NOTHING: Any = object()
#: Batches, each with its offset in the plan and its number of rows.
NumberedBatches: TypeAlias = Generator[tuple[Any, int, int], None, None]
#: Makes batches from blocks.
Convert: TypeAlias = Callable[[Iterator[Block]], NumberedBatches]
#: Returns the generators that make a segment's batches, each reading from the previous one.
MakeBatches: TypeAlias = Callable[[Segment], Sequence[Any]]


def converted(blocks: Iterator[Block], convert: Convert) -> Sequence[Any]:
    """Return blocks and the generator of batches that `convert` makes from them."""
    return blocks, convert(blocks)


@dataclass(eq=False)
class Loader:
    """Runs a loader's passes, and keeps its position.

    Several iterations may be active, each with its own pass. The loader's position is the position
    of the pass that was advanced or begun last.

    Parameters
    ----------
    options : ReaderOptions
        The data to read, and how. May be replaced between iterations.
    threads : PassThreads, optional
        Waits for the passes' threads; by default the loader has its own.
    check : callable, optional
        Called before a batch counts as yielded; an exception from it ends the iteration.
    splits : bool
        Whether the user takes the items of batches one by one, so that a state may be within a
        batch.
    recorder : Recorder, optional
        Records the passes; by default the loader has its own.
    epochs : Epochs, optional
        Holds where the next iteration begins. Loaders over the same dataset share it; by default
        the loader has its own.
    """

    options: ReaderOptions
    threads: PassThreads = field(default_factory=PassThreads)
    _: KW_ONLY
    check: Callable[[], None] | None = None
    splits: bool = False
    recorder: Recorder = field(default_factory=Recorder)
    epochs: Epochs = field(default_factory=Epochs)

    def __post_init__(self) -> None:
        self.epochs.follow(self.options)
        #: The pass that was advanced or begun last; None before the first iteration.
        self._latest: Pass | None = None
        self.used = UsedBatches()
        #: Called with this loader when a pass begins, or an earlier one is advanced again.
        self.on_pass: dict[Any, Callable[[Loader], None]] = {}

    @property
    def is_within(self) -> bool:
        """Whether a state describes the latest pass, rather than where the next one begins."""
        return self._counted is not None

    @property
    def _current(self) -> Pass | None:
        """The pass that determines the position; None if that is where the next pass begins.

        This is the latest pass, unless a state was loaded since it began, or an epoch was set since
        its latest batch.
        """
        latest, epochs = self._latest, self.epochs
        is_current = latest is not None and (latest.seen, latest.usage.loads) == (
            epochs.changes,
            epochs.loads,
        )
        return latest if is_current else None

    @property
    def is_held(self) -> bool:
        """Whether the position is within the latest pass, which has not been left."""
        current = self._current
        return current is not None and not current.usage.is_left

    @property
    def latest(self) -> Pass:
        """The pass that was advanced or begun last; available once one has begun."""
        assert self._latest is not None
        return self._latest

    @property
    def is_left_peek(self) -> bool:
        """Whether the latest pass was a peek that has been left, which states do not count."""
        latest = self._latest
        if latest is None or self.options.order.counts_peeks:
            return False
        return latest.usage.is_left_peek

    @property
    def _counted(self) -> Pass | None:
        """The pass that a state describes; None if it describes where the next pass begins."""
        return None if self.is_left_peek else self._current

    @property
    def segment(self) -> Segment:
        """The segment of the pass that was advanced last."""
        return self.latest.segment

    @property
    def segment_start(self) -> Position:
        """The beginning of the segment that a checkpoint taken now would refer to."""
        if (current := self._current) is None:
            return self.epochs.next_position
        return current.segment_start_before(current.num_unused)

    @property
    def rows(self) -> int:
        """Samples yielded so far in the pass, or in the epoch if no batch spans two epochs."""
        return 0 if (current := self._current) is None else current.yielded

    def length(self) -> int:
        """Return the number of batches in a whole pass.

        Raises
        ------
        TypeError
            If the number is not known.
        """
        here = self.options.in_world() if self._latest is None else self._latest.here
        plan = here.first_plan
        if here.num_epochs is None:
            raise TypeError(
                "with num_epochs=None the loader never ends, so there is no number of batches: "
                "pass num_epochs=1. If PyTorch's DataLoader wraps this loader, iterate over this "
                "loader instead"
            )
        if (length := plan.length()) is None:
            raise TypeError(
                f"the number of batches is not known: {plan.unequal_because}. It is known with "
                "where= instead of filters, and with TransformSpec(…, keeps_rows=True)"
            )
        return length

    def num_remaining(self) -> int | None:
        """Return the number of remaining batches in the pass that the next iteration resumes.

        0 if the next iteration begins a new pass; None if the number is not known.
        """
        remaining, start = 0, self.epochs.next_position
        if not start.consumed and start.pass_epoch == start.epoch:
            return 0
        if self.options.num_epochs is None:  # the pass is endless
            return None
        for plan in self.options.in_world().plan(start).onward():
            if (batches := plan.num_batches()) is None:
                return None
            remaining += batches
        return remaining

    def begin(self, consumer: Consumer) -> Pass:
        """Begin the next iteration, which is the remainder of a pass or a new pass."""
        self.recorder.begin()
        here = self.options.in_world()
        self._latest = current = Pass(self.epochs, here, self.epochs.begin(consumer))
        self.used.begin(current.usage)
        self._report_pass()
        return current

    def _report_pass(self) -> None:
        for call in list(self.on_pass.values()):
            call(self)

    def use_latest(self) -> None:
        """Count another used batch of the latest pass, of which the user takes the parts."""
        if self._latest is not None:
            self._latest.usage.batches += 1

    def leave_latest(self) -> None:
        """Record that the latest iteration has been left, if its generator may end later."""
        if self._latest is not None:
            self._latest.usage.is_left = True

    def run(
        self,
        make_batches: MakeBatches,
        *,
        by_item: bool = False,
        consumer: Consumer | None = None,
    ) -> Generator[Any, None, None]:
        """Run a pass, which begins when the first batch is requested, and yield its batches.

        The pass's threads end with the generator.

        Parameters
        ----------
        make_batches : callable
            Makes the batches of a `Segment`.
        by_item : bool
            Whether to yield an iterator over the items of each batch, which records how many were
            taken. It must be exhausted before the next one is requested.
        consumer : Consumer, optional
            The code that takes the batches; by default, the one that requests the first batch.
        """
        current = self.begin(consumer or CONSUMER.get())
        try:
            for segment in current.segments(self.recorder):
                with ExitStack() as stack:
                    # Close all stages; otherwise, after an error, their threads would read ahead
                    # until the garbage collector runs.
                    for stage in make_batches(segment):
                        batches = stack.enter_context(self.threads.closing(stage))
                    yield from self._batches_of(current, segment, batches, by_item=by_item)
            current.finish()
            self.recorder.record_received()  # the end
        finally:
            current.leave()

    def _batches_of(
        self, current: Pass, segment: Segment, batches: NumberedBatches, *, by_item: bool
    ) -> Generator[Any, None, None]:
        least, check, plan = segment.least_rows, self.check, segment.plan
        epochs, usage, recorder = self.epochs, current.usage, self.recorder
        most_peeked = usage.consumer.most_peeked
        for batch, offset, size in batches:
            if size < least:
                continue
            if check is not None:
                check()
            if current.to_compare is not None and usage.batches >= most_peeked:
                current.compare()
            is_yielded = batch is not NOTHING
            if is_yielded:
                # `record_received` is inlined here, and `advance` and `record_request` below,
                # because a loop may take 50,000 batches per second.
                now = recorder.clock()
                recorder.waited += now - recorder.since
                recorder.since = now
                recorder.batches += 1
                recorder.rows += size
                current.yielded += size
            if offset >= current.border:
                current.cross_border(offset)
            # Another iteration may have been advanced in the meantime, or an epoch set.
            if self._latest is not current:
                self._latest = current
                self.used.resume(current.usage)
                self._report_pass()
            current.seen = epochs.changes
            # This comes last, and without a function call, because Ctrl-C takes effect after calls,
            # and the position must be the one after the latest yielded batch.
            if not is_yielded:
                current.replace_latest(offset)
                continue
            if by_item:
                batch = current.items(batch, offset)
            else:
                _, before, latest = current.recent  # twice as fast as a slice
                current.recent = before, latest, (plan, offset, 1)
                current.taken = 0
                usage.batches += 1
            yield batch
            now = recorder.clock()
            recorder.trained += now - recorder.since
            recorder.since = now

    def state_dict(self, *, unused: int | None = None, is_within: bool = False) -> dict[str, Any]:
        """Return the state for a checkpoint, to pass to `load_state_dict`.

        Parameters
        ----------
        unused : int, optional
            How many of the latest batches are yielded again after the state is loaded, or of the
            latest items if batches are split. By default, the number of those that a framework has
            taken and not used yet.
        is_within : bool
            Whether the position is in the latest pass even if an epoch was set since, or the pass
            was a peek that has been left.
        """
        if (current := self._latest if is_within else self._counted) is None:
            return self.next_state()
        unused = current.num_unused if unused is None else unused
        return write_state(current.here, current.position_before(unused))

    def next_state(self) -> dict[str, Any]:
        """Return the state of the position at which the next iteration begins."""
        current = self._current
        if self.is_left_peek and current and current.usage.loads and current.usage.batches_used:
            _logger.info(
                "The state does not count the batch that was taken since a state was loaded, "
                "because its iteration has been left. Keep the iterator if the batch should count"
            )
        return self.epochs.next_state(self.options)

    def load_state_dict(self, state: object, skip_batches: int = 0) -> None:
        """Resume the next iteration `skip_batches` batches after a state.

        Raises
        ------
        InvalidArgumentError
            If the pass has fewer batches left than are to be skipped.
        StateMismatchError
            If the state was taken from a different dataset or way of reading, or is not a state.
        """
        self.epochs.load_state_dict(
            state, self.options, splits=self.splits, skip_batches=skip_batches
        )

    def trace(self, state: object = None) -> Trace:
        """Return which rows the batches of a pass have.

        Parameters
        ----------
        state : object
            The state at which the pass resumes. By default, the pass is the running one, or else
            the next one.

        Raises
        ------
        InvalidArgumentError
            If only reading shows which rows a batch has.
        StateMismatchError
            If the state was taken from a different dataset or way of reading, or is not a state.
        """
        current = self._current
        if state is None and current is not None and not current.usage.is_left:
            return Trace(current.here, current.usage.start)
        here = self.options.in_world()
        start = self.epochs.next_position
        if state is not None:
            start = read_state(state, here, splits=self.splits)
        return Trace(here, start)

    def set_epoch(self, epoch: int) -> None:
        """Begin the next pass with `epoch`, unless the pass to be resumed contains that epoch.

        Raises
        ------
        InvalidArgumentError
            If the epoch is not an integer of at least 0.
        """
        self.epochs.set_next(epoch, self.options.num_epochs)

    def restart(self) -> None:
        """Make the next iteration begin a new pass, although the position is at an end."""
        self._latest = None

    def is_at(self, position: Position) -> bool:
        """Whether the latest pass is at a position: see `Pass.is_at`."""
        return (current := self._current) is not None and current.is_at(position)

    def position_of_copy(self) -> Position | None:
        """Return where a copy resumes; None if that is where the next iteration begins.

        This is where a state resumes. Where states count all peeks, copies count none.
        """
        current = self._counted
        if current is None or (self.options.order.counts_peeks and current.usage.is_peek):
            return None
        position = current.position_before(current.num_unused)
        is_empty = position.is_end and not position.consumed
        return position.beginning_of(position.epoch + 1) if is_empty else position
