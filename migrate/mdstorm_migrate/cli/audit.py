"""The command ``mdstorm audit``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from mdstorm_migrate.audit.audit import Audit
from mdstorm_migrate.audit.audit import audit as audit_files
from mdstorm_migrate.cli.config import ConfigError, find_config
from mdstorm_migrate.cli.migrate import FAILED, INTERRUPTED, NOTHING_LEFT
from mdstorm_migrate.report.audit import audit_to_json, audit_to_text
from mdstorm_migrate.report.audit_html import audit_to_html
from mdstorm_migrate.report.formats import check_reports, deliver
from mdstorm_migrate.run.discover import GlobError, discover
from mdstorm_migrate.run.settings import Settings

__all__ = ["audit"]

_RENDERERS: dict[str, Callable[[Audit], str]] = {
    "text": audit_to_text,
    "json": audit_to_json,
    "html": audit_to_html,
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--include", multiple=True, metavar="GLOB", help="Only files that match.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="No files that match.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes at work.")
@click.option(
    "--report",
    "reports",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to a file instead; how its name ends says the format.",
)
@click.option("--format", "format_", type=click.Choice(list(_RENDERERS)), help="What is printed.")
@click.pass_context
def audit(ctx: click.Context, /, paths: tuple[Path, ...], **options: Any) -> None:
    """Say what of Petastorm is used where, and how much of it a person has to migrate.

    Nothing is written but the report. PATHS are files and directories, the current directory if
    none is given.

    Exit codes: 0 all files were read, 2 the command line is wrong, 3 a file could not be read or
    parsed, 130 interrupted.
    """
    check_reports(options["reports"], options["format_"], list(_RENDERERS))
    try:
        code = _audit(paths or (Path(),), options)
    except (ConfigError, GlobError) as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        code = INTERRUPTED
    ctx.exit(code)


def _audit(roots: Sequence[Path], options: dict[str, Any]) -> int:
    """Do it, and return the exit code."""
    config = find_config(roots)
    include = options["include"] or config.include
    found = discover(roots, include, (*config.exclude, *options["exclude"]))
    settings = Settings(select=config.select, ignore=config.ignore)
    result = audit_files(found, settings, options["jobs"] or min(os.cpu_count() or 1, 8))
    asked = options["format_"] or (None if options["reports"] else "text")
    delivered = deliver(
        options["reports"], asked, lambda format_: _RENDERERS[format_](result), list(_RENDERERS)
    )
    return NOTHING_LEFT if delivered and not result.efforts()["problem"] else FAILED
