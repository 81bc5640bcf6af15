"""The method of a converter that makes TensorFlow datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from mdstorm._readers.keywords import ReaderKeywords
from mdstorm._rows import ResumableTFDataset, Row
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
            Rows per batch, by default 32. A batch may span epochs; only the last one may be
            shorter.
        prefetch : int, optional
            Number of batches that TensorFlow keeps ready; by default TensorFlow decides.
        num_epochs : int, optional
            Number of passes over the data; with None the dataset is endless.
        workers_count : int, optional
            Number of reading threads, by default 4 and at most one per processor.
        shuffling_queue_capacity : int, optional
            Rows are shuffled within windows of whole shards with at least this many rows.
        features, labels, sample_weights : str or list of str, optional
            Columns for a model. Batches are then ``x``, ``(x, y)`` or ``(x, y, sample_weight)``, as
            Keras expects them. A name gives a tensor, a list of names a dict of tensors. With
            `labels` and without `features`, all other columns are features. Columns that are not
            named are not read.
        **petastorm_reader_kwargs
            Petastorm's reader arguments ``cur_shard``, ``shard_count``, ``schema_fields``,
            ``transform_spec``, ``seed``, ``shuffle_rows``, ``shuffle_row_groups`` and
            ``reader_pool_type``, and others that `mdstorm.make_batch_reader` describes. Beyond
            Petastorm: ``fill_nulls={column: value}``; ``null_masks=[column, …]``; ``decode="photo",
            size=224``, which turns a column of image files into arrays; ``decimals``, by default as
            passed to `make_spark_converter`; ``transform_whole_shards=True``, which passes whole
            shards to the function of ``transform_spec``; and ``order``. The default order
            ``"exact"`` delivers every row once per epoch across all ranks, even when a run resumes
            on another number of ranks. The order ``"elastic"`` delivers the samples in MosaicML
            Streaming's order: no batch spans epochs, and a transform gets the rows of a batch. The
            default ``seed`` is 9176 on all ranks with shard arguments, and drawn at random without
            them; 0 means no seed in the exact order. ``cur_shard="auto"`` takes rank and world size
            from the process group or the launcher when a pass begins. Without shard arguments,
            every process reads all rows.

        Returns
        -------
        tf.compat.v1.data.Dataset
            Yields namedtuples with one tensor per column, or the features, labels and weights that
            you named, in eager and in graph mode. Use it directly or in a ``with`` statement. Its
            cardinality is the number of batches; -1 if it is endless; unknown if a function, a
            predicate or filters may drop rows, and in the order ``"elastic"``.

        Raises
        ------
        ArgumentTypeError
            If a keyword is unknown.
        InvalidArgumentError
            If `features`, `labels` or `sample_weights` name a column that does not exist.
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
