"""`PassRunner`: the loop that runs the passes of PyTorch loaders and of readers.

An adapter gives `PassRunner.run` a `Deliver` function, which makes the batches of a `Rest`. The
runner begins a `Pass`, calls the function for each of its rests, leaves out short last batches,
advances the pass with each batch, and ends the threads that read ahead. It also keeps the place of
the loader, and makes and loads its states.

TensorFlow runs its own loop, and uses a `PassRunner` only for places and states: see `TFRuns`. A
reader holds an `ItemCursor`, which takes one item at a time and survives Ctrl-C and forks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.base.threads import PassThreads
from mdstorm_backend.loaders.agreement import Numbering
from mdstorm_backend.loaders.loader_statistics import PassRecorders
from mdstorm_backend.loaders.passes import Pass, Schedule
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.rest import Batching, Rest
from mdstorm_backend.loaders.state import ITEMS, number, state_mapping
from mdstorm_backend.read.block import Block

#: Stands for a batch that only advances the pass, and is not delivered.
NOTHING: Any = object()
#: Batches, each with the block's mark for it and its number of rows.
Delivered: TypeAlias = Generator[tuple[Any, Any, int], None, None]
#: Makes batches from blocks.
Convert: TypeAlias = Callable[[Iterator[Block]], Delivered]
#: Returns the generators that make the batches of a rest, each reading from the one before it.
Deliver: TypeAlias = Callable[[Rest], Sequence[Any]]

#: Batches after which an iteration has counted: two, and one that is taken ahead of use.
_MOST_UNCOUNTED = 3


def converted(blocks: Iterator[Block], convert: Convert) -> Sequence[Any]:
    """Return blocks, and the batches that `convert` makes from them, as a `Deliver` does."""
    return blocks, convert(blocks)


@dataclass(eq=False)
class PassRunner:
    """Runs the passes of one loader, and keeps their place.

    Several iterations may be under way. Each is a pass of its own; the place of the runner is that
    of the pass that was advanced or begun last. `to_continue` makes a copy that resumes from it.

    Parameters
    ----------
    schedule : Schedule
        The schedule of the dataset; a state that is loaded may change how it is read.
    batching : Batching
        How batches are made.
    threads : PassThreads, optional
        Waits for the threads of the passes; by default the runner has its own.
    check : callable, optional
        Called before a batch counts as delivered; an exception from it ends the iteration.
    by_item : bool
        Whether batches are iterables of items, which are delivered one by one. A batch counts as
        delivered with its last item; until then, a state holds the number of delivered items.
    may_peek : bool
        Whether the first iteration may be left after one batch without counting.
    recorders : PassRecorders, optional
        Makes the recorders of the passes; by default the runner has its own.
    """

    schedule: Schedule
    batching: Batching
    threads: PassThreads = field(default_factory=PassThreads)
    _: KW_ONLY
    check: Callable[[], None] | None = None
    by_item: bool = False
    may_peek: bool = True
    recorders: PassRecorders = field(default_factory=PassRecorders)

    def __post_init__(self) -> None:
        #: The pass that was advanced or begun last; None before the first iteration.
        self._pass: Pass | None = None
        #: Whether to keep the place before the last batch, for `state_dict`.
        self.remembers = False
        #: The place before the last batch.
        self._before: Pass | None = None
        #: Number of items of the next batch that were delivered.
        self._items = 0
        #: If batches are taken ahead of use, whether the last one has not been used yet.
        self.is_ahead: Callable[[], bool] | None = None
        #: Whether no iteration has begun since the runner was made or loaded a state.
        self._is_first = True
        #: The iteration under way that began last.
        self._open: Pass | None = None
        #: Numbers the passes, to compare them with those of other ranks.
        self.numbering = Numbering()

    @property
    def place(self) -> Pass:
        """The pass at the place of the runner."""
        return self._pass or Pass(self.schedule, self.batching)

    @property
    def rows(self) -> int:
        """Samples delivered since the pass began, or the epoch if no batch spans two."""
        return 0 if self._pass is None else self._pass.rows

    def begin(self) -> Pass:
        """Return the pass of the next iteration: the remainder of a pass, or a new one.

        An iteration that is still under way counts now.
        """
        if self._open is not None:
            self._open.count()
        following = self.place.following(
            self.numbering, may_peek=self.may_peek, is_first=self._is_first
        )
        self._pass = self._open = following
        self._before, self._is_first = None, False
        return following

    def leave(self, current: Pass) -> None:
        """Record that an iteration has ended, perhaps before it counted."""
        assert current.iteration is not None
        current.iteration.leave()
        if current.iteration.has_counted and current.beginning is not None:
            current.beginning.leave()
        if self._open is current:
            self._open = None

    def run(self, deliver: Deliver) -> Generator[Any, None, None]:
        """Run a pass and yield its batches; it begins when the first one is requested.

        The threads of the pass end with the generator.
        """
        recorder, is_waiting = self.new_recorder(), False
        current = self.begin()
        deliver_all = self._items_of if self.by_item else self._batches_of
        try:
            for rest in current.rests(recorder):
                with ExitStack() as stack:
                    # Close all stages: after an error their threads would read ahead until the
                    # garbage collector runs.
                    for stage in deliver(rest):
                        delivered = stack.enter_context(self.threads.closing(stage))
                    yield from deliver_all(current, delivered, recorder)
            current.finish()
            self._pass = current
            is_waiting = True
        except GeneratorExit:
            if self.is_ahead is not None and not self.is_ahead():
                current.take(recorder.batches)
            raise
        finally:
            self.leave(current)
            recorder.end(is_waiting=is_waiting)

    def new_recorder(self, recorder: Recorder | None = None) -> Recorder:
        """Return the recorder of a pass that begins: `recorder`, or a new one."""
        return self.recorders.begin(
            self.schedule.options.order.name, self.batching.num_workers, recorder=recorder
        )

    def _batches_of(
        self, current: Pass, delivered: Delivered, recorder: Recorder
    ) -> Generator[Any, None, None]:
        least = current.least_rows
        for batch, mark, size in delivered:
            if size < least:
                continue
            if self.check is not None:
                self.check()
            if self.remembers:
                self._before = copy(current)
            current.advance(mark, size)
            self._pass = current  # another iteration may have been advanced meanwhile
            if batch is NOTHING:
                continue
            if recorder.batches < _MOST_UNCOUNTED:
                recorder.deliver(size)
                current.take(recorder.batches - (self.is_ahead is not None))
                yield batch
                recorder.ask()
                continue
            # What `deliver` and `ask` do, without a call: there may be 50,000 batches a second.
            recorder.batches += 1
            recorder.rows += size
            recorder.since = delivered_at = recorder.clock()
            yield batch
            recorder.since = asked_at = recorder.clock()
            recorder.trained += asked_at - delivered_at

    def _items_of(
        self, current: Pass, delivered: Delivered, recorder: Recorder
    ) -> Generator[Any, None, None]:
        for items, mark, size in delivered:
            recorder.deliver(size)
            current.take(recorder.batches)
            for item in islice(items, self._items, None):
                self._items += 1
                yield item
            current.advance(mark, size)
            self._items = 0
            recorder.ask()

    def restart(self) -> None:
        """Begin the next iteration with a whole batch."""
        self._items = 0

    def state_dict(self, *, before_last: bool = False) -> dict[str, Any]:
        """Return the state of a checkpoint, for `load_state_dict`.

        Parameters
        ----------
        before_last : bool
            Return the state before the last batch, which is then delivered again. This has an
            effect only if the runner `remembers` that place.
        """
        place = self._before if before_last else None
        state = (place or self.place).state_dict()
        if self._items:
            state["mdstorm"] = {**state["mdstorm"], ITEMS: self._items}
        return state

    def load_state_dict(self, state: object) -> None:
        """Resume the next iteration from a state.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or another way of reading, or is not a state.
        """
        self.schedule.load_state_dict(state, self.batching)
        ours = state_mapping(state).get("mdstorm") if self.by_item else None
        self._items = number(ours, ITEMS) if isinstance(ours, Mapping) and ITEMS in ours else 0
        self._pass = self._before = self._open = None
        self._is_first = True

    def go_to(self, place: Pass) -> None:
        """Resume the next iteration at an earlier place of this runner."""
        self._pass = place.to_continue()

    def to_continue(self, threads: PassThreads) -> PassRunner:
        """Return a runner for a copy of the loader, which resumes from this place."""
        other = replace(self, threads=threads, recorders=PassRecorders())
        other._pass, other._items = self._pass and self._pass.to_continue(), self._items
        return other


class ItemCursor:
    """An iterator over the items of passes that survives interruptions.

    Only one thread may use it at a time: its owner holds a lock.

    After Ctrl-C or in a fork, where a generator would have ended, the cursor continues with the
    next item. An error is raised again by every call, until `restart`.

    Parameters
    ----------
    runner : PassRunner
        Runs the passes of this cursor, and no others.
    deliver : callable
        Makes the batches of a `Rest`.
    """

    def __init__(self, runner: PassRunner, deliver: Deliver) -> None:
        self._runner = runner
        self._deliver = deliver
        #: The items of the current pass, and the process that reads them; None between passes.
        self._items: Generator[Any, None, None] | None = None
        self._process = 0
        self._is_over = False
        self._failure: Exception | None = None

    @property
    def options(self) -> ReaderOptions:
        """The reader options, with the seed of a state that was loaded."""
        return self._runner.schedule.options

    def take(self) -> Any:
        """Return the next item.

        Raises
        ------
        StopIteration
            If all items of the pass were delivered, until `restart`. An error of an earlier call
            is raised again in the same way.
        """
        if self._failure is not None:
            raise self._failure
        if self._items is not None and self._process != os.getpid():
            self._go_on()  # in a fork, which has no threads that read ahead
        if self._is_over:
            raise StopIteration
        if self._items is None:
            self._items = self._runner.run(self._deliver)
            self._process = os.getpid()
        try:
            return next(self._items)
        except StopIteration:
            self._items, self._is_over = None, True
            raise
        except Exception as error:
            self._failure = error  # otherwise the next call would find the data at its end
            raise
        except BaseException:  # such as Ctrl-C, after which a user may continue
            self._go_on()
            raise

    def restart(self) -> None:
        """Begin the next pass with the next item."""
        self._runner.restart()
        self._failure, self._is_over = None, False
        self.end()

    def end(self) -> None:
        """End the threads that read ahead."""
        items, self._items = self._items, None
        if items is not None:
            items.close()
        self._runner.threads.wait()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass.

        Raises
        ------
        InvalidArgumentError
            If the epoch is not an integer of at least 0.
        """
        self._runner.schedule.next_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` continues with the next item."""
        return self._runner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or another way of reading, or is not a state.
        """
        self._runner.load_state_dict(state)
        self._failure, self._is_over = None, False
        self.end()

    def _go_on(self) -> None:
        """Continue from this place after reading was interrupted."""
        state = self.state_dict()
        self.load_state_dict(state)
        # The state of a finished pass resumes with the next pass, but this one has to end first.
        self._is_over = state["mdstorm"].get("finished", False)
