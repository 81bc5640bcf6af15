"""Batches of one iteration of a loader, in its process or in a worker."""

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
#: Makes what a model takes of a batch.
BatchMap: TypeAlias = Callable[[Any], Any]
#: Makes a tensor or a list of a column of a block; its place in the schema, if any, and its name.
ConvertColumn: TypeAlias = Callable[[Values, Column | None, str], TorchValues]
#: A batch, its mark, its size, and what was recorded since the one before, by name.
Sent: TypeAlias = tuple[Any, Any, int, dict[str, float]]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    class TorchBatch(dict[Any, torch.Tensor | Any]):
        """A dict from column to tensor, or to a list where PyTorch has no type for a column.

        Datasets may have samples of their own, tuples for instance, and so have the batches of
        them: what only fits these is `Any`.
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
    """How batches are made of what is read.

    Attributes
    ----------
    collate : callable or None
        Makes a batch of the list of its samples; None for whole columns as tensors.
    batch_map : callable or None
        What each batch goes through.
    """

    collate: Collate | None = None
    batch_map: BatchMap | None = None


@dataclass(eq=False)
class DeliveredBatches(IterableDataset[Any]):
    """What an iteration delivers; iterated in a worker process, `sent` is its part of that.

    Attributes
    ----------
    source : DatasetSamples
        What to read.
    recipe : Recipe
        How batches are made of it.
    rest : Rest
        What is to be read.
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
        # Blocks of one batch: a view would take its whole block along to the other process.
        return sent(batches.converted(batches.blocks(worker.id, 1)), recorder)

    @property
    def schema(self) -> Schema:
        """The columns that are read."""
        return self.source._mdstorm.options.schema

    def blocks(self, part: int = 0, block_rows: int | None = None) -> Iterator[Block]:
        """Read a part of it, or lay it out where samples are made one by one."""
        if self.recipe.collate is None:
            return self.rest.blocks(part, block_rows=block_rows)
        return sample_blocks(self.source, self.rest, part, block_rows=block_rows)

    def converted(self, blocks: Iterator[Block]) -> Delivered:
        """Make batches of them."""
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
    """Refuse nulls that no tensor can hold before the first batch."""
    refuse_nulls(options.null_checked, "PyTorch", needs_value)


def tensor_batches(
    options: ReaderOptions,
    blocks: Iterator[Block],
    convert: ConvertColumn = to_torch,
    recorder: Recorder | None = None,
) -> Delivered:
    """Convert blocks as a whole, column by column, and cut them into batches."""

    def converted(block: Block) -> tuple[Block, dict[str, list[Collated]]]:
        return block, {
            name: split_values(convert(values, options.column(name), name), block.sizes)
            for name, values in block.batch.items()
        }

    # Images are decoded while the batches before them are used. Anything else takes less time than
    # the threads would wait for each other.
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
    """Collate the samples of each batch; None for none, where padding takes their place."""
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
                # It needs a sample to know the columns by.
                yield _without_rows(collate([source[0]])), mark, size
            else:
                yield collated(made(islice(samples, size))), mark, size


def _mapped(batches: Delivered, batch_map: BatchMap, *, pads: bool) -> Delivered:
    with closing(batches):
        for batch, mark, size in batches:
            yield None if pads and size == 0 else batch_map(batch), mark, size


def _pads(source: DatasetSamples) -> bool:
    """Whether padding is put in the place of batches without rows."""
    return getattr(source._mdstorm.order, "padded_to", 0) > 0


def _without_rows(batch: Any) -> Any:
    """Return what `default_collate` would have made of no samples like those of `batch`."""
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, Mapping):
        return {key: _without_rows(values) for key, values in batch.items()}
    if isinstance(batch, (list, tuple)) and not isinstance(batch[0], (str, bytes)):
        return [_without_rows(values) for values in batch]
    return []


@dataclass(frozen=True)
class MappedCollate:
    """PyTorch's own ``collate_fn``, and what a batch goes through afterwards."""

    batch_map: BatchMap

    def __call__(self, samples: list[Any]) -> Any:
        """Return the batch of some samples."""
        return self.batch_map(default_collate(samples))


@dataclass(frozen=True)
class NotedItems:
    """A ``collate_fn`` that notes whether items are samples, in the process that reads them."""

    collate: Collate
    dataset: DatasetSamples
    by_one: bool

    def __call__(self, items: Any) -> Any:
        """Return the batch of some items, or what becomes of a single one."""
        worker = get_worker_info()
        dataset: Any = self.dataset if worker is None else worker.dataset
        dataset._mdstorm.note_items(1 if self.by_one else len(items))
        return self.collate(items)


def pinned(batches: Delivered, *, are_dicts: bool) -> Delivered:
    """Copy the tensors of batches, which may be dicts from column to tensor, to pinned memory."""
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
    """Add to each batch what the worker process has recorded while it made it."""
    before = recorder.totals()
    recorder.deliver(0, 1)  # so that the first batch counts as the others do
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
    """Hand on what worker processes make, and record it.

    If a batch has to be waited for, the wait is divided as the making of that batch was.
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


#: Bytes from which on a tensor goes to another process by itself.
_LARGE = 1 << 20


class _Packed(NamedTuple):
    """Small tensors of a batch in one piece of memory, and the batch with numbers in their place.

    Each tensor by itself would be a file of its own, which two processes open and map: for columns
    that takes far longer than to copy them.
    """

    memory: torch.Tensor
    #: Number, dtype, shape and bytes of each tensor, as they lie in the memory.
    tensors: list[tuple[int, torch.dtype, Sequence[int], int]]
    batch: Any


class _Slot(NamedTuple):
    """The place of a tensor that was packed, by its number."""

    number: int


class _Tuple(NamedTuple):
    """A tuple, of which PyTorch would make a list when it pins it."""

    parts: dict[int, Any]


def packed(batch: Any) -> Any:
    """Return what to send to another process for a batch, which makes it of that by `unpacked`."""
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
    # The largest values first, so that all lie where their dtype wants them.
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
    """Return the batch of which `packed` was called; its small tensors share their memory now."""
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
