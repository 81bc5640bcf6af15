"""The content of a report in any format: files, edits, findings, totals."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from mdstorm_migrate.base.edits import CLASSES, Edit, Finding, Lines
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.rules import Rule, all_rules
from mdstorm_migrate.run.discover import Skipped
from mdstorm_migrate.run.outcome import FileOutcome, Problem, Settings, Totals
from mdstorm_migrate.sources.notebook import code_cells

_MARK = "\ufeff"
#: The start of a line that is a comment; in a notebook, the line is a JSON string.
_COMMENT = re.compile(r'"?\s*#')


@dataclass(frozen=True)
class Region:
    """A span of a file: lines and columns from 1, columns in characters, the end excluded."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Item:
    """An edit or a finding in a file.

    Attributes
    ----------
    found : Edit or Finding
    region : Region
        The region in the file, even for a notebook, where `found` counts lines within the cell.
    fingerprint : str
        An identifier that stays the same in the next run, even if lines above change.
    """

    found: Edit | Finding
    region: Region
    fingerprint: str

    @property
    def replacement(self) -> str | None:
        """The new text of an edit; None for a finding."""
        return self.found.replacement if isinstance(self.found, Edit) else None

    @property
    def is_left(self) -> bool:
        """Whether a person has to do something, also if ``--unsafe`` would do it."""
        return isinstance(self.found, Finding) and self.found.cls != "note"

    @property
    def text(self) -> str:
        """The message, followed by what to do about it."""
        return self.found.text if isinstance(self.found, Finding) else self.found.message

    @property
    def place(self) -> str:
        """The position as ``cell 3:1:5`` or ``1:5``: line and column, both from 1."""
        cell = "" if self.found.cell is None else f"cell {self.found.cell}:"
        return f"{cell}{self.found.line}:{self.found.column}"


@dataclass(frozen=True)
class FileReport:
    """A file with edits, findings or problems."""

    outcome: FileOutcome

    @property
    def path(self) -> str:
        """The path as it was found, with forward slashes."""
        return self.outcome.path.as_posix()

    @property
    def problems(self) -> Sequence[Problem]:
        """The reasons why the file, or one of its cells, was left unchanged."""
        return self.outcome.outcome.problems

    @property
    def edits(self) -> Sequence[Edit]:
        """The applied edits, including TODO comments; empty if the file was left unchanged."""
        return self.outcome.outcome.edits if self.outcome.changed else ()

    @cached_property
    def before(self) -> str:
        """The text before the migration, to which the spans of edits refer."""
        return self.outcome.outcome.texts()[0].removeprefix(_MARK)

    @cached_property
    def after(self) -> str:
        """The text after the migration, written or not."""
        return self.outcome.outcome.texts()[1].removeprefix(_MARK)

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.before)

    @cached_property
    def _lines_now(self) -> Lines:
        return Lines(self.after) if self.outcome.written else self._lines

    @property
    def is_notebook(self) -> bool:
        """Whether the file is a Jupyter notebook, which reports show cell by cell."""
        return self.outcome.path.suffix == ".ipynb"

    @cached_property
    def cells(self) -> Sequence[tuple[int, str, str]]:
        """The number, old text and new text of each code cell in a notebook."""
        if not self.edits:
            return ()
        pairs = zip(code_cells(self.before), code_cells(self.after), strict=True)
        return [(old.number, old.text, new.text) for old, new in pairs]

    @cached_property
    def items(self) -> Sequence[Item]:
        """The edits and findings in file order.

        The TODO comment that is inserted for a finding is not listed separately.
        """
        findings = self.outcome.outcome.findings
        found: list[Edit | Finding] = [edit for edit in self.edits if edit.cls != "manual"]
        found += findings
        found.sort(key=lambda one: (one.start, one.stop, one.rule))
        seen: Counter[tuple[str, str]] = Counter()
        return [self._item(one, seen) for one in found]

    @property
    def counts(self) -> dict[str, int]:
        """The number of items of each class."""
        counts = Counter(item.found.cls for item in self.items)
        return {cls: counts[cls] for cls in CLASSES if counts[cls]}

    def _item(self, found: Edit | Finding, seen: Counter[tuple[str, str]]) -> Item:
        lines = self._lines_now if isinstance(found, Finding) else self._lines
        line, column = lines.place(found.start)
        region = Region(line, column, *lines.place(found.stop))
        key = found.rule, _line_of(found, lines, line - 1)
        seen[key] += 1
        return Item(found, region, _hash(self.path, *key, str(seen[key])))


