"""``mdstorm verify`` and ``mdstorm reindex``: check a dataset, and rebuild a lost index."""

from __future__ import annotations

import shlex
from typing import Any

import click

from mdstorm.cli import PROBLEMS_FOUND, _common
from mdstorm_backend.convert import Comparison, compare
from mdstorm_backend.display import counted, human_bytes
from mdstorm_backend.maintenance import VerifyReport
from mdstorm_backend.maintenance import reindex as reindex_dataset
from mdstorm_backend.maintenance import verify as verify_dataset
from mdstorm_backend.tables import AsOf

__all__ = ["reindex", "verify"]


@click.command(
    epilog=_common.examples(
        "mdstorm verify /data/events",
        "mdstorm verify --against /data/parquet /data/events",
    )
)
@_common.dataset_argument
@click.option("--quick", is_flag=True, help="Check only that the files exist with the right sizes.")
@click.option("--against", metavar="SRC", help="Compare the rows with those of SRC, in order.")
@_common.columns_option(
    "With --against: names of the columns to compare, separated by commas; by default all."
)
@_common.dtype_option(
    "With --against: what floating-point numbers of SRC were converted to; by default nothing."
)
@_common.decimals_option(
    "With --against: what decimals of SRC were converted to; by default nothing."
)
@_common.version_options
@_common.threads_option("Shards to check at a time")
@_common.storage_option
@_common.format_option
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    url: str,
    quick: bool,
    against: str | None,
    version: int | None,
    timestamp: str | None,
    threads: int | None,
    storage_options: dict[str, Any],
    format_: str,
    **compared: Any,
) -> None:
    """Check every file and every value of the dataset at URL.

    With --against, check instead that the dataset holds the same rows as the one at SRC, in the
    same order. Both may be MDS, Parquet, or written by Petastorm; SRC may be a Delta table.

    Exit codes: 0 success, 1 problems or differences were found, 3 a dataset could not be read.
    """
    if against is not None:
        if quick:
            raise click.UsageError("--quick reads no rows: leave out either --quick or --against")
        from mdstorm._conversion import open_compared

        first, second = open_compared(
            against, url, storage_options=storage_options, as_of=AsOf(version, timestamp)
        )
        comparison = compare(first, second, threads=threads, **compared)
        _show_comparison(comparison, format_)
        ctx.exit(0 if comparison.is_same else PROBLEMS_FOUND)
    if any(value is not None for value in compared.values()):
        raise click.UsageError(
            "--columns, --dtype and --decimals need --against: name the other dataset"
        )
    if version is not None or timestamp is not None:
        raise click.UsageError("--version and --timestamp need --against: name the Delta table")
    report = verify_dataset(url, quick=quick, threads=threads, storage_options=storage_options)
    if format_ == "json":
        _common.write_json(report.to_json())
    else:
        _show(report, quick)
    if not report.is_good:
        ctx.exit(PROBLEMS_FOUND)


def _show(report: VerifyReport, quick: bool) -> None:
    for title, found in (("problems", report.problems), ("notes", report.notes)):
        if found:
            rows = [(problem.file, problem.problem) for problem in found]
            _common.write_table(title, ["file", title[:-1]], rows)
    if not report.is_good:
        verdict = counted(len(report.problems), "problem")
    elif quick:
        verdict = "the files are all there"
    elif report.has_hashes:
        verdict = "is as it was written"
    else:
        verdict = "everything can be read; without hashes, changed values cannot be seen"
    counts = f"{counted(report.shards, 'shard')}, {counted(report.rows, 'row')}"
    click.echo(f"{report.url}: {verdict} ({counts}, {human_bytes(report.bytes)})")


def _show_comparison(found: Comparison, format_: str) -> None:
    """Write the comparison to standard output, as a table or as JSON."""
    if format_ == "json":
        _common.write_json(found.to_json())
        return
    if found.columns:
        problems = [(column.column, column.problem) for column in found.columns]
        _common.write_table("columns", ["column", "problem"], problems)
    columns = [column.to_json() for column in found.columns]
    examples = [(one["column"], *values) for one in columns for values in one["examples"]]
    if examples:
        titles = ["column", "row", "value in SRC", "value in DST"]
        _common.write_table("rows that differ, for example", titles, examples)
    rows = counted(found.source_rows, "row")
    if found.is_same:
        click.echo(f"{found.other}: holds the same {rows} as {found.source}")
    else:
        click.echo(
            f"{found.other}: does not hold the same rows as {found.source} "
            f"({counted(found.other_rows, 'row')}, and {rows} there)"
        )


@click.command(epilog=_common.examples("mdstorm reindex /data/events"))
@_common.dataset_argument
@click.option("--force", is_flag=True, help="Replace an existing index.")
@_common.threads_option("Shards to read at a time")
@_common.storage_option
@_common.format_option
def reindex(
    url: str, force: bool, threads: int | None, storage_options: dict[str, Any], format_: str
) -> None:
    """Rebuild the index of the dataset at URL from its shards.

    Reads every shard, writes index.json and removes nothing. Fails if two task attempts wrote the
    same partition, because only you can know which one is valid.
    """
    report = reindex_dataset(url, force=force, threads=threads, storage_options=storage_options)
    for note in report.notes:
        click.echo(f"warning: {note.file} {note.problem}", err=True)
    if format_ == "json":
        _common.write_json(report.to_json())
    else:
        click.echo(
            f"{report.url}/index.json lists {counted(report.shards, 'shard')} with "
            f"{counted(report.rows, 'row')}. "
            f"Check them with: mdstorm verify {shlex.quote(report.url)}"
        )
