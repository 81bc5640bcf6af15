"""`dataframe_to_mds`: write a DataFrame as one dataset per partition, with a merged index."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import check_integer, check_mapping, pools, require, warn_user
from mdstorm_backend.format import INDEX_NAME, Column, Schema, plan_types, type_plan
from mdstorm_backend.format.sizes import parse_size_limit
from mdstorm_backend.format.values.arrow_types import arrow_type, simple_name
from mdstorm_backend.spark import materialization, sessions
from mdstorm_backend.storage import Location, check_no_secrets
from mdstorm_backend.write import commit, directories, full_shard, job_files, merge, tasks
from mdstorm_backend.write.mds_writer import ARGUMENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def dataframe_to_mds(
    dataframe: DataFrame,
    merge_index: bool = True,
    mds_kwargs: Mapping[str, Any] | None = None,
    udf_iterable: Callable[..., Iterable[dict[str, Any]]] | None = None,
    udf_kwargs: Mapping[str, Any] | None = None,
) -> tuple[str, str]:
    """Write a DataFrame as MDS, with MosaicML Streaming's signature and layout.

    Each partition becomes a dataset in a directory named after its number: ``00000``, ``00001``, …,
    so that directories sort in sample order. Empty partitions do not get a directory.
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
            "Input dataframe is None or Empty! Pass a DataFrame with rows"
        )
    sessions.check_dataframe(dataframe)
    options = _checked_options(mds_kwargs, udf_iterable is not None)
    # The converter's type plan casts doubles to float32 by default; types are kept here.
    fields = dataframe.schema.jsonValue()["fields"]
    schema = None if udf_iterable else plan_columns(fields, options.get("columns"))
    storage_options = options.get("storage_options") or {}
    check_no_secrets(storage_options)
    targets = directories.find_targets(
        options["out"], bool(options.get("keep_local")), storage_options, temporary=False
    )
    format_ = full_shard.ShardFormat.of(
        parse_size_limit(options.get("size_limit", 1 << 26)),
        options.get("compression", "zstd") or None,
        options.get("hashes"),
    )
    for location in targets.all:
        directories.clear_target(
            location,
            exist_ok=bool(options.get("exist_ok")),
            first_shard=f"{tasks.directory_name(0)}/{INDEX_NAME}",
        )
    job = tasks.PartitionJob(
        secrets.token_hex(4),
        targets.to_write,
        format_,
        by_partition=True,
        max_workers=options.get("max_workers") or 1,
        retry=options.get("retry", directories.DEFAULT_RETRY),
    )
    made = [location for location in job.locations if directories.make_directory(location)]
    try:
        rows = _run(dataframe, job, schema, options, udf_iterable, dict(udf_kwargs or {}))
        publish_partitions(job, schema, rows, merged=merge_index)
    except BaseException:
        abandon_partitions(job, made)
        raise
    return targets.local or "", targets.remote or ""


def _checked_options(mds_kwargs: Mapping[str, Any] | None, has_function: bool) -> dict[str, Any]:
    """Return a copy of `mds_kwargs` after the checks that `MDSWriter` does not make."""
    check_mapping("mds_kwargs, the arguments of MDSWriter,", mds_kwargs)
    options = dict(mds_kwargs or {})
    unknown = sorted(set(options).difference(ARGUMENTS))
    if unknown:
        raise errors.InvalidArgumentError(
            f"mds_kwargs has the unknown argument {unknown}: use {', '.join(ARGUMENTS)}"
        )
    if not options.get("out"):
        raise errors.InvalidArgumentError(
            "`out` and `columns` need to be specified in mds_kwargs: out is the directory for the "
            "dataset; columns, the encodings, are required only with udf_iterable"
        )
    check_integer("max_workers", options.get("max_workers"), lowest=1)
    check_integer("retry", options.get("retry"), lowest=0)
    if has_function:
        if not options.get("columns"):
            raise errors.InvalidArgumentError(
                "`out` and `columns` need to be specified in mds_kwargs: udf_iterable does not "
                "declare the columns of its samples. Pass columns={…}, from column to encoding"
            )
        type_plan.check_columns(options["columns"])
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
    names, shown = dataframe.columns, bool(options.get("progress_bar", True))
    if schema is not None:
        plain = dataframe.toDF(*(f"c{i}" for i in range(len(names))))
        chosen = plain.select(*(f"c{names.index(name)}" for name in schema.names))
        task: dict[str, Any] = {"job": job, "schema": schema}
        return materialization.run_job(chosen, tasks.write_batches, task, schema, shown=shown)
    require("pandas")
    try:
        schema = plan_types(dataframe.schema.jsonValue()["fields"], None)
    except (errors.InvalidArgumentError, errors.UnsupportedTypeError):
        schema = Schema(())  # a user's function may take columns that cannot be stored
    task = {"job": job, "names": names, "to_samples": to_samples, "arguments": arguments}
    task["columns"] = dict(options["columns"])
    return materialization.run_job(
        dataframe, tasks.write_frames, task, schema, by="mapInPandas", shown=shown
    )


