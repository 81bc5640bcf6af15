"""The ``mdstorm migrate`` command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from mdstorm_migrate.base.needs import RequirementError, Wanted
from mdstorm_migrate.cli import common
from mdstorm_migrate.report.content import FileReport, Report
from mdstorm_migrate.report.formats import FORMATS, find_reports, write_reports
from mdstorm_migrate.report.text import Printer
from mdstorm_migrate.rules import all_rules, find_rule
from mdstorm_migrate.run.before import before_running
from mdstorm_migrate.run.discover import Skipped, code_in_skipped, project_of
from mdstorm_migrate.run.ignored import uncommitted_in
from mdstorm_migrate.run.outcome import Settings
from mdstorm_migrate.run.together import examine
from mdstorm_migrate.run.writing import write_all


def _list_rules(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        for rule in all_rules():
            click.echo(f"{rule.code}  {rule.cls:<7} {rule.title}")
        ctx.exit()


def _explain(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        rule = find_rule(value)
        if rule is None:
            raise click.BadParameter(f"there is no rule {value}; see --list-rules")
        click.echo(rule.explain().rstrip())
        ctx.exit()


def _codes(
    ctx: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the rule codes, or None if the option was not given."""
    try:
        return common.rule_codes(values) or None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _requirement(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the value if it is a valid requirement for mdstorm."""
    if value is not None:
        try:
            Wanted.parse(value)
        except RequirementError as error:
            raise click.BadParameter(str(error)) from None
    return value


@click.command(
    context_settings=common.CONTEXT,
    epilog=common.examples(
        "mdstorm migrate src",
        "mdstorm migrate src --write --report migration.html",
        "mdstorm migrate --explain PM101",
    ),
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--from",
    "library",
    type=click.Choice(["petastorm", "streaming"]),
    default="petastorm",
    show_default=True,
    help="The library to replace; `streaming` is MosaicML Streaming.",
)
@click.option("-w", "--write", is_flag=True, help="Write the files.")
@click.option(
    "--check", is_flag=True, help="Write nothing; exit with 1 if anything remains to be done."
)
@click.option(
    "--diff/--no-diff", default=True, show_default=True, help="Show the diff, or only the summary."
)
@click.option(
    "--unsafe/--safe",
    default=None,
    help="Also apply edits that may change behaviour; by default only safe ones.",
)
@click.option(
    "--select",
    multiple=True,
    metavar="CODES",
    callback=_codes,
    help="Run only these rules; by default all.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODES",
    callback=_codes,
    help="Skip these rules; by default none.",
)
@click.option(
    "--todo/--no-todo",
    default=None,
    help="Insert TODO comments for manual review; by default they are inserted.",
)
@click.option(
    "--requirement",
    metavar="REQ",
    callback=_requirement,
    help="How to require mdstorm, such as 'mdstorm[torch]==0.2.*'; by default 'mdstorm' with the "
    "extras that the code needs.",
)
@click.option("--index", metavar="URL", help="An extra index that has mdstorm; by default none.")
@click.option(
    "--backup",
    metavar="SUFFIX",
    help="Keep a copy of each changed file, as its name plus SUFFIX; by default none.",
)
@common.files_and_reports(
    list(FORMATS),
    report_help="Also write a report; the extension determines the format.",
    format_help="Format of the report, by default text; without --report, print it instead of the "
    "diff.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the diff and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Also print every edit and note.")
@click.option(
    "--list-rules",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_rules,
    help="List the rules.",
)
@click.option(
    "--explain",
    metavar="CODE",
    is_eager=True,
    expose_value=False,
    callback=_explain,
    help="Explain a rule.",
)
@click.pass_context
def migrate(ctx: click.Context, /, paths: tuple[Path, ...], **options: Any) -> None:
    """Rewrite code, notebooks and requirements that use Petastorm so that they use mdstorm.

    Without --write, nothing is written; the diff is shown. PATHS are files and directories, by
    default the current directory.

    Exit codes: 0 success, 1 something is left to write, review or resolve by hand (with --check), 2
    usage or configuration error, 3 a file could not be read, parsed or written, 130 interrupted.
    """
    roots = paths or (Path(),)
    _check_usage(roots, options)
    interrupted = "interrupted: every file written so far is complete"
    ctx.exit(common.exit_code(partial(_migrate, roots, options), interrupted))


def _check_usage(roots: Sequence[Path], options: dict[str, Any]) -> None:
    for path in roots:
        if not (path.exists() or path.is_symlink()):
            raise click.BadParameter(f"{path} does not exist", param_hint="PATHS")
    if options["write"] and options["check"]:
        raise click.UsageError("--write and --check cannot be used together")
    backup = options["backup"]
    if backup is not None and (not backup or os.sep in backup):
        raise click.BadParameter(
            f"the suffix must not be empty or contain {os.sep!r}", param_hint="--backup"
        )


def _settings(config: common.Config, options: dict[str, Any]) -> Settings:
    """Return the settings; options take precedence over the configuration."""

    def chosen(name: str) -> Any:
        return getattr(config, name) if options[name] is None else options[name]

    wanted = Wanted.parse(chosen("requirement"))
    return Settings(
        chosen("unsafe"),
        chosen("select"),
        chosen("ignore"),
        chosen("todo"),
        wanted,
        chosen("index") or None,
        options["library"],
    )


def _migrate(roots: Sequence[Path], options: dict[str, Any]) -> int:
    """Run the migration, write the reports and return the exit code."""
    reports = find_reports(options["reports"], options["format_"], FORMATS)
    # On standard output, a report replaces the diff; in text, it is what is printed anyway.
    reports = [one for one in reports if one != (None, "text")]
    diff = options["diff"] and not any(path is None for path, _ in reports)
    config = common.find_config(roots)
    settings = _settings(config, options)
    discovered = list(common.found_files(roots, config, options))
    skipped = [one for one in discovered if isinstance(one, Skipped)]
    report = Report(settings, options["write"], skipped=skipped)
    printer = Printer(diff, options["quiet"], options["verbose"])
    for one in skipped:
        printer.skipped(one)
    paths = [one for one in discovered if isinstance(one, Path)]
    examined = examine(
        paths, settings, common.jobs_of(options), project_of(roots), code_in_skipped(discovered)
    )
    outcomes = examined.outcomes
    examined.outcomes = []
    if report.write and any(one.changed for one in outcomes):
        printer.uncommitted([one for one in map(uncommitted_in, roots) if one])
    for outcome in write_all(outcomes, options["backup"]) if report.write else outcomes:
        examined.outcomes.append(outcome)
        if outcome.has_results:
            report.files.append(FileReport(outcome))
            printer.file(report.files[-1])
    report.conditions = before_running(examined, settings)
    report.num_read = len(paths)
    facts = examined.project.facts.values()
    report.is_used = bool(
        report.files or report.conditions or report.totals.failed or any(one.needs for one in facts)
    )
    printer.summary(report)
    written = write_reports(reports, lambda format_: FORMATS[format_](report))
    totals = report.totals
    if totals.failed or not written:
        return common.FAILED
    is_broken = any(one.breaks for one in report.conditions)
    is_left = bool(totals.changed or totals.pending or totals.manual or is_broken)
    return common.PENDING if options["check"] and is_left else common.NOTHING_LEFT
