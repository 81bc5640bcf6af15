"""PyTorch loaders over readers, mirroring ``petastorm.pytorch``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, overload

from mdstorm_backend.base import (
    OwnContext,
    check_flag,
    check_function,
    check_required_integer,
    is_integer,
    require,
    suggests_instead,
)

try:
    import torch
except ModuleNotFoundError:
    require("torch")  # raises the error that names the extra to install
    raise

from mdstorm._petastorm_names import other_names
from mdstorm._readers import ReaderPasses, is_reader
from mdstorm._torch import (
    ROWS_AT_A_TIME,
    ColumnLoader,
    LoaderBase,
    RowLoader,
    collated,
    decimal_friendly_collate,
    first_rows,
    sanitize_pytorch_types,
    tensors,
    transformed,
)
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedArgumentError
from mdstorm_backend.loaders import Convert
from mdstorm_backend.loaders.torch import BatchT, TorchBatch

__all__ = [
    "BatchedDataLoader",
    "DataLoader",
    "InMemBatchedDataLoader",
    "LoaderBase",
    "decimal_friendly_collate",
]

__getattr__ = other_names(__name__)

#: Private in Petastorm, but used by copies of its loaders.
_sanitize_pytorch_types = sanitize_pytorch_types


#: Keywords of PyTorch's own loader, and what to do instead.
_INSTEAD = {
    "drop_last": "only the last batch of a pass can be shorter, so skip it in your loop",
    "num_workers": "the reader's threads read the rows: pass workers_count to the reader",
    "pin_memory": "call the tensors' pin_memory() as you iterate",
    "sampler": "pass shuffle_rows, shuffle_row_groups, cur_shard and shard_count to the reader",
    "shuffle": "use shuffling_queue_capacity, or pass shuffle_rows=True to the reader",
}
_suggests_keywords = suggests_instead(_INSTEAD)


class DataLoader(RowLoader, Generic[BatchT]):
    """Batches of a reader's rows as dicts of tensors.

    With an unused reader from `make_batch_reader` or `make_reader`, batches are sliced from whole
    blocks of rows, as fast as in a converter's loader. Each iteration is a complete pass with new
    permutations, even after a ``break`` or during another iteration, and the loader has a
    `state_dict`. With other readers (WeightedSamplingReader, n-grams, objects with Petastorm's
    ``Reader`` interface), items are read one at a time. A second pass resets such a reader; some
    readers can only be reset at the end.

    Booleans become uint8, uint16 becomes int32, uint32 becomes int64, and timestamps become int64
    nanoseconds since 1970 UTC. Strings, binaries, decimals, dates, nested values and arrays with
    different shapes become lists. If the reader yields batches, integers with nulls become
    float64 with NaN, and other nulls that no tensor can represent raise an error. If it yields
    rows, all nulls except in floating-point columns raise an error.

    Parameters
    ----------
    reader : Reader
        The reader, which also sets the number of epochs.
    batch_size : int
        Rows per batch. A batch can span epochs; only the last one can be shorter. If None, all
        rows of all epochs form one batch.
    collate_fn : callable
        Function that builds a batch from a list of rows, which are dicts from column name to value.
        The default function is never called, because whole columns give the same batches.
    shuffling_queue_capacity : int
        Rows are shuffled within windows of whole shards, using the reader's seed, which mix them
        as much as Petastorm's queue of this capacity. With other readers, rows are drawn by
        ``np.random`` from a pool of this size. 0 means no shuffling.

    Raises
    ------
    InvalidArgumentError
        If an argument is not an integer.
    NullValueError
        If PyTorch cannot represent a null; also TypeError.
    RuntimeError
        If the reader was stopped, or if a pass over another kind of reader failed or is still in
        progress.

    Notes
    -----
    The signature is the same as in ``petastorm.pytorch.DataLoader``. Leaving the ``with`` statement
    stops the reader.
    """

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[BatchT]: ...

    @overload
    def __init__(
        self: DataLoader[TorchBatch],
        reader: Any,
        batch_size: int | None = 1,
        *,
        shuffling_queue_capacity: int | None = 0,
    ) -> None: ...

    @overload
    def __init__(
        self,
        reader: Any,
        batch_size: int | None = 1,
        collate_fn: Callable[[list[Any]], BatchT] = ...,
        shuffling_queue_capacity: int | None = 0,
    ) -> None: ...

    @_suggests_keywords
    def __init__(
        self,
        reader: Any,
        batch_size: int | None = 1,
        collate_fn: Callable[[list[Any]], Any] = decimal_friendly_collate,
        shuffling_queue_capacity: int | None = 0,
    ) -> None:
        super().__init__(reader, batch_size, shuffling_queue_capacity)
        check_function("collate_fn", collate_fn)
        self.collate_fn = collate_fn
        if is_reader(reader) and not self._mdstorm_collates:
            reader._mdstorm_warn_of_decimals("PyTorch")
        self._batch_acc = []

    def _mdstorm_of_blocks(self, passes: ReaderPasses) -> Convert:
        if self._mdstorm_collates:
            return collated(self.reader, self.collate_fn)
        return tensors(self.reader, passes.loader.options)


class BatchedDataLoader(ColumnLoader):
    """Batches of a reader's rows as dicts of tensors, created from whole columns by a function.

    Works like `DataLoader`, except that every column is a tensor.

    Parameters
    ----------
    reader : Reader
        As in `DataLoader`.
    batch_size : int
        Rows per batch, at least 1. A batch can span epochs; only the last one can be shorter.
    transform_fn : callable, optional
        Function that takes the array of one column, with an unspecified number of rows, and returns
        a tensor, which can be on another device. The default is ``torch.as_tensor``.
    shuffling_queue_capacity : int
        As in `DataLoader`, except that with other readers, rows are drawn by ``torch.randperm``.

    Raises
    ------
    UnsupportedTypeError
        If a column cannot be converted to a tensor (strings, binaries, decimals, dates, nested
        values, arrays with different shapes); also TypeError.
    InvalidArgumentError, NullValueError, RuntimeError
        As in `DataLoader`.

    Notes
    -----
    The signature is the same as in ``petastorm.pytorch.BatchedDataLoader``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from mdstorm import make_batch_reader
    >>> pq.write_table(pa.table({"id": range(4)}), "/tmp/batched.parquet")
    >>> with BatchedDataLoader(make_batch_reader("file:///tmp/batched.parquet"), 3) as loader:
    ...     print([batch["id"].tolist() for batch in loader])
    [[0, 1, 2], [3]]
    """

    @_suggests_keywords
    def __init__(
        self,
        reader: Any,
        batch_size: int = 1,
        transform_fn: Callable[[Any], Any] | None = None,
        shuffling_queue_capacity: int | None = 0,
    ) -> None:
        if not is_integer(batch_size) or batch_size < 1:
            raise InvalidArgumentError(
                f"batch_size must be a positive number of rows, found {batch_size!r}"
            )
        if hasattr(self, "_yield_batches"):
            raise UnsupportedArgumentError(
                f"{type(self).__name__} has a method _yield_batches, which BatchedDataLoader does "
                "not call: override _iter_impl, which yields the batches"
            )
        check_function("transform_fn", transform_fn)
        super().__init__(reader, batch_size, shuffling_queue_capacity)
        self.transform_fn = transform_fn or torch.as_tensor

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[dict[str, torch.Tensor]]: ...

    def _mdstorm_of_blocks(self, passes: ReaderPasses) -> Convert:
        return transformed(self.reader, passes.loader.options, self.transform_fn)


class InMemBatchedDataLoader(OwnContext):
    """Batches of rows that are kept in memory.

    The constructor reads the rows and then stops the reader.

    Parameters
    ----------
    reader : Reader
        The reader, from which up to `rows_capacity` rows are read.
    batch_size : int
        Rows per batch; the last batch of each epoch may be shorter.
    transform_fn : callable, optional
        As in `BatchedDataLoader`.
    num_epochs : int
        Number of passes over the rows per iteration. The next iteration continues with more passes.
    seed : int
        With `shuffle`, pass number e is shuffled by ``torch.randperm`` with the seed ``seed + e``,
        as in Petastorm.
    rows_capacity : int
        Maximum number of rows to keep. A warning is issued if a finite reader has more rows.
    shuffle : bool
        Whether to shuffle the rows.

    Raises
    ------
    ArgumentTypeError
        If `num_epochs` is not an integer.
    InvalidArgumentError
        If a number is not positive.
    UnsupportedTypeError, NullValueError
        As in `BatchedDataLoader`.

    Notes
    -----
    The signature is the same as in ``petastorm.pytorch.InMemBatchedDataLoader``.
    """

    @_suggests_keywords
    def __init__(
        self,
        reader: Any,
        batch_size: int = 1,
        transform_fn: Callable[[Any], Any] | None = None,
        num_epochs: int = 1,
        seed: int = 0,
        rows_capacity: int = 1024,
        shuffle: bool = False,
    ) -> None:
        if num_epochs is None:
            raise ArgumentTypeError(
                "num_epochs=None: InMemBatchedDataLoader needs a number of epochs. To read without "
                "end, iterate over it repeatedly"
            )
        given = {"batch_size": batch_size, "num_epochs": num_epochs, "rows_capacity": rows_capacity}
        for name, value in given.items():
            check_required_integer(name, value, 1)
        check_flag("shuffle", shuffle)
        self._batch_size = batch_size
        self._num_epochs = num_epochs
        self._seed = seed
        self._shuffle = shuffle
        self._mdstorm_next_epoch = 0
        self._keys, self._buffer = _load_rows_into_mem(reader, transform_fn, rows_capacity)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        first = self._mdstorm_next_epoch
        self._mdstorm_next_epoch += self._num_epochs
        for epoch in range(first, first + self._num_epochs):
            order = self._mdstorm_order(epoch)
            for start in range(0, len(order), self._batch_size):
                rows = order[start : start + self._batch_size]
                batch = (tensor[rows] for tensor in self._buffer)
                yield dict(zip(self._keys, batch, strict=True))

    def _mdstorm_order(self, epoch: int) -> torch.Tensor:
        rows = len(self._buffer[0]) if self._buffer else 0
        if not self._shuffle:
            return torch.arange(rows)
        return torch.randperm(rows, generator=torch.Generator().manual_seed(self._seed + epoch))

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        """Do nothing, because the constructor has already stopped the reader."""


def _load_rows_into_mem(
    reader: Any, transform_fn: Callable[[Any], Any] | None, rows_capacity: int
) -> tuple[list[str], list[torch.Tensor]]:
    """Return the column names and tensors of a reader's first rows, and stop the reader.

    Private in Petastorm, but used by copies of its loaders.
    """
    with BatchedDataLoader(reader, min(rows_capacity, ROWS_AT_A_TIME), transform_fn) as loader:
        is_endless = getattr(reader, "num_epochs", 1) is None
        columns = first_rows(loader, rows_capacity, is_endless=is_endless)
    return list(columns), list(columns.values())
