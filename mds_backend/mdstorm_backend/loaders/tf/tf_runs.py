"""Track what iterations over a TensorFlow dataset have delivered, although TensorFlow reads ahead.

TensorFlow calls `TFRuns.rests` to read batches, in its own threads and ahead of use. The Python
iterator of the dataset, if there is one, reports each batch that is taken to a `TFRun`. A run keeps
the places of the blocks that were read, from which it computes the place after a number of batches.
"""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from typing import Any

from mdstorm_backend.base.recorder import WAITED, Recorder
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import Batching, PassRunner, Rest, Schedule
from mdstorm_backend.loaders.loader_statistics import LOOP, PIPELINE
from mdstorm_backend.loaders.passes import Pass
from mdstorm_backend.loaders.reader_options import tell_of_endless
from mdstorm_backend.read import Block

#: TensorFlow's cardinality of a dataset that never ends, ``tf.data.INFINITE_CARDINALITY``.
INFINITE = -1
#: Number of latest blocks whose places are kept, for iterations whose batches are not counted.
_BLOCKS_KEPT = 1024


class TFRun:
    """One iteration over a dataset.

    Parameters
    ----------
    url : str
        URL of the dataset, for messages.
    batches_per_epoch : float
        Batches after which it is logged that the iteration never ends; infinite if it ends.

    Attributes
    ----------
    delivered : int
        Batches that the consumer has taken, if they are counted.
    num_read : int
        Batches that were read, including those ahead of use.
    loop : Recorder
        Records the requests of Python code.
    pipeline : Recorder or None
        Records the requests of TensorFlow; None before the first one.
    is_over : bool
        Whether the consumer has reached the end.
    is_idle : threading.Event
        Set unless the iteration is reading.
    """

    def __init__(self, url: str = "", batches_per_epoch: float = math.inf) -> None:
        self.delivered = 0
        self.loop = Recorder()
        self.pipeline: Recorder | None = None
        self.is_idle = threading.Event()
        self.is_idle.set()
        self._url, self._batches_per_epoch = url, batches_per_epoch
        self.is_over = False
        self.num_read = 0
        #: Whether Python code takes the batches, and reports them.
        self.is_announced = True
        #: The pass of this iteration; None before it begins.
        self.current: Pass | None = None
        #: For each block: number of batches before it, the pass there, its marks and its sizes.
        self._blocks: deque[tuple[int, Pass, list[Any], list[int]]] = deque(maxlen=_BLOCKS_KEPT)

    def note(self, place: Pass, block: Block) -> None:
        """Record that a block was read; `place` is the pass before it."""
        self._blocks.append((self.num_read, place, block.marks, block.sizes))
        self.num_read += len(block.sizes)
        while len(self._blocks) > 1 and self._blocks[1][0] <= self.delivered:
            self._blocks.popleft()

    def take(self) -> None:
        """Record that Python code has taken a batch."""
        self.delivered += 1
        self.loop.deliver(0)
        if self.current is not None:
            self.current.take(self.delivered)
        if self.delivered > self._batches_per_epoch:
            tell_of_endless(self._url)

    def let_go(self, resources: list[Any]) -> None:
        """Release TensorFlow's iterator in a thread, and wait until nothing is read any more.

        TensorFlow may take seconds to end its threads, which would block training.
        """
        thread, start = threading.Thread(target=resources.clear), self.loop.clock()
        if not sys.is_finalizing():
            with suppress(RuntimeError):  # no thread can start as the program ends
                thread.start()
        while thread.is_alive() and not self.is_idle.wait(0.1):
            pass
        if self.pipeline is not None:
            self.pipeline.ask()  # the batches that were read ahead are used
        if self.loop.is_over:
            self.loop.since += self.loop.clock() - start

    def place(self, batches: int | None) -> Pass | None:
        """Return the pass after some batches; None before the first batch is read.

        Raises
        ------
        StateMismatchError
            If the number of batches is not known, or the place is no longer kept.
        """
        if batches is None:
            if self.num_read and not self.delivered and not self.is_over:
                raise StateMismatchError(
                    "the batches of this dataset were not counted, because TensorFlow took them "
                    "itself, as in Keras or in a tf.function, and it reads ahead. Pass the "
                    "number that was used since the iteration began, state_dict(batches=…)"
                )
            batches = self.delivered
        if not self._blocks and not batches:
            return None
        for first, place, marks, sizes in reversed(self._blocks):
            if first <= batches <= first + len(marks):
                current: Pass = copy(place)
                for mark, size in zip(marks[: batches - first], sizes, strict=False):
                    current.advance(mark, size)
                if self.is_over and batches == self.num_read:
                    current.finish()
                return current
        raise StateMismatchError(
            f"no state after {batches} batches is known: {self.num_read} were read, and of long "
            "iterations only the last ones are remembered"
        )


