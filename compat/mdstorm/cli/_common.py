"""Options and output functions shared by the sub-commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_Function = TypeVar("_Function", bound=Callable[..., Any])


def format_option(function: _Function) -> _Function:
    """Add the option ``--format``, passed as `format_`: ``table`` or ``json``."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Format of the standard output.",
    )(function)


#: Width of tables written to files and pipes.
_WIDTH = 160


def _directory(ctx: click.Context, parameter: click.Parameter, url: str) -> str:
    """Return the URL of a dataset's directory; the URL of its index file is accepted, too."""
    from mdstorm_backend.format import INDEX_NAME  # not loaded for commands without a dataset

    if url == INDEX_NAME:
        return "."
    return "/" if url == f"/{INDEX_NAME}" else url.removesuffix(f"/{INDEX_NAME}")


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: example command lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


dataset_argument = click.argument("url", callback=_directory)


def columns_option(help_: str) -> Callable[[_Function], _Function]:
    """Add the option ``--columns``, passed as a list of names or None."""
    return click.option("--columns", metavar="NAMES", callback=_names, help=help_)


def dtype_option(help_: str) -> Callable[[_Function], _Function]:
    """Add the option ``--dtype`` for floating-point numbers."""
    return click.option("--dtype", type=click.Choice(["float32", "float64"]), help=help_)


def decimals_option(help_: str) -> Callable[[_Function], _Function]:
    """Add the option ``--decimals``."""
    choice = click.Choice(["float64", "float32", "decimal"])
    return click.option("--decimals", type=choice, help=help_)


def threads_option(help_: str) -> Callable[[_Function], _Function]:
    """Add the option ``--threads``; `help_` describes what the threads do."""
    help_ = f"{help_}; by default one per processor, at most 8."
    return click.option("-j", "--threads", type=click.IntRange(min=1), help=help_)


def _names(ctx: click.Context, parameter: click.Parameter, text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def storage_option(function: _Function) -> _Function:
    """Add the option ``--storage-option``, passed as a dict of fsspec options."""
    return click.option(
        "--storage-option",
        "storage_options",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parse,
        help="Option of the fsspec file system, by default none; may be repeated. Values that are "
        "valid JSON are parsed as JSON.",
    )(function)


def version_options(function: _Function) -> _Function:
    """Add the options ``--version`` and ``--timestamp`` for Delta tables."""
    number = click.option(
        "--version",
        type=click.IntRange(min=0),
        metavar="N",
        help="Version of SRC, if it is a Delta table; by default the newest one.",
    )
    time = click.option(
        "--timestamp",
        metavar="TIME",
        help="Read the version of SRC, if it is a Delta table, that was the newest one then: "
        "2024-05-31T12:00:00+02:00, or in UTC without the offset; by default now.",
    )
    return number(time(function))


def _parse(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not (key and equals):
            raise click.BadParameter(  # the value may be a secret, so the message omits it
                f"number {len(options) + 1} is not of the form KEY=VALUE", ctx, parameter
            )
        try:
            options[key] = json.loads(text)
        except ValueError:
            options[key] = text
    return options


def write_json(value: Any) -> None:
    """Write a value as JSON to standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def write_table(
    title: str,
    columns: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    numbers: Collection[str] = (),
) -> None:
    """Write a table to standard output; the columns in `numbers` are right-aligned."""
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
