"""``mdstorm head``: show the first rows of a dataset."""

from __future__ import annotations

from typing import Any

import click

from mdstorm.cli._common import (
    columns_option,
    dataset_argument,
    examples,
    format_option,
    storage_option,
)
from mdstorm.cli._output import write_json, write_table
from mdstorm_backend.maintenance import head as head_of_dataset

__all__ = ["head"]

#: Longer values are truncated in a table.
_LONGEST = 60


@click.command(epilog=examples("mdstorm head /data/events -n 3 --columns id,label"))
@dataset_argument
@click.option(
    "-n", "rows", type=click.IntRange(min=0), default=5, show_default=True, help="Rows to show."
)
@columns_option("Names of the columns to show, separated by commas; by default all.")
@storage_option
@format_option
def head(
    url: str, rows: int, columns: list[str] | None, storage_options: dict[str, Any], format_: str
) -> None:
    """Show the first rows of the dataset at URL.

    In JSON, binary values, images and pickles are their stored bytes in base64.
    """
    found = head_of_dataset(url, rows, columns=columns, storage_options=storage_options)
    if format_ == "json":
        write_json(found.to_json())
        return
    shown = ([_short(row[name]) for name in found.columns] for row in found.rows)
    write_table(found.url, found.columns, shown)


def _short(value: object) -> str:
    text = " ".join(("null" if value is None else str(value)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
