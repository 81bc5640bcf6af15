"""The ``mdstorm`` command, whose sub-commands are loaded on use.

Results go to standard output, messages and progress to standard error. Exit codes: 0 success,
1 problems were found, 2 the command line is wrong, 3 something could not be read or written,
130 interrupted.
"""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches
from typing import Any

import click

import mdstorm
from mdstorm_backend import errors

__all__ = ["main"]

#: Sub-commands in alphabetical order: the module of each, and its one-line help.
_COMMANDS = {
    "audit": ("mdstorm_migrate.cli.audit", "Report which features of Petastorm are used where."),
    "cache": ("mdstorm.cli.cache", "List or clear the local copies of remote shards."),
    "convert": ("mdstorm.cli.datasets", "Convert Parquet files or Petastorm datasets to MDS."),
    "doctor": ("mdstorm.cli.doctor", "Check whether mdstorm can work here."),
    "head": ("mdstorm.cli.datasets", "Show the first rows of a dataset."),
    "inspect": ("mdstorm.cli.datasets", "Describe a dataset: columns, shards and sizes."),
    "migrate": ("mdstorm_migrate.cli.migrate", "Rewrite code that uses Petastorm."),
    "reindex": ("mdstorm.cli.datasets", "Rebuild the index of a dataset from its shards."),
    "run": ("mdstorm.cli.run", "Run a program written for Petastorm on mdstorm."),
    "verify": ("mdstorm.cli.datasets", "Check every file and every value of a dataset."),
}

#: Not made by `_common.examples`, because importing `_common` loads rich.
_EXAMPLES = """\b
Examples:
  mdstorm convert /data/parquet /data/mds
  mdstorm inspect /data/mds
  mdstorm migrate src
  mdstorm doctor
  mdstorm convert --help"""

PROBLEMS_FOUND = 1
COULD_NOT_READ = 3

#: What Python itself returns after an uncaught exception, and a shell after Ctrl-C.
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


class Group(click.Group):
    """A click group that prints mdstorm's and the operating system's errors as one line."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; for an unknown name, fail and suggest the most similar command."""
        names = self.list_commands(ctx)
        nearest = get_close_matches(args[0], names, n=1)
        if nearest and args[0] not in names:
            ctx.fail(f"No such command {args[0]!r}: did you mean {nearest[0]}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print an error as one line, and exit with its exit code."""
        # Text that cannot be encoded, such as a path that is not UTF-8, is written as escapes.
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the output pipe was closed: click handles that
        except (errors.MDStormError, OSError) as error:
            click.echo(f"error: {' '.join(str(error).split())}", err=True)
            ctx.exit(_WRONG_COMMAND_LINE if isinstance(error, _OF_ARGUMENTS) else COULD_NOT_READ)
        except KeyboardInterrupt as interrupt:
            click.echo(": ".join(["interrupted", *map(str, interrupt.args)]), err=True)
            ctx.exit(INTERRUPTED)


class _Commands(Group):
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
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES
)
@click.version_option(mdstorm.__version__, prog_name="mdstorm")
def main() -> None:
    """Train from Spark DataFrames: Petastorm's API over MDS shards."""
