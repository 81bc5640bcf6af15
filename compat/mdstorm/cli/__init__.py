"""The ``mdstorm`` command, whose sub-commands are loaded on use.

Results go to standard output, messages and progress to standard error. Exit codes: 0 success,
1 problems were found, 2 the command line is wrong, 3 something could not be read or written,
130 interrupted.
"""

from __future__ import annotations

import importlib

import click

import mdstorm
from mdstorm.cli._errors import Group

__all__ = ["main"]

#: Sub-commands and what they do; each is a command in a module of the same name, here or there.
_COMMANDS = {
    "audit": "Report which features of Petastorm are used where.",
    "cache": "List or clear the local copies of remote shards.",
    "convert": "Convert Parquet files or Petastorm datasets to MDS.",
    "head": "Show the first rows of a dataset.",
    "inspect": "Describe a dataset: columns, shards and sizes.",
    "migrate": "Rewrite code that uses Petastorm.",
    "reindex": "Rebuild the index of a dataset from its shards.",
    "run": "Run a program written for Petastorm on mdstorm.",
    "verify": "Check every file and every value of a dataset.",
}
_OF_THE_TOOL = ("audit", "migrate")


class _Commands(Group):
    """A group that knows the names of its commands without loading them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        package = "mdstorm_migrate" if cmd_name in _OF_THE_TOOL else "mdstorm"
        module = importlib.import_module(f"{package}.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


#: Not by `_options.examples`, which loads the engine.
_EXAMPLES = """\b
Examples:
  mdstorm convert /data/parquet /data/mds
  mdstorm inspect /data/mds
  mdstorm migrate src
  mdstorm convert --help"""


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES
)
@click.version_option(mdstorm.__version__, prog_name="mdstorm")
def main() -> None:
    """Train from Spark DataFrames: Petastorm's API over MDS shards."""
