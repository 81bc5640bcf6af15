"""The ``mdstorm audit`` command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from mdstorm_migrate.audit import Audit, Effort
from mdstorm_migrate.audit import audit as audit_files
from mdstorm_migrate.cli import common
from mdstorm_migrate.report.data import audit_to_json
from mdstorm_migrate.report.formats import find_reports, write_reports
from mdstorm_migrate.report.text import audit_to_text
from mdstorm_migrate.run.discover import project_of
from mdstorm_migrate.run.outcome import Settings

_RENDERERS: dict[str, Callable[[Audit], str]] = {"text": audit_to_text, "json": audit_to_json}

#: The classes of findings that must not remain, for each value of ``--fail-on``.
_GATES: dict[str, tuple[Effort, ...]] = {
    "manual": ("manual",),
    "review": ("manual", "review"),
    "any": ("manual", "review", "exact"),
}


@click.command(
    context_settings=common.CONTEXT,
    epilog=common.examples(
        "mdstorm audit src", "mdstorm audit . --report audit.json --fail-on manual"
    ),
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@common.files_and_reports(
    list(_RENDERERS),
    report_help="Write to a file instead; the extension determines the format.",
    format_help="Format of the report; by default text.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*_GATES, "environment"]),
    help="Exit with 1 if anything of that class, or a more severe one, is left or, for "
    "`environment`, if anything needs attention before the code runs; by default never.",
)
@click.pass_context
def audit(ctx: click.Context, /, paths: tuple[Path, ...], **options: Any) -> None:
    """Report which features of Petastorm are used where, and what needs manual review.

    Nothing but the report is written. PATHS are files and directories, by default the current
    directory.

    Exit codes: 0 success, 1 something is left (with --fail-on), 2 usage or configuration error, 3 a
    file could not be read or parsed, 130 interrupted.
    """
    ctx.exit(common.exit_code(partial(_audit, paths or (Path(),), options), "interrupted"))


def _audit(roots: Sequence[Path], options: dict[str, Any]) -> int:
    """Run the audit, write the reports and return the exit code."""
    asked = options["format_"] or (None if options["reports"] else "text")
    reports = find_reports(options["reports"], asked, _RENDERERS)
    config = common.find_config(roots)
    settings = Settings(select=config.select, ignore=config.ignore)
    found = common.found_files(roots, config, options)
    result = audit_files(found, settings, common.jobs_of(options), project_of(roots))
    written = write_reports(reports, lambda format_: _RENDERERS[format_](result))
    efforts = result.efforts()
    if efforts["problem"] or not written:
        return common.FAILED
    if options["fail_on"] == "environment":
        return common.PENDING if result.conditions else common.NOTHING_LEFT
    left = any(efforts[effort] for effort in _GATES.get(options["fail_on"], ()))
    return common.PENDING if left else common.NOTHING_LEFT
