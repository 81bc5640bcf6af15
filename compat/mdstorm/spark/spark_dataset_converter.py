"""Converting Spark DataFrames: the mirror of ``petastorm.spark.spark_dataset_converter``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mdstorm.spark._cache_dir import PETASTORM_CONF, parent_cache_dir
from mdstorm.spark._codec import mds_compression
from mdstorm.spark._context_managers import TFDatasetContextManager, TorchDatasetContextManager
from mdstorm.spark._conversions import find_or_convert, forget
from mdstorm.spark._deletion import (
    delete_at_exit,
    delete_dir,
    keep_after_exit,
    register_delete_dir_handler,
)
from mdstorm.spark._horovod import warn_if_inconsistent
from mdstorm.spark._identity import identify
from mdstorm.spark._reader_arguments import DEFAULT_WORKERS, ReaderArguments
from mdstorm.spark._session import check_driver, directory_name, session_of
from mdstorm_backend.dataset import open_dataset
from mdstorm_backend.optional import require
from mdstorm_backend.spark.materialize import checked_shard_size, materialize
from mdstorm_backend.spark.type_plan import check_float_dtype, plan_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mdstorm_backend.frameworks.torch_loader import StreamingDataLoader

__all__ = [
    "DEFAULT_ROW_GROUP_SIZE_BYTES",
    "SparkDatasetConverter",
    "TFDatasetContextManager",
    "TorchDatasetContextManager",
    "make_spark_converter",
    "register_delete_dir_handler",
]

#: 32 MiB, Petastorm's default, here the largest size of a shard.
DEFAULT_ROW_GROUP_SIZE_BYTES = 32 << 20
_DEFAULT_BATCH_SIZE = 32

_logger = logging.getLogger(__name__)


class SparkDatasetConverter:
    """A converted DataFrame, from which loaders and TensorFlow datasets are made.

    It pickles as its three attributes, and works in any process that can read the files.

    Attributes
    ----------
    cache_dir_url : str
        URL of the MDS dataset.
    file_urls : list of str
        URLs of its shard files, in order.
    dataset_size : int
        Number of rows.
    """

    PARENT_CACHE_DIR_URL_CONF = PETASTORM_CONF

    def __init__(self, cache_dir_url: str, file_urls: list[str], dataset_size: int) -> None:
        self.cache_dir_url = cache_dir_url
        self.file_urls = file_urls
        self.dataset_size = dataset_size

    def __len__(self) -> int:
        return self.dataset_size

    def make_tf_dataset(
        self,
        batch_size: int | None = None,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
        **petastorm_reader_kwargs: Any,
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
        **petastorm_reader_kwargs
            ``cur_shard``, ``shard_count``, ``schema_fields``, ``transform_spec``, ``seed``,
            ``shuffle_rows``, ``shuffle_row_groups``, ``reader_pool_type``; and beyond Petastorm
            ``fill_nulls={column: value}``, ``null_masks=[column, …]`` and ``order``. The order
            ``"exact"``, the default, delivers every row once per epoch over all ranks. The order
            ``"elastic"`` delivers the samples in MosaicML Streaming's order, which resumes with
            other numbers of ranks; there no batch spans epochs, and a transform gets the rows of
            a batch.

        Returns
        -------
        tf.compat.v1.data.Dataset
            Yields namedtuples with one tensor per column, in eager and in graph mode. It can be
            used as it is or in a ``with`` statement.

        Raises
        ------
        ArgumentTypeError
            If a keyword is unknown.
        NullValueError
            If a column holds nulls for which TensorFlow has no value.
        """
        arguments = self._arguments(
            "make_tf_dataset",
            num_epochs,
            workers_count,
            shuffling_queue_capacity,
            petastorm_reader_kwargs,
        )
        require("tensorflow")
        from mdstorm.spark._tensorflow import make_dataset

        return make_dataset(
            self.cache_dir_url,
            self.file_urls,
            arguments,
            batch_size or _DEFAULT_BATCH_SIZE,
            prefetch,
        )

    def make_torch_dataloader(
        self,
        batch_size: int | None = _DEFAULT_BATCH_SIZE,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = 0,
        data_loader_fn: Callable[..., Any] | None = None,
        **petastorm_reader_kwargs: Any,
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
        **petastorm_reader_kwargs
            As in `make_tf_dataset`.

        Returns
        -------
        StreamingDataLoader or TorchDatasetContextManager
            A ``torch.utils.data.DataLoader`` that yields dicts from column to tensor, to be used as
            it is or in a ``with`` statement; with `data_loader_fn` the context manager that calls
            it.

        Raises
        ------
        ArgumentTypeError
            If a keyword is unknown.
        """
        arguments = self._arguments(
            "make_torch_dataloader",
            num_epochs,
            workers_count,
            shuffling_queue_capacity,
            petastorm_reader_kwargs,
        )
        if data_loader_fn is not None:
            reader_kwargs = {
                **petastorm_reader_kwargs,
                "num_epochs": num_epochs,
                "workers_count": workers_count or DEFAULT_WORKERS,
            }
            return TorchDatasetContextManager(
                self.file_urls,
                cast(int, batch_size),
                reader_kwargs,
                shuffling_queue_capacity or 0,
                data_loader_fn,
            )
        require("torch")
        from mdstorm.spark._torch import make_loader

        return make_loader(
            self.cache_dir_url, self.file_urls, arguments, batch_size, self.dataset_size
        )

    def delete(self) -> None:
        """Remove the converted copy: what mdstorm wrote, and the directory if it is then empty."""
        forget(self.cache_dir_url)
        delete_dir(self.cache_dir_url)

    @staticmethod
    def _arguments(
        method: str,
        num_epochs: int | None,
        workers_count: int | None,
        shuffling_queue_capacity: int | None,
        others: dict[str, Any],
    ) -> ReaderArguments:
        arguments = ReaderArguments(
            method, num_epochs, workers_count, shuffling_queue_capacity, others
        )
        warn_if_inconsistent(arguments.cur_shard, arguments.shard_count)
        return arguments


def make_spark_converter(
    df: DataFrame,
    parquet_row_group_size_bytes: int | None = DEFAULT_ROW_GROUP_SIZE_BYTES,
    compression_codec: str | None = None,
    dtype: str | None = "float32",
    *,
    parent_cache_dir_url: str | None = None,
    cache_key: str | None = None,
    keep: bool | None = None,
) -> SparkDatasetConverter:
    """Write a DataFrame as MDS shards below the parent cache directory.

    A frame that has been converted in this process is not written again, as long as its plan, its
    column names and types, the files it reads and the options are the same, and the copy is there.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The frame, of a classic or a Spark Connect session.
    parquet_row_group_size_bytes : int, optional
        Largest size of an uncompressed shard in bytes, 32 MiB by default; None or 0: 64 MiB.
    compression_codec : str, optional
        ``uncompressed``, ``snappy``, ``gzip``, ``bzip2``, ``lz4`` or ``deflate``.
    dtype : {"float32", "float64", None}
        What floating-point scalars, arrays and vectors become; None keeps them.
    parent_cache_dir_url : str, optional
        Directory for converted copies, before any configuration: see `parent_cache_dir`.
    cache_key : str, optional
        Name under which other processes find the copy: it is reused if it was written with the same
        options from a frame with the same columns and source files. The plan is not compared.
    keep : bool, optional
        Whether the copy outlives this process; by default only if it has a `cache_key`.

    Returns
    -------
    SparkDatasetConverter
        The handle of the copy.

    Raises
    ------
    InvalidArgumentError
        If no parent cache directory is configured, or `dtype` is unknown.
    CompressionCodecError
        If `compression_codec` is unknown.
    UnsupportedTypeError
        If columns cannot be stored; nothing has been written then.
    NotADataFrameError
        If `df` is something else.

    Notes
    -----
    The first four parameters are those of ``petastorm.spark.make_spark_converter``.
    """
    check_driver()
    session = session_of(df)
    parent = parent_cache_dir(session, parent_cache_dir_url)
    compression = mds_compression(compression_codec)
    check_float_dtype(dtype)
    plan_types(df.schema.jsonValue()["fields"], dtype)
    options = {
        "shard_size": checked_shard_size(parquet_row_group_size_bytes),
        "compression": compression,
        "dtype": dtype,
    }

    def convert() -> str:
        if dtype is not None:
            _logger.warning("Converting floating-point columns to %s", dtype)
        dir_url = f"{parent}/{directory_name(session)}"
        materialize(
            df,
            dir_url,
            dtype=dtype,
            shard_size=cast(int, options["shard_size"]),
            compression=compression,
        )
        delete_at_exit(dir_url)
        return dir_url

    identity = identify(df, {**options, "parent": parent})
    dataset = open_dataset(find_or_convert(df, identity, parent, convert, cache_key))
    if cache_key if keep is None else keep:
        keep_after_exit(dataset.url)
    return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))
