"""Open the readers of `make_reader` and `make_batch_reader`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdstorm import errors
from mdstorm._datasets.sources import Opened, checked_url, open_urls, opened
from mdstorm._petastorm_names import public
from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.reader import Reader
from mdstorm.ngram import NGram
from mdstorm_backend.base import warn_user


@public("mdstorm.reader")
def normalize_dataset_url_or_urls(dataset_url_or_urls: Any) -> str | list[str]:
    """Return URLs without a trailing slash; path objects become URLs.

    Raises
    ------
    InvalidArgumentError
        If the list is empty, or a URL is empty or neither a string nor a path; also a ValueError.
    """
    if isinstance(dataset_url_or_urls, list):
        if not dataset_url_or_urls:
            raise errors.InvalidArgumentError("dataset url list must be non-empty. Name a file")
        return [checked_url(url).removesuffix("/") for url in dataset_url_or_urls]
    return checked_url(dataset_url_or_urls).removesuffix("/")


def open_row_reader(
    dataset_url: Any, schema_fields: Any, *, pyarrow_serialize: bool, **arguments: Any
) -> Reader:
    """Open the reader that `make_reader` returns."""
    if pyarrow_serialize:
        warn_user("pyarrow_serialize has no effect: batches are sent to processes as they are")
    reading = _opened(dataset_url, schema_fields, ReaderArguments(**arguments), batched=False)
    return Reader(*reading, batched=False)


def open_batch_reader(dataset_url_or_urls: Any, schema_fields: Any, **arguments: Any) -> Reader:
    """Open the reader that `make_batch_reader` returns."""
    urls = dataset_url_or_urls
    reading = _opened(urls, schema_fields, ReaderArguments(**arguments), batched=True)
    return Reader(*reading, batched=True)


def _opened(
    urls: Any, schema_fields: Any, arguments: ReaderArguments, *, batched: bool
) -> tuple[Opened, ReaderArguments, NGram | None]:
    """Open the dataset of a reader, and determine the fields to read."""
    ngram = None
    if isinstance(schema_fields, NGram):  # its fields are known once the dataset is open
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
