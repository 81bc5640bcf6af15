"""Report formats: choose the format by file name, and write the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

import click

from mdstorm_migrate.report.content import Report
from mdstorm_migrate.report.data import to_json, to_sarif
from mdstorm_migrate.report.html import to_html
from mdstorm_migrate.report.text import to_text

_RENDERERS: dict[str, Callable[[Report], str]] = {
    "text": to_text,
    "json": to_json,
    "html": to_html,
    "sarif": to_sarif,
}

FORMATS = tuple(_RENDERERS)

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


def render(report: Report, format_: str) -> str:
    """Return a report in one of `FORMATS`."""
    return _RENDERERS[format_](report)


def find_format(path: PurePath, asked: str | None, offered: Sequence[str] = FORMATS) -> str:
    """Return the format of a report: the requested one, or else the one for the file's suffix.

    Raises
    ------
    ValueError
        If neither gives an offered format.
    """
    endings = (name for end, name in _SUFFIXES.items() if path.name.lower().endswith(end))
    format_ = asked or next(endings, None)
    if format_ is None or format_ not in offered:
        names = "|".join(offered)
        raise ValueError(
            f"the extension of {path} does not match a report format: add --format {names}"
        )
    return format_


def check_reports(
    paths: Sequence[Path], asked: str | None, offered: Sequence[str] = FORMATS
) -> None:
    """Raise a usage error, before any work is done, if a report cannot be written."""
    if asked is not None and len(paths) > 1:
        raise click.UsageError(
            "--format cannot be combined with several --report options, whose formats follow from "
            "their extensions"
        )
    for path in paths:
        try:
            find_format(path, asked, offered)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--report") from None
        if path.is_dir() or not path.absolute().parent.is_dir():
            reason = "is a directory" if path.is_dir() else "is in a directory that does not exist"
            raise click.BadParameter(f"{path} {reason}", param_hint="--report")


def write_reports(
    paths: Sequence[Path],
    asked: str | None,
    render_as: Callable[[str], str],
    offered: Sequence[str] = FORMATS,
) -> bool:
    """Write reports to files, or one report to standard output; return whether this succeeded.

    Parameters
    ----------
    paths : sequence of Path
        The files; without any, a report in the requested format goes to standard output.
    asked : str, optional
        The requested format, if any.
    render_as : callable
        Returns the report in a format.
    offered : sequence of str
        The formats to choose from.
    """
    if not paths and asked is not None:
        click.echo(_encoded(render_as(asked)), nl=False)
    for path in paths:
        data = _encoded(render_as(find_format(path, asked, offered)))
        try:
            path.write_bytes(data)
        except OSError as error:
            click.echo(f"{path}: error: not written: {error.strerror or error}", err=True)
            return False
    return True


def _encoded(text: str) -> bytes:
    r"""Return UTF-8 bytes; undecodable bytes in file names appear as ``\udcff``, as in JSON."""
    return text.encode("utf-8", "backslashreplace")
