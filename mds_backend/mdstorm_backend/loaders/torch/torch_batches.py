"""Make the batches of one iteration of a loader, in its process or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch.utils.data import IterableDataset, default_collate, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory

from mdstorm_backend.base.prefetch import Prefetcher
from mdstorm_backend.base.recorder import Cause, Recorder, spans_of
from mdstorm_backend.format import Column, Schema, Values
from mdstorm_backend.loaders import Delivered, ReaderOptions
from mdstorm_backend.loaders.nulls import refuse_nulls
from mdstorm_backend.loaders.rest import Rest
from mdstorm_backend.loaders.torch.dataset_samples import DatasetSamples, sample_blocks, samples_of
from mdstorm_backend.loaders.torch.torch_tensors import (
    Collated,
    TorchValues,
    needs_value,
    split_values,
    to_collated,
    to_torch,
)
from mdstorm_backend.loaders.torch.worker_part import end_with_parent
from mdstorm_backend.read.block import Block

Collate: TypeAlias = Callable[[list[Any]], Any]
#: Turns a batch into what the model takes.
BatchMap: TypeAlias = Callable[[Any], Any]
#: Converts a block's column to a tensor or list, given its schema entry, if any, and its name.
ConvertColumn: TypeAlias = Callable[[Values, Column | None, str], TorchValues]
#: A batch, its mark, its size, and the recorder's totals since the previous batch, by name.
Sent: TypeAlias = tuple[Any, Any, int, dict[str, float]]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    class TorchBatch(dict[Any, torch.Tensor | Any]):
        """A dict from column to tensor, or to a list where PyTorch has no type for a column.

        A dataset may define its own samples, such as tuples, and its batches then have another
        type. What fits only those is typed as `Any`.
        """

        def __getitem__(self, column: Any, /) -> torch.Tensor | Any: ...

        def __getattr__(self, name: str) -> Any: ...

    BatchT = TypeVar("BatchT", default=Any)
else:
    from typing import TypeVar

    TorchBatch = dict
    BatchT = TypeVar("BatchT")


@dataclass(frozen=True)
class Recipe:
    """How batches are made from blocks.

    Attributes
    ----------
    collate : callable or None
        Makes a batch from the list of its samples; None for whole columns as tensors.
    batch_map : callable or None
        The function applied to each batch.
    """

    collate: Collate | None = None
    batch_map: BatchMap | None = None


@dataclass(eq=False)
class DeliveredBatches(IterableDataset[Any]):
    """The batches of an iteration; in a worker process, iterating yields the worker's part.

    Attributes
    ----------
    source : DatasetSamples
        The dataset to read.
    recipe : Recipe
        How batches are made.
    rest : Rest
        The rest of the pass or epoch that is to be read.
    """

    source: DatasetSamples
    recipe: Recipe
    rest: Rest

    def __iter__(self) -> Iterator[Sent]:
        worker = get_worker_info()
        assert worker is not None
        end_with_parent()
        recorder = Recorder()
        batches = DeliveredBatches(self.source, self.recipe, self.rest.recorded(recorder))
        # Blocks of one batch: sending a view would send its whole block to the other process.
        return sent(batches.converted(batches.blocks(worker.id, 1)), recorder)

    @property
    def schema(self) -> Schema:
        """The schema of the columns that are read."""
        return self.source._mdstorm.options.schema

    def blocks(self, part: int = 0, block_rows: int | None = None) -> Iterator[Block]:
        """Return the blocks of a part; they are not read if samples are made one by one."""
        if self.recipe.collate is None:
            return self.rest.blocks(part, block_rows=block_rows)
        return sample_blocks(self.source, self.rest, part, block_rows=block_rows)

    def converted(self, blocks: Iterator[Block]) -> Delivered:
        """Convert blocks to batches."""
        recipe, recorder = self.recipe, self.rest.recorder
        batches = (
            tensor_batches(self.source._mdstorm.options, blocks, to_collated, recorder)
            if recipe.collate is None
            else _collated(self.source, blocks, recipe.collate, recorder)
        )
        if recipe.batch_map is None:
            return batches
        function = recipe.batch_map
        if recorder is not None:
            function = recorder.called(function, Cause.TRANSFORMS)
        return _mapped(batches, function, pads=_pads(self.source))


def check_columns(options: ReaderOptions) -> None:
    """Raise NullValueError before the first batch if a column has nulls that no tensor can hold."""
    refuse_nulls(options.null_checked, "PyTorch", needs_value)


def tensor_batches(
    options: ReaderOptions,
    blocks: Iterator[Block],
    convert: ConvertColumn = to_torch,
    recorder: Recorder | None = None,
) -> Delivered:
    """Convert whole blocks, column by column, and split them into batches."""

    def converted(block: Block) -> tuple[Block, dict[str, list[Collated]]]:
        return block, {
            name: split_values(convert(values, options.column(name), name), block.sizes)
            for name, values in block.batch.items()
        }

    # Images are decoded while earlier batches are used. Other conversions take less time than the
    # threads would wait for each other.
    ahead = 1 if options.has_images and get_worker_info() is None else 0
    with Prefetcher(ahead, 2, recorder) as prefetcher:
        made = prefetcher.map(converted, blocks) if ahead else map(converted, blocks)
        for block, columns in made:
            names = tuple(columns)
            for mark, size, *values in zip(
                block.marks, block.sizes, *columns.values(), strict=True
            ):
                yield dict(zip(names, values, strict=True)), mark, size


def _collated(
    source: DatasetSamples,
    blocks: Iterator[Block],
    collate: Collate,
    recorder: Recorder | None,
) -> Delivered:
    """Collate the samples of each batch; None for an empty batch that padding will replace."""
    pads = _pads(source)
    made: Callable[[Iterator[Any]], list[Any]] = list
    collated = collate
    if recorder is not None:
        made = recorder.called(made, Cause.DECODING)
        collated = recorder.called(collate, Cause.TRANSFORMS)
    for block in blocks:
        samples = samples_of(source, block)
        for mark, size in zip(block.marks, block.sizes, strict=True):
            if size == 0 and pads:
                yield None, mark, size
            elif size == 0 and collate is default_collate:
                # `default_collate` needs a sample to determine the columns.
                yield _without_rows(collate([source[0]])), mark, size
            else:
                yield collated(made(islice(samples, size))), mark, size


def _mapped(batches: Delivered, batch_map: BatchMap, *, pads: bool) -> Delivered:
    with closing(batches):
        for batch, mark, size in batches:
            yield None if pads and size == 0 else batch_map(batch), mark, size


def _pads(source: DatasetSamples) -> bool:
    """Whether padding replaces batches without rows."""
    return getattr(source._mdstorm.order, "padded_to", 0) > 0


def _without_rows(batch: Any) -> Any:
    """Return an empty batch with the structure that `default_collate` gave `batch`."""
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, Mapping):
        return {key: _without_rows(values) for key, values in batch.items()}
    if isinstance(batch, (list, tuple)) and not isinstance(batch[0], (str, bytes)):
        return [_without_rows(values) for values in batch]
    return []


@dataclass(frozen=True)
class MappedCollate:
    """A ``collate_fn`` that applies `batch_map` to the result of PyTorch's default collation."""

    batch_map: BatchMap

    def __call__(self, samples: list[Any]) -> Any:
        """Return the batch of a list of samples."""
        return self.batch_map(default_collate(samples))


