"""`Reader`, and how `make_reader` and `make_batch_reader` open one."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from typing import Any

from mdstorm import errors
from mdstorm._datasets.sources import Opened, checked_url, open_urls, opened
from mdstorm._petastorm_names import public
from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.reader import DatasetReader
from mdstorm.cache import CacheBase, NullCache
from mdstorm.ngram import NGram
from mdstorm.predicates import PredicateBase
from mdstorm.selectors import RowGroupSelectorBase
from mdstorm.transform import TransformSpec
from mdstorm_backend.base import check_integer, warn_user
from mdstorm_backend.storage import Location, has_scheme

_logger = logging.getLogger("mdstorm.reader")


@public("mdstorm.reader")
def normalize_dataset_url_or_urls(dataset_url_or_urls: Any) -> str | list[str]:
    """Return URLs without a trailing slash; path objects become URLs.

    Raises
    ------
    InvalidArgumentError
        If there is none, or one is empty, or neither a text nor a path; also ValueError.
    """
    if isinstance(dataset_url_or_urls, list):
        if not dataset_url_or_urls:
            raise errors.InvalidArgumentError("dataset url list must be non-empty. Name a file")
        return [checked_url(url).removesuffix("/") for url in dataset_url_or_urls]
    return checked_url(dataset_url_or_urls).removesuffix("/")


@public("mdstorm.reader")
class Reader(DatasetReader):
    """Iterates over a dataset that is named by its path in a file system.

    `make_reader` and `make_batch_reader` return such readers, too, and explain the arguments.

    Parameters
    ----------
    pyarrow_filesystem : fsspec or pyarrow file system, or None
        The file system; None for the local one.
    dataset_path : str or list of str
        Path of a directory or file in it, or paths of files.
    reader_pool : ThreadPool, ProcessPool or DummyPool, optional
        Where to read, in how many workers; ten threads by default.
    cache : NullCache, optional
        Nothing else: caches are arguments of `make_reader`.
    worker_class : None
        Nothing else, see below.
    is_batched_reader : bool
        Whether to deliver batches, as `make_batch_reader`, or rows.
    schema_fields, seed, shuffle_rows, shuffle_row_groups, shuffle_row_drop_partitions, predicate,
    rowgroup_selector, num_epochs, cur_shard, shard_count, transform_spec, filters, shard_seed,
    convert_early_to_numpy
        As in `make_batch_reader`.

    Raises
    ------
    UnsupportedArgumentError
        If a worker class or a cache is given; also NotImplementedError.
    ArgumentTypeError
        If `reader_pool` is something else; also TypeError.

    Notes
    -----
    The signature is that of ``petastorm.reader.Reader``. Of a worker class only `is_batched_reader`
    is left, see docs/differences.md#workers-and-their-queues.
    """

    def __init__(
        self,
        pyarrow_filesystem: Any,
        dataset_path: str | list[str],
        schema_fields: Any = None,
        seed: int | None = None,
        shuffle_rows: bool = False,
        shuffle_row_groups: bool = True,
        shuffle_row_drop_partitions: int = 1,
        predicate: PredicateBase | None = None,
        rowgroup_selector: RowGroupSelectorBase | None = None,
        reader_pool: Pool | None = None,
        num_epochs: int | None = 1,
        cur_shard: int | None = None,
        shard_count: int | None = None,
        cache: CacheBase | None = None,
        worker_class: None = None,
        transform_spec: TransformSpec | None = None,
        is_batched_reader: bool = False,
        filters: Any = None,
        shard_seed: int | None = None,
        convert_early_to_numpy: bool = False,
    ) -> None:
        _check_parts(reader_pool, cache, worker_class)
        pool = ThreadPool(10) if reader_pool is None else reader_pool
        arguments = ReaderArguments(
            reader_pool_type=pool.reader_pool_type,
            workers_count=pool.workers_count,
            results_queue_size=pool.results_queue_size,
            seed=seed,
            shuffle_rows=shuffle_rows,
            shuffle_row_groups=shuffle_row_groups,
            shuffle_row_drop_partitions=shuffle_row_drop_partitions,
            predicate=predicate,
            rowgroup_selector=rowgroup_selector,
            num_epochs=num_epochs,
            cur_shard=cur_shard,
            shard_count=shard_count,
            shard_seed=shard_seed,
            transform_spec=transform_spec,
            filters=filters,
            filesystem=_without_local(pyarrow_filesystem),
            convert_early_to_numpy=convert_early_to_numpy,
        )
        urls: Any = dataset_path
        if isinstance(urls, list):
            urls = [_url(path, pyarrow_filesystem) for path in urls]
        else:
            urls = _url(urls, pyarrow_filesystem)
        reading = _opened(urls, schema_fields, arguments, batched=is_batched_reader)
        super().__init__(*reading, batched=is_batched_reader)


def _check_parts(reader_pool: object, cache: object, worker_class: object) -> None:
    if reader_pool is not None and not isinstance(reader_pool, Pool):
        raise errors.ArgumentTypeError(
            f"reader_pool must be a ThreadPool, ProcessPool or DummyPool, found {reader_pool!r}"
        )
    if cache is not None and not isinstance(cache, NullCache):
        raise errors.UnsupportedArgumentError(
            f"Reader takes no cache, found {cache!r}: pass cache_type='local-disk', "
            "cache_location=… and cache_size_limit=… to make_reader or make_batch_reader"
        )
    if worker_class is not None:
        raise errors.UnsupportedArgumentError(
            f"Reader takes no worker class, found {worker_class!r}: leave it out, and pass "
            "is_batched_reader=True for batches. See docs/differences.md#workers-and-their-queues"
        )


def _without_local(filesystem: Any) -> Any:
    """Return a file system; None for the local one, where any kind of dataset can be opened."""
    return None if Location.of("/", filesystem=filesystem).filesystem is None else filesystem


def _url(path: str, filesystem: Any) -> str:
    url = Location.of(path, filesystem=filesystem).url
    return url if has_scheme(url) else f"file://{url}"


def open_row_reader(
    dataset_url: Any, schema_fields: Any, *, pyarrow_serialize: bool, **arguments: Any
) -> Reader:
    """Open the reader that `make_reader` returns."""
    if pyarrow_serialize:
        warn_user("pyarrow_serialize has no effect: batches are sent to processes as they are")
    reading = _opened(dataset_url, schema_fields, ReaderArguments(**arguments), batched=False)
    return reader_over(*reading, batched=False)


def open_batch_reader(dataset_url_or_urls: Any, schema_fields: Any, **arguments: Any) -> Reader:
    """Open the reader that `make_batch_reader` returns."""
    urls = dataset_url_or_urls
    reading = _opened(urls, schema_fields, ReaderArguments(**arguments), batched=True)
    return reader_over(*reading, batched=True)


def reader_over(
    opened: Opened, arguments: ReaderArguments, ngram: NGram | None = None, *, batched: bool
) -> Reader:
    """Create a reader over an open dataset."""
    reader = Reader.__new__(Reader)
    DatasetReader.__init__(reader, opened, arguments, ngram, batched=batched)
    return reader


def _opened(
    urls: Any, schema_fields: Any, arguments: ReaderArguments, *, batched: bool
) -> tuple[Opened, ReaderArguments, NGram | None]:
    """Open the dataset of a reader, and work out the fields to read."""
    ngram = None
    if isinstance(schema_fields, NGram):  # which knows its fields once the dataset is open
        ngram, schema_fields = schema_fields, None
        _check_ngram(ngram, arguments, batched)
    arguments = replace(arguments, schema_fields=schema_fields)
    dataset = open_urls(
        normalize_dataset_url_or_urls(urls),
        storage_options=arguments.storage_options,
        filesystem=arguments.filesystem,
        as_of=arguments.as_of,
    )
    found = opened(dataset, decode=not batched, decimals=arguments.decimals)
    _warn_of_kind(found, batched)
    if _is_left_in_order(found, arguments):
        _warn_of_order(found.source.url)
    if ngram is not None:
        ngram.resolve_regex_field_names(found.unischema)
        wanted = [*ngram.get_field_names_at_all_timesteps(), ngram.timestamp_field]
        arguments = replace(arguments, schema_fields=wanted)
    return found, arguments, ngram


def _check_ngram(ngram: NGram, arguments: ReaderArguments, batched: bool) -> None:
    if batched:
        raise errors.UnsupportedArgumentError(
            "ngrams are not supported by ArrowReaderWorker: n-grams are made of rows, use "
            "make_reader"
        )
    if not ngram.timestamp_overlap and arguments.shuffle_row_drop_partitions != 1:
        raise errors.UnsupportedArgumentError(
            "Using timestamp_overlap=False is not implemented with shuffle_row_drop_partitions "
            "> 1: n-grams would depend on where a row group is cut"
        )
    if arguments.shuffle_rows or arguments.is_elastic:
        raise errors.UnsupportedArgumentError(
            "n-grams are made of consecutive rows: leave out shuffle_rows and order, and shuffle "
            "with shuffle_row_groups, or in the loader"
        )


def _is_left_in_order(opened: Opened, arguments: ReaderArguments) -> bool:
    """Whether the user shuffles row groups of an MDS dataset whose shards are not row groups."""
    shuffles_more = arguments.shuffle_rows or arguments.shuffle_row_drop_partitions != 1
    filled = sum(size > 0 for size in opened.source.shard_sizes)
    return (
        bool(arguments.shuffle_row_groups)
        and not (shuffles_more or arguments.is_elastic)
        and (opened.kind == "mds" and not opened.inferred)
        and (filled == 1 and len(opened.source) > 1)
    )


@cache
def _warn_of_order(url: str) -> None:
    """Log this once; no Python warning, because the loader may shuffle the rows."""
    _logger.warning(
        "%s has a single shard, of one row group, so shuffle_row_groups=True shuffles nothing, "
        "and the reader delivers its rows in stored order. Pass shuffle_rows=True, or "
        "shuffling_queue_capacity to the loader; to keep this order, shuffle_row_groups=False",
        url,
    )


def _warn_of_kind(opened: Opened, batched: bool) -> None:
    if batched and opened.kind == "petastorm":
        warn_user(
            "Please use make_reader (instead of 'make_batch_reader') to read this dataset. It was "
            "written by Petastorm, and fields that are stored encoded are delivered encoded"
        )
    elif not batched and opened.inferred:
        warn_user(
            "Currently make_reader supports reading only Petastorm datasets with a schema of "
            "their own. Here the schema is inferred from the columns; make_batch_reader is faster"
        )


class Pool:
    """Where a reader reads. The engine starts the workers.

    Attributes
    ----------
    reader_pool_type : {"thread", "process", "dummy"}
        As in `make_reader`.
    workers_count : int
        Threads or processes.
    results_queue_size : int
        Most results to prepare ahead of use.
    """

    reader_pool_type: str

    def __init__(self, workers_count: int, results_queue_size: int = 50) -> None:
        check_integer("workers_count", workers_count, lowest=1)
        check_integer("results_queue_size", results_queue_size, lowest=1)
        self.workers_count = workers_count
        self.results_queue_size = results_queue_size

    def __getattr__(self, name: str) -> Any:
        raise errors.MissingAttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}: it is an argument of "
            "Reader, and runs no workers of other classes. See "
            "docs/differences.md#workers-and-their-queues of mdstorm"
        )


@public("mdstorm.workers_pool.thread_pool")
class ThreadPool(Pool):
    """Read in threads.

    Parameters
    ----------
    workers_count : int
        How many.
    results_queue_size : int
        Most results to prepare ahead of use.
    profiling_enabled, shuffle_rows, seed
        Not used: the reader has them.

    Raises
    ------
    InvalidArgumentError
        If a number is not a positive integer; also ValueError.
    """

    reader_pool_type = "thread"

    def __init__(
        self,
        workers_count: int,
        results_queue_size: int = 50,
        profiling_enabled: bool = False,
        shuffle_rows: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__(workers_count, results_queue_size)


@public("mdstorm.workers_pool.process_pool")
class ProcessPool(Pool):
    """Read in threads, and call user-defined functions in processes.

    Parameters
    ----------
    workers_count : int
        How many.
    serializer, zmq_copy_buffers
        Not used: batches are sent to the processes as they are.

    Raises
    ------
    InvalidArgumentError
        If the number is not a positive integer; also ValueError.
    """

    reader_pool_type = "process"

    def __init__(
        self, workers_count: int, serializer: Any = None, zmq_copy_buffers: bool = True
    ) -> None:
        super().__init__(workers_count)


@public("mdstorm.workers_pool.dummy_pool")
class DummyPool(Pool):
    """Read in the thread that asks for a row or a batch.

    Parameters
    ----------
    workers : object
        Not used.
    """

    reader_pool_type = "dummy"

    def __init__(self, workers: Any = None) -> None:
        super().__init__(1)
