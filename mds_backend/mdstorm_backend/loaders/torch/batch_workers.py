"""`BatchWorkers`: worker processes that make the batches of one pass after another."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from mdstorm_backend.base.checks import keywords_of
from mdstorm_backend.base.forks import set_up_arrow
from mdstorm_backend.base.recorder import Made, Recorder, Spans
from mdstorm_backend.base.worker_processes import end_with_parent
from mdstorm_backend.format import Column
from mdstorm_backend.loaders import NumberedBatches, Segment
from mdstorm_backend.loaders.torch.moved_batches import same
from mdstorm_backend.loaders.torch.packed_tensors import pack_batches, unpack_batches
from mdstorm_backend.loaders.torch.sent_batches import (
    Pickled,
    from_workers,
    no_memory,
    queues_to_workers,
)
from mdstorm_backend.loaders.torch.torch_batches import OutputBatches

_logger = logging.getLogger(__name__)

#: Arguments of ``DataLoader`` that determine the batches, and not how processes make them.
_OF_BATCHES = frozenset(
    ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn", "drop_last")
)


def _is_read_without_objects(column: Column) -> bool:
    """Whether the reading core never converts Python objects to Arrow for a column."""
    is_binary = column.parsed_encoding.kind == "bytes" and not column.may_have_nulls
    return is_binary or column.is_numpy()


class BatchWorkers:
    """Worker processes that make the batches for one pass after another.

    Each process receives what to read next through its own queue.

    Parameters
    ----------
    batches : OutputBatches
        The batches of the first pass; each worker makes its part of them.
    loader : DataLoader
        Has the arguments for its worker processes as attributes. `batches` determine how many
        workers there are.
    """

    def __init__(self, batches: OutputBatches, loader: DataLoader[Any]) -> None:
        self._options = batches.segment.options
        self.is_busy = False
        # Not `options.schema`, which raises an error if streams have different columns, as they may
        # if samples are made one by one.
        if not all(_is_read_without_objects(column) for column in self._options.dataset.schema):
            set_up_arrow()  # once, rather than in each process
        count = self._options.num_workers
        self._queues = queues_to_workers(loader, count)
        others = keywords_of(DataLoader) - _OF_BATCHES - {"num_workers", "persistent_workers"}
        self._loader: DataLoader[Any] = DataLoader(
            _Part(batches, self._queues),
            batch_size=None,
            collate_fn=same,
            num_workers=count,
            persistent_workers=True,
            **{name: getattr(loader, name) for name in others},
        )

    def can_read(self, segment: Segment) -> bool:
        """Whether a pass is read in the same way as earlier ones, apart from the world."""
        order = self._options.order.share_of(segment.options.order.world)
        return segment.options == replace(self._options, order=order)

    def batches(self, segment: Segment) -> NumberedBatches:
        """Yield the batches of a pass, or of an epoch."""
        self.is_busy = True
        try:
            for queue in self._queues:
                queue.put((segment.position, segment.options.order.world))
            iterator = iter(self._loader)  # always the same iterator, which is reset
            assert segment.recorder is not None
            url, processes = self._options.dataset.url, len(self._queues)
            yield from received(from_workers(iterator), processes, segment.recorder, url)
        finally:
            self.is_busy = False

    def shutdown(self) -> None:
        """End the worker processes."""
        iterator = self._loader._iterator
        if iterator is not None:
            iterator._shutdown_workers()  # type: ignore[attr-defined]


class Message(NamedTuple):
    """Consecutive batches from a worker process; none once the worker has sent its whole part."""

    worker: int
    #: Number of messages that the worker has sent before.
    number: int
    #: The batches, packed in a list.
    batches: Any
    offsets: list[int]
    sizes: list[int]
    #: The work on the batches, and the counts since the worker's previous message, by name.
    spans: Spans
    counts: dict[str, float]


@dataclass(eq=False)
class _Part(IterableDataset[Any]):
    """The part of each pass that a worker process makes; a queue tells it where to begin."""

    batches: OutputBatches
    queues: Sequence[Any]

    def __iter__(self) -> Generator[Pickled, None, None]:
        """Yield one pickled message for each block, with its batches.

        All workers cut their parts into blocks with the same numbers of batches.
        """
        worker = get_worker_info()
        assert worker is not None
        end_with_parent()
        segment, recorder = self.batches.segment, Recorder()
        position, world = self.queues[worker.id].get()
        options = replace(segment.options, order=segment.options.order.share_of(world))
        segment = replace(segment, options=options, start=position, recorder=recorder)
        batches = replace(self.batches, segment=segment)
        blocks: Any = batches.blocks(worker.id, batches.rows_together)
        groups = filter(None, (list(batches.converted(iter([block]))) for block in blocks))
        following: Callable[[Any], Made[Any]] = recorder.task(partial(next, groups))
        before = recorder.counts()
        with closing(blocks):
            for number in count():
                made, spans = following([])  # none after the last block
                now = recorder.counts()
                counts = {name: n - before[name] for name, n in now.items() if n != before[name]}
                before = now
                sent = pack_batches([batch for batch, *_ in made])
                offsets, sizes = [offset for _, offset, _ in made], [size for *_, size in made]
                yield Pickled(Message(worker.id, number, sent, offsets, sizes, spans, counts))
                if not made:
                    return


#: Least number of seconds in which a pass waits for slow workers, so that the log names them.
_NOTICEABLE_SECONDS = 10.0


def received(
    messages: Iterator[Message], workers: int, recorder: Recorder, url: str
) -> NumberedBatches:
    """Yield worker processes' batches in turn, and add their statistics to `recorder`.

    The time spent waiting for a message is attributed in proportion to the work on it. If messages
    take longer to arrive than to make, and that is noticeable, the log says so, once per `url`.

    Raises
    ------
    LostBatchesError
        If a message is missing: PyTorch would continue with the next one.
    """
    turns, num_received = deque(range(workers)), [0] * workers
    ready: list[deque[tuple[Any, int, int] | None]] = [deque() for _ in turns]
    waited = made = 0.0
    while turns:
        while not ready[turns[0]]:
            start = recorder.clock()
            message = next(messages, None)
            if message is None or message.number != num_received[message.worker]:
                raise no_memory("batches from a worker process did not arrive")
            worker, _, batches, offsets, sizes, spans, counts = message
            num_received[worker] += 1
            seconds = recorder.clock() - start
            recorder.wait(seconds, spans)
            if message.number and sizes:  # starting and ending the processes does not count
                waited, made = waited + seconds, made + sum(spans)
            for name, value in counts.items():
                recorder.count(name, value)
            ready[worker].extend(zip(unpack_batches(batches), offsets, sizes, strict=True))
            if not sizes:
                ready[worker].append(None)
        one = ready[turns[0]].popleft()
        if one is None:
            turns.popleft()
            continue
        turns.rotate(-1)
        yield one
    next(messages, None)  # so that PyTorch also learns that the workers have ended
    if waited > max(made, _NOTICEABLE_SECONDS):
        log_slow_workers(url)


@cache
def log_slow_workers(url: str) -> None:
    """Log, once per URL in this process, that worker processes slow down a loader."""
    _logger.warning(
        "Worker processes take longer to send the batches of %s than to read them: set "
        "num_workers=0",
        url,
    )
