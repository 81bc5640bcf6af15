"""``mdstorm verify --against``: compare two datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from mdstorm._conversion.compared_datasets import open_compared
from mdstorm.cli._output import write_json, write_table
from mdstorm_backend.convert import Comparison, RowDifference, compare
from mdstorm_backend.display import counted
from mdstorm_backend.tables import AsOf

#: Number of columns to show of a row.
_MOST_COLUMNS = 10


def verify_against(
    source: str,
    url: str,
    *,
    columns: Sequence[str] | None,
    dtype: str | None,
    decimals: str | None,
    as_of: AsOf,
    threads: int | None,
    storage_options: dict[str, Any],
    format_: str,
) -> bool:
    """Compare the datasets at two URLs, show the result, and return whether they are the same."""
    first, second = open_compared(source, url, storage_options=storage_options, as_of=as_of)
    found = compare(
        first,
        second,
        columns=columns,
        dtype=dtype,
        decimals=decimals,
        threads=threads,
    )
    if format_ == "json":
        write_json(found.to_json())
    else:
        _show(found)
    return found.is_same


def _show(found: Comparison) -> None:
    if found.columns:
        problems = [(column.column, column.problem) for column in found.columns]
        write_table("columns", ["column", "problem"], problems)
    if found.examples:
        titles = ["row in SRC", "row in DST", "column", "value in SRC", "value in DST"]
        lines = [line for example in found.examples for line in _lines(example)]
        write_table("rows that differ, for example", titles, lines)
    rows = counted(found.source_rows, "row")
    if found.is_same:
        click.echo(f"{found.other}: holds the same {rows} as {found.source}")
    else:
        click.echo(
            f"{found.other}: does not hold the same rows as {found.source} "
            f"({counted(found.other_rows, 'row')}, and {rows} there)"
        )


def _lines(example: RowDifference) -> list[tuple[object, ...]]:
    """Return a line for each value of a row."""
    both = (example.source_row, example.other_row)
    shown = list(example.to_json()["values"].items())
    lines: list[tuple[object, ...]] = [
        (*both, name, None if both[0] is None else left, None if both[1] is None else right)
        for name, (left, right) in shown[:_MOST_COLUMNS]
    ]
    if len(shown) > _MOST_COLUMNS:
        lines.append((*both, f"and {len(shown) - _MOST_COLUMNS} more", None, None))
    return lines
