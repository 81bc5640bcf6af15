"""Copy a dataset with a Unischema, or some of it: the mirror of its module in Petastorm.

Also a command: ``python -m mdstorm.tools.copy_dataset SOURCE_URL TARGET_URL …``.
"""

from __future__ import annotations

import argparse
import operator
import sys
from collections.abc import Sequence
from functools import reduce
from typing import Any

from mdstorm.errors import InvalidArgumentError, MissingDependencyError
from mdstorm.etl.dataset_metadata import get_schema_from_dataset_url, materialize_dataset
from mdstorm.tools.spark_session_cli import add_configure_spark_arguments, configure_spark
from mdstorm.unischema import Unischema, UnischemaField, match_unischema_fields
from mdstorm_backend.base import require
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.spark import start_session
from mdstorm_backend.storage import Location

__all__ = ["args_parser", "copy_dataset", "main"]

#: Spark would otherwise make a partition, and thus a file, of every few of the large row groups.
_MAX_PARTITION_BYTES = 1_010_612_736


def copy_dataset(
    spark: Any,
    source_url: str,
    target_url: str,
    field_regex: Sequence[str] | None,
    not_null_fields: Sequence[str] | None,
    overwrite_output: bool,
    partitions_count: int | None,
    row_group_size_mb: int | None,
    hdfs_driver: str = "libhdfs3",
) -> None:
    """Copy the Parquet files of a dataset with its schema, by a Spark job.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session.
    source_url, target_url : str
        Directories of the dataset and of the copy.
    field_regex : sequence of str or None
        Regular expressions: only fields whose whole name matches one of them are copied.
    not_null_fields : sequence of str or None
        Only rows in which none of these fields is null are copied.
    overwrite_output : bool
        Whether an existing target is replaced; otherwise it is Spark's AnalysisException.
    partitions_count : int or None
        Number of files; by default Spark decides.
    row_group_size_mb : int or None
        Size of the row groups in MiB; by default Spark decides.
    hdfs_driver : str
        Not used.

    Raises
    ------
    InvalidArgumentError
        If no field matches `field_regex`, `not_null_fields` names one that does not exist, or the
        source is an MDS dataset, which Spark cannot read; also ValueError.
    PetastormMetadataError
        If the source has no schema.
    """
    if Location.of(source_url).exists(INDEX_NAME):
        raise InvalidArgumentError(
            f"{source_url} is an MDS dataset, which Spark cannot read: copy_dataset copies only "
            "Parquet files. Copy the Parquet files that the dataset was made from"
        )
    schema = get_schema_from_dataset_url(source_url)
    fields = _chosen(schema, field_regex)
    unknown = {*(not_null_fields or ())} - schema.fields.keys()
    if unknown:
        raise InvalidArgumentError(
            f"not_null_fields {sorted(unknown)} are not fields of {source_url}, which has "
            f"{list(schema.fields)}"
        )
    copied = schema.create_schema_view(fields) if fields else schema
    with materialize_dataset(spark, target_url, copied, row_group_size_mb=row_group_size_mb):
        frame = spark.read.parquet(source_url)
        if not_null_fields:
            frame = frame.filter(
                reduce(operator.and_, (frame[name].isNotNull() for name in not_null_fields))
            )
        if fields:
            frame = frame.select(*(f"`{field.name}`" for field in fields))
        if partitions_count:
            frame = frame.repartition(partitions_count)
        mode = "overwrite" if overwrite_output else "error"
        frame.write.mode(mode).option("compression", "none").parquet(target_url)


def _chosen(schema: Unischema, field_regex: Sequence[str] | None) -> list[UnischemaField]:
    """Return the fields that match, none if all are to be copied."""
    fields = match_unischema_fields(schema, field_regex or ())
    if field_regex and not fields:
        raise InvalidArgumentError(
            f"Regular expressions ({list(field_regex)}) do not match any fields "
            f"({list(schema.fields)})"
        )
    return fields


def args_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="copy_dataset",
        description="Copy a dataset with a Unischema, or some of it.",
        epilog="Example: python -m mdstorm.tools.copy_dataset"
        ' file:///data/all file:///data/some --field-regex id "image.*"',
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("source_url", help="directory of the dataset")
    parser.add_argument("target_url", help="directory of the copy")
    parser.add_argument(
        "--overwrite-output", action="store_true", help="replace the target if it exists"
    )
    parser.add_argument(
        "--field-regex", nargs="+", help="copy the fields whose whole name matches one of these"
    )
    parser.add_argument(
        "--not-null-fields", nargs="+", help="copy the rows in which none of these is null"
    )
    parser.add_argument("--partition-count", type=int, help="number of files of the copy")
    parser.add_argument("--row-group-size-mb", type=int, help="size of its row groups in MiB")
    parser.add_argument("--hdfs-driver", default="libhdfs3", help="not used")
    add_configure_spark_arguments(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run `copy_dataset` with the arguments of a command line, in a session of its own."""
    given = args_parser().parse_args(argv)
    require("pyspark")
    from pyspark.sql import SparkSession

    builder = configure_spark(SparkSession.builder.appName("petastorm-copy"), given)
    try:
        spark = start_session(
            builder.config("spark.sql.files.maxPartitionBytes", str(_MAX_PARTITION_BYTES))
        )
    except MissingDependencyError as error:
        sys.exit(f"error: {error}")
    try:
        copy_dataset(
            spark,
            given.source_url,
            given.target_url,
            given.field_regex,
            given.not_null_fields,
            given.overwrite_output,
            given.partition_count,
            given.row_group_size_mb,
        )
    finally:
        spark.stop()


#: Petastorm's name of it, by which programs call it with arguments of their own.
_main = main


if __name__ == "__main__":
    main()
