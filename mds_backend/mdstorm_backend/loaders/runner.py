"""Run passes for PyTorch, TensorFlow and readers: the one loop.

A sampler says which samples a pass has, an adapter what is made of them (`Deliver`). Here is what
they have in common: short last batches, the threads that read ahead and their end, where the pass
stands, and the state that says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.base.threads import PassThreads
from mdstorm_backend.loaders.loader_statistics import PassRecorders
from mdstorm_backend.loaders.passes import Pass, Schedule
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.rest import Batching, Rest
from mdstorm_backend.loaders.state import number, state_mapping
from mdstorm_backend.read.block import Block

#: In place of a batch: the pass is advanced, and nothing delivered.
NOTHING: Any = object()
#: Batches, each with the block's mark for it and its number of rows.
Delivered: TypeAlias = Generator[tuple[Any, Any, int], None, None]
#: Makes batches of blocks.
Convert: TypeAlias = Callable[[Iterator[Block]], Delivered]
#: Returns what makes the batches of a rest, one generator on top of the other.
Deliver: TypeAlias = Callable[[Rest], Sequence[Any]]

#: Where a state says how many items of the batch that comes next were delivered.
_ITEMS = "items"


def converted(blocks: Iterator[Block], convert: Convert) -> Sequence[Any]:
    """Return blocks, and what `convert` makes of them, for a `PassRunner`."""
    return blocks, convert(blocks)


@dataclass(eq=False)
class PassRunner:
    """Runs the passes of one loader, and knows where they stand.

    Several iterations may be under way. Each is a pass of its own; the place is that of the one
    that was advanced last, or begun last. A copy, or a pickled runner, goes on from that place.

    Parameters
    ----------
    schedule : Schedule
        How the dataset is read; a state that is loaded may change it.
    batching : Batching
        How batches are made.
    threads : PassThreads, optional
        Waits for the threads of the passes; by default one of the runner's own.
    check : callable, optional
        Called before a batch counts as delivered; what it raises ends the iteration.
    by_item : bool
        Whether batches are iterables of items, which are delivered one by one. A batch counts as
        delivered when its last item was, and a state says how many were.
    recorders : PassRecorders, optional
        Record the passes; by default the runner has its own.
    """

    schedule: Schedule
    batching: Batching
    threads: PassThreads = field(default_factory=PassThreads)
    _: KW_ONLY
    check: Callable[[], None] | None = None
    by_item: bool = False
    recorders: PassRecorders = field(default_factory=PassRecorders)

    def __post_init__(self) -> None:
        #: None before the first iteration.
        self._pass: Pass | None = None
        #: Whether `state_dict` may be asked for the place before the last batch.
        self.remembers = False
        #: The place before the last batch.
        self._before: Pass | None = None
        #: Items of the next batch that were delivered.
        self._items = 0
        #: Whether the last batch was taken ahead of its use, and is still to be used.
        self.is_ahead: Callable[[], bool] = bool
        #: Whether an iteration may still turn out to be a mere look: only the first one may.
        self._may_look = not self.by_item
        #: The one that has.
        self._looked: Pass | None = None

    @property
    def place(self) -> Pass:
        """Where the passes stand."""
        return self._pass or Pass(self.schedule, self.batching)

    @property
    def rows(self) -> int:
        """Samples delivered since the pass, or an epoch that no batch spans, began."""
        return 0 if self._pass is None else self._pass.rows

    def begin(self) -> Pass:
        """Begin what the next iteration goes through: the rest of a pass, or the next one."""
        current = self._pass = self.place.following()
        self._before = None
        return current

    def run(self, deliver: Deliver) -> Generator[Any, None, None]:
        """Go through a pass; nothing happens before the first batch is asked for.

        Its threads end with the generator.
        """
        recorder, is_waiting = self.new_recorder(), False
        current = self.begin()
        deliver_all = self._items_of if self.by_item else self._batches_of
        try:
            for rest in current.rests():
                with ExitStack() as stack:
                    # All are closed: after an error threads would read ahead until the garbage is
                    # collected.
                    for stage in deliver(rest.recorded(recorder)):
                        delivered = stack.enter_context(self.threads.closing(stage))
                    yield from deliver_all(current, delivered, recorder)
            current.finish()
            self._pass = current
            is_waiting = True
        except GeneratorExit:
            self.leave(current, recorder.batches - self.is_ahead())
            raise
        finally:
            self._may_look = False
            recorder.end(is_waiting=is_waiting)

    def leave(self, current: Pass, batches: int) -> None:
        """Give back the epoch of an iteration that was left after so many batches: a mere look."""
        is_look = self._may_look and self._pass is current and batches <= 1
        if is_look and self.schedule.give_back(current):
            self._pass, self._looked = None, current
        elif current.beginning is not None:
            current.beginning.offer()
        self._may_look = False

    def new_recorder(self, recorder: Recorder | None = None) -> Recorder:
        """Return what records a pass that begins, which may be a given one."""
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
                self._before = current.copied()
            current.advance(mark, size)
            self._pass = current  # another iteration may have been advanced meanwhile
            if batch is NOTHING:
                continue
            if not recorder.batches:
                recorder.deliver(size)
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
            for item in islice(items, self._items, None):
                self._items += 1
                yield item
            current.advance(mark, size)
            self._items = 0
            recorder.ask()

    def restart(self) -> None:
        """Let the next iteration begin with a whole batch."""
        self._items = 0

    def state_dict(self, *, before_last: bool = False) -> dict[str, Any]:
        """Return the state of a checkpoint: where the passes stand.

        Parameters
        ----------
        before_last : bool
            Whether the last batch is to be delivered again. It is only if the runner `remembers`.
        """
        self.note_asked()
        place = self._before if before_last else None
        state = (place or self.place).state_dict()
        if self._items:
            state["mdstorm"] = {**state["mdstorm"], _ITEMS: self._items}
        return state

    def note_asked(self) -> None:
        """Note that somebody asks for the state: what was begun last is no mere look."""
        if self._looked is not None and self._looked is self.schedule.looked:
            self.schedule.take_again()
            self._pass = self._looked
        if self._pass is not None:
            self._pass.was_asked = True

    def load_state_dict(self, state: object) -> None:
        """Let the next iteration go on where a state was taken.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or another way of reading, or is not a state.
        """
        self.schedule.load_state_dict(state, self.batching)
        ours = state_mapping(state).get("mdstorm") if self.by_item else None
        self._items = number(ours, _ITEMS) if isinstance(ours, Mapping) and _ITEMS in ours else 0
        self._pass = self._before = None
        self._may_look = False

    def go_to(self, place: Pass) -> None:
        """Let the next iteration go on at a place where an iteration of this runner stood."""
        self._pass = place.to_continue()

    def to_continue(self, threads: PassThreads) -> PassRunner:
        """Return a runner for a copy of the loader, which goes on from here."""
        other = replace(self, threads=threads, recorders=PassRecorders())
        other._pass, other._items = self._pass and self._pass.to_continue(), self._items
        other._may_look = self._may_look
        return other


class ItemCursor:
    """A place in passes that outlives interruptions.

    It is for one thread at a time: its owner has the lock.

    Where a generator would be at its end, after Ctrl-C or in a fork, the cursor goes on with the
    next item. An error is raised again by every call, until `restart`.

    Parameters
    ----------
    runner : PassRunner
        Runs the passes, of this cursor alone.
    deliver : callable
        Makes the batches of a stretch.
    """

    def __init__(self, runner: PassRunner, deliver: Deliver) -> None:
        self._runner = runner
        self._deliver = deliver
        #: What is being delivered, and in which process; None between passes.
        self._items: Generator[Any, None, None] | None = None
        self._process = 0
        self._is_over = False
        self._failure: Exception | None = None

    @property
    def options(self) -> ReaderOptions:
        """What is read, and how: a state that was loaded may have another seed."""
        return self._runner.schedule.options

    def take(self) -> Any:
        """Return the next item.

        Raises
        ------
        StopIteration
            If all were delivered, until `restart`. An error is raised again in the same way.
        """
        if self._failure is not None:
            raise self._failure
        if self._items is not None and self._process != os.getpid():
            self._go_on()  # in a fork, where the threads are missing that read ahead
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
            self._failure = error  # or the next call would take it for the end of the data
            raise
        except BaseException:  # such as Ctrl-C, after which a person may go on
            self._go_on()
            raise

    def restart(self) -> None:
        """Let the next pass begin."""
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
        """Say with which epoch the next pass begins.

        Raises
        ------
        InvalidArgumentError
            If it is not an integer of at least 0.
        """
        self._runner.schedule.next_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs to go on with the next item."""
        return self._runner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or another way of reading, or is not a state.
        """
        self._runner.load_state_dict(state)
        self._failure, self._is_over = None, False
        self.end()

    def _go_on(self) -> None:
        """Read on from here, where reading was cut off."""
        state = self.state_dict()
        self.load_state_dict(state)
        # Of a pass whose last item was delivered the state says what comes after its end.
        self._is_over = state["mdstorm"].get("finished", False)
