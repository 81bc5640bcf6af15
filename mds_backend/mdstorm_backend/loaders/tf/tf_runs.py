"""Track what iterations over a TensorFlow dataset have read, and which batches were requested.

TensorFlow calls the generators of `TFRuns` in its own threads. `TFRuns.iterations` begins an
iteration when its first batch is requested. `TFRuns.segments` reads its blocks ahead of use.
`TFRuns.request` is called after the last stage that reads ahead, so it observes the requests of the
consumer: Python, Keras, a ``tf.function``, or another dataset that was made from this one, such as
with `map`.

A `TFRun` has the queue of batches that were read (`ReadAhead`), from which it computes the position
after a number of batches. The dataset's Python iterator, if there is one, counts the batches.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import Consumer, Loader, ReaderOptions, Segment
from mdstorm_backend.loaders.passes import Pass
from mdstorm_backend.loaders.read_ahead import ReadAhead
from mdstorm_backend.read import Block

#: TensorFlow's cardinality of a dataset that never ends, ``tf.data.INFINITE_CARDINALITY``.
INFINITE = -1

#: TensorFlow's iterators that a forked child has inherited: see `TFRun.release`.
_of_parent: list[list[Any]] = []


class TFRun:
    """One iteration over a dataset.

    Parameters
    ----------
    recorder : Recorder
        Records the dataset's iterations.
    by_python : bool
        Whether Python code, rather than TensorFlow itself, takes the batches.

    Attributes
    ----------
    recorder : Recorder
        As given.
    by_python : bool
        As given. In a `tf.function`, TensorFlow takes over an iterator that Python has created.
    current : Pass or None
        The pass, at a requested batch; None before the first request.
    queue : ReadAhead
        The items that were read, including batches ahead of use.
    requested : int
        Number of the batch for which `request` was called last.
    is_idle : threading.Event
        Set unless the iteration is reading.
    block : tuple or None
        The flattened columns that were read last, until TensorFlow takes them.
    """

    def __init__(self, recorder: Recorder, *, by_python: bool = False) -> None:
        self.recorder, self.by_python = recorder, by_python
        self.current: Pass | None = None
        self.is_idle = threading.Event()
        self.is_idle.set()
        self._process = os.getpid()
        self.queue = ReadAhead()
        self.requested, self._following = 0, 1
        self.block: tuple[Any, ...] | None = None

    @property
    def taken(self) -> int:
        """Number of batches that Python code has taken; 0 if TensorFlow takes them."""
        return self.current.usage.batches if self.by_python and self.current is not None else 0

    def record_read(self, sizes: Sequence[int] = ()) -> None:
        """Record batches that the pipeline has read, or its end; a Python loop waits by itself."""
        if self.by_python:
            self.recorder.record_sizes(sizes)
        else:
            self.recorder.record_received(sizes)

    def record_request(self) -> None:
        """Record that the pipeline requests another batch."""
        if not self.by_python:
            self.recorder.record_request()

    def request(self) -> int:
        """Record a request for a batch; return how many batches to yield before the next call.

        It has to be called for each batch until the iteration is more than a peek, and where a
        block or an epoch begins.
        """
        assert self.current is not None
        self.requested = number = self._following
        ahead, usage = self.reach(), self.current.usage
        if not self.by_python:
            usage.batches = number
        batches = 1
        if number > usage.consumer.peek:
            batches = max(bisect_left(ahead, self.current.border), 1)
            # Whether all batches of a resumed epoch are taken is known from the last request.
            if usage.is_resumed:
                batches = (batches + 1) // 2
        self._following = number + batches
        return batches

    def reach(self) -> list[int]:
        """Advance the pass to the batch that was requested last.

        If that batch has not been read yet, advance to the last batch that has been read. Return
        the offsets of this batch and of those after it in its block.
        """
        assert self.current is not None
        latest = min(self.requested, self.queue.num_read)
        if (found := self.queue.following(latest - 1)) is None:
            return []
        segment, offsets = found
        self.current.record_offset(segment, offsets[0])
        return offsets

    def leave(self) -> None:
        """Record that the iteration has ended, after all batches that may have been taken."""
        if self.current is None:
            return
        last = max(self.requested, self.taken) if self.by_python else self._following - 1
        self.requested = last
        self.reach()
        self.current.leave()

    def hand_over(self) -> None:
        """Record that TensorFlow itself takes the batches from now on."""
        self.by_python = False
        if self.current is not None:
            self.current.logs_endless = False
            self.current.usage.count = self.counter()

    def end(self) -> None:
        """Record that the end of the iteration is used, if it has begun."""
        if (current := self.current) is None or current.usage.is_over:
            return
        self.queue.is_over = True
        self.reach()
        current.finish()
        if not self.by_python:
            # TensorFlow requests the end only of iterations that it uses up, however many batches
            # it may request before.
            current.usage.batches += current.usage.consumer.peek

    def counter(self) -> Callable[[], int | None]:
        """Return a function that counts used batches where TensorFlow takes them: see `count`."""
        found = weakref.ref(self)
        return lambda: None if (run := found()) is None else run.count()

    def count(self) -> int | None:
        """Return how many batches TensorFlow has used; None if it left the iteration early.

        It may request batches ahead of use. If it requested the last one, it counts as used.
        """
        current, requested = self.current, min(self._following - 1, self.queue.num_read)
        with suppress(StateMismatchError):
            segment, offset, _ = self.queue.reached(requested)
            position = segment.plan.position(offset)
            if current is not None and current.here.is_last_epoch(position) and position.is_end:
                return requested
        return None

    def take(self) -> None:
        """Record that Python code has taken a batch."""
        self.recorder.record_received()
        # No call follows, so that Ctrl-C in one does not leave a batch counted.
        if self.by_python and self.current is not None:
            self.current.usage.batches += 1

    def release(self, resources: list[Any]) -> None:
        """Release TensorFlow's iterator in a thread, and wait until reading has stopped.

        TensorFlow may take seconds to end its threads, which would block training. In a forked
        child, it would wait forever for threads that only its parent has, so the child keeps the
        iterator until it ends.

        TensorFlow ends its generators up to a second later, so the iteration is left here.
        """
        if self.by_python and self.current is not None:
            self.current.usage.is_left = True
        if os.getpid() != self._process:
            _of_parent.append(resources)
            return
        thread = threading.Thread(target=resources.clear)
        if not sys.is_finalizing():
            with suppress(RuntimeError):  # no thread can start while the program is exiting
                thread.start()
        while thread.is_alive() and not self.is_idle.wait(0.1):
            pass
        if self.current is not None:
            self.record_request()  # the batches that were read ahead have been used

    def state_dict(self, batches: int | None) -> dict[str, Any] | None:
        """Return the state after a number of batches, or None before the first batch is read.

        Raises
        ------
        StateMismatchError
            If the number of batches is not known, or the position is no longer kept.
        """
        if batches is None and self.by_python:
            batches = self.taken
        elif batches is None and self.queue.is_over:
            batches = self.queue.num_read
        if not self.queue and not batches:
            return None
        return self.queue.state_dict(batches)


class TFRuns:
    """The iterations over a dataset, and where the next one begins.

    Parameters
    ----------
    options : ReaderOptions
        The data to read, and how.
    peek : callable
        Returns how many batches are a peek, given whether Python code has created the iterator.
    """

    def __init__(self, options: ReaderOptions, peek: Callable[[bool], int]) -> None:
        self.loader = Loader(options)
        self._peek = peek
        self._run: TFRun | None = None
        #: Running iterations, by the numbers that identify them in TensorFlow.
        self._open: dict[int, TFRun] = {}
        self._numbers = count()
        #: Returns the run of the iterator from which Python is taking its first batch, or None.
        self._expected: Callable[[], TFRun | None] = lambda: None
        #: The cardinality declared to TensorFlow: the maximum number of batches in any iteration.
        self._claimed: int | None = None
        self._lock = threading.Lock()

    def claim(self, *, may_be_split: bool = False) -> int | None:
        """Return the maximum number of batches: `INFINITE` if endless, None if unknown.

        No iteration will have more batches.

        Parameters
        ----------
        may_be_split : bool
            Whether a strategy may read each batch in several parts.
        """
        options = self.loader.options
        if options.num_epochs is None:
            return INFINITE
        if not may_be_split:
            here = options.in_world()
            plan = here.first_plan
            # Samples that are repeated in the elastic order may fill more batches than `length`.
            most, rows = plan.length(), here.order.rows_of_rank(plan.num_samples)
            self._claimed = None if rows is None else most
        # For an empty dataset, return None: TensorFlow does not read a dataset that declares 0
        # batches, so there would be no warning about it.
        return self._claimed or None

    def _check_claim(self) -> None:
        """Raise StateMismatchError if a pass has more batches than were declared to TensorFlow."""
        if self._claimed is not None and (found := self.loader.length()) > self._claimed:
            raise StateMismatchError(
                f"this process has {found} batches to read, but had {self._claimed} when this "
                "dataset was created, because fewer processes share the rows now. Create the "
                "dataset after the processes that read it have started"
            )

    def expect(self, run: TFRun) -> None:
        """Use `run` for the next iteration, whose first batch is about to be requested."""
        self._expected = weakref.ref(run)

    def take_end(self, run: TFRun) -> None:
        """Record that Python code has received the end."""
        with self._lock:
            run.end()

    def hand_over(self, run: TFRun) -> None:
        """Record that TensorFlow itself takes batches from Python's iterator from now on."""
        with self._lock:
            if run.by_python and run.current is None:
                self.expect(run)
            run.hand_over()

    def iterations(self) -> Iterator[int]:
        """Begin an iteration and yield its number; TensorFlow resumes the generator at the end."""
        with self._lock:
            number, run = next(self._numbers), self._begin()
            self._open[number] = run
        try:
            yield number
            with self._lock:
                run.end()
        finally:
            run.leave()
            del self._open[number]

    def _begin(self) -> TFRun:
        """Begin an iteration and return it. The caller holds the lock."""
        expected, self._expected = self._expected(), lambda: None
        run = expected or TFRun(self.loader.recorder)
        for under_way in self._open.values():
            under_way.reach()
        run.current = self.loader.begin(Consumer(peek=self._peek(expected is not None)))
        self._run = run  # now, because the loader has counted the batches of the run before
        # Keras and others may count steps, and TensorFlow requests batches ahead of their use.
        run.current.logs_endless = run.by_python
        if not run.by_python:
            run.current.usage.count = run.counter()
        self._check_claim()
        return run

    def segments(
        self, number: Any, block_rows: int | None
    ) -> Iterator[tuple[TFRun, Iterator[Block]]]:
        """Read an iteration, yielding it and the blocks of each of its segments."""
        run = self._open[int(number)]
        assert run.current is not None
        recorder = self.loader.recorder
        run.is_idle.clear()
        try:
            for segment in run.current.planned(recorder):
                yield run, self._blocks(run, segment, block_rows)
            is_alone = run.current.here.order.world_size == 1
            if run.current.usage.start.consumed and not run.queue.num_read and is_alone:
                # The state was taken at the end of a pass, which is known only after reading. No
                # other rank has batches left in that pass, so the next pass begins.
                run.current.skip_to_next()
                for segment in run.current.planned(recorder):
                    yield run, self._blocks(run, segment, block_rows)
            run.record_read()
        finally:
            run.is_idle.set()

    def _blocks(self, run: TFRun, segment: Segment, block_rows: int | None) -> Iterator[Block]:
        """Read a segment's blocks, and record each in the run's queue before yielding it."""
        reading: Any = segment.blocks(block_rows=block_rows)
        with self.loader.threads.closing(reading) as blocks:
            for block in blocks:
                run.queue.record(segment, block.offsets)
                run.queue.drop_used(run.taken)
                yield block

    def block(self, number: Any) -> tuple[Any, ...] | None:
        """Return the columns that an iteration read last, which are returned once."""
        run = self._open[int(number)]
        block, run.block = run.block, None
        return block

    def request(self, number: Any) -> int:
        """Record a request for a batch; return how many batches to yield before the next call."""
        run = self._open[int(number)]
        assert run.current is not None
        with self._lock:
            return run.request()

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return the state of the latest iteration."""
        run, state = self._run, None
        if run is not None:
            is_counted = not (run.by_python and self.loader.is_left_peek)
            state = run.state_dict(batches) if is_counted or batches is not None else None
        return self.loader.next_state() if state is None else state

    def load_state_dict(self, state: object, skip_batches: int = 0) -> None:
        """Resume the next iteration `skip_batches` batches after a state."""
        with self._lock:
            self.loader.load_state_dict(state, skip_batches)
            self._run = None