def plan_columns(fields: list[dict[str, Any]], columns: Mapping[str, str] | None) -> Schema:
    """Plan how to store the columns of a DataFrame.

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
    type_plan.check_columns(columns)
    unknown = sorted(set(columns) - {field["name"] for field in fields})
    if unknown:
        raise errors.InvalidArgumentError(
            f"{unknown[0]!r} is not a column of input dataframe: it has "
            f"{[field['name'] for field in fields]}. Leave it out of columns, or add it"
        )
    chosen = [field for field in fields if field["name"] in columns]
    if len(chosen) > len(columns):
        plan_types(chosen, None)  # raises if columns have the same name
    planned = [_planned(field, columns[field["name"]]) for field in chosen]
    return Schema(tuple(planned))


def _planned(field: dict[str, Any], text: str) -> Column:
    name, spark_type = field["name"], field["type"]
    nullable = bool(field.get("nullable", True))
    try:
        type_ = arrow_type(spark_type)
    except KeyError:
        plan_types([field], None)  # raises the error that explains what to do
        raise
    column = type_plan.fitted_column(pa.field(name, type_, nullable), text, spark_type)
    if column is None:
        raise errors.InvalidArgumentError(
            f"Mismatched types: column name {name!r} is {simple_name(spark_type)}, which cannot be "
            f"stored as {text!r}. Convert the column first, or choose a different encoding"
        )
    return column


def publish_partitions(
    job: tasks.PartitionJob, schema: Schema | None, reports: Sequence[str], *, merged: bool
) -> None:
    """Write the index of every partition and then, if `merged`, the index of all partitions.

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
        merge.MergeSource(tasks.directory_name(number), commit.build_index(schema, found))
        for number, found in tasks.reports_by_partition(reports).items()
    ]
    if not parts:
        raise errors.InvalidArgumentError(
            "Input dataframe is None or Empty! There are no samples to write, and MosaicML "
            "Streaming cannot open an empty dataset: pass a DataFrame with rows, or use "
            "mdstorm_backend.materialize, which writes an empty dataset"
        )
    shards = [shard for part in parts for shard in part.shards]
    indexes = [INDEX_NAME, *(f"{part.directory}/{INDEX_NAME}" for part in parts)]
    *copies, target = job.locations
    for location in (target, *copies):
        try:
            commit.check_seen(location, shards, indexes)
        except errors.WriteError:
            if location is target:
                raise
            warn_user(
                f"{location.url} has no index: it contains only the part written on this machine, "
                f"and executors ran elsewhere. The complete dataset is in {target.url}"
            )
            continue
        won = {shard.stored.basename for shard in shards}
        for name in set(job_files.shards_of(job.name, location.list_names())) - won:
            location.remove(name)
        try:
            _write_indexes(location, parts, job.retry, merged=merged)
        except BaseException:
            for name in indexes:
                location.remove(name)
            raise


def _write_indexes(
    location: Location, parts: Sequence[merge.MergeSource], retry: int, *, merged: bool
) -> None:
    def write(part: merge.MergeSource) -> None:
        commit.write_index(location.child(part.directory), part.index, retry=retry)

    pools.map_files(write, parts)
    if merged:
        commit.write_index(location, merge.merge_parts(parts, location.url), retry=retry)


def abandon_partitions(job: tasks.PartitionJob, made: Sequence[Location]) -> None:
    """Remove a failed job's files while its error is being raised; only log further errors."""
    for location in job.locations:
        with directories.cleaning_up(location):
            shards = job_files.shards_of(job.name, location.list_names())
            for name in shards:
                location.remove(name)
            if location.url.startswith("file:///"):
                for directory in sorted({name.rpartition("/")[0] for name in shards}):
                    location.child(directory).remove_directory_if_empty()
            if location in made:
                location.remove_directory_if_empty()
