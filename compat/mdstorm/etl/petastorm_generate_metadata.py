"""Add Petastorm's metadata to existing datasets with ``generate_petastorm_metadata``.

Also available as a command: ``mdstorm-generate-metadata.py --dataset_url …``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pydoc import locate
from typing import Any

from mdstorm._datasets import (
    UNISCHEMA_EXTRA,
    checked_urls,
    decoded,
    unischema_to_json,
    write_petastorm_metadata,
)
from mdstorm._petastorm_names import other_names
from mdstorm.errors import InvalidArgumentError
from mdstorm.etl.dataset_metadata import get_schema
from mdstorm.unischema import Unischema
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.kinds import open_stored
from mdstorm_backend.storage import Location
from mdstorm_backend.write import write_index

__all__ = ["generate_petastorm_metadata", "main"]

__getattr__ = other_names(__name__)


def generate_petastorm_metadata(
    spark: Any,
    dataset_url: str,
    unischema_class: str | None = None,
    use_summary_metadata: bool = False,
    hdfs_driver: str = "libhdfs3",
) -> None:
    """Write a schema to the metadata of an existing dataset, without changing the rows.

    For Parquet files, the schema is written to ``_common_metadata`` in Petastorm's format, together
    with the number of row groups in each file (see `materialize_dataset`). For an MDS dataset, it
    is written to the index. Any existing schema is replaced.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession or None
        Not used, and not stopped.
    dataset_url : str
        Directory of the dataset.
    unischema_class : str, optional
        Dotted path of a `Unischema` object, such as ``"package.module.MySchema"``. The default is
        the dataset's existing schema.
    use_summary_metadata : bool
        Whether to also write ``_metadata``, a summary of the footers of all Parquet files.
    hdfs_driver : str
        Not used.

    Raises
    ------
    InvalidArgumentError
        If `unischema_class` is not the path of a Unischema, or the URL has no scheme; also
        ValueError.
    PetastormMetadataError
        If `unischema_class` is not passed, and the dataset has no schema.
    MissingColumnError
        If the dataset is missing a field in the schema.
    PetastormMetadataGenerationError
        If a column cannot store its field, or a summary cannot be written.
    """
    dataset_url = checked_urls(dataset_url)
    schema = None if unischema_class is None else _located(unischema_class)
    location = Location.of(dataset_url)
    dataset = open_stored(dataset_url, may_be_unfinished=True)
    schema = schema or get_schema(dataset)
    if isinstance(dataset, Dataset):
        decoded(dataset, schema)  # raises an error if a field has no column
        stored = {UNISCHEMA_EXTRA: unischema_to_json(schema)}
        index = replace(dataset.index, extra={**dataset.index.extra, **stored})
        write_index(dataset.location, index)
        return
    write_petastorm_metadata(location, schema, with_summary=use_summary_metadata)


def main(argv: Sequence[str] | None = None) -> None:
    """Run `generate_petastorm_metadata` with command-line arguments."""
    parser = argparse.ArgumentParser(
        prog="mdstorm-generate-metadata.py",
        description="Write the schema of a dataset next to its rows, which are not changed.",
        epilog="Example: mdstorm-generate-metadata.py"
        " --dataset_url file:///data/all --unischema_class package.module.MySchema",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--dataset_url", required=True, help="URL of the dataset's directory")
    parser.add_argument("--unischema_class", help="dotted path of a Unischema object")
    parser.add_argument("--use-summary-metadata", action="store_true", help="also write _metadata")
    parser.add_argument("--master", help="not used: no Spark session is needed")
    parser.add_argument("--spark-driver-memory", default="4g", help="not used")
    parser.add_argument("--hdfs-driver", default="libhdfs3", help="not used")
    given = parser.parse_args(argv)
    generate_petastorm_metadata(
        None, given.dataset_url, given.unischema_class, given.use_summary_metadata
    )


#: Petastorm's name for `main`, which programs call with their own arguments.
_main = main


def _located(path: str) -> Unischema:
    schema = locate(path)
    if not isinstance(schema, Unischema):
        raise InvalidArgumentError(
            f"{path!r} is {'nothing' if schema is None else type(schema).__name__}, but must be "
            "the dotted path of a Unischema object, package.module.MySchema, in a module that can "
            "be imported"
        )
    return schema


if __name__ == "__main__":
    main()
