"""`dataframe_to_mds`: write a DataFrame as one dataset per partition, with a merged index."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    UnsupportedTypeError,
)
from mdstorm_backend.executors.partition_writer import (
    PartitionJob,
    ToSamples,
    directory_name,
    write_batches,
    write_frames,
)
from mdstorm_backend.executors.tasks import REPORT_SCHEMA, make_task
from mdstorm_backend.format.compression import check_hashes
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.shard_info import parse_size_limit
from mdstorm_backend.format.type_plan import plan_types
from mdstorm_backend.format.values.arrow_types import arrow_type, simple_name
from mdstorm_backend.spark.job_progress import write_progress
from mdstorm_backend.spark.partition_commit import (
    abandon_partitions,
    make_directories,
    publish_partitions,
)
from mdstorm_backend.spark.reports import collect_reports
from mdstorm_backend.spark.session import check_dataframe, sized_arrow_batches
from mdstorm_backend.storage import check_no_secrets
from mdstorm_backend.write.arrow_plan import check_columns, fitted_column
from mdstorm_backend.write.shard_format import ShardFormat
from mdstorm_backend.write.shard_writer import check_counts
from mdstorm_backend.write.target import clear_target, find_targets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KNOWN = (
    *("out", "columns", "compression", "hashes", "size_limit", "keep_local", "progress_bar"),
    *("max_workers", "retry", "exist_ok", "storage_options"),
)


def dataframe_to_mds(
    dataframe: DataFrame,
    merge_index: bool = True,
    mds_kwargs: Mapping[str, Any] | None = None,
    udf_iterable: Callable[..., Iterable[dict[str, Any]]] | None = None,
    udf_kwargs: Mapping[str, Any] | None = None,
) -> tuple[str, str]:
    """Write a DataFrame as MDS, with the signature and the layout of MosaicML Streaming.

    Each partition becomes a dataset in a directory named after its number: ``00000``, ``00001``, …,
    so that directories sort in the order of the samples. Empty partitions leave no directory.
    Without `udf_iterable`, columns keep their types and nulls, as with `materialize`: mdstorm reads
    them back, and other readers find numbers, strings and arrays.

    The function makes one pass over the DataFrame, on a classic or a Spark Connect session. If it
    fails, the files that it wrote are removed.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame
        The rows.
    merge_index : bool
        Whether to also write an index over all partitions.
    mds_kwargs : dict
        Arguments of `MDSWriter`. ``out`` is required. The default of ``compression`` is ``"zstd"``,
        and that of ``progress_bar`` is True, which shows progress in a terminal or a notebook.
        ``columns`` names the columns to store and their encodings, by default all columns.
        ``max_workers`` is the number of threads per task, by default one. The executors write to
        ``out``. If that is a pair ``(local, remote)``, they write to the second, and with
        ``keep_local`` also to the first, which is then a local directory of each executor.
    udf_iterable : callable, optional
        Called with pandas DataFrames of some rows, and with `udf_kwargs`; returns an iterable of
        samples, each a dict. ``columns`` must then state their encodings.
    udf_kwargs : dict, optional
        Other arguments of `udf_iterable`.

    Returns
    -------
    local, remote : str
        Directory and URL of the dataset; an empty string where there is none.

    Raises
    ------
    ArgumentTypeError
        If `dataframe` is not a Spark DataFrame, or `mds_kwargs` is not a dict.
    InvalidArgumentError
        If an argument is unknown or has an invalid value, a column cannot have its encoding, or the
        frame has no rows.
    UnsupportedTypeError
        If columns cannot be stored. The error is raised before the job starts, and names all such
        columns.
    DatasetExistsError
        If the directory is not empty.
    WriteError
        If the dataset cannot be written, or the driver cannot see the files that the executors
        wrote.
    """
    if dataframe is None:
        raise InvalidArgumentError(
            "Input dataframe is None or Empty! Give it a DataFrame with rows"
        )
    check_dataframe(dataframe)
    options = _checked_options(mds_kwargs, udf_iterable is not None)
    # The converter's type plan casts doubles to float32 by default; types are kept here.
    fields = dataframe.schema.jsonValue()["fields"]
    schema = None if udf_iterable else plan_columns(fields, options.get("columns"))
    storage_options = options.get("storage_options") or {}
    check_no_secrets(storage_options)
    targets = find_targets(
        options["out"], bool(options.get("keep_local")), storage_options, temporary=False
    )
    format_ = ShardFormat(
        parse_size_limit(options.get("size_limit", 1 << 26)),
        options.get("compression", "zstd") or None,
        check_hashes(options.get("hashes")),
    )
    for location in targets.all:
        clear_target(
            location,
            exist_ok=bool(options.get("exist_ok")),
            first_shard=posixpath.join(directory_name(0), INDEX_NAME),
        )
    job = PartitionJob(
        secrets.token_hex(4),
        targets.to_write,
        format_,
        max_workers=options.get("max_workers") or 1,
        retry=options.get("retry", 2),
    )
    made = make_directories(job)
    try:
        rows = _run(dataframe, job, schema, options, udf_iterable, dict(udf_kwargs or {}))
        publish_partitions(job, schema, rows, merged=merge_index)
    except BaseException:
        abandon_partitions(job, made)
        raise
    return targets.local or "", targets.remote or ""


def _checked_options(mds_kwargs: Mapping[str, Any] | None, has_function: bool) -> dict[str, Any]:
    """Return a copy of the arguments, checked for what `MDSWriter` does not check."""
    if not isinstance(mds_kwargs, (Mapping, type(None))):
        raise ArgumentTypeError(
            f"mds_kwargs is a dict of the arguments of MDSWriter, found {mds_kwargs!r}"
        )
    options = dict(mds_kwargs or {})
    unknown = sorted(set(options) - set(_KNOWN))
    if unknown:
        raise InvalidArgumentError(
            f"mds_kwargs holds the unknown argument {unknown}: use {', '.join(_KNOWN)}"
        )
    if not options.get("out"):
        raise InvalidArgumentError(
            "`out` and `columns` need to be specified in mds_kwargs: out is the directory for the "
            "dataset, and columns the encodings, which may be left out without udf_iterable"
        )
    check_counts(options.get("max_workers"), options.get("retry", 2))
    if has_function:
        if not options.get("columns"):
            raise InvalidArgumentError(
                "`out` and `columns` need to be specified in mds_kwargs: with udf_iterable nothing "
                "else says what the samples hold. Give columns={…}, a dict from column to encoding"
            )
        check_columns(options["columns"])
    return options


def _run(
    dataframe: DataFrame,
    job: PartitionJob,
    schema: Schema | None,
    options: dict[str, Any],
    to_samples: ToSamples | None,
    arguments: dict[str, Any],
) -> list[str]:
    """Run the job and return its reports."""
    session, names = dataframe.sparkSession, dataframe.columns
    # mapInArrow looks columns up by name, and reads a dot in a name as a field access.
    plain = dataframe.toDF(*(f"c{i}" for i in range(len(names))))
    with ExitStack() as stack:
        sized = schema or _planned_if_possible(dataframe)
        if sized is not None:
            stack.enter_context(sized_arrow_batches(session, sized))
        if options.get("progress_bar", True):
            stack.enter_context(write_progress(session, job.locations[-1]))
        if schema is not None:
            chosen = plain.select(*(f"c{names.index(name)}" for name in schema.names))
            task = make_task(write_batches, {"job": job.to_json(), "schema": schema.to_json()})
            mapped = chosen.mapInArrow(task, REPORT_SCHEMA)
        else:
            require("pandas")
            task = make_task(
                write_frames,
                {
                    "job": job.to_json(),
                    "names": names,
                    "columns": dict(options["columns"]),
                    "to_samples": to_samples,
                    "arguments": arguments,
                },
            )
            mapped = plain.mapInPandas(task, REPORT_SCHEMA)
        return collect_reports(mapped)


def _planned_if_possible(dataframe: DataFrame) -> Schema | None:
    try:
        return plan_types(dataframe.schema.jsonValue()["fields"], None)
    except (InvalidArgumentError, UnsupportedTypeError):
        return None  # a user's function may take columns that no shard can


def plan_columns(fields: list[dict[str, Any]], columns: Mapping[str, str] | None) -> Schema:
    """Plan how the columns of a DataFrame are stored.

    Parameters
    ----------
    fields : list of dict
        ``df.schema.jsonValue()["fields"]``.
    columns : dict of str to str, optional
        Encodings of the columns to store; others are left out. By default all are stored, each in
        the encoding that keeps its type.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored, or an encoding does not exist; the message names all of them.
    InvalidArgumentError
        If one of `columns` is not in the DataFrame, or cannot be stored in its encoding.
    """
    if columns is None:
        return plan_types(fields, None)
    check_columns(columns)
    unknown = sorted(set(columns) - {field["name"] for field in fields})
    if unknown:
        raise InvalidArgumentError(
            f"{unknown[0]!r} is not a column of input dataframe: it has "
            f"{[field['name'] for field in fields]}. Leave it out of columns, or add it"
        )
    chosen = [field for field in fields if field["name"] in columns]
    if len(chosen) > len(columns):
        plan_types(chosen, None)  # reports columns with the same name
    planned = [_planned(field, columns[field["name"]]) for field in chosen]
    return Schema(tuple(planned))


def _planned(field: dict[str, Any], text: str) -> Column:
    name, spark_type = field["name"], field["type"]
    nullable = bool(field.get("nullable", True))
    try:
        type_ = arrow_type(spark_type)
    except KeyError:
        plan_types([field], None)  # raises the error that says what to do
        raise
    column = fitted_column(pa.field(name, type_, nullable), text, spark_type)
    if column is None:
        raise InvalidArgumentError(
            f"Mismatched types: column name {name!r} is {simple_name(spark_type)}, which cannot be "
            f"stored as {text!r}. Convert the column first, or choose another encoding"
        )
    return column
