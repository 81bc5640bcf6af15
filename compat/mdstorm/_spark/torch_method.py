"""The method of a converter that makes PyTorch loaders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

from mdstorm._readers.arguments import DEFAULT_WORKERS
from mdstorm._readers.keywords import ReaderKeywords
from mdstorm._spark.context_managers import TorchDatasetContextManager
from mdstorm._spark.converter_files import DEFAULT_BATCH_SIZE, ConverterFiles
from mdstorm._spark.model_inputs import ColumnNames, ModelInputs
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import require

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeVar, Unpack

    from mdstorm_backend.loaders.torch import StreamingDataLoader, TorchBatch

    _Loader = TypeVar("_Loader", default=Any)
    #: What is made of a batch: itself, without a `batch_map`.
    _Mapped = TypeVar("_Mapped", default=TorchBatch)


class TorchMethod(ConverterFiles):
    """Makes PyTorch loaders over the files of a converter."""

    @overload  # first, since a name is a sequence of names, too
    def make_torch_dataloader(
        self,
        batch_size: int | None = 32,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = 0,
        data_loader_fn: None = None,
        *,
        features: str,
        labels: None = None,
        sample_weights: None = None,
        batch_map: None = None,
        device: Any = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> StreamingDataLoader[torch.Tensor]: ...

    @overload
    def make_torch_dataloader(
        self,
        batch_size: int | None = 32,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = 0,
        data_loader_fn: None = None,
        *,
        features: Sequence[str] | None = None,
        labels: None = None,
        sample_weights: None = None,
        batch_map: Callable[[TorchBatch], _Mapped] | None = None,
        device: Any = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> StreamingDataLoader[_Mapped]: ...

    @overload
    def make_torch_dataloader(
        self,
        batch_size: int | None = 32,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = 0,
        data_loader_fn: None = None,
        *,
        features: ColumnNames | None = None,
        labels: ColumnNames,
        sample_weights: ColumnNames | None = None,
        batch_map: None = None,
        device: Any = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> StreamingDataLoader[tuple[Any, ...]]: ...

    @overload
    def make_torch_dataloader(
        self,
        batch_size: int | None = 32,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = 0,
        data_loader_fn: Callable[..., _Loader] = ...,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> TorchDatasetContextManager[_Loader]: ...

    def make_torch_dataloader(
        self,
        batch_size: int | None = DEFAULT_BATCH_SIZE,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = 0,
        data_loader_fn: Callable[..., Any] | None = None,
        *,
        features: ColumnNames | None = None,
        labels: ColumnNames | None = None,
        sample_weights: ColumnNames | None = None,
        batch_map: Callable[[Any], Any] | None = None,
        device: Any = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> StreamingDataLoader[Any] | TorchDatasetContextManager[Any]:
        """Make a PyTorch loader of batches.

        Parameters
        ----------
        batch_size : int, optional
            Rows of a batch. Batches span epochs; the last one may be shorter. None, 0 or less: all
            rows of all epochs in one batch.
        num_epochs : int, optional
            Passes over the data; None never ends.
        workers_count : int, optional
            Threads that read, 4 by default and at most one per processor.
        shuffling_queue_capacity : int, optional
            Rows are shuffled within windows of so many rows or, if that is more, one shard; 0 keeps
            the order of the rows of a shard.
        data_loader_fn : callable, optional
            Makes the loader from the keywords ``reader``, ``batch_size`` and
            ``shuffling_queue_capacity``.
        features, labels, sample_weights : str or list of str, optional
            Columns that a model takes. Batches are then ``x``, ``(x, y)`` or ``(x, y,
            sample_weight)``: a tensor for a name, a dict of tensors for a list. With `labels` and
            no `features`, all other columns are features. Columns that are not named are not read.
        batch_map : callable, optional
            Makes whatever the model takes of a batch, a dict from column to tensor or list.
        device : torch.device or str, optional
            Where the tensors of a batch are to be; they are copied there ahead of use. For both see
            `mdstorm_backend.StreamingDataLoader`.
        **petastorm_reader_kwargs
            ``cur_shard`` and ``shard_count``, the share of the rows to read: rank and number of
            ranks, or ``cur_shard="auto"``; ``schema_fields``, the columns to read; ``seed``, an
            integer to repeat an order; ``shuffle_row_groups=False`` to keep the order of the
            shards; ``shuffle_rows``; ``transform_spec``; ``predicate`` and ``filters``, the rows to
            deliver; ``reader_pool_type``; and beyond Petastorm ``fill_nulls={column: value}``,
            ``null_masks=[column, …]``, ``order="elastic"`` for MosaicML Streaming's order,
            ``decimals``, by default as `make_spark_converter` was told, and
            ``transform_whole_shards=True``, which calls the function of ``transform_spec`` with
            the rows of a whole shard, not with slices of it.
            `mdstorm.make_batch_reader` describes them all.

        Returns
        -------
        StreamingDataLoader or TorchDatasetContextManager
            A ``torch.utils.data.DataLoader`` that yields dicts from column to tensor, or what
            `features` and the others name, to be used as it is or in a ``with`` statement; with
            `data_loader_fn` the context manager that calls it.

        Raises
        ------
        ArgumentTypeError
            If a keyword is unknown.
        InvalidArgumentError
            If `features`, `labels` or `sample_weights` name a column that is not there, which the
            first use tells, or arguments do not go together.
        """
        files = self._mdstorm_read(
            self.make_torch_dataloader,
            ModelInputs(features, labels, sample_weights),
            petastorm_reader_kwargs,
            num_epochs=num_epochs,
            workers_count=workers_count,
            shuffling_queue_capacity=shuffling_queue_capacity,
        )
        if data_loader_fn is not None:
            if files.inputs or batch_map is not None or device is not None:
                raise InvalidArgumentError(
                    "data_loader_fn makes the batches itself, so features, labels, sample_weights, "
                    "batch_map and device do not go with it: leave one or the other out"
                )
            reader_kwargs = {
                **petastorm_reader_kwargs,
                "num_epochs": num_epochs,
                "workers_count": workers_count or DEFAULT_WORKERS,
                **({} if self._mdstorm_version is None else {"version": self._mdstorm_version}),
            }
            return TorchDatasetContextManager(
                self.file_urls,
                cast(int, batch_size),
                reader_kwargs,
                shuffling_queue_capacity or 0,
                data_loader_fn,
            )
        require("torch")
        from mdstorm._spark.torch_loader import make_loader

        return make_loader(files, batch_size, self.dataset_size, batch_map=batch_map, device=device)
