"""Readers of datasets: the mirror of ``petastorm.reader``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from mdstorm._datasets.sources import Opened, open_source
from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.reader import Reader
from mdstorm.errors import InvalidArgumentError, UnsupportedArgumentError
from mdstorm.ngram import NGram
from mdstorm.transform import TransformSpec
from mdstorm_backend.base.user_warnings import warn_user

__all__ = [
    "LOCAL_DISK_CACHE",
    "NULL_CACHE",
    "Reader",
    "make_batch_reader",
    "make_reader",
    "normalize_dataset_url_or_urls",
]

NULL_CACHE = "null"
LOCAL_DISK_CACHE = "local-disk"


def normalize_dataset_url_or_urls(dataset_url_or_urls: str | list[str]) -> str | list[str]:
    """Return URLs without trailing slashes.

    Raises
    ------
    InvalidArgumentError
        If there is none, or one is not a string; also ValueError.
    IndexError
        If one is empty.
    """
    if isinstance(dataset_url_or_urls, list):
        if not dataset_url_or_urls:
            raise InvalidArgumentError("dataset url list must be non-empty. Name a file")
        return [_without_slash(url) for url in dataset_url_or_urls]
    return _without_slash(dataset_url_or_urls)


def _without_slash(url: Any) -> str:
    if not isinstance(url, str):
        raise InvalidArgumentError(f"directory url must be a string, found {url!r}")
    return url[:-1] if url[-1] == "/" else url


def make_reader(
    dataset_url: str | list[str],
    schema_fields: Any = None,
    reader_pool_type: str = "thread",
    workers_count: int = 10,
    pyarrow_serialize: bool = False,
    results_queue_size: int = 50,
    seed: int | None = None,
    shuffle_rows: bool = False,
    shuffle_row_groups: bool = True,
    shuffle_row_drop_partitions: int = 1,
    predicate: Any = None,
    rowgroup_selector: Any = None,
    num_epochs: int | None = 1,
    cur_shard: int | None = None,
    shard_count: int | None = None,
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
    order: str = "exact",
    fill_nulls: Mapping[str, Any] | None = None,
    null_masks: Sequence[str] = (),
) -> Reader:
    """Open a dataset, to read it row by row.

    For datasets that Petastorm or `materialize_dataset` wrote, whose fields are decoded. Others are
    read as well, with a schema inferred from their columns, and a warning.

    Parameters
    ----------
    dataset_url : str or list of str
        As in `make_batch_reader`.
    schema_fields : iterable of str or of UnischemaField, or NGram, optional
        As in `make_batch_reader`; an `NGram` joins consecutive rows.
    pyarrow_serialize : bool
        Has no effect.
    transform_spec : TransformSpec, optional
        Its function is called with each row, a dict.
    reader_pool_type, workers_count, results_queue_size, seed, shuffle_rows, shuffle_row_groups,
    shuffle_row_drop_partitions, predicate, rowgroup_selector, num_epochs, cur_shard, shard_count,
    shard_seed, cache_type, cache_location, cache_size_limit, cache_row_size_estimate,
    cache_extra_settings, hdfs_driver, filters, storage_options, zmq_copy_buffers, filesystem,
    convert_early_to_numpy, order, fill_nulls, null_masks
        As in `make_batch_reader`; a predicate sees one row at a time.

    Returns
    -------
    Reader
        Yields namedtuples with a value per field: NumPy scalars and arrays, `Decimal`, None for
        null; or n-grams of them.

    Raises
    ------
    InvalidArgumentError
        If an argument has an invalid value; also ValueError.
    NoMatchingFieldsError
        If `schema_fields` matches no field; also RuntimeError.
    DatasetNotFoundError
        If there is no dataset; also OSError.
    UnsafePickleError
        If the pickled metadata of the dataset is not a schema.
    """
    arguments = _given(make_reader, locals())
    return _make(arguments.pop("dataset_url"), arguments, batched=False)


def make_batch_reader(
    dataset_url_or_urls: str | list[str],
    schema_fields: Any = None,
    reader_pool_type: str = "thread",
    workers_count: int = 10,
    results_queue_size: int = 50,
    seed: int | None = None,
    shuffle_rows: bool = False,
    shuffle_row_groups: bool = True,
    shuffle_row_drop_partitions: int = 1,
    predicate: Any = None,
    rowgroup_selector: Any = None,
    num_epochs: int | None = 1,
    cur_shard: int | None = None,
    shard_count: int | None = None,
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
    order: str = "exact",
    fill_nulls: Mapping[str, Any] | None = None,
    null_masks: Sequence[str] = (),
) -> Reader:
    """Open a dataset, to read it in batches: MDS, or Parquet files with columns of plain types.

    Parameters
    ----------
    dataset_url_or_urls : str or list of str
        URL of a directory or file, or of several files, which are read in the order of the list.
        In a directory files are read in the order of their paths, and Hive partitions become
        columns.
    schema_fields : iterable of str or of UnischemaField, optional
        Columns to read: regular expressions that match whole names, or fields; by default all that
        are not nested. They come in stored order.
    reader_pool_type : {"thread", "process", "dummy"}
        Where rows are read, and user-defined functions called: in threads; functions in
        processes; or, for ``dummy``, in the caller's thread when a batch is asked for. The order is
        the same.
    workers_count : int
        Threads or processes; at most as many as there are processors.
    results_queue_size : int
        Most batches to prepare ahead of use.
    seed : int, optional
        Seed of all permutations. None, and 0 in the exact order, mean no seed: one is then drawn at
        random or, with `cur_shard` and `shard_count`, is 9176 on all ranks. Pass one to repeat a
        trial, or to permute several readers the same way.
    shuffle_rows : bool
        Permute the rows of each shard or row group, anew in each epoch.
    shuffle_row_groups : bool
        Permute the shards or row groups, anew in each epoch.
    shuffle_row_drop_partitions : int
        Cut each row group into this many pieces, which are permuted.
    predicate : PredicateBase, optional
        Which rows to deliver.
    rowgroup_selector : RowGroupSelectorBase, optional
        Which row groups to read, by an index of them.
    num_epochs : int or None
        Passes over the data; None never ends.
    cur_shard, shard_count : int, optional
        Share of the rows to read: rank and number of ranks. Rows are shared, not row groups, so
        there may be more ranks than row groups.
    shard_seed : int, optional
        Petastorm's former name of `seed`.
    cache_type : {"null", "local-disk"}, optional
        Whether to keep the decoded row groups on a local disk.
    cache_location : str, optional
        Directory of the cache.
    cache_size_limit : int, optional
        Most bytes that it may take.
    cache_row_size_estimate : int, optional
        Approximate bytes per row: a limit that is too small for some rows is refused.
    cache_extra_settings : dict, optional
        Further arguments of `LocalDiskCache`, such as ``{"cleanup": False}`` for a cache that
        outlives the reader.
    hdfs_driver, zmq_copy_buffers, convert_early_to_numpy
        Have no effect: file systems are those of fsspec, and there is one way to send a batch.
    transform_spec : TransformSpec, optional
        Its function is called with each batch, a pandas DataFrame.
    filters : list of tuple, or list of list of tuple, optional
        pyarrow-style conditions on columns: row groups without a match are skipped, and only
        matching rows of the others are delivered.
    storage_options : dict, optional
        Options of the fsspec file system.
    filesystem : object, optional
        A file system of fsspec or pyarrow for Parquet files, which takes precedence over the URL's
        scheme.
    order : {"exact", "elastic"}
        ``exact`` delivers every row once per epoch over all ranks. ``elastic`` delivers rows in
        MosaicML Streaming's order; then batches have as many rows as the largest shard.
    fill_nulls : mapping of str to value, optional
        Values to replace nulls with, by column.
    null_masks : sequence of str
        Columns that get a boolean companion ``<name>_is_null``.

    Returns
    -------
    Reader
        Yields namedtuples with an array per column: one for each row group's or shard's share of
        the rows, after predicate and transform; empty ones are skipped.

    Raises
    ------
    InvalidArgumentError
        If an argument has an invalid value; also ValueError.
    NoMatchingFieldsError
        If `schema_fields` matches no column; also RuntimeError.
    DatasetNotFoundError
        If there is no dataset; also OSError.
    CorruptDatasetError
        If a file is damaged, or its columns differ from those of the first one.
    """
    arguments = _given(make_batch_reader, locals())
    return _make(arguments.pop("dataset_url_or_urls"), arguments, batched=True)


def _given(function: Callable[..., Reader], variables: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments among a function's variables, to which AutoGraph adds its own."""
    return {name: variables[name] for name in signature(function).parameters}


