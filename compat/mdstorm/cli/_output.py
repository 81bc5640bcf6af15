"""Print results: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Width of tables that are not shown on a terminal, as in files and pipes.
_WIDTH = 160


def write_json(value: Any) -> None:
    """Write `value` to standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def write_table(
    title: str,
    columns: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    numbers: Collection[str] = (),
) -> None:
    """Write a table to standard output, with the columns `numbers` aligned right."""
    found = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        found.add_column(Text(column), justify="right" if column in numbers else "left")
    for row in rows:
        found.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    # Without a terminal, rich would assume 80 columns.
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    out = Console(file=sys.stdout, highlight=False, width=None if has_width else _WIDTH)
    out.print(Text(title, style="bold"), soft_wrap=True)
    out.print(found)
