"""Run the worker processes of a loader."""

from __future__ import annotations

import multiprocessing
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from mdstorm_backend.base.recorder import WAITED, Recorder
from mdstorm_backend.base.threads import set_up_arrow
from mdstorm_backend.errors import ArgumentTypeError
from mdstorm_backend.loaders.rest import Rest
from mdstorm_backend.loaders.runner import Delivered
from mdstorm_backend.loaders.torch.torch_batches import BatchMap, DeliveredBatches
from mdstorm_backend.loaders.torch.worker_part import end_with_parent

#: A batch, its mark, its size, and the recorder's totals since the previous batch, by name.
Sent: TypeAlias = tuple[Any, Any, int, dict[str, float]]


def from_processes(
    batches: DeliveredBatches, options: Mapping[str, Any], recorder: Recorder | None = None
) -> Delivered:
    """Yield `batches` as made by worker processes, which end with this generator.

    Parameters
    ----------
    batches : DeliveredBatches
        The batches; each worker makes its part of them.
    options : mapping
        Arguments of ``DataLoader``, including ``num_workers``.
    recorder : Recorder, optional
        Records waiting times, and what the workers recorded.
    """
    if not all(column.is_numpy() for column in batches.rest.options.schema):
        set_up_arrow()  # once, rather than in each process of each epoch
    iterator = _begin(_loader(_Part(batches), options))
    try:
        yield from received(iterator, recorder)
    finally:
        # Not left to the garbage collector: in a reference cycle, which errors create, the
        # processes would not be notified and would end only after a timeout.
        iterator._shutdown_workers()  # type: ignore[attr-defined]


def _loader(batches: IterableDataset[Any], options: Mapping[str, Any]) -> DataLoader[Any]:
    left_out = ("collate_fn", "drop_last", "batch_size")
    kept = {name: value for name, value in options.items() if name not in left_out}
    return DataLoader(batches, batch_size=None, collate_fn=same, **kept)


def same(batch: Any) -> Any:
    """Return a batch unchanged."""
    return batch


def _context_of(options: Mapping[str, Any]) -> Any:
    """Return the `multiprocessing` context in which worker processes are started."""
    context = options.get("multiprocessing_context")
    if context is None or isinstance(context, str):
        return multiprocessing.get_context(context)
    return context


def check_can_be_sent(batch_map: BatchMap | None, options: Mapping[str, Any]) -> None:
    """Raise if a function that worker processes need cannot be sent to them.

    A forked process inherits the functions.

    Raises
    ------
    ArgumentTypeError
        If a function cannot be pickled.
    """
    method = _context_of(options).get_start_method()
    if method == "fork":
        return
    for name, function in (("batch_map", batch_map), ("collate_fn", options.get("collate_fn"))):
        try:
            ForkingPickler.dumps(function)
        except (PicklingError, AttributeError, TypeError) as error:
            raise ArgumentTypeError(
                f"{name}={function!r} cannot be sent to worker processes, whose start method is "
                f"{method!r} ({error}): define the function at the top level of a module, not as a "
                'lambda, or pass multiprocessing_context="fork" or num_workers=0'
            ) from error


def _begin(loader: DataLoader[Any]) -> Iterator[Any]:
    """Begin an iteration whose processes end promptly, even if it is garbage-collected.

    In a reference cycle, such as an error and its traceback, the garbage collector could close the
    queues first. Then nothing would notify the processes: each would be waited for, for seconds,
    and killed.
    """
    iterator: Any = iter(loader)
    queues = [*iterator._index_queues, iterator._worker_result_queue]
    weakref.finalize(iterator, queues.clear).atexit = False
    return iterator  # type: ignore[no-any-return]


class PersistentWorkers:
    """Worker processes that are kept for later passes.

    Each process receives what to read next through its own queue.

    Parameters
    ----------
    batches : DeliveredBatches
        The batches of the first pass.
    options : mapping
        Arguments of ``DataLoader``.
    """

    def __init__(self, batches: DeliveredBatches, options: Mapping[str, Any]) -> None:
        #: The reader options that the workers have copies of.
        self.options = batches.source._mdstorm.schedule.options
        self.is_busy = False
        context = _context_of(options)
        self._queues = [context.SimpleQueue() for _ in range(batches.rest.batching.num_workers)]
        self._loader = _loader(_Part(batches, self._queues), options)

    def deliver(self, rest: Rest) -> Delivered:
        """Yield the batches of a pass, or of an epoch."""
        self.is_busy = True
        try:
            for queue in self._queues:
                queue.put((rest.place, rest.options.order))
            # `iter` of a loader that has begun resets its one iterator.
            has_begun = self._loader._iterator is not None
            batches = self._loader if has_begun else _begin(self._loader)
            yield from received(batches, rest.recorder)
        finally:
            self.is_busy = False

    def shutdown(self) -> None:
        """End the worker processes."""
        iterator = self._loader._iterator
        if iterator is not None:
            iterator._shutdown_workers()  # type: ignore[attr-defined]


