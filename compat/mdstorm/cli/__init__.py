"""The ``mdstorm`` command, whose subcommands are loaded on first use.

Results go to standard output, and messages and progress go to standard error. Exit codes:
0 success, 1 problems were found, 2 the command line is wrong, 3 something could not be read or
written, 130 interrupted.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import redirect_stdout
from difflib import get_close_matches
from io import TextIOBase, TextIOWrapper
from typing import Any, TypeVar

import click

import mdstorm
from mdstorm_backend import errors

__all__ = ["main"]

#: Subcommands in alphabetical order, each with its module and one-line help.
_COMMANDS = {
    "audit": ("mdstorm_migrate.cli.audit", "Report which features of Petastorm are used where."),
    "cache": ("mdstorm.cli.cache", "List or clear cached shards, and copies of DataFrames."),
    "compare": (
        "mdstorm_migrate.compare.command",
        "Compare what a program reads before and after migration.",
    ),
    "convert": ("mdstorm.cli.datasets", "Convert Parquet files, tables or Petastorm data to MDS."),
    "doctor": ("mdstorm.cli.doctor", "Check whether mdstorm can work here."),
    "head": ("mdstorm.cli.datasets", "Show the first rows of a dataset."),
    "inspect": ("mdstorm.cli.datasets", "Describe a dataset: columns, shards and sizes."),
    "migrate": ("mdstorm_migrate.cli.migrate", "Rewrite code that uses Petastorm."),
    "reindex": ("mdstorm.cli.datasets", "Rebuild the index of a dataset from its shards."),
    "run": ("mdstorm.cli.run", "Run a program written for Petastorm on mdstorm."),
    "trace": ("mdstorm.cli.trace", "Show the rows of a batch, or where a row comes."),
    "verify": ("mdstorm.cli.datasets", "Check every file and every value of a dataset."),
}

PROBLEMS_FOUND = 1
COULD_NOT_READ = 3

#: Exit codes of Python after an uncaught exception, and of a shell after Ctrl-C.
FAILED = 1
INTERRUPTED = 130

_WRONG_COMMAND_LINE = 2
#: Errors caused by the command line.
_OF_ARGUMENTS = (
    errors.ArgumentTypeError,
    errors.InvalidArgumentError,
    errors.MissingColumnError,
    errors.UnsupportedURLError,
)
#: Width of tables written to files and pipes.
_WIDTH = 160
_Function = TypeVar("_Function", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """Return the epilog for a command's help, which lists example command lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


