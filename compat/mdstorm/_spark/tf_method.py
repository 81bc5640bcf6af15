"""The method of a converter that makes TensorFlow datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from mdstorm._readers.keywords import ReaderKeywords
from mdstorm._rows.static_types import ResumableTFDataset, Row
from mdstorm._spark.converter_files import DEFAULT_BATCH_SIZE, ConverterFiles
from mdstorm._spark.model_inputs import ColumnNames, ModelInputs
from mdstorm_backend.base import require

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TFMethod(ConverterFiles):
    """Makes TensorFlow datasets over the files of a converter."""

    @overload
    def make_tf_dataset(
        self,
        batch_size: int | None = None,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
        *,
        features: None = None,
        labels: None = None,
        sample_weights: None = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> ResumableTFDataset[Row]: ...

    @overload
    def make_tf_dataset(
        self,
        batch_size: int | None = None,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
        *,
        features: str,
        labels: None = None,
        sample_weights: None = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> ResumableTFDataset[Any]: ...

    @overload
    def make_tf_dataset(
        self,
        batch_size: int | None = None,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
        *,
        features: Sequence[str],
        labels: None = None,
        sample_weights: None = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> ResumableTFDataset[dict[str, Any]]: ...

    @overload
    def make_tf_dataset(
        self,
        batch_size: int | None = None,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
        *,
        features: ColumnNames | None = None,
        labels: ColumnNames,
        sample_weights: ColumnNames | None = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> ResumableTFDataset[tuple[Any, ...]]: ...

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
    ) -> ResumableTFDataset[Any]:
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
            ``fill_nulls={column: value}``, ``null_masks=[column, …]``, ``decimals``, which
            is by default what `make_spark_converter` was given, ``transform_whole_shards=True``,
            which calls the function of ``transform_spec`` with whole shards, and ``order``. The
            order ``"exact"``, the default, delivers every row once per epoch over all ranks, also
            when it is resumed with other numbers of ranks. The order ``"elastic"`` delivers the
            samples in MosaicML Streaming's order; there no batch spans epochs, and a transform
            gets the rows of a batch. Without a ``seed`` (0 is none in the exact order) one is drawn
            at random, or with shard arguments it is 9176, the same on all ranks.
            ``cur_shard="auto"`` takes rank and world size from the process group or the launcher
            when a pass begins; without shard arguments every process reads all rows, see
            `mdstorm.make_batch_reader`.

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
        files = self._mdstorm_read(
            self.make_tf_dataset,
            ModelInputs(features, labels, sample_weights),
            petastorm_reader_kwargs,
            num_epochs=num_epochs,
            workers_count=workers_count,
            shuffling_queue_capacity=shuffling_queue_capacity,
        )
        require("tensorflow")
        from mdstorm._spark.tf_dataset import make_dataset

        made: ResumableTFDataset[Any]
        made = make_dataset(files, batch_size or DEFAULT_BATCH_SIZE, prefetch)
        return made
