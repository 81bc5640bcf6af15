"""Dataset commands: ``mdstorm convert``, ``inspect``, ``head``, ``verify`` and ``reindex``."""

from __future__ import annotations

import base64
import json
import math
import shlex
from typing import Any

import click
import numpy as np

from mdstorm import cli
from mdstorm_backend import errors, maintenance
from mdstorm_backend.base import require
from mdstorm_backend.convert import Comparison, compare
from mdstorm_backend.display import counted, human_bytes
from mdstorm_backend.format import parse_size
from mdstorm_backend.kinds import index_directory
from mdstorm_backend.spark import start_session
from mdstorm_backend.tables import AsOf

__all__ = ["convert", "head", "inspect", "reindex", "verify"]
#: Maximum length of values in a table; longer values are truncated.
_LONGEST = 60


@click.command(
    epilog=cli.examples(
        "mdstorm convert /data/parquet /data/mds",
        "mdstorm convert s3://bucket/table s3://bucket/mds --dtype float32 --compression zstd",
    )
)
@click.argument("source", metavar="SRC")
@click.argument("url", metavar="DST")
@cli.columns_option("Names of the columns to convert, separated by commas; by default all.")
@cli.dtype_option("Type of floating-point numbers; by default unchanged.")
@cli.decimals_option("Type of decimals and of elements in decimal arrays; by default decimal.")
@click.option("--shard-size", metavar="SIZE", help="Maximum size of a shard; 64mb by default.")
@click.option(
    "--keep-row-groups/--fill-shards",
    default=None,
    help="Whether each row group becomes a shard; by default only for Petastorm datasets.",
)
@click.option(
    "--compression",
    metavar="CODEC",
    help="zstd, gz, bz2, br or snappy, optionally with :LEVEL; by default none.",
)
@click.option(
    "--hash",
    "hashes",
    multiple=True,
    help="Hash of every file to record in the index; by default none.",
)
@click.option(
    "--files",
    multiple=True,
    metavar="COLUMN=PATHS",
    callback=lambda _, parameter, texts: dict(_column_of_paths(parameter, text) for text in texts),
    help="Add a column with the content of the files that the column PATHS names; can be repeated. "
    "By default, none is added.",
)
@click.option(
    "--files-below",
    multiple=True,
    metavar="PREFIX",
    help="A directory from which files may be read, by default only SRC; can be repeated.",
)
@click.option(
    "--max-file-size",
    metavar="SIZE",
    default="256mb",
    show_default=True,
    help="Maximum size of one file.",
)
@click.option("--overwrite", is_flag=True, help="Replace the dataset at DST, once it is complete.")
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Resume an interrupted conversion.",
)
@click.option("--spark", is_flag=True, help="Convert with a Spark job, in Spark's row order.")
@cli.threads_option("Number of row groups to convert at a time")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@cli.version_options("SRC")
@cli.storage_option
@cli.format_option
def convert(
    source: str,
    url: str,
    shard_size: str | None,
    hashes: tuple[str, ...],
    resume: bool,
    spark: bool,
    threads: int | None,
    max_file_size: str,
    quiet: bool,
    format_: str,
    **options: Any,
) -> None:
    """Convert the Parquet files, table or Petastorm dataset at SRC to an MDS dataset at DST.

    A table is a Delta or Iceberg table, or its name in Unity Catalog, such as main.sales.orders.
    Values and row order are kept. An interrupted conversion resumes when you run it again.
    """
    from mdstorm._conversion import convert as convert_dataset

    size = None if shard_size is None else parse_size(shard_size)
    session = None
    if spark:
        require("pyspark")
        from pyspark.sql import SparkSession

        session = start_session(SparkSession.builder.appName("mdstorm convert"))
    try:
        dataset = convert_dataset(
            source,
            url,
            shard_size=size,
            hashes=sorted(hashes),
            resume=resume,
            spark=session,
            workers=threads,
            max_file_bytes=parse_size(max_file_size),
            progress=False if quiet else None,
            **options,
        )
    except KeyboardInterrupt:
        can_resume = resume and not spark
        then = "run it again to continue" if can_resume else "nothing was kept"
        raise KeyboardInterrupt(then) from None
    if quiet:
        return
    shards = len(dataset.index.shards)
    stored = sum(shard.stored.bytes for shard in dataset.index.shards)
    if format_ == "json":
        summary = {
            "url": dataset.url,
            "rows": len(dataset),
            "shards": shards,
            "bytes": stored,
            "columns": {column.name: column.encoding for column in dataset.schema},
        }
        cli.write_json(summary)
        return
    compared = {name: options[name] for name in ("dtype", "decimals", "version", "timestamp")}
    compared["columns"] = ",".join(options["columns"] or []) or None
    given = "".join(
        f"--{name} {shlex.quote(str(value))} "
        for name, value in compared.items()
        if value is not None
    )
    next_step = f"Compare with: mdstorm verify {given}--against {shlex.quote(source)}"
    if spark or options["files"]:  # Spark may have changed the row order; the source has no files
        next_step = "Check with: mdstorm verify"
    click.echo(
        f"{dataset.url}: {counted(len(dataset), 'row')} in {counted(shards, 'shard')}, "
        f"{human_bytes(stored)}. {next_step} {shlex.quote(url)}"
    )


