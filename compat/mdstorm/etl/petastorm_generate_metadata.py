"""Add Petastorm's metadata to existing Parquet files: ``generate_petastorm_metadata``.

Also a command: ``python -m mdstorm.etl.petastorm_generate_metadata --dataset_url …``.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pydoc import locate
from typing import Any

from mdstorm._datasets.common_metadata import add_metadata
from mdstorm._datasets.metadata_keys import ROW_GROUPS_PER_FILE_KEY, UNISCHEMA_EXTRA, UNISCHEMA_KEY
from mdstorm._datasets.petastorm_source import decoded
from mdstorm._datasets.sources import check_urls
from mdstorm._pickles.schema_pickle import dump_unischema
from mdstorm._schema.schema_json import unischema_to_json
from mdstorm.errors import InvalidArgumentError
from mdstorm.etl.dataset_metadata import get_schema
from mdstorm.unischema import Unischema
from mdstorm_backend.datasets import open_dataset
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.parquet import open_parquet
from mdstorm_backend.storage import Location
from mdstorm_backend.write import write_index

__all__ = ["generate_petastorm_metadata", "main"]


def generate_petastorm_metadata(
    spark: Any,
    dataset_url: str,
    unischema_class: str | None = None,
    use_summary_metadata: bool = False,
    hdfs_driver: str = "libhdfs3",
) -> None:
    """Write the schema of a dataset beside its rows, which are not changed.

    For Parquet files it goes into ``_common_metadata``, in a form that Petastorm also reads; for an
    MDS dataset into its index.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession or None
        Not used, and not stopped.
    dataset_url : str
        Directory of the dataset.
    unischema_class : str, optional
        Dotted path of a `Unischema` object, such as ``"package.module.MySchema"``. By default the
        schema that the dataset has already.
    use_summary_metadata : bool
        Not used.
    hdfs_driver : str
        Not used.

    Raises
    ------
    InvalidArgumentError
        If `unischema_class` names no Unischema, or the URL has no scheme; also ValueError.
    PetastormMetadataError
        If there is neither `unischema_class` nor a schema in the dataset.
    MissingColumnError
        If the dataset lacks a field of the schema.
    """
    check_urls(dataset_url)
    schema = None if unischema_class is None else _located(unischema_class)
    if Location.of(dataset_url).exists(INDEX_NAME):
        dataset = open_dataset(dataset_url)
        schema = schema or get_schema(dataset)
        decoded(dataset, schema)
        extra = {**dataset.index.extra, UNISCHEMA_EXTRA: unischema_to_json(schema)}
        write_index(dataset.location, replace(dataset.index, extra=extra))
        return
    source = open_parquet(dataset_url)
    schema = schema or get_schema(source)
    decoded(source, schema)
    counts = Counter(group.path for group in source.row_groups)
    per_file = json.dumps(dict(counts)).encode("utf-8")
    entries = {UNISCHEMA_KEY: dump_unischema(schema), ROW_GROUPS_PER_FILE_KEY: per_file}
    add_metadata(source, entries)


def main(argv: Sequence[str] | None = None) -> None:
    """Run `generate_petastorm_metadata` with the arguments of a command line."""
    parser = argparse.ArgumentParser(
        prog="petastorm_generate_metadata",
        description="Write the schema of a dataset beside its rows, which are not changed.",
    )
    parser.add_argument("--dataset_url", required=True, help="URL of the dataset's directory")
    parser.add_argument("--unischema_class", help="dotted path of a Unischema object")
    parser.add_argument("--use-summary-metadata", action="store_true", help="not used")
    parser.add_argument("--master", help="not used: no Spark session is needed")
    parser.add_argument("--spark-driver-memory", default="4g", help="not used")
    parser.add_argument("--hdfs-driver", default="libhdfs3", help="not used")
    given = parser.parse_args(argv)
    generate_petastorm_metadata(None, given.dataset_url, given.unischema_class)


def _located(path: str) -> Unischema:
    found = locate(path)
    if not isinstance(found, Unischema):
        raise InvalidArgumentError(
            f"{path!r} is {'nothing' if found is None else type(found).__name__}, but must be the "
            "dotted path of a Unischema object, package.module.MySchema, in a module that can be "
            "imported"
        )
    return found


if __name__ == "__main__":
    main()
