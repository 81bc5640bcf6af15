"""What the two commands share: options, exit codes, the files to scan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from mdstorm_migrate.cli.config import Config, ConfigError
from mdstorm_migrate.run.discover import GlobError, Skipped, discover

_INTERRUPTED = 130
NOTHING_LEFT, PENDING, FAILED = 0, 1, 3

#: Settings of both commands.
CONTEXT = {"help_option_names": ["-h", "--help"]}


def examples(*lines: str) -> str:
    """Return what the help of a command ends with: command lines to copy."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


_Function = TypeVar("_Function", bound=Callable[..., Any])


def files_and_reports(
    formats: Sequence[str], *, report_help: str, format_help: str
) -> Callable[[_Function], _Function]:
    """Return a decorator that adds the options for files, processes and reports."""
    options = [
        click.option(
            "--include",
            multiple=True,
            metavar="GLOB",
            help="Scan only matching files; by default all that may use Petastorm.",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="GLOB",
            help="Skip matching files; by default none but what git ignores.",
        ),
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Number of processes; by default one per processor, at most 8.",
        ),
        click.option(
            "--report",
            "reports",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=report_help,
        ),
        click.option("--format", "format_", type=click.Choice(formats), help=format_help),
    ]

    def decorated(function: _Function) -> _Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


def found_files(
    roots: Sequence[Path], config: Config, options: dict[str, Any]
) -> Iterator[Path | Skipped]:
    """Yield the files to scan; options take precedence over the configuration."""
    include = options["include"] or config.include
    return discover(roots, include, (*config.exclude, *options["exclude"]))


def jobs_of(options: dict[str, Any]) -> int:
    """Return how many processes work."""
    return options["jobs"] or min(os.cpu_count() or 1, 8)


def exit_code(work: Callable[[], int], interrupted: str) -> int:
    """Do it, and return its exit code; wrong settings are errors of the command line."""
    try:
        return work()
    except (ConfigError, GlobError) as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo(interrupted, err=True)
        return _INTERRUPTED
