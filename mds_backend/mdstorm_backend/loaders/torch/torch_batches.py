"""Make a segment's batches, in this process or in worker processes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count, islice
from multiprocessing import reduction
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate, get_worker_info

from mdstorm_backend.base import name_function
from mdstorm_backend.base.checks import keywords_of
from mdstorm_backend.base.forks import set_up_arrow
from mdstorm_backend.base.recorder import Cause, Made, Recorder, Spans
from mdstorm_backend.base.worker_processes import end_with_parent
from mdstorm_backend.errors import ArgumentTypeError, TransformError
from mdstorm_backend.format import Column
from mdstorm_backend.loaders import NumberedBatches, Segment
from mdstorm_backend.loaders.torch.collation import collate_samples
from mdstorm_backend.loaders.torch.moved_batches import same
from mdstorm_backend.loaders.torch.packed_tensors import pack_batches, unpack_batches
from mdstorm_backend.loaders.torch.sent_batches import (
    Pickled,
    context_of,
    from_workers,
    no_memory,
    queues_to_workers,
)
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset, blocks_of, samples_of
from mdstorm_backend.loaders.torch.torch_tensors import tensor_batches
from mdstorm_backend.read import Block

_logger = logging.getLogger(__name__)

Collate: TypeAlias = Callable[[list[Any]], Any]
#: A dict from column to tensor, or to a list if PyTorch has no type for the column. A dataset that
#: defines samples of its own may have batches of another type.
TorchBatch: TypeAlias = dict[Any, torch.Tensor | Any]
#: Turns a batch into model inputs.
BatchMap: TypeAlias = Callable[[Any], Any]
#: A table's consecutive batches are moved from worker processes, and to a device, in groups of
#: about this many bytes, because moving takes more processor time than reading a batch.
_BYTES_TOGETHER = 1 << 20
#: Arguments of ``DataLoader`` that determine the batches, and not how processes make them.
_OF_BATCHES = frozenset(
    ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn", "drop_last")
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    BatchT = TypeVar("BatchT", default=Any)
else:
    from typing import TypeVar

    BatchT = TypeVar("BatchT")


@dataclass(frozen=True, eq=False)
class OutputBatches:
    """A segment's batches, and how they are made. Can be pickled.

    Attributes
    ----------
    source : StreamingDataset
        The dataset to read.
    segment : Segment
        The segment to read.
    collate : callable or None
        Makes a batch from the list of its samples; None for whole columns as tensors.
    batch_map : callable or None
        The function applied to each batch.
    """

    source: StreamingDataset
    segment: Segment
    collate: Collate | None
    batch_map: BatchMap | None

    def blocks(self, part: int = 0, block_rows: int | None = None) -> Iterator[Block]:
        """Return the blocks of a part, unread if samples are made one by one."""
        if self.collate is None:
            return self.segment.blocks(part, block_rows=block_rows)
        return blocks_of(self.source, self.segment, part, block_rows=block_rows)

    @property
    def rows_together(self) -> int:
        """Number of rows in a group of batches that are moved together; 1 to move each batch alone.

        Batches that take time to make are moved alone, so that later batches do not delay them.
        """
        options = self.segment.options
        is_made_by_user = self.collate or self.batch_map or options.calls_functions
        if is_made_by_user or options.has_images:
            return 1
        dataset = options.dataset
        return max(_BYTES_TOGETHER * len(dataset) // max(dataset.nbytes, 1), 1)

    def converted(self, blocks: Iterator[Block]) -> NumberedBatches:
        """Convert blocks to batches."""
        recorder, function = self.segment.recorder, self.batch_map
        opened = self.source._mdstorm
        assert recorder is not None
        batches = (
            tensor_batches(opened.options, blocks, opened.convert, recorder)
            if self.collate is None
            else _collated(self.source, blocks, self.collate, recorder)
        )
        if function is None:
            return batches
        function = recorder.called(partial(mapped, function), Cause.TRANSFORMS)
        return _mapped(batches, function, pads=_pads(self.source))


def _collated(
    source: StreamingDataset, blocks: Iterator[Block], collate: Collate, recorder: Recorder
) -> NumberedBatches:
    """Collate each batch's samples, yielding None for an empty batch that padding will replace."""
    pads = _pads(source)
    made: Callable[[Iterator[Any]], list[Any]] = recorder.called(list, Cause.DECODING)
    collated = recorder.called(collate, Cause.TRANSFORMS)
    for block in blocks:
        samples = samples_of(source, block)
        for offset, size in zip(block.offsets, block.sizes, strict=True):
            if size == 0 and pads:
                yield None, offset, size
            elif size == 0 and collate in (collate_samples, default_collate):
                # Both need a sample to determine the columns.
                yield _without_rows(collate([source[0]])), offset, size
            else:
                yield collated(made(islice(samples, size))), offset, size


