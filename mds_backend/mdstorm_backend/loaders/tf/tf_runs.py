"""Track what iterations over a TensorFlow dataset have read, and which batches were requested.

TensorFlow calls the generators of `TFRuns`, in its own threads. `TFRuns.iterations` begins an
iteration when its first batch is requested. `TFRuns.rests` reads its blocks, ahead of use.
`TFRuns.requests` is called behind the last stage that reads ahead, so it observes the requests of
the consumer: Python, Keras, ``take`` or a ``tf.function``. An iteration moves where the next one
begins with its second request, or when its end is requested.

A `TFRun` keeps the places of the blocks that were read, from which it computes the place after a
number of batches. The Python iterator of the dataset, if there is one, counts them.
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
from dataclasses import replace
from itertools import count, islice
from typing import Any

from mdstorm_backend.base.recorder import WAITED, Recorder
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import Batching, PassRunner, Rest, Schedule
from mdstorm_backend.loaders.agreement import Beginning
from mdstorm_backend.loaders.epochs import Iteration
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
    iteration : Iteration or None
        Where it started, and whether it has counted; None before the first batch is requested.
    current : Pass or None
        The pass that is read; None before the first batch is requested. Its schedule belongs to
        this run alone, because it is advanced ahead of use.
    delivered : int
        Batches that Python code has taken.
    num_read : int
        Batches that were read, including those ahead of use.
    loop : Recorder
        Records the requests of Python code.
    pipeline : Recorder or None
        Records the requests of TensorFlow; None before the first one.
    is_over : bool
        Whether the end was requested.
    is_idle : threading.Event
        Set unless the iteration is reading.
    """

    def __init__(self, url: str = "", batches_per_epoch: float = math.inf) -> None:
        self.iteration: Iteration | None = None
        self.current: Pass | None = None
        self.delivered = 0
        self.loop = Recorder()
        self.pipeline: Recorder | None = None
        self.is_idle = threading.Event()
        self.is_idle.set()
        self._url, self._batches_per_epoch = url, batches_per_epoch
        self.is_over = False
        self.num_read = 0
        #: For each block: number of batches before it, the pass there, its marks and its sizes.
        self._blocks: deque[tuple[int, Pass, list[Any], list[int]]] = deque(maxlen=_BLOCKS_KEPT)
        #: The numbers of later batches with which another epoch begins, from 1, and these epochs.
        self._epochs: deque[tuple[int, int]] = deque()
        #: The batch for which `request` was called last.
        self._requested = 0
        self._beginning: Beginning | None = None

    def begin_rest(self, rest: Rest) -> None:
        """Record that a rest of the pass will be read."""
        assert self.current is not None
        if (beginning := self.current.beginning) is not None:
            # Ranks compare what was requested, and not what was read ahead.
            self._beginning, self.current.beginning = beginning, None
        self._epochs.append((self.num_read + 1, rest.place.epoch))

    def record(self, block: Block) -> None:
        """Record that a block was read, and advance the pass."""
        assert self.current is not None
        self._blocks.append((self.num_read, copy(self.current), block.marks, block.sizes))
        for number, (mark, size) in enumerate(zip(block.marks, block.sizes, strict=True), 1):
            if self.current.advance(mark, size):
                place = self.current.place
                assert place is not None
                self._epochs.append((self.num_read + number, place.epoch))
        self.num_read += len(block.sizes)
        while len(self._blocks) > 1 and self._blocks[1][0] <= self.delivered:
            self._blocks.popleft()

    def request(self, number: int) -> int:
        """Record that a batch is requested, and return how many batches later to call this again.

        It has to be called for the first two batches, and where an epoch begins.
        """
        assert self.iteration is not None
        self._requested = number
        self.reach()
        if number >= self.iteration.batches:
            self.count()
        following = min([self.num_read + 1, *(first for first, _ in islice(self._epochs, 1))])
        return 1 if number == 1 else max(following - number, 1)

    def reach(self) -> None:
        """Record the epochs of the batches that were requested, once they are read."""
        assert self.iteration is not None
        while self._epochs and self._epochs[0][0] <= self._requested:
            self.iteration.reach(self._epochs.popleft()[1])

    def count(self) -> None:
        """Let the iteration count: the next one begins after the epoch that it has reached."""
        if self.iteration is not None:
            self.iteration.count()
        if self._beginning is not None:
            self._beginning.offer()

    def end(self) -> None:
        """Record that the end of the iteration is requested."""
        self.is_over = True
        if self._beginning is not None:
            self._beginning.batches = self.num_read
        self.count()

    def take(self) -> None:
        """Record that Python code has taken a batch."""
        self.delivered += 1
        self.loop.deliver(0)
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
        if batches is None and self.is_over and not self.delivered:
            batches = self.num_read
        elif batches is None:
            if self.num_read and not self.delivered:
                raise StateMismatchError(
                    "the batches of this dataset were not counted, because TensorFlow took them "
                    "itself, as in Keras or in a tf.function, and may have taken some ahead of "
                    "use. Pass the number that was used since the iteration began, "
                    "state_dict(batches=…)"
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
    """The iterations over one dataset, and where the next one begins.

    Parameters
    ----------
    schedule : Schedule
        The schedule of the dataset, which holds where the next iteration begins. Each iteration
        reads ahead with a separate one.
    batching : Batching
        How batches are made.
    """

    def __init__(self, schedule: Schedule, batching: Batching) -> None:
        self.passes = PassRunner(schedule, batching)
        self._run: TFRun | None = None
        #: Iterations that have begun and not ended, by the numbers that TensorFlow has of them.
        self._open: dict[int, TFRun] = {}
        self._numbers = count()
        #: Runs of iterators that Python code holds, some of which have begun.
        self._announced: deque[weakref.ref[TFRun]] = deque()
        #: Whether no iteration has begun yet.
        self._is_first = True
        #: The cardinality declared to TensorFlow: the most batches of any iteration.
        self._claimed: int | None = None
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
        """Return the run of an iterator that Python code holds, before its iteration begins."""
        schedule, batches_per_epoch = self.passes.schedule, math.inf
        if schedule.options.num_epochs is None:
            batches_per_epoch = schedule.sampler().rows_per_epoch / self.passes.batching.batch_size
        run = TFRun(schedule.options.dataset.url, batches_per_epoch)
        self._announced.append(weakref.ref(run))
        return run

    def begin_next(self, run: TFRun) -> None:
        """Let the iteration that begins next be `run`: Python code requests its first batch."""
        self._announced.appendleft(weakref.ref(run))

    def iterations(self) -> Iterator[int]:
        """Begin an iteration and yield its number; TensorFlow continues here to find its end."""
        with self._lock:
            number, run = next(self._numbers), self._begin()
            self._open[number] = run
        assert run.iteration is not None
        try:
            yield number
            run.end()
        finally:
            run.reach()
            run.iteration.leave()
            del self._open[number]

    def _begin(self) -> TFRun:
        """Return the iteration that begins now. The caller holds the lock."""
        run: TFRun | None = None
        while self._announced and (run is None or run.current is not None):
            run = self._announced.popleft()()
        if run is None or run.current is not None:
            run = TFRun()
        for under_way in self._open.values():
            under_way.reach()
        schedule, is_first = self.passes.schedule, self._is_first
        self._run, self._is_first = run, False
        run.iteration = schedule.epochs.open(
            schedule.options.note_pass, may_peek=True, is_first=is_first
        )
        own = Schedule(replace(schedule.options, on_pass=None, tried=None))
        own.epochs.ahead = schedule.epochs.ahead
        own.epochs.go_on(run.iteration.start)
        run.current = Pass(own, self.passes.batching).following(self.passes.numbering)
        self._check_claim(run.current)
        return run

    def rests(
        self, number: Any, block_rows: int | None
    ) -> Iterator[tuple[Recorder, Iterator[Block]]]:
        """Read an iteration, and yield the recorder and the blocks of each of its rests."""
        run = self._open[int(number)]
        assert run.current is not None
        assert run.iteration is not None
        run.pipeline = recorder = self.passes.new_recorder(PipelineRecorder(run.loop))
        run.is_idle.clear()
        is_waiting = False
        try:
            for rest in run.current.rests(recorder):
                run.begin_rest(rest)
                yield recorder, self._blocks(run, rest, block_rows)
            resumes = run.iteration.start.consumed > 0
            if resumes and not run.num_read and run.current.order.world_size == 1:
                # The state was taken at the end, which only reading has found: no other rank reads
                # the rest of that pass, so the next one begins.
                run.current.finish()
                run.current = run.current.following(self.passes.numbering)
                for rest in run.current.rests(recorder):
                    run.begin_rest(rest)
                    yield recorder, self._blocks(run, rest, block_rows)
            is_waiting = True
        finally:
            recorder.end(is_waiting=is_waiting)
            run.is_idle.set()

    def _blocks(self, run: TFRun, rest: Rest, block_rows: int | None) -> Iterator[Block]:
        """Read the blocks of a rest, ahead of the batches that are taken from them."""
        reading: Any = rest.blocks(block_rows=block_rows)
        with self.passes.threads.closing(reading) as blocks:
            for block in blocks:
                run.record(block)
                yield block

    def requests(self, number: Any) -> Iterator[int]:
        """Yield how many batches TensorFlow may pass on until it has to call again."""
        run, requested = self._open[int(number)], 0
        while True:
            following = run.request(requested + 1)
            requested += following
            yield following

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return the state of the latest iteration."""
        place = None if self._run is None else self._run.place(batches)
        return self.passes.state_dict() if place is None else place.state_dict()

    def load_state_dict(self, state: object) -> None:
        """Resume the next iteration from a state."""
        with self._lock:
            self.passes.load_state_dict(state)
            self._run = None


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
