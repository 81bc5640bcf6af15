"""`dataframe_to_mds`: write a DataFrame as one dataset per partition, with a merged index."""

from __future__ import annotations

import logging
import posixpath
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base.checks import check_integer, warn_user
from mdstorm_backend.base.optional import require
from mdstorm_backend.base.threads import map_files
from mdstorm_backend.format.compression import check_hashes
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.shard_info import parse_size_limit
from mdstorm_backend.format.type_plan import check_columns, fitted_column, plan_types
from mdstorm_backend.format.values.arrow_types import arrow_type, simple_name
from mdstorm_backend.spark.materialization import collect_reports, write_progress
from mdstorm_backend.spark.session import check_dataframe, sized_arrow_batches
from mdstorm_backend.storage import Location, check_no_secrets
from mdstorm_backend.write import tasks
from mdstorm_backend.write.commit import build_index, check_seen, shards_of, write_index
from mdstorm_backend.write.directories import clear_target, find_targets, make_directory
from mdstorm_backend.write.full_shard import ShardFormat
from mdstorm_backend.write.merge import Part, merge_parts

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
        raise errors.InvalidArgumentError(
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
            first_shard=posixpath.join(tasks.directory_name(0), INDEX_NAME),
        )
    job = tasks.PartitionJob(
        secrets.token_hex(4),
        targets.to_write,
        format_,
        max_workers=options.get("max_workers") or 1,
        retry=options.get("retry", 2),
    )
    made = [location for location in job.locations if make_directory(location)]
    try:
        rows = _run(dataframe, job, schema, options, udf_iterable, dict(udf_kwargs or {}))
        publish_partitions(job, schema, rows, merged=merge_index)
    except BaseException:
        abandon_partitions(job, made)
        raise
    return targets.local or "", targets.remote or ""


def _checked_options(mds_kwargs: Mapping[str, Any] | None, has_function: bool) -> dict[str, Any]:
    """Return a copy of `mds_kwargs`, after the checks that `MDSWriter` does not make."""
    if not isinstance(mds_kwargs, (Mapping, type(None))):
        raise errors.ArgumentTypeError(
            f"mds_kwargs is a dict of the arguments of MDSWriter, found {mds_kwargs!r}"
        )
    options = dict(mds_kwargs or {})
    unknown = sorted(set(options) - set(_KNOWN))
    if unknown:
        raise errors.InvalidArgumentError(
            f"mds_kwargs holds the unknown argument {unknown}: use {', '.join(_KNOWN)}"
        )
    if not options.get("out"):
        raise errors.InvalidArgumentError(
            "`out` and `columns` need to be specified in mds_kwargs: out is the directory for the "
            "dataset, and columns the encodings, which may be left out without udf_iterable"
        )
    check_integer("max_workers", options.get("max_workers"), lowest=1)
    check_integer("retry", options.get("retry"), lowest=0)
    if has_function:
        if not options.get("columns"):
            raise errors.InvalidArgumentError(
                "`out` and `columns` need to be specified in mds_kwargs: with udf_iterable nothing "
                "else says what the samples hold. Give columns={…}, a dict from column to encoding"
            )
        check_columns(options["columns"])
    return options


def _run(
    dataframe: DataFrame,
    job: tasks.PartitionJob,
    schema: Schema | None,
    options: dict[str, Any],
    to_samples: tasks.ToSamples | None,
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
            task = tasks.make_task(tasks.write_batches, {"job": job, "schema": schema})
            mapped = chosen.mapInArrow(task, tasks.REPORT_SCHEMA)
        else:
            require("pandas")
            task = tasks.make_task(
                tasks.write_frames,
                {
                    "job": job,
                    "names": names,
                    "columns": dict(options["columns"]),
                    "to_samples": to_samples,
                    "arguments": arguments,
                },
            )
            mapped = plain.mapInPandas(task, tasks.REPORT_SCHEMA)
        return collect_reports(mapped)


def _planned_if_possible(dataframe: DataFrame) -> Schema | None:
    try:
        return plan_types(dataframe.schema.jsonValue()["fields"], None)
    except (errors.InvalidArgumentError, errors.UnsupportedTypeError):
        return None  # a user's function may take columns that cannot be stored


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
        raise errors.InvalidArgumentError(
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
        raise errors.InvalidArgumentError(
            f"Mismatched types: column name {name!r} is {simple_name(spark_type)}, which cannot be "
            f"stored as {text!r}. Convert the column first, or choose another encoding"
        )
    return column


_logger = logging.getLogger(__name__)


def publish_partitions(
    job: tasks.PartitionJob, schema: Schema | None, reports: Sequence[str], *, merged: bool
) -> None:
    """Write the index of every partition and, last, the one over all partitions.

    Files of unsuccessful attempts are removed.

    Parameters
    ----------
    schema : Schema or None
        Plan of the columns; None if samples were written one at a time.
    reports : sequence of str
        The reports of the tasks.
    merged : bool
        Whether to write the index over all partitions.

    Raises
    ------
    InvalidArgumentError
        If there are no samples.
    WriteError
        If the driver cannot see the files that the executors wrote, or another job has written to
        the same directory in the meantime.
    """
    parts = [
        Part(tasks.directory_name(number), build_index(schema, found))
        for number, found in tasks.reports_by_partition(reports).items()
    ]
    if not parts:
        raise errors.InvalidArgumentError(
            "Input dataframe is None or Empty! There are no samples to write, and a dataset "
            "without any cannot be opened by MosaicML Streaming: give it rows, or use "
            "mdstorm_backend.materialize, which writes an empty dataset"
        )
    *copies, target = job.locations
    _check_seen(target, parts)
    _publish(job, target, parts, merged)
    for copy in copies:
        try:
            _check_seen(copy, parts)
        except errors.WriteError:
            warn_user(
                f"{copy.url} has no index: it holds only what was written on this machine, and "
                f"executors ran elsewhere. {target.url} has everything"
            )
        else:
            _publish(job, copy, parts, merged)


def abandon_partitions(job: tasks.PartitionJob, made: Sequence[Location]) -> None:
    """Remove the files of a failed job, whose error is being raised; only log further errors."""
    for location in job.locations:
        try:
            names = location.list_names()
            shards = shards_of(job.job, names)
            for name in shards:
                location.remove(name)
            if location.url.startswith("file:///"):
                for directory in sorted({posixpath.dirname(name) for name in shards}):
                    location.child(directory).remove_directory_if_empty()
            if location in made:
                location.remove_directory_if_empty()
        except Exception:
            _logger.warning("could not clean up %s after a failure", location.url, exc_info=True)


def _check_seen(location: Location, parts: Sequence[Part]) -> None:
    indexes = [INDEX_NAME, *(posixpath.join(part.directory, INDEX_NAME) for part in parts)]
    check_seen(location, [shard for part in parts for shard in part.shards], indexes)


def _publish(
    job: tasks.PartitionJob, location: Location, parts: Sequence[Part], merged: bool
) -> None:
    won = {shard.stored.basename for part in parts for shard in part.shards}
    for name in shards_of(job.job, location.list_names()):
        if name not in won:
            location.remove(name)
    try:
        map_files(
            lambda part: write_index(location.child(part.directory), part.index, retry=job.retry),
            parts,
        )
        if merged:
            write_index(location, merge_parts(parts, location.url), retry=job.retry)
    except BaseException:
        for name in (INDEX_NAME, *(posixpath.join(p.directory, INDEX_NAME) for p in parts)):
            location.remove(name)
        raise
