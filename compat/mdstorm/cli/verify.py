"""``mdstorm verify``."""

from __future__ import annotations

from typing import Any

import click

from mdstorm.cli._errors import PROBLEMS_FOUND
from mdstorm.cli._options import dataset_argument, format_option, storage_option
from mdstorm.cli._output import counted, human_bytes, progress, write_json, write_table
from mdstorm_backend.maintenance.verify import verify as verify_dataset

__all__ = ["verify"]


@click.command()
@dataset_argument
@click.option("--quick", is_flag=True, help="Look only at whether the files are there, and sizes.")
@click.option("--threads", type=click.IntRange(min=1), help="Shards to check at a time.")
@storage_option
@format_option
@click.pass_context
def verify(
    ctx: click.Context,
    url: str,
    quick: bool,
    threads: int | None,
    storage_options: dict[str, Any],
    format_: str,
) -> None:
    """Check every file and every value of the dataset at URL.

    Exit code 0: it is as it was written. 1: problems were found. 3: it could not be read.
    """
    with progress("Checking shards") as on_progress:
        report = verify_dataset(
            url,
            quick=quick,
            threads=threads,
            storage_options=storage_options,
            on_progress=on_progress,
        )
    if format_ == "json":
        write_json(report.to_json())
    else:
        for title, found in (("problems", report.problems), ("notes", report.notes)):
            if found:
                rows = [(problem.file, problem.problem) for problem in found]
                write_table(title, ["file", title[:-1]], rows)
        size = ", ".join(
            [
                counted(report.shards, "shard"),
                counted(report.rows, "row"),
                human_bytes(report.bytes),
            ]
        )
        if report.is_good:
            verdict = "the files are all there" if quick else "is as it was written"
        else:
            verdict = counted(len(report.problems), "problem")
        click.echo(f"{report.url}: {verdict} ({size})")
    if not report.is_good:
        ctx.exit(PROBLEMS_FOUND)