def _line_of(found: Edit | Finding, lines: Lines, number: int) -> str:
    """Return the line of an item as a string that is the same before and after the migration.

    For a TODO comment, it is the line below the comment.
    """
    if isinstance(found, Finding) and found.is_open_todo:
        while number + 1 < len(lines.starts) and _COMMENT.match(_line(lines, number)):
            number += 1
    return _line(lines, number).replace(OLD_ROOT, NEW_ROOT)


def _line(lines: Lines, number: int) -> str:
    start = lines.starts[number]
    return lines.text[start : start + 1000].partition("\n")[0].strip()


def _hash(*parts: str) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass
class Report:
    """The content of the report on a run.

    Attributes
    ----------
    settings : Settings
    write : bool
        Whether files were written.
    files : list of FileReport
        In the order of the run.
    skipped : list of Skipped
        The skipped paths, with the reasons.
    conditions : list of Condition
        Conditions to meet before the code runs.
    num_read : int
        Number of files that were read.
    is_used : bool
        Whether any of them uses the library, or uses mdstorm.
    """

    settings: Settings
    write: bool
    files: list[FileReport] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    num_read: int = 0
    is_used: bool = True

    def items(self) -> list[tuple[FileReport, Item]]:
        """Return all items with their files."""
        return [(file, item) for file in self.files for item in file.items]

    @property
    def totals(self) -> Totals:
        """Counts over all files."""
        totals = Totals(failed=sum(one.is_error for one in self.skipped))
        for file in self.files:
            totals.add(file.outcome)
        return totals

    def counts(self) -> list[tuple[str, int, str]]:
        """Return the number of changed files, and other totals that are not zero.

        Each has a class, which is empty for changed files, and a label.
        """
        totals, what = self.totals, "changed" if self.write else "would change"
        table = (
            ("", totals.written if self.write else totals.changed, f"file{{s}} {what}"),
            ("exact", totals.exact, "exact edit{s}"),
            ("review", totals.review, "edit{s} to review"),
            ("review", totals.pending, "edit{s} to review, which --unsafe applies"),
            ("manual", totals.manual, "place{s} that need{verb} manual review"),
            ("note", totals.note - totals.mentions, "note{s}"),
            ("note", totals.mentions, "other line{s} that still mention{verb} Petastorm"),
            ("problem", totals.failed, "file{s} that could not be fully migrated"),
            (
                "manual",
                totals.kept,
                "file{s} that still import{verb} petastorm, which must stay installed",
            ),
        )
        return [
            (cls, count, label.format(s="s" * (count != 1), verb="s" * (count == 1)))
            for cls, count, label in table
            if count or not cls
        ]

    def rules(self) -> list[tuple[Rule, int]]:
        """Return the rules that have items, by code, and the number of items."""
        counts = Counter(item.found.rule for _, item in self.items())
        return [(rule, counts[rule.code]) for rule in all_rules() if rule.code in counts]


def tool_version() -> str:
    """Return the version of this tool, or ``"unknown"`` if it is not installed."""
    try:
        return metadata.version("mdstorm")
    except metadata.PackageNotFoundError:
        return "unknown"


def relative_path(path: Path) -> str:
    """Return a path with forward slashes, relative to the current directory if it is inside it."""
    try:
        return Path(os.path.abspath(path)).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def uri(path: Path) -> str:
    """Return a relative URI for a path in the current directory, otherwise a ``file:`` URI."""
    relative = relative_path(path)
    if os.path.isabs(relative) or relative.startswith("../"):
        return f"file://{quote(os.fsencode(os.path.abspath(path)))}"
    return quote(os.fsencode(relative))
