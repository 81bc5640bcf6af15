"""`OutputBatches`: how the batches of a segment are made, also by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import reduction
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.utils.data import DataLoader, default_collate, get_worker_info

from mdstorm_backend.base import name_function
from mdstorm_backend.base.recorder import Cause, Recorder
from mdstorm_backend.errors import ArgumentTypeError, TransformError
from mdstorm_backend.loaders import NumberedBatches, Segment
from mdstorm_backend.loaders.torch.collation import collate_samples
from mdstorm_backend.loaders.torch.sent_batches import context_of
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset, blocks_of, samples_of
from mdstorm_backend.loaders.torch.torch_tensors import tensor_batches
from mdstorm_backend.read import Block

Collate: TypeAlias = Callable[[list[Any]], Any]
#: A dict from column to tensor, or to a list if PyTorch has no type for the column. A dataset that
#: defines samples of its own may have batches of another type.
TorchBatch: TypeAlias = dict[Any, torch.Tensor | Any]
#: Turns a batch into model inputs.
BatchMap: TypeAlias = Callable[[Any], Any]
#: A table's consecutive batches are moved from worker processes, and to a device, in groups of
#: about this many bytes, because moving takes more processor time than reading a batch.
_BYTES_TOGETHER = 1 << 20

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
