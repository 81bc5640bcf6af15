"""`StreamingDataLoader`: whole batches of an MDS dataset as tensors."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from types import TracebackType
from typing import Any
from weakref import WeakSet

import torch
from torch.utils.data import DataLoader, IterableDataset

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.frameworks.loader_state import LoaderState
from mdstorm_backend.frameworks.torch_dataset import StreamingDataset, overrides_samples
from mdstorm_backend.frameworks.torch_tensors import (
    TorchValues,
    check_nulls,
    split_values,
    to_torch,
)
from mdstorm_backend.read.batch_reader import check_batch_size
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.row_stream import Position

__all__ = ["StreamingDataLoader"]

TorchBatch = dict[str, TorchValues]
#: Batches, each with the place after it and its number of rows.
_Delivered = Generator[tuple[TorchBatch, Position, int], None, None]


class StreamingDataLoader(DataLoader[Any]):
    """A ``DataLoader`` that takes whole batches from a `StreamingDataset`.

    A batch is a dict from column to tensor, or to a list where PyTorch has no type: strings,
    binaries, decimals, dates, ragged arrays. Tensors are writable; consecutive batches may share a
    block of memory but never an element. Samples go one by one, through `collate_fn`, where
    `collate_fn` is given or the dataset's ``__getitem__`` is overridden.

    It can be iterated more than once, each time with new permutations, and used in a ``with``
    statement, at whose end its threads are stopped. Nothing is opened before.

    Parameters
    ----------
    dataset : StreamingDataset
        What to read. Its batches span epochs; only at the very end they may be shorter.
    batch_size : int
        Rows of a batch.
    num_workers : int
        Processes that read; 0, the default, reads in threads and is usually faster.
    **options
        Any argument of ``DataLoader``.
    """

    def __init__(
        self,
        dataset: StreamingDataset,
        *,
        batch_size: int = 1,
        num_workers: int = 0,
        **options: Any,
    ) -> None:
        check_batch_size(batch_size)
        self._by_sample = options.get("collate_fn") is not None or overrides_samples(type(dataset))
        self._options = options
        self._state = LoaderState()
        #: Rows that the current iteration has delivered, on this rank.
        self.num_samples_yielded = 0
        self._running: WeakSet[Generator[Any, None, None]] = WeakSet()
        super().__init__(dataset, batch_size=batch_size, num_workers=num_workers, **options)

    @property
    def _source(self) -> StreamingDataset:
        assert isinstance(self.dataset, StreamingDataset)
        return self.dataset

    def __len__(self) -> int:
        """Batches of a whole pass.

        Raises
        ------
        TypeError
            If epochs are infinite, or a transform may drop rows.
        """
        assert self.batch_size is not None
        return len(self._source.options.reader(self.batch_size, drop_last=self.drop_last))

    def __iter__(self) -> Any:
        batches = self._samples() if self._by_sample else self._batches()
        self._running.add(batches)
        return batches

    def __enter__(self) -> StreamingDataLoader:
        _ = self._source.dataset  # a dataset that is gone shows here, not at the first batch
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End running iterations and their threads. The loader can be iterated again."""
        for batches in list(self._running):
            batches.close()

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader stands, for `load_state_dict` of an equal loader.

        The keys are those of MosaicML Streaming, and under ``"mdstorm"`` what belongs to this
        order.
        """
        return self._state.to_dict(self._source, self.batch_size or 1)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue where `state` was taken.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset, order or world size.
        """
        self._source.order, self._state = LoaderState.from_dict(
            state, self._source, self.batch_size or 1, drop_last=self.drop_last
        )
        self._source.__dict__.pop("options", None)

    def _samples(self) -> Generator[Any, None, None]:
        if self._state.resumes:
            raise StateMismatchError(
                "a loader with a collate_fn or an overridden __getitem__ cannot resume within a "
                "pass: load the state into a loader without them"
            )
        yield from super().__iter__()
        if self.num_workers:
            # The copies in the workers have gone on to the next epoch, this one has not.
            self._source.finish_pass()

    def _batches(self) -> Generator[TorchBatch, None, None]:
        source, state = self._source, self._state
        assert self.batch_size is not None
        start = state.begin()
        self.num_samples_yielded = 0
        for name in source.options.delivered:
            if (column := source.options.column(name)) is not None:
                check_nulls(column, source.options.nulls.remaining(column))
        if self.num_workers:
            stream = self._from_processes(start)
        else:
            reader = source.reader(self.batch_size, drop_last=self.drop_last)
            stream = _tensors(source, reader.blocks(start, state.first_epoch))
        with closing(stream):
            for batch, end, size in stream:
                if self.drop_last and size < self.batch_size:
                    continue
                if self.pin_memory and not self.num_workers and torch.cuda.is_available():
                    batch = {name: _pinned(values) for name, values in batch.items()}
                state.position = end
                self.num_samples_yielded += size
                yield batch
        state.finish(source.num_epochs)

    def _from_processes(self, start: Position) -> _Delivered:
        assert self.batch_size is not None
        batches = _WholeBatches(
            self._source, self.batch_size, start, self._state.first_epoch, self.drop_last
        )
        options = {k: v for k, v in self._options.items() if k not in ("collate_fn", "drop_last")}
        loader: DataLoader[Any] = DataLoader(
            batches, batch_size=None, collate_fn=_same, num_workers=self.num_workers, **options
        )
        yield from loader


class _WholeBatches(IterableDataset[Any]):
    """What a worker process iterates over: its part of the batches, as tensors."""

    def __init__(
        self,
        source: StreamingDataset,
        batch_size: int,
        start: Position,
        first_epoch: int,
        drop_last: bool,
    ) -> None:
        super().__init__()
        self._source = source
        self._batch_size = batch_size
        self._start = start
        self._first_epoch = first_epoch
        self._drop_last = drop_last

    def __iter__(self) -> _Delivered:
        # Blocks of one batch: a view would take its whole block along to the other process.
        reader = self._source.reader(self._batch_size, block_rows=1, drop_last=self._drop_last)
        return _tensors(self._source, reader.blocks(self._start, self._first_epoch))


def _tensors(source: StreamingDataset, blocks: Iterator[Block]) -> _Delivered:
    """Convert blocks as a whole and cut them into batches."""
    options = source.options
    for block in blocks:
        columns = {
            name: split_values(to_torch(values, options.column(name), name), block.sizes)
            for name, values in block.batch.items()
        }
        names = tuple(columns)
        for end, size, *values in zip(block.ends, block.sizes, *columns.values(), strict=True):
            yield dict(zip(names, values, strict=True)), end, size


def _pinned(values: TorchValues) -> TorchValues:
    return values.pin_memory() if isinstance(values, torch.Tensor) else values


def _same(batch: Any) -> Any:
    return batch