class TFRuns:
    """The iterations over one dataset, and its place.

    Parameters
    ----------
    schedule : Schedule
        The schedule of the dataset.
    batching : Batching
        How batches are made.
    """

    def __init__(self, schedule: Schedule, batching: Batching) -> None:
        self.passes = PassRunner(schedule, batching)
        self._run: TFRun | None = None
        self._announced: deque[weakref.ref[TFRun]] = deque()
        #: The cardinality declared to TensorFlow: the most batches of any iteration.
        self._claimed: int | None = None
        #: A state that was loaded, until an iteration that resumed from it was used.
        self._resumes: object = None
        self._lock = threading.Lock()

    def claim(self, parts: int = 1) -> int | None:
        """Return the batches of a whole iteration: `INFINITE` if endless, None if not known.

        No iteration will have more. The number is multiplied by `parts`.
        """
        schedule = self.passes.schedule
        if schedule.options.num_epochs is None:
            return INFINITE
        sampler = schedule.sampler(self.passes.batching)
        if not sampler.spans_epochs:
            return None  # a state may contain other canonical nodes, and so have more batches
        try:
            self._claimed = sampler.length()
        except TypeError:
            return None
        # None for an empty dataset: TensorFlow would not begin to read it, and we would not warn.
        return self._claimed * parts or None

    def _check_claim(self, current: Pass) -> None:
        """Raise StateMismatchError for a pass whose end TensorFlow would leave out."""
        if self._claimed is not None and (found := current.num_batches()) > self._claimed:
            raise StateMismatchError(
                f"this dataset was created for a share of {self._claimed} batches, and this "
                f"process now has a share of {found}: the world was larger then. Create the "
                "dataset in the world that reads it"
            )

    def announce(self) -> TFRun:
        """Return the run of an iteration whose batches are counted, before it begins."""
        schedule, batches_per_epoch = self.passes.schedule, math.inf
        if schedule.options.num_epochs is None:
            batches_per_epoch = schedule.sampler().rows_per_epoch / self.passes.batching.batch_size
        run = TFRun(schedule.options.dataset.url, batches_per_epoch)
        with self._lock:
            self._announced.append(weakref.ref(run))
        return run

    def leave(self, run: TFRun) -> None:
        """Record that Python code has released an iterator, perhaps after a peek at one batch."""
        if run.current is None:
            return
        if run.is_over:
            run.current.count()
        self.passes.leave(run.current)

    def rests(self, block_rows: int | None) -> Iterator[tuple[Recorder, Iterator[Block]]]:
        """Begin an iteration, and yield the recorder and the blocks of each of its rests."""
        with self._lock:
            run = self._next_run()
            current = run.current = self.passes.begin()
            if not run.is_announced:  # TensorFlow takes the batches, which are not counted
                current.count()
        self._check_claim(current)
        run.pipeline = recorder = self.passes.new_recorder(PipelineRecorder(run.loop))
        run.is_idle.clear()
        is_waiting = False
        try:
            for rest in current.rests(recorder):
                yield recorder, self._blocks(run, current, rest, block_rows)
            is_waiting = True
        finally:
            recorder.end(is_waiting=is_waiting)
            run.is_idle.set()
        if run.num_read == self._claimed:  # a whole pass, whose end may never be requested
            self._resumes = None

    def end(self) -> Iterator[Any]:
        """Record that the consumer of an iteration has reached its end; yield nothing."""
        self._resumes = None
        yield from ()

    def _next_run(self) -> TFRun:
        # On most backends, Keras begins an iteration and takes one batch to build the model. If
        # that iteration resumed from a state, the next one does.
        if self._run is not None and self._run.delivered > 1:  # by a loop of the user
            self._resumes = None
        elif self._run is not None and self._resumes is not None:
            self.passes.load_state_dict(self._resumes)
        self._run = None
        while self._announced and self._run is None:
            self._run = self._announced.popleft()()
        if self._run is None:
            self._run = TFRun()
            self._run.is_announced = False
        return self._run

    def _blocks(
        self, run: TFRun, current: Pass, rest: Rest, block_rows: int | None
    ) -> Iterator[Block]:
        """Read the blocks of a rest, ahead of the batches that are taken from them."""
        reading: Any = rest.blocks(block_rows=block_rows)
        with self.passes.threads.closing(reading) as blocks:
            for block in blocks:
                run.note(copy(current), block)
                for mark, size in zip(block.marks, block.sizes, strict=True):
                    current.advance(mark, size)
                yield block

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return the state of the latest iteration."""
        place = None if self._run is None else self._run.place(batches)
        return self.passes.state_dict() if place is None else place.state_dict()

    def load_state_dict(self, state: object) -> None:
        """Resume the next iteration that is used from a state."""
        self.passes.load_state_dict(state)
        self._run, self._resumes = None, state


#: Fields of `Statistics` that only the consumer of the batches knows.
_OF_LOOP = ("batches", "startup_seconds", "waited_seconds", "training_seconds")


class PipelineRecorder(Recorder):
    """Records TensorFlow's input pipeline, which requests batches ahead of use.

    Where Python code takes the batches, its waiting counts instead. The waiting is divided among
    causes as that of the pipeline.

    Parameters
    ----------
    loop : Recorder
        Records the Python code. It stays empty in Keras and ``tf.function``, where TensorFlow takes
        the batches.
    """

    def __init__(self, loop: Recorder) -> None:
        super().__init__(loop.clock)
        self._loop = loop

    @property
    def consumer(self) -> str:
        """Name of what takes the batches."""
        return LOOP if self._loop.batches else PIPELINE

    def totals(self) -> dict[str, float]:
        """Return all numbers so far, by the field names of `Statistics`."""
        totals = super().totals()
        if not self._loop.batches:
            return totals
        of_loop = self._loop.totals()
        # The pipeline waits for nothing after its first block if that is the whole pass.
        waited = of_loop["waited_seconds"] / (totals["waited_seconds"] or math.inf)
        totals |= {name: waited * totals[name] for name in WAITED}
        totals |= {name: of_loop[name] for name in _OF_LOOP}
        of_causes = sum(totals[name] for name in WAITED[:-1])
        totals["waited_for_batching"] = max(totals["waited_seconds"] - of_causes, 0.0)
        return totals
