"""Print results: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import click
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

__all__ = ["counted", "human_bytes", "progress", "write_json", "write_table"]

_OnProgress: TypeAlias = Callable[[int, int], None]

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


def counted(count: int, what: str) -> str:
    """Return a number with its noun, such as ``"1 shard"`` or ``"2,000 shards"``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def human_bytes(size: float) -> str:
    """Return a number of bytes in human-readable form."""
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1024 or unit == "TiB":
            break
    return f"{size:,.1f} {unit}"


@contextmanager
def progress(what: str) -> Iterator[_OnProgress | None]:
    """Show a progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
