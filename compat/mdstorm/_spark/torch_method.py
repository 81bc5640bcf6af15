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
from mdstorm_backend.base import check_function, require

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
            Rows per batch. A batch may span epochs; only the last one may be shorter. With None, 0
            or less, all rows of all epochs are one batch.
        num_epochs : int, optional
            Number of passes over the data; with None the loader is endless.
        workers_count : int, optional
            Number of reading threads, by default 4 and at most one per processor.
        shuffling_queue_capacity : int, optional
            Rows are shuffled within windows of whole shards with at least this many rows. 0 keeps
            the order of the rows within each shard.
        data_loader_fn : callable, optional
            Function that creates the loader, from the keyword arguments ``reader``, ``batch_size``
            and ``shuffling_queue_capacity``.
        features, labels, sample_weights : str or list of str, optional
            Columns for a model. Batches are then ``x``, ``(x, y)`` or ``(x, y, sample_weight)``. A
            name gives a tensor, a list of names a dict of tensors. With `labels` and without
            `features`, all other columns are features. Columns that are not named are not read.
        batch_map : callable, optional
            Function that turns a batch, a dict from column name to tensor or list, into whatever
            the model takes.
        device : torch.device or str, optional
            Device to which the tensors of each batch are copied, ahead of use. For `batch_map` and
            `device`, see `mdstorm_backend.StreamingDataLoader`.
        **petastorm_reader_kwargs
            Petastorm's reader arguments: ``cur_shard`` and ``shard_count``, the rank and the number
            of ranks whose share of the rows to read, or ``cur_shard="auto"``; ``schema_fields``,
            the columns to read; ``seed``, an integer that makes the order repeatable;
            ``shuffle_row_groups=False``, which keeps the order of the shards; ``shuffle_rows``;
            ``transform_spec``; ``predicate`` and ``filters``, which select rows;
            ``reader_pool_type``. Beyond Petastorm: ``fill_nulls={column: value}``;
            ``null_masks=[column, …]``; ``order="elastic"`` for MosaicML Streaming's order;
            ``decode="photo", size=224``, which turns a column of image files into arrays;
            ``decimals``, by default as passed to `make_spark_converter`; and
            ``transform_whole_shards=True``, which passes the rows of a whole shard to the function
            of ``transform_spec``, instead of slices of a shard. `mdstorm.make_batch_reader`
            describes them all.

        Returns
        -------
        StreamingDataLoader or TorchDatasetContextManager
            A ``torch.utils.data.DataLoader`` that yields dicts from column name to tensor, or the
            features, labels and weights that you named. Use it directly or in a ``with`` statement.
            With `data_loader_fn`, the context manager that calls it.

        Raises
        ------
        ArgumentTypeError
            If a keyword is unknown.
        InvalidArgumentError
            If arguments cannot be combined. If `features`, `labels` or `sample_weights` name a
            column that does not exist, the error is raised when the loader is first used.
        """
        files = self._mdstorm_read(
            self.make_torch_dataloader,
            ModelInputs(features, labels, sample_weights),
            petastorm_reader_kwargs,
            num_epochs=num_epochs,
            workers_count=workers_count,
            shuffling_queue_capacity=shuffling_queue_capacity,
        )
        check_function("data_loader_fn", data_loader_fn)
        if data_loader_fn is not None:
            if files.inputs or batch_map is not None or device is not None:
                raise InvalidArgumentError(
                    "data_loader_fn makes the batches itself, without features, labels, "
                    "sample_weights, batch_map and device: leave one or the other out"
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
