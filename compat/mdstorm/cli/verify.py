"""``mdstorm verify``: check a dataset."""

from __future__ import annotations

from typing import Any

import click

from mdstorm.cli._common import (
    columns_option,
    dataset_argument,
    decimals_option,
    dtype_option,
    examples,
    format_option,
    storage_option,
    threads_option,
    version_options,
)
from mdstorm.cli._errors import PROBLEMS_FOUND
from mdstorm.cli._output import write_json, write_table
from mdstorm_backend.display import counted, human_bytes
from mdstorm_backend.maintenance import VerifyReport
from mdstorm_backend.maintenance import verify as verify_dataset
from mdstorm_backend.tables import AsOf

__all__ = ["verify"]


@click.command(
    epilog=examples(
        "mdstorm verify /data/events",
        "mdstorm verify --against /data/parquet /data/events",
    )
)
@dataset_argument
@click.option("--quick", is_flag=True, help="Check only that the files exist with the right sizes.")
@click.option("--against", metavar="SRC", help="Compare the rows with those of SRC, in any order.")
@columns_option(
    "With --against: names of the columns to compare, separated by commas; by default all."
)
@dtype_option(
    "With --against: what floating-point numbers of SRC were converted to; by default nothing."
)
@decimals_option("With --against: what decimals of SRC were converted to; by default nothing.")
@version_options
@threads_option("Shards to check at a time")
@storage_option
@format_option
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

    With --against, check instead that it holds the same rows as the dataset at SRC. Both may be
    MDS, Parquet, or written by Petastorm; SRC may be a Delta table.

    Exit codes: 0 success, 1 problems or differences were found, 3 a dataset could not be read.
    """
    if against is not None:
        if quick:
            raise click.UsageError("--quick reads no rows: leave out either --quick or --against")
        from mdstorm._conversion.compared_datasets import open_compared
        from mdstorm.cli._against import show_comparison
        from mdstorm_backend.convert import compare

        first, second = open_compared(
            against, url, storage_options=storage_options, as_of=AsOf(version, timestamp)
        )
        comparison = compare(first, second, threads=threads, **compared)
        show_comparison(comparison, format_)
        ctx.exit(0 if comparison.is_same else PROBLEMS_FOUND)
    if any(value is not None for value in compared.values()):
        raise click.UsageError(
            "--columns, --dtype and --decimals need --against: name the other dataset"
        )
    if version is not None or timestamp is not None:
        raise click.UsageError("--version and --timestamp need --against: name the Delta table")
    report = verify_dataset(url, quick=quick, threads=threads, storage_options=storage_options)
    if format_ == "json":
        write_json(report.to_json())
    else:
        _show(report, quick)
    if not report.is_good:
        ctx.exit(PROBLEMS_FOUND)


def _show(report: VerifyReport, quick: bool) -> None:
    for title, found in (("problems", report.problems), ("notes", report.notes)):
        if found:
            rows = [(problem.file, problem.problem) for problem in found]
            write_table(title, ["file", title[:-1]], rows)
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