class _Output(TextIOBase):
    """A standard output that only has `write`, with the other methods that click and rich need."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        self._write = write

    def write(self, text: str) -> int:
        self._write(text)
        return len(text)


class CommandGroup(click.Group):
    """A click group that prints errors from mdstorm and the operating system as one line."""

    def main(self, *args: Any, **keywords: Any) -> Any:
        """Run the command line under any standard output to which ``print`` can write."""
        if sys.stdout is None or hasattr(sys.stdout, "flush"):
            return super().main(*args, **keywords)
        with redirect_stdout(_Output(sys.stdout.write)):
            return super().main(*args, **keywords)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or fail for an unknown name and suggest the most similar one."""
        names = self.list_commands(ctx)
        nearest = get_close_matches(args[0], names, n=1)
        if nearest and args[0] not in names:
            ctx.fail(f"No such command {args[0]!r}: did you mean {nearest[0]}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, printing an error as one line and exiting with its exit code."""
        # Text that cannot be encoded, such as a path that is not valid UTF-8, is escaped.
        if isinstance(sys.stdout, TextIOWrapper):  # a replaced one may have no encoding
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except click.BadParameter as error:
            text = error.message.replace("a valid integer range", "an integer")
            if text == error.message:
                raise
            raise click.BadParameter(text, error.ctx, error.param, error.param_hint) from None
        except BrokenPipeError:
            raise  # the output pipe was closed, which click handles
        except (errors.MDStormError, OSError) as error:
            click.echo(f"error: {' '.join(str(error).split())}", err=True)
            ctx.exit(_WRONG_COMMAND_LINE if isinstance(error, _OF_ARGUMENTS) else COULD_NOT_READ)
        except KeyboardInterrupt as interrupt:
            click.echo(": ".join(["interrupted", *map(str, interrupt.args)]), err=True)
            ctx.exit(INTERRUPTED)


class _Commands(CommandGroup):
    """A group that lists its commands without importing their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "mdstorm convert /data/parquet /data/mds",
        "mdstorm inspect /data/mds",
        "mdstorm migrate src",
        "mdstorm doctor",
        "mdstorm convert --help",
    ),
)
@click.version_option(mdstorm.__version__, prog_name="mdstorm")
def main() -> None:
    """Train from Spark DataFrames: Petastorm's API over MDS shards."""


def format_option(function: _Function) -> _Function:
    """Add the ``--format`` option, passed as `format_` (``table`` or ``json``)."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Format of the standard output.",
    )(function)


#: The URL of a dataset of any kind.
dataset_argument = click.argument("url")


def columns_option(help_: str) -> Callable[[_Function], _Function]:
    """Add the ``--columns`` option, passed as a list of names or None."""
    return click.option("--columns", metavar="NAMES", callback=_names, help=help_)


def dtype_option(help_: str) -> Callable[[_Function], _Function]:
    """Add the ``--dtype`` option for floating-point numbers."""
    return click.option("--dtype", type=click.Choice(["float32", "float64"]), help=help_)


def decimals_option(help_: str) -> Callable[[_Function], _Function]:
    """Add the ``--decimals`` option."""
    choice = click.Choice(["float64", "float32", "decimal"])
    return click.option("--decimals", type=choice, help=help_)


def threads_option(help_: str) -> Callable[[_Function], _Function]:
    """Add the ``--threads`` option, whose help text begins with `help_`."""
    help_ = f"{help_}; by default one per processor, at most 8."
    return click.option("-j", "--threads", type=click.IntRange(min=1), help=help_)


def _names(ctx: click.Context, parameter: click.Parameter, text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def storage_option(function: _Function) -> _Function:
    """Add the ``--storage-option`` option, passed as a dict of fsspec options."""
    return click.option(
        "--storage-option",
        "storage_options",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parse,
        help="Option for the fsspec file system, none by default; can be repeated. Values that are "
        "valid JSON are parsed as JSON.",
    )(function)


def version_options(of: str) -> Callable[[_Function], _Function]:
    """Add the ``--version`` and ``--timestamp`` options for the table in the argument `of`."""
    number = click.option(
        "--version",
        callback=_version,
        metavar="N",
        help=f"Version of {of} if it is a table: a Delta version number, or an Iceberg snapshot "
        "id, branch or tag. The default is the latest version.",
    )
    time = click.option(
        "--timestamp",
        metavar="TIME",
        help=f"If {of} is a table, read the version that was the latest at this time, such as "
        "2024-05-31T12:00:00+02:00 (in UTC without an offset). The default is now.",
    )
    return lambda function: number(time(function))


def _version(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    """Return a number if the value is an integer, otherwise the name of a branch or tag."""
    if value is None or not re.fullmatch(r"-?\d+", value):
        return value
    return int(click.IntRange(min=0)(value, parameter, ctx))


def _parse(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for number, value in enumerate(values, 1):
        key, equals, text = value.partition("=")
        if not (key and equals):
            raise click.BadParameter(  # the value may be a secret, so the message omits it
                f"number {number} is not of the form KEY=VALUE", ctx, parameter
            )
        try:
            options[key] = json.loads(text)
        except ValueError:
            options[key] = text
    return options


def write_json(value: Any) -> None:
    """Write a value as JSON to standard output."""
    # `click.echo` of some versions fails if a program has replaced standard output with None.
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def write_table(
    title: str,
    columns: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    numbers: Collection[str] = (),
) -> None:
    """Write a table to standard output, with the columns in `numbers` right-aligned."""
    from rich import box  # not loaded for commands that do not write tables
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(Text(column), justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    # Without a terminal, rich would assume 80 columns.
    out = Console(file=sys.stdout, highlight=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out.width = _WIDTH
    out.print(Text(title, style="bold"), soft_wrap=True)
    out.print(table)
