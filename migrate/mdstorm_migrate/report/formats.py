"""Report formats: choose the format by file name, and write the report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click

from mdstorm_migrate.report.content import Report
from mdstorm_migrate.report.data import to_json, to_sarif
from mdstorm_migrate.report.html import to_html
from mdstorm_migrate.report.text import to_text

#: The formats of `mdstorm migrate`'s reports.
FORMATS: dict[str, Callable[[Report], str]] = {
    "text": to_text,
    "json": to_json,
    "html": to_html,
    "sarif": to_sarif,
}

#: Suffixes of report files, longer ones first.
_SUFFIXES = {
    ".sarif.json": "sarif",
    ".sarif": "sarif",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".txt": "text",
    ".diff": "text",
    ".patch": "text",
}


def find_reports(
    paths: Sequence[Path], asked: str | None, offered: Iterable[str]
) -> list[tuple[Path | None, str]]:
    """Return the files of reports with their formats, before any work is done.

    Parameters
    ----------
    paths : sequence of Path
        Without any, a report in the requested format goes to standard output; its path is None.
    asked : str, optional
        The requested format, if any.
    offered : iterable of str
        The formats to choose from.

    Raises
    ------
    click.UsageError
        If a report cannot be written.
    """
    if asked is not None and len(paths) > 1:
        raise click.UsageError(
            "--format cannot be combined with several --report options, whose formats follow from "
            "their extensions"
        )
    if asked is not None and not paths:
        return [(None, asked)]
    return [(path, _format_of(path, asked, tuple(offered))) for path in paths]


def _format_of(path: Path, asked: str | None, offered: Sequence[str]) -> str:
    """Return the format of a report: the requested one, or else the one for the file's suffix."""
    endings = (name for end, name in _SUFFIXES.items() if path.name.lower().endswith(end))
    format_ = asked or next(endings, "")
    if format_ not in offered:
        names = "|".join(offered)
        reason = f"the extension of {path} does not match a report format: add --format {names}"
    elif path.is_dir():
        reason = f"{path} is a directory"
    elif not path.absolute().parent.is_dir():
        reason = f"{path} is in a directory that does not exist"
    else:
        return format_
    raise click.BadParameter(reason, param_hint="--report")


def write_reports(
    reports: Iterable[tuple[Path | None, str]], render_as: Callable[[str], str]
) -> bool:
    """Write the reports that `find_reports` returned; return whether this succeeded."""
    for path, format_ in reports:
        # Undecodable bytes in file names appear as \udcff, as in JSON.
        data = render_as(format_).encode("utf-8", "backslashreplace")
        if path is None:
            is_binary = hasattr(sys.stdout, "buffer")  # one that is replaced may only take text
            click.echo(data if is_binary else data.decode("utf-8"), nl=False)
            continue
        try:
            path.write_bytes(data)
        except OSError as error:
            click.echo(f"{path}: error: not written: {error.strerror or error}", err=True)
            return False
    return True
