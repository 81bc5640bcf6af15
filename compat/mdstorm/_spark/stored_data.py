"""Converters over data that exist at a path, or in a table, and are read in place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mdstorm import errors
from mdstorm._datasets import checked_url
from mdstorm._spark.converter import SparkDatasetConverter, converter_of
from mdstorm_backend.catalogs import check_parts, given_table, hint_of_parts, table_name
from mdstorm_backend.kinds import index_directory, is_shard, open_stored
from mdstorm_backend.tables import AsOf


def converter_of_data(
    source: Any,
    decimals: str | None,
    as_of: AsOf,
    storage_options: dict[str, Any] | None,
    of_copies: Mapping[str, Any],
) -> SparkDatasetConverter:
    """Return a converter over existing data, for the arguments of `make_spark_converter`.

    Raises
    ------
    InvalidArgumentError
        If one of the arguments `of_copies`, which apply only to copies of frames, was passed.
    """
    for argument, value in of_copies.items():
        if value is not None:
            fix = f"leave {argument} out"
            if argument == "files":
                fix = "pass files to make_torch_dataloader or make_tf_dataset"
            raise errors.InvalidArgumentError(
                f"{argument}={value!r} applies to a copy, but {source!r} is read in place: {fix}, "
                "or pass a DataFrame, such as spark.read.parquet(…)"
            )
    given = given_table(source, storage_options)
    as_of = as_of or AsOf(given.version)
    several = given.source if isinstance(given.source, list) else [given.source]
    urls = [_url(one) for one in several]
    is_directory = len(urls) == 1 and not is_shard(urls[0])
    directory = index_directory(urls[0]) if is_directory else None
    dataset = open_stored(
        urls,
        directory=directory,
        storage_options=given.storage_options,
        as_of=as_of,
        partitioned=False,  # Petastorm reads listed files, without partition columns
    )
    converter = converter_of(directory, dataset, decimals)
    version = dataset.table_version
    # Do not open a table by its file URLs, because the files may contain deleted rows, and
    # credentials may be available only for the table's name.
    if version is not None or table_name(urls[0]) is not None:
        converter.file_urls = [dataset.url]
    converter._mdstorm_version = version
    converter._mdstorm_storage_options = given.storage_options
    converter._mdstorm_is_given = True
    converter._mdstorm_keep(dataset)
    return converter


def _url(given: Any) -> str:
    """Return the URL of a table's name, or of a path as Petastorm would read it."""
    url = checked_url(given)
    if (name := table_name(url)) is not None:
        return name.url
    url = databricks_path(url)
    check_parts(url, fewest=1)  # one word may be a view
    return url


def databricks_path(path: str) -> str:
    """Return the path that Petastorm would read, which on Databricks is on the DBFS mount.

    Raises
    ------
    UnsupportedURLError
        If it is a path outside DBFS on Databricks.
    """
    if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        return path
    if path.startswith(("file:/dbfs/", "file:///dbfs/")):
        return path
    if path.startswith("dbfs:///") or (path.startswith("dbfs:/") and path[6:7] != "/"):
        return "file:/dbfs/" + path.removeprefix("dbfs:").lstrip("/")
    remedy = f"Write it as file:{path}. " if path.startswith("/dbfs/") else ""
    raise errors.UnsupportedURLError(
        "On databricks runtime, if `df` is a string, it must be a dbfs fuse path like "
        f"file:/dbfs/xx or dbfs:/xx, found {path!r}. {remedy}Read other URLs with "
        "mdstorm.make_batch_reader, or create the converter with SparkDatasetConverter(url, "
        f"file_urls, number_of_rows){hint_of_parts(path, fewest=1)}"
    )