def _mapped(batches: NumberedBatches, batch_map: BatchMap, *, pads: bool) -> NumberedBatches:
    with closing(batches):
        for batch, offset, size in batches:
            yield None if pads and size == 0 else batch_map(batch), offset, size


def mapped(batch_map: BatchMap, batch: Any) -> Any:
    """Return the result of calling the user's function with a batch.

    Raises
    ------
    TransformError
        If the function returns None.
    """
    try:
        inputs = batch_map(batch)
    except Exception as error:  # `naming` would take a microsecond for each batch
        name_function(error, "batch_map function", batch_map)
        raise
    if inputs is None:
        name = getattr(batch_map, "__qualname__", repr(batch_map))
        raise TransformError(
            f"batch_map returned None for a batch: {name} must return the model's inputs; a "
            "function that changes the batch in place must end with `return batch`"
        )
    return inputs


def _pads(source: StreamingDataset) -> bool:
    """Whether padding replaces batches without rows."""
    return source._mdstorm.order.padded_to > 0


def _without_rows(batch: Any) -> Any:
    """Return an empty batch with the structure of `batch`, which has been collated."""
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, Mapping):
        return {key: _without_rows(values) for key, values in batch.items()}
    if isinstance(batch, (list, tuple)) and not isinstance(next(iter(batch), ""), (str, bytes)):
        return [_without_rows(values) for values in batch]
    return []


def mapped_collate(batch_map: BatchMap, samples: list[Any]) -> Any:
    """Apply `batch_map` to the default collation of a list of samples."""
    return mapped(batch_map, collate_samples(samples))


def noted(collate: Collate, dataset: StreamingDataset, is_one: bool, items: Any) -> Any:
    """Return ``collate(items)``; record, in the reading process, whether items are single samples.

    `items` is a list of items, or a single item if `is_one`.
    """
    worker = get_worker_info()
    source: Any = dataset if worker is None else worker.dataset
    source._mdstorm.record_items(1 if is_one else len(items))
    return collate(items)


def without_note(collate: Collate) -> Collate:
    """Return the function that `noted` calls, or `collate` itself if it is another function."""
    if isinstance(collate, partial) and collate.func is noted:
        return collate.args[0]  # type: ignore[no-any-return]
    return collate


def _is_read_without_objects(column: Column) -> bool:
    """Whether the reading core never converts Python objects to Arrow for a column."""
    is_binary = column.parsed_encoding.kind == "bytes" and not column.may_have_nulls
    return is_binary or column.is_numpy()


class WorkerProcesses:
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


def check_can_be_sent(loader: DataLoader[Any], batch_map: BatchMap | None) -> None:
    """Raise an error if a function that a loader's worker processes need cannot be sent to them.

    A forked process inherits the functions.

    Raises
    ------
    ArgumentTypeError
        If a function cannot be pickled.
    """
    method = context_of(loader).get_start_method()
    if method == "fork":
        return
    collate = without_note(loader.collate_fn)
    for name, function in (("batch_map", batch_map), ("collate_fn", collate)):
        try:
            reduction.ForkingPickler.dumps(function)
        except (PicklingError, AttributeError, TypeError) as error:
            raise ArgumentTypeError(
                f"{name}={function!r} cannot be sent to worker processes, whose start method is "
                f"{method!r} ({error}): define the function at the top level of a module, not as a "
                'lambda, or pass multiprocessing_context="fork" or num_workers=0'
            ) from error


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
