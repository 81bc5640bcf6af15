"""`SparkDatasetConverter`: the handle of a converted DataFrame, from which loaders are made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, cast, overload

from mdstorm._datasets.sources import directory_of
from mdstorm._petastorm_names import public
from mdstorm._readers.arguments import (
    DEFAULT_WORKERS,
    READER_KEYWORDS,
    ReaderArguments,
    ReaderKeywords,
    check_keywords,
)
from mdstorm._rows import ResumableTFDataset, Row
from mdstorm._spark.context_managers import TorchDatasetContextManager
from mdstorm._spark.converter_files import ColumnNames, ModelInputs, ReadFiles, make_tf_dataset
from mdstorm._spark.copies import PETASTORM_CONF, forget
from mdstorm._spark.deletion import delete_dir
from mdstorm._spark.renewed import Renewed
from mdstorm.errors import DatasetNotFoundError, InvalidArgumentError
from mdstorm_backend.base import check_function, check_list, require
from mdstorm_backend.datasets import describe_place
from mdstorm_backend.display import Described, Description, counted, human_bytes, shown_url
from mdstorm_backend.read import StackOption
from mdstorm_backend.storage import check_no_secrets

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from mdstorm_backend.loaders.torch import StreamingDataLoader, TorchBatch

    _Loader = TypeVar("_Loader", default=Any)
    #: The result of `batch_map`, or the batch itself without a `batch_map`.
    _Mapped = TypeVar("_Mapped", default=TorchBatch)


#: Rows per batch.
_DEFAULT_BATCH_SIZE = 32
_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


@public("mdstorm.spark.spark_dataset_converter")
class SparkDatasetConverter(Described):
    """A converted DataFrame, which creates PyTorch loaders and TensorFlow datasets.

    It can be pickled: only its attributes are stored, and it works in any process that can read the
    files. You can also construct one yourself, over shards of an MDS dataset or over any Parquet
    files.

    Attributes
    ----------
    cache_dir_url : str or None
        URL of the dataset; None means the directory of the files.
    file_urls : list of str
        URLs of the shards or Parquet files, in the order in which they are read. For a Delta table,
        the URL of the table, of which the converter reads the live rows of one version.
    dataset_size : int
        Number of rows.
    """

    PARENT_CACHE_DIR_URL_CONF = PETASTORM_CONF

    #: Whether the data belong to the user, and are not a converted copy.
    _mdstorm_is_given = False
    #: Whether this object has removed its copy.
    _mdstorm_is_deleted = False
    #: The default of the methods' argument `decimals`.
    _mdstorm_decimals: str | None = None
    #: The default of the methods' argument `dtype`, for data that are read in place.
    _mdstorm_dtype: str | None = None
    #: The data as they were opened when the converter was made, for `repr`; never pickled.
    _mdstorm_known: Any = None
    #: Shows other processes that the copy is in use; loaders hold a reference to it as well.
    _mdstorm_use: Renewed | None = None
    #: The version of a Delta or Iceberg table; None for other data.
    _mdstorm_version: int | None = None
    #: The default of the methods' argument `storage_options`.
    _mdstorm_storage_options: dict[str, Any] | None = None

    def __init__(self, cache_dir_url: str | None, file_urls: list[str], dataset_size: int) -> None:
        check_list("file_urls", file_urls)
        self.cache_dir_url = cache_dir_url
        self.file_urls = file_urls
        self.dataset_size = dataset_size

    @overload
    def make_torch_dataloader(
        self,
        batch_size: int | None = 32,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = 0,
        data_loader_fn: None = None,
        *,
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
        labels: ColumnNames | None = None,
        sample_weights: ColumnNames | None = None,
        stack: StackOption = False,
        device: Any = None,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> StreamingDataLoader[Any]: ...

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
        batch_size: int | None = _DEFAULT_BATCH_SIZE,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = 0,
        data_loader_fn: Callable[..., Any] | None = None,
        *,
        features: ColumnNames | None = None,
        labels: ColumnNames | None = None,
        sample_weights: ColumnNames | None = None,
        stack: StackOption = False,
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
        stack : bool or str, optional
            Whether a list of names gives one tensor of shape ``(rows, columns)`` instead of a dict.
            Its columns have to hold numbers, and no nulls unless they are floats. The tensor has
            the columns' dtype, NumPy's promotion of several, or the dtype that you name, such as
            ``"float32"``. Floats may be rounded; any other value that would change is an
            InvalidArgumentError while iterating.
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
            ``on_corrupt="skip"``, which leaves out damaged rows;
            ``decimals``, ``dtype`` and ``storage_options``, by default as passed to
            `make_spark_converter`; and ``transform_whole_shards=True``, which passes the rows of a
            whole shard to the function of ``transform_spec``, instead of slices of a shard.
            `mdstorm.make_batch_reader` describes them all.

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
            ModelInputs(features, labels, sample_weights, stack),
            petastorm_reader_kwargs,
            num_epochs=num_epochs,
            workers_count=workers_count,
            shuffling_queue_capacity=shuffling_queue_capacity,
        )
        check_function("data_loader_fn", data_loader_fn)
        if data_loader_fn is not None:
            if files.inputs or batch_map is not None or device is not None:
                raise InvalidArgumentError(
                    "data_loader_fn makes the batches itself and ignores features, labels, "
                    "sample_weights, batch_map and device: pass either data_loader_fn or "
                    "these arguments"
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

    @overload
    def make_tf_dataset(
        self,
        batch_size: int | None = None,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
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
        features: ColumnNames | None = None,
        labels: ColumnNames | None = None,
        sample_weights: ColumnNames | None = None,
        stack: StackOption = False,
        **petastorm_reader_kwargs: Unpack[ReaderKeywords],
    ) -> ResumableTFDataset[Any]: ...

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
        stack: StackOption = False,
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
        stack : bool or str, optional
            Whether a list of names gives one tensor of shape ``(rows, columns)`` instead of a dict.
            Its columns have to hold numbers, and no nulls unless they are floats. The tensor has
            the columns' dtype, NumPy's promotion of several, or the dtype that you name, such as
            ``"float32"``. Floats may be rounded; any other value that would change is an
            InvalidArgumentError while iterating.
        **petastorm_reader_kwargs
            Petastorm's reader arguments ``cur_shard``, ``shard_count``, ``schema_fields``,
            ``transform_spec``, ``seed``, ``shuffle_rows``, ``shuffle_row_groups`` and
            ``reader_pool_type``, and others that `mdstorm.make_batch_reader` describes. Beyond
            Petastorm: ``fill_nulls={column: value}``; ``null_masks=[column, …]``; ``decode="photo",
            size=224``, which turns a column of image files into arrays; ``on_corrupt="skip"``,
            which leaves out damaged rows; ``decimals``, ``dtype`` and ``storage_options``, by
            default as passed to `make_spark_converter`;
            ``transform_whole_shards=True``, which passes whole shards to the function of
            ``transform_spec``; and ``order``. The default order
            ``"exact"`` yields every row once per epoch across all ranks, even when a run resumes
            on another number of ranks. The order ``"elastic"`` yields the samples in MosaicML
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
            ModelInputs(features, labels, sample_weights, stack),
            petastorm_reader_kwargs,
            num_epochs=num_epochs,
            workers_count=workers_count,
            shuffling_queue_capacity=shuffling_queue_capacity,
        )
        made: ResumableTFDataset[Any]
        made = make_tf_dataset(files, batch_size or _DEFAULT_BATCH_SIZE, prefetch)
        return made

    def delete(self) -> None:
        """Remove the files that mdstorm wrote, and the directory if it is then empty.

        A converter over a path, or without a `cache_dir_url`, has no copy, and removes nothing.
        """
        if self._mdstorm_is_given or self.cache_dir_url is None:
            what = self.cache_dir_url or "the data at the file_urls"
            _logger.warning("%s is not a copy that a converter made, so it is not deleted", what)
            return
        forget(self.cache_dir_url)
        delete_dir(self.cache_dir_url)
        self._mdstorm_is_deleted = True

    def __len__(self) -> int:
        return self.dataset_size

    def __getstate__(self) -> dict[str, Any]:
        check_no_secrets(self._mdstorm_storage_options or {})
        return {name: value for name, value in self.__dict__.items() if name != "_mdstorm_known"}

    def _mdstorm_description(self, *, full: bool) -> Description:
        place = self.cache_dir_url or directory_of(self.file_urls)
        rows, files = counted(self.dataset_size, "row"), len(self.file_urls)
        line = [repr(shown_url(place)), rows, counted(files, "file")]
        if self._mdstorm_known is not None:
            line.append(human_bytes(self._mdstorm_known.nbytes))
        found = describe_place(place, full=full)
        if self._mdstorm_is_deleted:
            return replace(found, line=[line[0], "deleted"])
        facts = [*found.facts, ("data", "the user's own" if self._mdstorm_is_given else "a copy")]
        if found.headings:  # from the index, which may list more files
            return replace(found, line=line, facts=facts)
        facts += [("rows", f"{self.dataset_size:,}"), ("files", f"{files:,}")]
        if self._mdstorm_known is None or not full:
            return Description(line, facts)
        known: Description = self._mdstorm_known._mdstorm_description(full=True)
        return replace(known, line=line, facts=facts)

    def _mdstorm_read(
        self, method: Callable[..., Any], inputs: ModelInputs, keywords: Any, **named: Any
    ) -> ReadFiles:
        """Return the files and arguments of a loader.

        Parameters
        ----------
        method : callable
            The method that makes it, of which other keywords are refused.
        inputs : ModelInputs
            Which columns a model takes.
        keywords : ReaderKeywords
            The method's keywords, to which the converter's types and storage options are added.
        **named
            Further arguments of a reader.
        """
        if self._mdstorm_is_deleted:
            raise DatasetNotFoundError(
                f"the copy {self.cache_dir_url} was deleted by delete(): convert the frame again",
                url=self.cache_dir_url or "",
            )
        known = [*list(signature(method).parameters)[:-1], *READER_KEYWORDS]
        check_keywords(method.__name__, keywords, known)
        if self._mdstorm_decimals is not None:
            keywords.setdefault("decimals", self._mdstorm_decimals)
        if self._mdstorm_dtype is not None:
            keywords.setdefault("dtype", self._mdstorm_dtype)
        if self._mdstorm_storage_options is not None:
            keywords.setdefault("storage_options", self._mdstorm_storage_options)
        arguments = ReaderArguments(version=self._mdstorm_version, **named, **keywords)
        return ReadFiles(
            self.cache_dir_url, list(self.file_urls), arguments, inputs, use=self._mdstorm_use
        )
