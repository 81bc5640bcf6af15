"""`SparkDatasetConverter`: the handle of a converted DataFrame, from which loaders are made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mdstorm._public import public
from mdstorm._readers.arguments import DEFAULT_WORKERS, ReaderArguments
from mdstorm._readers.keywords import ReaderKeywords, refuses_unknown_keywords
from mdstorm._spark.cache_dir import PETASTORM_CONF
from mdstorm._spark.context_managers import TorchDatasetContextManager
from mdstorm._spark.conversions import forget
from mdstorm._spark.deletion import delete_dir
from mdstorm._spark.description import describe_converter
from mdstorm._spark.model_inputs import ColumnNames, ModelInputs
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import require
from mdstorm_backend.display import Described, Description

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mdstorm_backend.loaders.torch import StreamingDataLoader

_DEFAULT_BATCH_SIZE = 32

_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


@public("mdstorm.spark.spark_dataset_converter")
class SparkDatasetConverter(Described):
    """A converted DataFrame, from which loaders and TensorFlow datasets are made.

    It pickles as its attributes, and works in any process that can read the files. It may be
    made by hand: over shards of an MDS dataset, or over any Parquet files.

    Attributes
    ----------
    cache_dir_url : str or None
        URL of the dataset; None for the directory that the files are in.
    file_urls : list of str
        URLs of its shards, or of Parquet files: what is read, in this order. Of a Delta table its
        own URL: the converter reads the live rows of one version.
    dataset_size : int
        Number of rows.
    """

    PARENT_CACHE_DIR_URL_CONF = PETASTORM_CONF

    #: Whether the data are the user's own.
    _is_given = False
    #: What was said of decimals, unless a method is told otherwise.
    _decimals: str | None = None
    #: The data as they were opened when the converter was made, for `repr`; never pickled.
    _known: Any = None
    #: The version of a Delta table.
    _version: int | None = None

    def __init__(self, cache_dir_url: str | None, file_urls: list[str], dataset_size: int) -> None:
        self.cache_dir_url = cache_dir_url
        self.file_urls = file_urls
        self.dataset_size = dataset_size

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_known"}

    def _mdstorm_description(self, *, full: bool) -> Description:
        return describe_converter(self, full=full)

    def __len__(self) -> int:
        return self.dataset_size

    @refuses_unknown_keywords
    def make_tf_dataset(
        self,
        batch_size: int | None = None,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
        *,
        features: ColumnNames | None = None,
        labels: ColumnNames | None = None,
        sample_weights: ColumnNames | None = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> Any:
        """Make a TensorFlow dataset of batches.

        Parameters
        ----------
        batch_size : int, optional
            Rows of a batch, 32 by default. Batches span epochs; the last one may be shorter.
        prefetch : int, optional
            Batches that TensorFlow keeps ready; by default it decides.
        num_epochs : int, optional
            Passes over the data; None never ends.
        workers_count : int, optional
            Threads that read, 4 by default and at most one per processor.
        shuffling_queue_capacity : int, optional
            Rows are shuffled within windows of so many rows or, if that is more, one shard.
        features, labels, sample_weights : str or list of str, optional
            Columns that a model takes. Batches are then ``x``, ``(x, y)`` or ``(x, y,
            sample_weight)``, as Keras takes them: a tensor for a name, a dict of tensors for a
            list. With `labels` and no `features`, all other columns are features. Columns that
            are not named are not read.
        **petastorm_reader_kwargs
            ``cur_shard``, ``shard_count``, ``schema_fields``, ``transform_spec``, ``seed``,
            ``shuffle_rows``, ``shuffle_row_groups``, ``reader_pool_type``; and beyond Petastorm
            ``fill_nulls={column: value}``, ``null_masks=[column, …]``, ``order`` and ``decimals``,
            which is by default what `make_spark_converter` was given. The order
            ``"exact"``, the default, delivers every row once per epoch over all ranks, also when it
            is resumed with other numbers of ranks. The order ``"elastic"`` delivers the samples in
            MosaicML Streaming's order; there no batch spans epochs, and a transform gets the rows
            of a batch. Without a ``seed`` (0 is none in the exact order) one is drawn at random, or
            with shard arguments it is 9176, the same on all ranks. ``cur_shard="auto"`` takes rank
            and world size from the process group or the launcher when a pass begins; without shard
            arguments every process reads all rows, see `mdstorm.reader.make_batch_reader`.

        Returns
        -------
        tf.compat.v1.data.Dataset
            Yields namedtuples with one tensor per column, or what `features` and the others name,
            in eager and in graph mode. It can be used as it is or in a ``with`` statement. Its
            cardinality is the number of batches, -1 without an end, and unknown where rows may be
            dropped, by a function, a predicate or filters, and in the order ``"elastic"``.

        Raises
        ------
        ArgumentTypeError
            If a keyword is unknown.
        InvalidArgumentError
            If `features`, `labels` or `sample_weights` name a column that is not there.
        NullValueError
            If a column holds nulls for which TensorFlow has no value.
        """
        inputs = ModelInputs(features, labels, sample_weights)
        if self._decimals is not None:
            petastorm_reader_kwargs.setdefault("decimals", self._decimals)
        arguments = ReaderArguments(
            num_epochs=num_epochs,
            workers_count=workers_count,
            shuffling_queue_capacity=shuffling_queue_capacity,
            version=self._version,
            **petastorm_reader_kwargs,
        )
        require("tensorflow")
        from mdstorm._spark.tf_dataset import make_dataset

        return make_dataset(
            self.cache_dir_url,
            self.file_urls,
            arguments,
            batch_size or _DEFAULT_BATCH_SIZE,
            prefetch,
            inputs,
        )

    @refuses_unknown_keywords
    def make_torch_dataloader(
        self,
        batch_size: int | None = _DEFAULT_BATCH_SIZE,
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
    ) -> StreamingDataLoader | TorchDatasetContextManager:
        """Make a PyTorch loader of batches.

        Parameters
        ----------
        batch_size : int, optional
            Rows of a batch. Batches span epochs; the last one may be shorter. None, 0 or less: all
            rows of all epochs in one batch.
        num_epochs, workers_count, shuffling_queue_capacity
            As in `make_tf_dataset`.
        data_loader_fn : callable, optional
            Makes the loader from the keywords ``reader``, ``batch_size`` and
            ``shuffling_queue_capacity``.
        features, labels, sample_weights
            As in `make_tf_dataset`: batches are then ``x``, ``(x, y)`` or ``(x, y,
            sample_weight)``.
        batch_map : callable, optional
            Makes whatever the model takes of a batch, a dict from column to tensor or list.
        device : torch.device or str, optional
            Where the tensors of a batch are to be; they are copied there ahead of use. For both see
            `mdstorm_backend.StreamingDataLoader`.
        **petastorm_reader_kwargs
            As in `make_tf_dataset`.

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
        inputs = ModelInputs(features, labels, sample_weights)
        if self._decimals is not None:
            petastorm_reader_kwargs.setdefault("decimals", self._decimals)
        arguments = ReaderArguments(
            num_epochs=num_epochs,
            workers_count=workers_count,
            shuffling_queue_capacity=shuffling_queue_capacity,
            version=self._version,
            **petastorm_reader_kwargs,
        )
        if data_loader_fn is not None:
            if inputs or batch_map is not None or device is not None:
                raise InvalidArgumentError(
                    "data_loader_fn makes the batches itself, so features, labels, sample_weights, "
                    "batch_map and device do not go with it: leave one or the other out"
                )
            reader_kwargs = {
                **petastorm_reader_kwargs,
                "num_epochs": num_epochs,
                "workers_count": workers_count or DEFAULT_WORKERS,
                **({} if self._version is None else {"version": self._version}),
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

        return make_loader(
            self.cache_dir_url,
            self.file_urls,
            arguments,
            batch_size,
            self.dataset_size,
            inputs=inputs,
            batch_map=batch_map,
            device=device,
        )

    def delete(self) -> None:
        """Remove the converted copy: what mdstorm wrote, and the directory if it is then empty.

        A converter that was made from a path, or without `cache_dir_url`, has no copy, and removes
        nothing.
        """
        if self._is_given or self.cache_dir_url is None:
            what = self.cache_dir_url or "what is at the file_urls"
            _logger.warning("%s is no copy that a converter made: it stays", what)
            return
        forget(self.cache_dir_url)
        delete_dir(self.cache_dir_url)
