"""``mdstorm verify --against``: show how two datasets differ."""

from __future__ import annotations

import click

from mdstorm.cli._output import write_json, write_table
from mdstorm_backend.convert import Comparison, RowDifference
from mdstorm_backend.display import counted

#: Number of columns to show of a row.
_MOST_COLUMNS = 10


def show_comparison(found: Comparison, format_: str) -> None:
    """Write what was found to standard output, as a table or as JSON."""
    if format_ == "json":
        write_json(found.to_json())
        return
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