@dataclass(frozen=True)
class NotedItems:
    """A ``collate_fn`` that records, in the reading process, whether items are single samples."""

    collate: Collate
    dataset: DatasetSamples
    by_one: bool

    def __call__(self, items: Any) -> Any:
        """Return the batch of a list of items, or the converted item if `by_one`."""
        worker = get_worker_info()
        dataset: Any = self.dataset if worker is None else worker.dataset
        dataset._mdstorm.note_items(1 if self.by_one else len(items))
        return self.collate(items)


def pinned(batches: Delivered, *, are_dicts: bool) -> Delivered:
    """Copy the tensors of batches to pinned memory; `are_dicts` if batches are dicts of columns."""
    with closing(batches):
        for batch, mark, size in batches:
            if are_dicts:
                batch = {name: _pinned(values) for name, values in batch.items()}
            else:
                batch = pin_memory(batch)  # type: ignore[no-untyped-call]
            yield batch, mark, size


def _pinned(values: Collated) -> Collated:
    if isinstance(values, torch.Tensor):
        return values.pin_memory()
    if not isinstance(values, Mapping):
        return values
    pinned: Collated = pin_memory(values)  # type: ignore[no-untyped-call]
    return pinned


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
            recorder.wait(recorder.clock() - start, spans_of(recorded))
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