@dataclass(eq=False)
class _Part(IterableDataset[Any]):
    """The part of some batches that a worker process makes.

    A persistent worker makes that of another rest in each pass, which its queue names.
    """

    batches: DeliveredBatches
    queues: Sequence[Any] = ()

    def __iter__(self) -> Iterator[Sent]:
        worker = get_worker_info()
        assert worker is not None
        end_with_parent()
        rest, recorder = self.batches.rest, Recorder()
        if self.queues:
            place, order = self.queues[worker.id].get()
            rest = replace(rest, options=replace(rest.options, order=order), place=place)
        batches = replace(self.batches, rest=rest.recorded(recorder))
        # Blocks of one batch: sending a view would send its whole block to the other process.
        return sent(batches.converted(batches.blocks(worker.id, 1)), recorder)


def sent(delivered: Delivered, recorder: Recorder) -> Generator[Sent, None, None]:
    """Yield each batch, packed, with what the worker process recorded while it made the batch."""
    before = recorder.totals()
    recorder.deliver(0, 1)  # so that the first batch is recorded like the others
    with closing(delivered):
        recorder.ask()
        for batch, mark, size in delivered:
            recorder.deliver(size)
            now = recorder.totals()
            spent = {name: v - before[name] for name, v in now.items() if v != before[name]}
            yield packed(batch), mark, size, spent
            before = now
            recorder.ask()


def received(batches: Iterable[Sent], recorder: Recorder | None) -> Delivered:
    """Yield the batches from worker processes, and add what the workers recorded to `recorder`.

    The time spent waiting for a batch is attributed in proportion to the work on that batch.
    """
    iterator = iter(batches)
    while True:
        start = 0.0 if recorder is None else recorder.clock()
        try:
            batch, mark, size, recorded = next(iterator)
        except StopIteration:
            return
        if recorder is not None:
            spans = [recorded.get(name, 0.0) for name in WAITED]
            recorder.wait(recorder.clock() - start, spans)
            recorder.add(recorded)
        yield unpacked(batch), mark, size


#: Tensors of at least this many bytes are sent to another process on their own.
_LARGE = 1 << 20


class _Packed(NamedTuple):
    """The small tensors of a batch in one piece of memory, and the batch with slots for them.

    PyTorch would send each tensor as a separate file, which two processes open and map. For small
    tensors, that takes far longer than a copy.
    """

    memory: torch.Tensor
    #: Slot number, dtype, shape and bytes of each tensor, in the order of the memory.
    tensors: list[tuple[int, torch.dtype, Sequence[int], int]]
    batch: Any


class _Slot(NamedTuple):
    """A placeholder for a packed tensor."""

    number: int


class _Tuple(NamedTuple):
    """A tuple, held as a dict because PyTorch would turn a tuple into a list when it pins it."""

    parts: dict[int, Any]


def packed(batch: Any) -> Any:
    """Return a form of a batch that is cheaper to send; the receiver calls `unpacked`."""
    found: list[torch.Tensor] = []

    def emptied(value: Any) -> Any:
        if type(value) is dict:
            return {name: emptied(one) for name, one in value.items()}
        if type(value) is tuple:
            return _Tuple(dict(enumerate(map(emptied, value))))
        if not _is_small(value):
            return value
        found.append(value)
        return _Slot(len(found) - 1)

    rest = emptied(batch)
    if len(found) < 2:
        return batch
    # Largest element size first, so that every tensor is aligned for its dtype.
    order = sorted(range(len(found)), key=lambda number: -found[number].element_size())
    return _Packed(
        torch.cat([found[number].contiguous().reshape(-1).view(torch.uint8) for number in order]),
        [(n, found[n].dtype, found[n].shape, found[n].nbytes) for n in order],
        rest,
    )


def _is_small(value: Any) -> bool:
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not value.requires_grad
        and value.nbytes < _LARGE
    )


def unpacked(sent: Any) -> Any:
    """Return the batch that `packed` was given; its small tensors now share one piece of memory."""
    if not isinstance(sent, _Packed):
        return sent
    parts = torch.split(sent.memory, [size for *_, size in sent.tensors])
    made = {
        number: part.view(dtype).view(shape)
        for (number, dtype, shape, _), part in zip(sent.tensors, parts, strict=True)
    }

    def filled(value: Any) -> Any:
        if type(value) is dict:
            return {name: filled(one) for name, one in value.items()}
        if isinstance(value, _Tuple):
            return tuple(map(filled, value.parts.values()))
        return made[value.number] if isinstance(value, _Slot) else value

    return filled(sent.batch)
