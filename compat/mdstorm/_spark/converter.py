"""`SparkDatasetConverter`, the handle for a converted DataFrame, which creates loaders."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, cast, overload

from mdstorm._datasets import open_dataset
from mdstorm._petastorm_names import public
from mdstorm._readers import DEFAULT_WORKERS, DEFAULTS, ReaderArguments, ReaderKeywords, accepts
from mdstorm._row_types import ResumableTFDataset, Row
from mdstorm._spark.context_managers import TorchDatasetContextManager
from mdstorm._spark.converter_files import CountedFiles, KeptDataset, ReadFiles, make_tf_dataset
from mdstorm._spark.copies import PETASTORM_CONF, forget
from mdstorm._spark.deletion import delete_dir
from mdstorm._spark.kept_copies import remove_notes_of
from mdstorm._spark.model_inputs import ColumnNames, ModelInputs
from mdstorm._spark.renewed import Renewed
from mdstorm.errors import ArgumentTypeError, DatasetNotFoundError, InvalidArgumentError
from mdstorm_backend.base import cached_property, check_function, check_list, require
from mdstorm_backend.datasets import describe_place
from mdstorm_backend.display import Described, Description, counted, human_bytes, shown_url
from mdstorm_backend.kinds import Openable, directory_of
from mdstorm_backend.read import StackOption
from mdstorm_backend.storage import check_no_secrets

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from mdstorm_backend.datasets import SampleDataset
    from mdstorm_backend.loaders.torch import StreamingDataLoader, TorchBatch

    _Loader = TypeVar("_Loader", default=Any)
    #: The result of `batch_map`, or the batch itself without a `batch_map`.
    _Mapped = TypeVar("_Mapped", default=TorchBatch)


#: Rows per batch.
_DEFAULT_BATCH_SIZE = 32
_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


@public("mdstorm.spark.spark_dataset_converter")
class SparkDatasetConverter(Openable, Described):
    """A converted DataFrame, which creates PyTorch loaders and TensorFlow datasets.

    It can be pickled, which stores only its attributes, and it works in any process that can read
    the files. You can also construct one yourself, for shards of an MDS dataset or for any Parquet
    files.

    Attributes
    ----------
    cache_dir_url : str or None
        URL of the dataset; None means the directory of the files.
    file_urls : list of str
        URLs of the shards or Parquet files, in reading order. For a Delta or Iceberg table, the
        list contains the table's URL, and the converter reads the live rows of a single version.
    dataset_size : int
        Number of rows.
    """

    PARENT_CACHE_DIR_URL_CONF = PETASTORM_CONF

    #: Whether the data belong to the user and are not a converted copy.
    _mdstorm_is_given = False
    #: Whether this object has deleted its copy.
    _mdstorm_is_deleted = False
    #: The default of the methods' argument `decimals`.
    _mdstorm_decimals: str | None = None
    #: The default of the methods' argument `dtype`, for data that are read in place.
    _mdstorm_dtype: str | None = None
    #: Signals to other processes that the copy is in use, as long as the converter or one of its
    #: loaders exists.
    _mdstorm_use: Renewed | None = None
    #: The version of a Delta or Iceberg table; None for other data.
    _mdstorm_version: int | None = None
    #: The rows and bytes of the files; None if the user constructed the converter, and for tables.
    _mdstorm_counted: CountedFiles | None = None
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

    @accepts(ReaderKeywords, DEFAULTS)
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
        """Create a PyTorch loader that yields batches.

        Parameters
        ----------
        batch_size : int, optional
            Rows per batch. A batch may span epochs, and only the last batch may be shorter. None
            puts all rows of all epochs into one batch.
        num_epochs : int, optional
            Number of passes over the data; None means infinite.
        shuffling_queue_capacity : int, optional
            Rows are shuffled within windows of whole shards, which mix them as much as Petastorm's
            queue of this capacity. 0 keeps the row order within each shard.
        features, labels, sample_weights : str or list of str, optional
            Columns for a model. Batches are then ``x``, ``(x, y)`` or ``(x, y, sample_weight)``. A
            name gives a tensor, and a list of names gives a dict of tensors. With `labels` but
            without `features`, all other columns are features. Unused columns are not read.
        stack : bool or str, optional
            Whether a list of names gives one tensor of shape ``(rows, columns)`` instead of a dict.
            The columns must be numeric, and only float columns may contain nulls. The tensor has
            the dtype of the columns, NumPy's promotion of different dtypes, or the dtype that you
            pass, such as ``"float32"``. Floats may be rounded. Any other value that would change
            raises InvalidArgumentError while iterating.
        batch_map : callable, optional
            Function that turns a batch, which is a dict from column name to tensor or list, into
            the model's input.
        device : torch.device or str, optional
            Device that each batch's tensors are copied to ahead of use. For `batch_map` and
            `device`, see `mdstorm_backend.StreamingDataLoader`.
        **petastorm_reader_kwargs
            Petastorm's reader arguments, which `mdstorm.make_batch_reader` describes: ``cur_shard``
            and ``shard_count``, or ``cur_shard="auto"``, for this rank's share of the rows;
            ``schema_fields``, the columns to read; ``seed``, ``shuffle_rows``,
            ``shuffle_row_groups``, ``transform_spec``, ``predicate``, ``filters`` and others. By
            default, ``storage_options``, `decimals` and `dtype` are as passed to
            `make_spark_converter`.

        Other Parameters
        ----------------
        workers_count : int, optional
            Number of reading threads, by default 4, and at most one per processor.
        data_loader_fn : callable, optional
            Function that creates the loader, from the keyword arguments ``reader``, ``batch_size``
            and ``shuffling_queue_capacity``.

        Returns
        -------
        StreamingDataLoader or TorchDatasetContextManager
            A ``torch.utils.data.DataLoader`` that yields dicts from column name to tensor, or the
            requested features, labels and weights. Use it directly or in a ``with`` statement. With
            `data_loader_fn`, the result is the context manager that calls that function.

        Raises
        ------
        ArgumentTypeError
            If a keyword is unknown.
        InvalidArgumentError
            If arguments cannot be combined. If `features`, `labels` or `sample_weights` contain a
            column that does not exist, the error is raised when the loader is first used.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> from mdstorm.spark import make_spark_converter
        >>> pq.write_table(pa.table({"x": [0.0, 0.5, 1.0], "y": [0, 1, 1]}), "/tmp/torch.parquet")
        >>> converter = make_spark_converter("/tmp/torch.parquet")
        >>> loader = converter.make_torch_dataloader(batch_size=2, num_epochs=1, seed=1)
        >>> [batch["x"].tolist() for batch in loader]
        [[0.0, 0.5], [1.0]]
        >>> inputs = {"features": ["x"], "labels": "y", "stack": "float32"}
        >>> x, y = next(iter(converter.make_torch_dataloader(batch_size=3, **inputs)))
        >>> x.shape, y.tolist()
        (torch.Size([3, 1]), [0, 1, 1])
        """
        files = self._mdstorm_read(
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
            )._mdstorm_of(files)
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

    @accepts(ReaderKeywords, DEFAULTS)
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
        """Create a TensorFlow dataset that yields batches.

        Parameters
        ----------
        batch_size : int, optional
            Rows per batch, by default 32. A batch may span epochs, and only the last batch may be
            shorter.
        num_epochs : int, optional
            Number of passes over the data; None means infinite.
        shuffling_queue_capacity : int, optional
            Rows are shuffled within windows of whole shards, which mix them as much as Petastorm's
            queue of this capacity.
        features, labels, sample_weights : str or list of str, optional
            Columns for a model. Batches are then ``x``, ``(x, y)`` or ``(x, y, sample_weight)``, as
            Keras expects them. A name gives a tensor, and a list of names gives a dict of tensors.
            With `labels` but without `features`, all other columns are features. Unused columns are
            not read.
        stack : bool or str, optional
            Whether a list of names gives one tensor of shape ``(rows, columns)`` instead of a dict.
            The columns must be numeric, and only float columns may contain nulls. The tensor has
            the dtype of the columns, NumPy's promotion of different dtypes, or the dtype that you
            pass, such as ``"float32"``. Floats may be rounded. Any other value that would change
            raises InvalidArgumentError while iterating.
        **petastorm_reader_kwargs
            Petastorm's reader arguments, which `mdstorm.make_batch_reader` describes: ``cur_shard``
            and ``shard_count``, or ``cur_shard="auto"``, for this rank's share of the rows;
            ``schema_fields``, the columns to read; ``seed``, ``shuffle_rows``,
            ``shuffle_row_groups``, ``transform_spec``, ``predicate``, ``filters`` and others. By
            default, ``storage_options``, `decimals` and `dtype` are as passed to
            `make_spark_converter`.

        Other Parameters
        ----------------
        prefetch : int, optional
            Number of batches that TensorFlow prefetches; by default, TensorFlow decides.
        workers_count : int, optional
            Number of reading threads, by default 4, and at most one per processor.

        Returns
        -------
        tf.compat.v1.data.Dataset
            Yields namedtuples with one tensor per column, or the requested features, labels and
            weights, in eager and graph mode. Use it directly or in a ``with`` statement. Its
            cardinality is the number of batches, or -1 if it is infinite. The cardinality is
            unknown with the order ``"elastic"``, or if a function, predicate or filters may drop
            rows.

        Raises
        ------
        ArgumentTypeError
            If a keyword is unknown.
        InvalidArgumentError
            If `features`, `labels` or `sample_weights` contain a column that does not exist.
        NullValueError
            If a column contains nulls that TensorFlow has no value for.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> from mdstorm.spark import make_spark_converter
        >>> pq.write_table(pa.table({"x": [0.0, 0.5, 1.0], "y": [0, 1, 1]}), "/tmp/tf.parquet")
        >>> converter = make_spark_converter("/tmp/tf.parquet")
        >>> dataset = converter.make_tf_dataset(batch_size=2, num_epochs=1)
        >>> [batch.x.numpy().tolist() for batch in dataset]
        [[0.0, 0.5], [1.0]]
        >>> inputs = {"features": ["x"], "labels": "y", "stack": "float32"}
        >>> x, y = next(iter(converter.make_tf_dataset(batch_size=3, **inputs)))
        >>> x.shape, y.numpy().tolist()
        (TensorShape([3, 1]), [0, 1, 1])
        """
        files = self._mdstorm_read(
            ModelInputs(features, labels, sample_weights, stack),
            petastorm_reader_kwargs,
            num_epochs=num_epochs,
            workers_count=workers_count,
            shuffling_queue_capacity=shuffling_queue_capacity,
        )
        made: ResumableTFDataset[Any]
        made = make_tf_dataset(
            files, _DEFAULT_BATCH_SIZE if batch_size is None else batch_size, prefetch
        )
        return made

    def delete(self) -> None:
        """Remove the files that mdstorm wrote, and the directory if it is then empty.

        A converter over a path or without a `cache_dir_url` has no copy, so nothing is removed.
        """
        if self._mdstorm_is_given or self.cache_dir_url is None:
            what = self.cache_dir_url or "the data at the file_urls"
            _logger.warning("%s is not a copy that a converter made, so it is not deleted", what)
            return
        forget(self.cache_dir_url)
        delete_dir(self.cache_dir_url)
        remove_notes_of(self.cache_dir_url)
        self._mdstorm_is_deleted = True

    @cached_property
    def dataset(self) -> SampleDataset:
        """The rows by number, as `mdstorm.open_dataset` opens them, with the loaders' columns."""
        return open_dataset(self)

    def _mdstorm_open(self) -> SampleDataset:
        return self._mdstorm_read(ModelInputs(), {}).dataset()

    def __len__(self) -> int:
        return self.dataset_size

    if not TYPE_CHECKING:  # type checkers report an index themselves

        def __getitem__(self, index: object) -> NoReturn:
            """Raise ArgumentTypeError; also called by ``for`` and by PyTorch's ``DataLoader``."""
            raise ArgumentTypeError(
                "a converter has no rows to iterate over or index: iterate over "
                "converter.make_torch_dataloader(…) or converter.make_tf_dataset(…)"
            )

    def __getstate__(self) -> dict[str, Any]:
        check_no_secrets(self._mdstorm_storage_options or {})
        kept = self.__dict__.items()
        return {name: value for name, value in kept if name not in ("_mdstorm_kept", "dataset")}

    def _mdstorm_description(self, *, full: bool) -> Description:
        place = self.cache_dir_url or directory_of(self.file_urls)
        known = self._mdstorm_kept.dataset
        files = self.file_urls if known is None else known.file_urls
        # The URL of a table is not a file, and its files are known once it is open.
        counts_files = known is not None or self._mdstorm_version is None
        line = [repr(shown_url(place)), counted(self.dataset_size, "row")]
        if counts_files:
            line.append(counted(len(files), "file"))
        if known is not None:
            line.append(human_bytes(known.nbytes))
        found = describe_place(place, full=full)
        if self._mdstorm_is_deleted:
            return replace(found, line=[line[0], "deleted"])
        facts = [*found.facts, ("data", "the user's own" if self._mdstorm_is_given else "a copy")]
        if found.headings:  # the headings describe the index, which may list more files
            return replace(found, line=line, facts=facts)
        facts.append(("rows", f"{self.dataset_size:,}"))
        if counts_files:
            facts.append(("files", f"{len(files):,}"))
        if known is None or not full:
            return Description(line, facts)
        return replace(known._mdstorm_description(full=True), line=line, facts=facts)

    def _mdstorm_read(self, inputs: ModelInputs, keywords: Any, **named: Any) -> ReadFiles:
        """Return the files and arguments of a loader.

        Parameters
        ----------
        inputs : ModelInputs
            The columns for a model.
        keywords : ReaderKeywords
            The method's keywords, which the converter's types and storage options are added to.
        **named
            Additional reader arguments.
        """
        if self._mdstorm_is_deleted:
            raise DatasetNotFoundError(
                f"the copy {self.cache_dir_url} was deleted by delete(): convert the frame again",
                url=self.cache_dir_url or "",
            )
        if self._mdstorm_decimals is not None:
            keywords.setdefault("decimals", self._mdstorm_decimals)
        if self._mdstorm_dtype is not None:
            keywords.setdefault("dtype", self._mdstorm_dtype)
        if self._mdstorm_storage_options is not None:
            keywords.setdefault("storage_options", self._mdstorm_storage_options)
        arguments = ReaderArguments.of(version=self._mdstorm_version, **named, **keywords)
        adds = dict.fromkeys(arguments.added["files"] or (), "files")
        if (row_numbers := arguments.added["row_numbers"]) is not None:
            adds[row_numbers] = "row_numbers"
        inputs = replace(inputs, added=adds)
        files = ReadFiles(
            self.cache_dir_url,
            list(self.file_urls),
            arguments,
            inputs,
            use=self._mdstorm_use,
            counted=self._mdstorm_counted,
            kept=self._mdstorm_kept,
        )
        files.check_choice()
        return files

    @cached_property
    def _mdstorm_kept(self) -> KeptDataset:
        """The dataset, if it is open in this process; never pickled."""
        return KeptDataset()

    def _mdstorm_keep(self, dataset: SampleDataset) -> None:
        """Keep the open dataset of the converter's files for its loaders, and for `repr`."""
        self._mdstorm_read(ModelInputs(), {}).keep(dataset)


def converter_of(
    url: str | None, dataset: SampleDataset, decimals: str | None
) -> SparkDatasetConverter:
    """Return a converter over the files of a dataset, whose loaders convert `decimals`."""
    converter = SparkDatasetConverter(url, dataset.file_urls, len(dataset))
    if decimals is not None:
        converter._mdstorm_decimals = decimals
    if dataset.table_version is None:
        converter._mdstorm_counted = CountedFiles.of(dataset)
    return converter
