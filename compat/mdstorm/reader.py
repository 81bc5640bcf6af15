"""Dataset readers, mirroring ``petastorm.reader``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from mdstorm import errors
from mdstorm._datasets import checked_source, checked_url, opened
from mdstorm._petastorm_names import other_names
from mdstorm._readers import AddedReaderKeywords, Reader, ReaderArguments, accepts
from mdstorm.ngram import NGram
from mdstorm.predicates import PredicateBase
from mdstorm.selectors import RowGroupSelectorBase
from mdstorm.transform import TransformSpec
from mdstorm_backend.base import warn_user
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.kinds import open_stored

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "LOCAL_DISK_CACHE",
    "NULL_CACHE",
    "Reader",
    "make_batch_reader",
    "make_reader",
    "normalize_dataset_url_or_urls",
]

#: ``cache_type`` for readers without a cache.
NULL_CACHE = "null"
#: ``cache_type`` for readers that cache decoded row groups on a local disk.
LOCAL_DISK_CACHE = "local-disk"
__getattr__ = other_names(__name__)


@accepts(AddedReaderKeywords)
def make_reader(
    dataset_url: str | PathLike[str] | list[Any],
    schema_fields: Collection[Any] | NGram | None = None,
    reader_pool_type: str = "thread",
    workers_count: int = 10,
    pyarrow_serialize: bool = False,
    results_queue_size: int = 50,
    seed: int | None = None,
    shuffle_rows: bool = False,
    shuffle_row_groups: bool = True,
    shuffle_row_drop_partitions: int = 1,
    predicate: PredicateBase | None = None,
    rowgroup_selector: RowGroupSelectorBase | None = None,
    num_epochs: int | None = 1,
    cur_shard: int | Literal["auto"] | None = None,
    shard_count: int | Literal["auto"] | None = None,
    shard_seed: int | None = None,
    cache_type: str | None = NULL_CACHE,
    cache_location: str | None = None,
    cache_size_limit: int | None = None,
    cache_row_size_estimate: int | None = None,
    cache_extra_settings: dict[str, Any] | None = None,
    hdfs_driver: str = "libhdfs3",
    transform_spec: TransformSpec | None = None,
    filters: Any = None,
    storage_options: dict[str, Any] | None = None,
    zmq_copy_buffers: bool = True,
    filesystem: Any = None,
    convert_early_to_numpy: bool = False,
    **added: Unpack[AddedReaderKeywords],
) -> Reader:
    """Open a dataset for reading row by row.

    This reader is for datasets written by Petastorm or `materialize_dataset`, whose fields it
    decodes. Other datasets can also be read, but mdstorm infers a schema from their columns and
    issues a warning.

    Parameters
    ----------
    schema_fields : iterable of str or of UnischemaField, or NGram, optional
        As in `make_batch_reader`, or an `NGram` to join consecutive rows.
    transform_spec : TransformSpec, optional
        A transform whose function is called with each row as a dict.
    dataset_url, seed, shuffle_rows, shuffle_row_groups, predicate, num_epochs, cur_shard,
    shard_count, filters, storage_options, filesystem
        As in `make_batch_reader`, except that a predicate gets one row at a time.

    Other Parameters
    ----------------
    pyarrow_serialize : bool
        Has no effect.
    reader_pool_type, workers_count, results_queue_size, shuffle_row_drop_partitions,
    rowgroup_selector, shard_seed, cache_type, cache_location, cache_size_limit,
    cache_row_size_estimate, cache_extra_settings, hdfs_driver, zmq_copy_buffers,
    convert_early_to_numpy
        As in `make_batch_reader`.

    Returns
    -------
    Reader
        Yields namedtuples with one value per field: NumPy scalars and arrays, and `Decimal`. A null
        is NaN in a field of floating-point scalars, and None in others. With an `NGram`, yields
        n-grams of such rows.

    Raises
    ------
    InvalidArgumentError
        If an argument has an invalid value; also ValueError.
    NoMatchingFieldsError
        If `schema_fields` matches no field; also RuntimeError.
    DatasetNotFoundError
        If there is no dataset; also OSError.
    UnsafePickleError
        If the dataset's pickled metadata is not a schema.
    """
    return _open_reader(make_reader, locals(), batched=False)


@accepts(AddedReaderKeywords)
def make_batch_reader(
    dataset_url_or_urls: str | PathLike[str] | list[Any],
    schema_fields: Collection[Any] | NGram | None = None,
    reader_pool_type: str = "thread",
    workers_count: int = 10,
    results_queue_size: int = 50,
    seed: int | None = None,
    shuffle_rows: bool = False,
    shuffle_row_groups: bool = True,
    shuffle_row_drop_partitions: int = 1,
    predicate: PredicateBase | None = None,
    rowgroup_selector: RowGroupSelectorBase | None = None,
    num_epochs: int | None = 1,
    cur_shard: int | Literal["auto"] | None = None,
    shard_count: int | Literal["auto"] | None = None,
    shard_seed: int | None = None,
    cache_type: str | None = NULL_CACHE,
    cache_location: str | None = None,
    cache_size_limit: int | None = None,
    cache_row_size_estimate: int | None = None,
    cache_extra_settings: dict[str, Any] | None = None,
    hdfs_driver: str = "libhdfs3",
    transform_spec: TransformSpec | None = None,
    filters: Any = None,
    storage_options: dict[str, Any] | None = None,
    zmq_copy_buffers: bool = True,
    filesystem: Any = None,
    convert_early_to_numpy: bool = False,
    **added: Unpack[AddedReaderKeywords],
) -> Reader:
    """Open an MDS dataset, Parquet files or a table for reading in batches.

    Parameters
    ----------
    dataset_url_or_urls : str, path or list of them
        URL or path of a directory or file, or a list of files, which are either Parquet files or
        shards of one MDS dataset. Files in a list are read in the given order, and files in a
        directory in path order. Hive partitions become columns. For a Delta or Iceberg table, the
        live rows in one version are read.
    schema_fields : iterable of str or of UnischemaField, optional
        Columns to read, as regular expressions that match full names, or as fields. By default, all
        columns that are not nested are read. They are yielded in stored order.
    seed : int, optional
        Seed for all permutations. None, and 0 in the exact order, mean no seed. The reader then
        uses 9176 on all ranks if `cur_shard` and `shard_count` are set, and otherwise a random
        seed. Pass a seed to repeat a trial, or to shuffle several readers in the same way.
    shuffle_rows : bool
        Whether to shuffle the rows of each shard or row group, differently in each epoch.
    shuffle_row_groups : bool
        Whether to shuffle the shards or row groups, differently in each epoch.
    predicate : PredicateBase, optional
        Selects the rows to read.
    num_epochs : int or None
        Number of passes over the data. If None, the reader never ends.
    cur_shard, shard_count : int or "auto", optional
        Rank and number of ranks, which determine this rank's share of the rows. Rows, not row
        groups, are divided among ranks, so there can be more ranks than row groups.
        ``cur_shard="auto"`` takes both from the process group or the launcher when a pass begins.
        Without them, every process reads all rows. If there are several processes, mdstorm warns
        once; ``cur_shard=0, shard_count=1`` silences the warning.
    transform_spec : TransformSpec, optional
        A transform whose function is called with each batch as a pandas DataFrame.
    filters : list of tuple, or list of list of tuple, optional
        pyarrow-style conditions on columns. Row groups without a match are skipped, and only
        matching rows are returned.
    storage_options : dict, optional
        Options for the fsspec file system.
    filesystem : object, optional
        An fsspec or pyarrow file system for Parquet files, which takes precedence over the URL
        scheme.

    Other Parameters
    ----------------
    reader_pool_type : {"thread", "process", "dummy"}
        Where rows are read and your functions are called. With ``thread``, both happen in threads.
        With ``process``, rows are read in threads, and functions are called in processes. With
        ``dummy``, both happen in the caller's thread when a batch is requested. The row order is
        always the same.
    workers_count : int
        Number of threads or processes, at most one per processor.
    results_queue_size : int
        Maximum number of batches to prepare in advance.
    shuffle_row_drop_partitions : int
        Number of pieces into which each row group is split; the pieces are shuffled.
    rowgroup_selector : RowGroupSelectorBase, optional
        Selects the row groups to read, using a row-group index.
    shard_seed : int, optional
        Petastorm's former name for `seed`.
    cache_type : {"null", "local-disk"}, optional
        Whether to cache decoded row groups on a local disk.
    cache_location : str, optional
        Cache directory. The default is a new temporary directory.
    cache_size_limit : int, optional
        Maximum size of the cache in bytes.
    cache_row_size_estimate : int, optional
        Approximate size of a row in bytes. It is an error if a few rows would exceed
        `cache_size_limit`.
    cache_extra_settings : dict, optional
        Other arguments to `LocalDiskCache`, such as ``{"cleanup": False}`` for a cache that
        outlives the reader.
    hdfs_driver, zmq_copy_buffers, convert_early_to_numpy
        Have no effect, because file systems come from fsspec, and there is only one way to send
        batches.

    Returns
    -------
    Reader
        Yields namedtuples with one array per column. Each contains this rank's rows in one row
        group or shard, after predicate and transform. Empty ones are skipped.

    Raises
    ------
    InvalidArgumentError
        If an argument has an invalid value; also ValueError.
    NoMatchingFieldsError
        If `schema_fields` matches no column; also RuntimeError.
    DatasetNotFoundError
        If there is no dataset; also OSError.
    CorruptDatasetError
        If a file is damaged, or its columns differ from those in the first file.
    UnsupportedTableError
        If the dataset is an unsupported kind of table, or the output of an unfinished Spark job;
        also NotImplementedError.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> pq.write_table(pa.table({"id": range(4), "x": [0.0, 0.5, 1.0, 1.5]}), "/tmp/four.parquet")
    >>> with make_batch_reader("file:///tmp/four.parquet", schema_fields=["x"]) as reader:
    ...     for batch in reader:
    ...         print(batch.x.tolist())
    [0.0, 0.5, 1.0, 1.5]
    >>> with make_batch_reader("file:///tmp/four.parquet", cur_shard=1, shard_count=2) as reader:
    ...     print([batch.id.tolist() for batch in reader])
    [[2, 3]]
    """
    return _open_reader(make_batch_reader, locals(), batched=True)


def normalize_dataset_url_or_urls(dataset_url_or_urls: Any) -> str | list[str]:
    """Return URLs without trailing slashes, converting path objects to URLs.

    Raises
    ------
    InvalidArgumentError
        If the list is empty, or a URL is empty or neither a string nor a path; also a ValueError.
    """
    if isinstance(dataset_url_or_urls, list):
        if not dataset_url_or_urls:
            raise errors.InvalidArgumentError(
                "dataset url list must be non-empty: pass at least one file URL"
            )
        return [checked_url(url).removesuffix("/") for url in dataset_url_or_urls]
    return checked_url(dataset_url_or_urls).removesuffix("/")


def _open_reader(
    function: Callable[..., Reader], passed: dict[str, Any], *, batched: bool
) -> Reader:
    """Open the dataset of a reader, determine the fields to read, and return the reader.

    Parameters
    ----------
    function : callable
        `make_reader` or `make_batch_reader`, which states the names of its arguments.
    passed : dict
        The function's arguments by name.
    batched : bool
        Whether the reader yields batches.
    """
    source, *names = signature(function).parameters
    passed = {**passed, **passed["added"]}
    given = {name: passed[name] for name in names if name in passed}
    urls, schema_fields = passed[source], given.pop("schema_fields")
    if given.pop("pyarrow_serialize", False):
        warn_user("pyarrow_serialize has no effect: batches are sent to processes as they are")
    ngram = schema_fields if isinstance(schema_fields, NGram) else None
    # The n-gram's fields are only known once the dataset is open.
    arguments = ReaderArguments.of(schema_fields=None if ngram else schema_fields, **given)
    if ngram is not None:
        _check_ngram(ngram, arguments, batched)
    dataset = open_stored(
        checked_source(urls),
        storage_options=arguments.storage_options,
        filesystem=arguments.filesystem,
        as_of=arguments.as_of,
    )
    _check_whole(dataset)
    data = opened(dataset.stored, decode=not batched, floats=arguments.floats)
    if batched and data.is_encoded:
        warn_user(
            "Please use make_reader (instead of 'make_batch_reader') to read this dataset. It was "
            "written by Petastorm, and fields that are stored encoded are returned encoded"
        )
    elif not batched and data.inferred:
        warn_user(
            "Currently make_reader supports reading only Petastorm datasets with a schema of "
            "their own. Here the schema is inferred from the columns; make_batch_reader is faster"
        )
    if ngram is not None:
        ngram.resolve_regex_field_names(data.unischema)
        wanted = [*ngram.get_field_names_at_all_timesteps(), ngram.timestamp_field]
        arguments = replace(arguments, schema_fields=wanted)
    return Reader(data, arguments, ngram, batched=batched)


def _check_whole(dataset: SampleDataset) -> None:
    """Raise InvalidArgumentError for a dataset of chosen rows, or with columns that were added."""
    if dataset.chosen is not None or dataset.added:
        raise errors.InvalidArgumentError(
            f"{dataset!r} is a view, of which readers read all rows and the stored columns: pass "
            "its URL, with files=, row_numbers=, rows= and where= as arguments of the reader"
        )


def _check_ngram(ngram: NGram, arguments: ReaderArguments, batched: bool) -> None:
    arguments.check_no_chosen_rows("an NGram")
    if arguments.added["files"]:
        raise errors.UnsupportedArgumentError(
            "files= cannot be combined with n-grams: read the files in the training loop"
        )
    if batched:
        raise errors.UnsupportedArgumentError(
            "ngrams are not supported by ArrowReaderWorker: n-grams consist of rows, use "
            "make_reader"
        )
    if not ngram.timestamp_overlap and arguments.shuffle_row_drop_partitions != 1:
        raise errors.UnsupportedArgumentError(
            "Using timestamp_overlap=False is not implemented with shuffle_row_drop_partitions "
            "> 1: n-grams would depend on where a row group is cut"
        )
    if arguments.shuffle_rows or not arguments.kind_of_order.reads_parts:
        raise errors.UnsupportedArgumentError(
            "n-grams consist of consecutive rows: leave out shuffle_rows and order, and shuffle "
            "with shuffle_row_groups, or in the loader"
        )