def _make(urls: Any, others: dict[str, Any], *, batched: bool) -> Reader:
    if others.pop("pyarrow_serialize", False):
        warn_user("pyarrow_serialize has no effect: batches are sent to processes as they are")
    method = "make_batch_reader" if batched else "make_reader"
    num_epochs, workers_count = others.pop("num_epochs"), others.pop("workers_count")
    ngram = others["schema_fields"] if isinstance(others["schema_fields"], NGram) else None
    if ngram is not None:
        _check_ngram(ngram, others, batched)
        others["schema_fields"] = None
    arguments = ReaderArguments(method, num_epochs, workers_count, 0, others)
    opened = open_source(
        normalize_dataset_url_or_urls(urls),
        storage_options=others["storage_options"],
        filesystem=others["filesystem"],
        decode=not batched,
    )
    _warn_of_kind(opened, batched)
    if ngram is not None:
        ngram.resolve_regex_field_names(opened.unischema)
        wanted = [*ngram.get_field_names_at_all_timesteps(), ngram.timestamp_field]
        arguments = replace(arguments, others={**others, "schema_fields": wanted})
    return Reader(opened, arguments, batched=batched, ngram=ngram)


def _check_ngram(ngram: NGram, others: dict[str, Any], batched: bool) -> None:
    if batched:
        raise UnsupportedArgumentError(
            "ngrams are not supported by ArrowReaderWorker: n-grams are made of rows, use "
            "make_reader"
        )
    if not ngram.timestamp_overlap and others["shuffle_row_drop_partitions"] != 1:
        raise UnsupportedArgumentError(
            "Using timestamp_overlap=False is not implemented with shuffle_row_drop_partitions "
            "> 1: n-grams would depend on where a row group is cut"
        )
    if others["shuffle_rows"] or others["order"] != "exact":
        raise UnsupportedArgumentError(
            "n-grams are made of consecutive rows: leave out shuffle_rows and order, and shuffle "
            "with shuffle_row_groups, or in the loader"
        )


def _warn_of_kind(opened: Opened, batched: bool) -> None:
    if batched and opened.kind == "petastorm":
        warn_user(
            "Please use make_reader (instead of 'make_batch_reader') to read this dataset. It was "
            "written by Petastorm, and fields that are stored encoded are delivered encoded"
        )
    elif not batched and opened.inferred:
        warn_user(
            "Currently make_reader supports reading only Petastorm datasets with a schema of their "
            "own. Here it is inferred from the columns; make_batch_reader reads the same faster"
        )
