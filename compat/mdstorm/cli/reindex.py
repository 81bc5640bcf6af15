"""``mdstorm reindex``: rebuild a lost index."""

from __future__ import annotations

import shlex
from typing import Any

import click

from mdstorm.cli._common import (
    dataset_argument,
    examples,
    format_option,
    storage_option,
    threads_option,
)
from mdstorm.cli._output import write_json
from mdstorm_backend.display import counted
from mdstorm_backend.maintenance import reindex as reindex_dataset

__all__ = ["reindex"]


@click.command(epilog=examples("mdstorm reindex /data/events"))
@dataset_argument
@click.option("--force", is_flag=True, help="Replace an existing index.")
@threads_option("Shards to read at a time")
@storage_option
@format_option
def reindex(
    url: str, force: bool, threads: int | None, storage_options: dict[str, Any], format_: str
) -> None:
    """Rebuild the index of the dataset at URL from its shards.

    Reads every shard, writes index.json and removes nothing. Refuses two attempts at one partition:
    only you can know which one is valid.
    """
    report = reindex_dataset(url, force=force, threads=threads, storage_options=storage_options)
    for note in report.notes:
        click.echo(f"warning: {note.file} {note.problem}", err=True)
    if format_ == "json":
        write_json(report.to_json())
    else:
        click.echo(
            f"{report.url}/index.json lists {counted(report.shards, 'shard')} with "
            f"{counted(report.rows, 'row')}. "
            f"Check them with: mdstorm verify {shlex.quote(report.url)}"
        )
