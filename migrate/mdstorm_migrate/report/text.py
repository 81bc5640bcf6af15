"""Terminal output: diffs on stdout, messages and the summary on stderr; tables of an audit."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO

import click

from mdstorm_migrate.audit import EFFORTS, MINUTES, Audit, FeatureUse, FileAudit
from mdstorm_migrate.base.edits import Edit, Finding, unified_diff
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.report.content import FileReport, Report, relative_path
from mdstorm_migrate.rules import find_rule
from mdstorm_migrate.run.discover import Skipped
from mdstorm_migrate.run.outcome import Totals

_WITH_V = " (shown with -v)"
#: Maximum number of further places listed for a cause without ``-v``.
_MOST_PLACES = 3
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True)
class Printer:
    """Prints the results for each file, and a summary at the end.

    Attributes
    ----------
    diff : bool
        Whether to show diffs.
    quiet, verbose : bool
    stream : text file, optional
        The destination of diffs and messages instead of stdout and stderr.
    """

    diff: bool = True
    quiet: bool = False
    verbose: bool = False
    stream: IO[str] | None = None

    def skipped(self, one: Skipped) -> None:
        """Print a skipped path and the reason."""
        if one.is_error or not self.quiet:
            self._say(f"{one.path}: {'error' if one.is_error else 'skipped'}: {one.reason}")

    def uncommitted(self, folders: Sequence[int]) -> None:
        """Print that there are uncommitted changes in the repositories of some folders."""
        if folders and not self.quiet:
            files = "1 file has" if sum(folders) == 1 else f"{sum(folders):,} files have"
            self._say(f"{files} uncommitted changes: commit them first to see and undo the edits")

    def file(self, one: FileReport) -> None:
        """Print the problems and the diff of a file, and with `verbose` its edits and findings."""
        for problem in one.problems:
            self._say(f"{one.path}: error: {problem}")
        if one.edits and self.diff:
            self._diff(one)
        for item in one.items if self.verbose and not self.quiet else ():
            self._say(_line(f"{one.path}:{item.place}", item.found))

    def summary(self, report: Report) -> None:
        """Print the causes of findings, the totals, the conditions to meet, and the next command.

        With `verbose`, `file` has printed the findings.
        """
        if self.quiet:
            return
        remaining = [
            (f"{file.path}:{item.place}", item.found)
            for file, item in report.items()
            if item.is_left and isinstance(item.found, Finding)
        ]
        if not report.is_used:
            files = "file was" if report.num_read == 1 else "files were"
            library = (
                "MosaicML Streaming" if report.settings.library == "streaming" else "Petastorm"
            )
            self._say(f"no file here uses {library}; {report.num_read:,} {files} read")
            return
        (_, changed, what), *others = report.counts()
        lines = [] if self.verbose else _causes(remaining)
        lines.append(f"{changed:,} {what}")
        lines += [f"{count:>7,}  {what}{_WITH_V * (cls == 'note')}" for cls, count, what in others]
        lines += _first_step(remaining)
        lines += before_running(report.conditions, self.verbose)
        lines.append(_next(report, self.verbose))
        self._say("\n".join(lines))

    def _diff(self, one: FileReport) -> None:
        text = unified_diff(*one.outcome.outcome.texts(), relative_path(one.outcome.path))
        if self.stream is None and getattr(sys.stdout, "isatty", bool)():  # it may be replaced
            lines = text.splitlines(keepends=True)
            text = "".join(click.style(line, _COLOURS.get(line[0])) for line in lines)
        click.echo(text, nl=False, file=self.stream)

    def _say(self, text: str) -> None:
        click.echo(text, file=self.stream, err=True)


def _line(place: str, found: Edit | Finding) -> str:
    """Return an edit or a finding with its place in compiler notation."""
    return f"{place}: {found.rule} {found.cls}: {_advice(found)}"


def _causes(found: Iterable[tuple[str, Finding]]) -> list[str]:
    """Return one line for each cause of findings, with its first places."""
    causes: dict[object, list[tuple[str, Finding]]] = {}
    for place, one in found:
        causes.setdefault(one.cause, []).append((place, one))
    return [_line(*first) + _more_places(others) for first, *others in causes.values()]


def _more_places(others: Sequence[tuple[str, Finding]]) -> str:
    if not others:
        return ""
    shown = ", ".join(place for place, _ in others[:_MOST_PLACES])
    more = ", …" if len(others) > _MOST_PLACES else ""
    return f" (and {len(others):,} more place{'s' * (len(others) > 1)}: {shown}{more})"


def _first_step(found: Sequence[tuple[str, Finding]]) -> list[str]:
    """Return the line about the places that must be resolved before other edits are exact."""
    waiting = sum(one.cls == "review" and one.reason is not None for _, one in found)
    blocking = [place for place, one in found if _blocks(one)]
    if not (waiting and blocking):
        return []
    shown = ", ".join(blocking[:_MOST_PLACES])
    more = len(blocking) - _MOST_PLACES
    rest = f" and {more:,} more" if more > 0 else ""
    edits = "one edit waits" if waiting == 1 else f"{waiting:,} edits wait"
    return [f"         {edits} for {shown}{rest}; resolve that first, and `-w` does the rest"]


def _blocks(found: Finding) -> bool:
    """Whether edits that are exact by themselves wait for a finding to be resolved."""
    is_name = found.rule == "PM103" and found.cls == "review" and found.reason is None
    return found.holds is not None or is_name


def _advice(found: Edit | Finding) -> str:
    """Return the message, with the remedy unless a TODO comment already contains it."""
    return found.text if isinstance(found, Finding) and not found.is_marked else found.message


def before_running(conditions: Sequence[Condition], verbose: bool = False) -> list[str]:
    """Return the lines of "before you run it", or none if there are no conditions.

    Files that only mention Petastorm are counted, and with `verbose` listed.
    """
    mentions = [one for one in conditions if one.subject == "mentions" and not verbose]
    shown = [one for one in conditions if one not in mentions]
    lines = [f"  {f'{one.place}: ' * bool(one.path)}{one.message}" for one in shown]
    if mentions:
        many = (
            "1 file still mentions"
            if len(mentions) == 1
            else f"{len(mentions):,} files still mention"
        )
        lines.append(f"  {many} Petastorm{_WITH_V}")
    return ["before you run it:", *lines] if lines else []


def to_text(report: Report) -> str:
    """Return the whole terminal output of a run, including notes, as one string."""
    stream = io.StringIO()
    printer = Printer(verbose=True, stream=stream)
    for skipped in report.skipped:
        printer.skipped(skipped)
    for file in report.files:
        printer.file(file)
    printer.summary(report)
    return stream.getvalue()


def _next(report: Report, verbose: bool) -> str:
    totals = report.totals
    if totals.changed and not report.write:
        return "nothing was written; add `-w` to write"
    steps = []
    if totals.pending and not report.settings.unsafe:
        steps.append("review `mdstorm migrate --unsafe`")
    if totals.manual:
        steps.append(_manual_step(totals))
    if steps:
        return f"next: {', then '.join(steps)}"
    if totals.failed:
        return "the other files are done"
    if broken := sum(one.breaks for one in report.conditions):
        places = "place" if broken == 1 else f"{broken:,} places"
        return f"next: change the {places} above; until then, `--check` exits with 1"
    if totals.note:
        return f"no edits are left; check the notes{'' if verbose else ', which -v lists'}"
    if any(one.subject == "streaming" for one in report.conditions):
        return "no Petastorm is left; next: `mdstorm migrate --from streaming`"
    return "nothing is left to do in these files"


def _manual_step(totals: Totals) -> str:
    """Explain how to find the places that need manual review."""
    grep = '`grep -rn "TODO(mdstorm)"`'
    if totals.unmarked == totals.manual:
        return "resolve the places listed above by hand"
    if totals.unmarked:
        return f"resolve the places listed above by hand; {grep} finds most of them"
    return f"resolve the places that {grep} lists by hand"


def audit_to_text(audit: Audit) -> str:
    """Return the tables of an audit for a terminal, and the files to review."""
    features = [
        (use.feature, f"{use.files:,}", f"{use.uses:,}", names_of(use)) for use in audit.features()
    ]
    efforts = [
        (f"{count:,}", EFFORTS[effort]) for effort, count in audit.efforts().items() if count
    ]
    rules = [
        (code, cls, f"{count:,}", getattr(find_rule(code), "title", ""))
        for (code, cls), count in audit.found().items()
    ]
    if not (audit.files or audit.errors):
        return "no scanned file uses Petastorm\n"
    parts = [
        _table(("feature", "files", "uses", "names used"), features),
        _table(("files", "what they need"), efforts),
        _table(("rule", "class", "places", "title"), rules),
        _to_review(audit),
        "".join(f"{line}\n" for line in before_running(audit.conditions)),
        f"manual work left: about {duration(audit.minutes())}\n{estimate_note()}\n",
    ]
    return "\n".join(filter(None, parts))


def _to_review(audit: Audit) -> str:
    """Return a list of the files that `mdstorm migrate` cannot migrate without review, as text."""
    lines = []
    for file in audit.files:
        if file.problems:
            lines += [f"  {file.path.as_posix()}: {problem}" for problem in file.problems]
        elif file.effort in ("manual", "review"):
            lines.append(f"  {file.path.as_posix()}: {_places_text(file)}")
    lines += [f"  {one.path.as_posix()}: {one.reason}" for one in audit.errors]
    return "\n".join(["files to review", *lines, ""]) if lines else ""


def _places_text(file: FileAudit) -> str:
    found = ((code, cls, n) for (code, cls), n in sorted(file.found.items()))
    return ", ".join(
        f"{code} {cls}" + (f" ({n:,} places)" if n > 1 else "")
        for code, cls, n in found
        if cls in ("manual", "review")
    )


def names_of(use: FeatureUse) -> str:
    """Return the four most used names with their counts."""
    names = sorted(use.names.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = ", ".join(f"{name} {count:,}" for name, count in names[:4])
    return f"{shown}, …" if len(names) > 4 else shown


def duration(minutes: int) -> str:
    """Return a duration in readable units, rounded as befits an estimate."""
    if minutes < 60:
        return f"{minutes} minutes"
    hours = minutes / 60
    return f"{hours:.1f} hours" if hours < 10 else f"{hours:,.0f} hours"


def estimate_note() -> str:
    """Return the explanation of the estimate."""
    return (
        f"(a rough estimate: {MINUTES['review']} minutes per file with edits to review, "
        f"{MINUTES['manual']} per place that needs manual review, {MINUTES['problem']} per file "
        "that cannot be read; running and testing the result not included)"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with headings and right-aligned numbers, or an empty string without rows."""
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    numbers = [all(cell[:1].isdigit() for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in (head, *rows):
        cells = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, numbers, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"