def _column_of_paths(parameter: click.Parameter, text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not (name and path):
        raise click.BadParameter(f"{text!r} is not of the form COLUMN=PATHS", param=parameter)
    return name, path


@click.command(
    epilog=cli.examples(
        "mdstorm inspect /data/events", "mdstorm inspect s3://bucket/events --format json"
    )
)
@cli.dataset_argument
@cli.version_options("URL")
@cli.storage_option
@cli.format_option
def inspect(url: str, format_: str, **how: Any) -> None:
    """Describe the columns, shards and sizes of the data at URL.

    They can be of any kind that readers read: MDS, Parquet, a table, or written by Petastorm. Of
    MDS, only the index is read; of Parquet, only footers.
    """
    from mdstorm._datasets import open_dataset

    found = maintenance.inspect(open_dataset(url, **how))
    if format_ == "json":
        cli.write_json(found.to_json())
        return
    cli.write_table(found.url, ["property", "value"], _overview(found))
    _write_columns(found)


def _overview(inspection: maintenance.Inspection) -> list[tuple[str, object]]:
    size, rows, stored = inspection.shard_bytes, inspection.shard_rows, inspection.stored_bytes
    # Numeric limits are shown in bytes, other limits as stored in the index.
    limits = {
        f"{human_bytes(int(limit))} ({int(limit):,})" if limit.isdecimal() else limit: count
        for limit, count in inspection.size_limits.items()
    }
    entries: list[tuple[str, object]] = [
        ("rows", f"{inspection.rows:,}"),
        ("shards", f"{inspection.shards:,}"),
        ("bytes", f"{human_bytes(size.total)} ({size.total:,})"),
    ]
    if stored.total not in (size.total, 0):
        saved = f"{stored.total / size.total:.0%}" if size.total else "-"
        entries.append(("stored", f"{human_bytes(stored.total)} ({stored.total:,}), {saved}"))
    if inspection.version is not None:
        entries.append(("version", inspection.version))
    entries += [
        ("rows of a shard", f"{rows.min:,} … {rows.median:,.0f} … {rows.max:,}"),
        ("bytes of a shard", " … ".join(map(human_bytes, (size.min, size.median, size.max)))),
        *_stated("compression", inspection.compressions),
        *_stated("hashes", inspection.hashes),
        *_stated("size limit", limits),
        ("logical schema", "yes" if inspection.logical_schema else "no: only MDS encodings"),
        ("fingerprint", inspection.fingerprint),
    ]
    return entries


def _stated(name: str, counts: dict[str, int]) -> list[tuple[str, object]]:
    """Return a row of the overview, unless only MDS states such a value."""
    return [(name, _shares(counts))] if counts else []


def _shares(counts: dict[str, int]) -> str:
    """Format the value shared by all shards, or each value with its number of shards."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({count:,} shards)" for value, count in counts.items())


def _write_columns(inspection: maintenance.Inspection) -> None:
    names = ["column", "encoding", "Spark type", "nullable", "nulls", "null elements"]
    rows = [
        (
            column.name,
            _shares(column.encodings),
            column.spark_type or "",
            {True: "yes", False: "no"}[column.nullable] if inspection.logical_schema else "",
            f"{column.null_count:,}",
            f"{column.element_null_count:,}",
        )
        for column in inspection.columns
    ]
    cli.write_table("columns", names, rows, numbers=names[-2:])


@click.command(epilog=cli.examples("mdstorm head /data/events -n 3 --columns id,label"))
@cli.dataset_argument
@click.option(
    "-n", "rows", type=click.IntRange(min=0), default=5, show_default=True, help="Rows to show."
)
@cli.columns_option("Names of the columns to show, separated by commas; by default all.")
@cli.version_options("URL")
@cli.storage_option
@cli.format_option
def head(url: str, rows: int, columns: list[str] | None, format_: str, **how: Any) -> None:
    """Show the first rows of the data at URL, which can be of any kind that readers read.

    In JSON, the stored bytes of binary values, images and pickles are encoded in base64.
    """
    from mdstorm._datasets import open_dataset

    found = maintenance.head(open_dataset(url, **how), rows, columns=columns)
    shown = zip(*found.values(), strict=True)
    if format_ == "json":
        cli.write_json([dict(zip(found, map(plain, row), strict=True)) for row in shown])
        return
    cli.write_table(url, found, (map(one_line, row) for row in shown))


def one_line(value: object) -> str:
    """Return a value as a line of a table, cut if it is long."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    text = " ".join(("null" if value is None else str(value)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def plain(value: Any) -> Any:
    """Convert a value to JSON types. NaN, infinities, dates and decimals become text."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


@click.command(
    epilog=cli.examples(
        "mdstorm verify /data/events", "mdstorm verify --against /data/parquet /data/events"
    )
)
@cli.dataset_argument
@click.option("--quick", is_flag=True, help="Check only that the files exist with the right sizes.")
@click.option("--against", metavar="SRC", help="Compare the rows with the rows in SRC, in order.")
@cli.columns_option(
    "With --against: names of the columns to compare, separated by commas; by default all."
)
@cli.dtype_option(
    "With --against: type to which floating-point numbers in SRC were converted; by default none."
)
@cli.decimals_option(
    "With --against: type to which decimals in SRC were converted; by default none."
)
@cli.version_options("SRC, or of URL without --against,")
@cli.threads_option("Number of shards to check at a time")
@cli.storage_option
@cli.format_option
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    url: str,
    quick: bool,
    against: str | None,
    version: int | str | None,
    timestamp: str | None,
    threads: int | None,
    storage_options: dict[str, Any],
    format_: str,
    **compared: Any,
) -> None:
    """Check every file and every value of the data at URL.

    With --against, check instead that they are the same rows as those at SRC, in the same order.
    Both can be of any kind that readers read: MDS, Parquet, a table, or written by Petastorm.

    Exit codes: 0 success, 1 problems or differences were found, 3 a dataset could not be read.
    """
    if against is not None:
        if quick:
            raise click.UsageError(
                "--quick does not read rows: leave out either --quick or --against"
            )
        from mdstorm._conversion import open_compared

        first, second = open_compared(
            against, url, storage_options=storage_options, as_of=AsOf(version, timestamp)
        )
        comparison = compare(first, second, threads=threads, **compared)
        _show_comparison(comparison, format_)
        ctx.exit(0 if comparison.is_same else cli.PROBLEMS_FOUND)
    if any(value is not None for value in compared.values()):
        raise click.UsageError(
            "--columns, --dtype and --decimals need --against: pass the other dataset"
        )
    from mdstorm._datasets import open_dataset

    how: dict[str, Any] = {"version": version, "timestamp": timestamp}
    how["storage_options"] = storage_options
    try:
        opened: Any = open_dataset(url, **how)
    except errors.CorruptDatasetError:
        opened = url  # it is opened again for the report
    report = maintenance.verify(
        opened, quick=quick, threads=threads, storage_options=storage_options
    )
    if format_ == "json":
        cli.write_json(report.to_json())
    else:
        _show(report, quick)
    if not report.is_good:
        ctx.exit(cli.PROBLEMS_FOUND)


def _show(report: maintenance.VerifyReport, quick: bool) -> None:
    for title, found in (("problems", report.problems), ("notes", report.notes)):
        if found:
            rows = [(problem.file, problem.problem) for problem in found]
            cli.write_table(title, ["file", title[:-1]], rows)
    if not report.is_good:
        verdict = counted(len(report.problems), "problem")
    elif quick:
        verdict = "all files are present"
    elif report.has_hashes:
        verdict = "is unchanged since it was written"
    else:
        verdict = "everything can be read; without hashes, changed values cannot be detected"
    counts = f"{counted(report.shards, 'shard')}, {counted(report.rows, 'row')}"
    click.echo(f"{report.url}: {verdict} ({counts}, {human_bytes(report.bytes)})")


def _show_comparison(comparison: Comparison, format_: str) -> None:
    """Write the comparison to standard output, as a table or as JSON."""
    if format_ == "json":
        cli.write_json(comparison.to_json())
        return
    if comparison.columns:
        problems = [(column.column, column.problem) for column in comparison.columns]
        cli.write_table("columns", ["column", "problem"], problems)
    columns = [column.to_json() for column in comparison.columns]
    examples = [(one["column"], *values) for one in columns for values in one["examples"]]
    if examples:
        titles = ["column", "row", "value in SRC", "value in DST"]
        cli.write_table("rows that differ, for example", titles, examples)
    rows = counted(comparison.source_rows, "row")
    if comparison.is_same:
        click.echo(f"{comparison.other}: holds the same {rows} as {comparison.source}")
    else:
        click.echo(
            f"{comparison.other}: does not hold the same rows as {comparison.source} "
            f"({counted(comparison.other_rows, 'row')}, and {rows} there)"
        )


@click.command(epilog=cli.examples("mdstorm reindex /data/events"))
@cli.dataset_argument
@click.option("--force", is_flag=True, help="Replace an existing index.")
@cli.threads_option("Number of shards to read at a time")
@cli.storage_option
@cli.format_option
def reindex(
    url: str, force: bool, threads: int | None, storage_options: dict[str, Any], format_: str
) -> None:
    """Rebuild the index of the dataset at URL from its shards.

    Reads every shard and writes index.json, without removing anything. Fails if two task attempts
    wrote the same partition, because mdstorm cannot determine which one is valid.
    """
    url = index_directory(url)
    report = maintenance.reindex(url, force=force, threads=threads, storage_options=storage_options)
    for note in report.notes:
        click.echo(f"warning: {note.file} {note.problem}", err=True)
    if format_ == "json":
        cli.write_json(report.to_json())
    else:
        click.echo(
            f"{report.url}/index.json lists {counted(report.shards, 'shard')} with "
            f"{counted(report.rows, 'row')}. "
            f"Check them with: mdstorm verify {shlex.quote(report.url)}"
        )
