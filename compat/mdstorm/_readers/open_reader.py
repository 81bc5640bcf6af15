"""Open the reader of `make_reader` and `make_batch_reader`."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from typing import Any

from mdstorm._datasets.sources import Opened, open_source
from mdstorm._public import public
from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.reader import Reader
from mdstorm._selection.ngram import NGram
from mdstorm.errors import InvalidArgumentError, UnsupportedArgumentError
from mdstorm_backend.base import warn_user

_logger = logging.getLogger("mdstorm.reader")


@public("mdstorm.reader")
def normalize_dataset_url_or_urls(dataset_url_or_urls: str | list[str]) -> str | list[str]:
    """Return URLs without a slash at their end.

    Raises
    ------
    InvalidArgumentError
        If there is none, or one is no text; also ValueError.
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


def ngram_and_fields(schema_fields: Any) -> tuple[NGram | None, Any]:
    """Tell an n-gram, which knows its fields once the schema is known, from fields."""
    return (schema_fields, None) if isinstance(schema_fields, NGram) else (None, schema_fields)


def open_reader(
    urls: Any, arguments: ReaderArguments, ngram: NGram | None, *, batched: bool
) -> Reader:
    """Open a reader.

    Parameters
    ----------
    urls : str or list of str
        The dataset.
    arguments : ReaderArguments
        How to read it.
    ngram : NGram or None
        What rows are put together by; its fields take the place of those of the arguments.
    batched : bool
        Whether batches are delivered, otherwise rows, of fields that are decoded.

    Raises
    ------
    UnsupportedArgumentError
        If the n-gram does not go with other arguments.
    """
    if ngram is not None:
        _check_ngram(ngram, arguments, batched)
    opened = open_source(
        normalize_dataset_url_or_urls(urls),
        storage_options=arguments.storage_options,
        filesystem=arguments.filesystem,
        decode=not batched,
    )
    _warn_of_kind(opened, batched)
    if _is_left_in_order(opened, arguments):
        _warn_of_order(opened.source.url)
    if ngram is not None:
        ngram.resolve_regex_field_names(opened.unischema)
        wanted = [*ngram.get_field_names_at_all_timesteps(), ngram.timestamp_field]
        arguments = replace(arguments, schema_fields=wanted)
    return Reader(opened, arguments, batched=batched, ngram=ngram)


def _check_ngram(ngram: NGram, arguments: ReaderArguments, batched: bool) -> None:
    if batched:
        raise UnsupportedArgumentError(
            "ngrams are not supported by ArrowReaderWorker: n-grams are made of rows, use "
            "make_reader"
        )
    if not ngram.timestamp_overlap and arguments.shuffle_row_drop_partitions != 1:
        raise UnsupportedArgumentError(
            "Using timestamp_overlap=False is not implemented with shuffle_row_drop_partitions "
            "> 1: n-grams would depend on where a row group is cut"
        )
    if arguments.shuffle_rows or arguments.is_elastic:
        raise UnsupportedArgumentError(
            "n-grams are made of consecutive rows: leave out shuffle_rows and order, and shuffle "
            "with shuffle_row_groups, or in the loader"
        )


def _is_left_in_order(opened: Opened, arguments: ReaderArguments) -> bool:
    """Whether rows of a dataset of Petastorm that became MDS are to be shuffled, and are not."""
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
    """Say it once; not as a warning of Python, since the loader may shuffle the rows."""
    _logger.warning(
        "%s has a single shard, of one row group, so shuffle_row_groups=True shuffles nothing, and "
        "the reader delivers its rows in stored order. Pass shuffle_rows=True, or give the loader "
        "a shuffling_queue_capacity; shuffle_row_groups=False if the order is meant",
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
            "Currently make_reader supports reading only Petastorm datasets with a schema of their "
            "own. Here it is inferred from the columns; make_batch_reader reads the same faster"
        )
