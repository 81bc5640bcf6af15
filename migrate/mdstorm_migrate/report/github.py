"""Annotations of a pull request, as workflow commands of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.report.content import FileReport, Item, Report, level
from mdstorm_migrate.report.paths import relative_path

#: What GitHub calls the degrees.
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def to_github(report: Report) -> str:
    """Return one command per line; GitHub shows them at the lines that they name."""
    return "".join(f"{command}\n" for command in _commands(report))


def _commands(report: Report) -> Iterator[str]:
    for skipped in report.skipped:
        if skipped.is_error:
            where = {"file": relative_path(skipped.path)}
            yield _command("error", skipped.reason, title="mdstorm migrate", **where)
    for file in report.files:
        yield from _problems(file)
        for item in file.items:
            yield _annotation(file, item)


def _problems(file: FileReport) -> Iterator[str]:
    for problem in file.problems:
        where: dict[str, object] = {"file": relative_path(file.outcome.path)}
        if problem.line is not None and problem.cell is None:
            where["line"] = problem.line
        yield _command("error", str(problem), title="mdstorm migrate", **where)


def _annotation(file: FileReport, item: Item) -> str:
    region = item.region
    where: dict[str, object] = {"file": relative_path(file.outcome.path), "line": region.line}
    if region.line == region.end_line:  # GitHub takes columns of one line only
        where |= {"col": region.column, "endColumn": region.end_column}
    else:
        where["endLine"] = region.end_line
    title = f"{item.found.rule} ({item.found.cls})"
    return _command(_COMMANDS[level(item)], item.text, title=title, **where)


def _command(name: str, text: str, **properties: object) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {given}::{_data(text)}"


def _data(value: object) -> str:
    """Escape what would end a command, so that no content begins another."""
    return str(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
