"""Make the batches of one iteration of a loader, in its process or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory

from mdstorm_backend.base.recorder import Cause, Recorder
from mdstorm_backend.base.threads import Prefetcher
from mdstorm_backend.format import Column, Values
from mdstorm_backend.loaders import Delivered, ReaderOptions
from mdstorm_backend.loaders.nulls import refuse_nulls
from mdstorm_backend.loaders.rest import Rest
from mdstorm_backend.loaders.torch import torch_tensors
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset, blocks_of, samples_of
from mdstorm_backend.loaders.torch.torch_tensors import Collated, TorchValues
from mdstorm_backend.read.block import Block

Collate: TypeAlias = Callable[[list[Any]], Any]
#: Turns a batch into what the model takes.
BatchMap: TypeAlias = Callable[[Any], Any]
#: Converts a block's column to a tensor or list, given its schema entry, if any, and its name.
ConvertColumn: TypeAlias = Callable[[Values, Column | None, str], TorchValues]

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


@dataclass(frozen=True, eq=False)
class DeliveredBatches:
    """The batches of a rest of a pass, and how they are made. It can be pickled.

    Attributes
    ----------
    source : StreamingDataset
        The dataset to read.
    rest : Rest
        The rest of the pass or epoch that is to be read.
    collate : callable or None
        Makes a batch from the list of its samples; None for whole columns as tensors.
    batch_map : callable or None
        The function applied to each batch.
    """

    source: StreamingDataset
    rest: Rest
    collate: Collate | None
    batch_map: BatchMap | None

    def blocks(self, part: int = 0, block_rows: int | None = None) -> Iterator[Block]:
        """Return the blocks of a part; they are not read if samples are made one by one."""
        if self.collate is None:
            return self.rest.blocks(part, block_rows=block_rows)
        return blocks_of(self.source, self.rest, part, block_rows=block_rows)

    def converted(self, blocks: Iterator[Block]) -> Delivered:
        """Convert blocks to batches."""
        recorder, function = self.rest.recorder, self.batch_map
        batches = (
            tensor_batches(
                self.source._mdstorm.options, blocks, torch_tensors.to_collated, recorder
            )
            if self.collate is None
            else _collated(self.source, blocks, self.collate, recorder)
        )
        if function is None:
            return batches
        if recorder is not None:
            function = recorder.called(function, Cause.TRANSFORMS)
        return _mapped(batches, function, pads=_pads(self.source))


def check_columns(options: ReaderOptions) -> None:
    """Raise NullValueError before the first batch if a column has nulls that no tensor can hold."""
    refuse_nulls(options.null_checked, "PyTorch", torch_tensors.needs_value)


def tensor_batches(
    options: ReaderOptions,
    blocks: Iterator[Block],
    convert: ConvertColumn = torch_tensors.to_torch,
    recorder: Recorder | None = None,
) -> Delivered:
    """Convert whole blocks, column by column, and split them into batches."""

    def converted(block: Block) -> tuple[Block, dict[str, list[Collated]]]:
        return block, {
            name: torch_tensors.split_values(
                convert(values, options.column(name), name), block.sizes
            )
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
    source: StreamingDataset,
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


def _pads(source: StreamingDataset) -> bool:
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


def mapped_collate(batch_map: BatchMap, samples: list[Any]) -> Any:
    """Return what `batch_map` makes of PyTorch's default collation of a list of samples."""
    return batch_map(default_collate(samples))


@dataclass(frozen=True)
class NotedItems:
    """A ``collate_fn`` that records, in the reading process, whether items are single samples."""

    collate: Collate
    dataset: StreamingDataset
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
