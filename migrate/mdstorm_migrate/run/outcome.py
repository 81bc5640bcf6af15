"""Migration settings, the outcome for one file, and counts over all files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.base.needs import ANY, Wanted
from mdstorm_migrate.run.facts import Facts
from mdstorm_migrate.run.seen import Seen

#: Rules and classes of the findings that mean that a file still imports Petastorm.
_KEEPING = frozenset(
    {
        ("PM101", "review"),
        ("PM106", "review"),
        ("PM107", "manual"),
        ("PM115", "manual"),
    }
)
#: The rule about comments from earlier runs.
OPEN_TODOS = "PM000"
#: The libraries that mdstorm replaces.
Library: TypeAlias = Literal["petastorm", "streaming"]
#: The rule whose notes are counted as mentions.
_MENTION = "PM001"


@dataclass(frozen=True)
class Settings:
    """The settings of a migration.

    Attributes
    ----------
    unsafe : bool
        Whether to apply edits of the class ``review``.
    select, ignore : sequence of str
        Codes of rules, or prefixes of codes; an empty `select` selects all. `ignore` takes
        precedence.
    todo : bool
        Whether to insert TODO comments for manual review.
    wanted : Wanted
        The requirement for mdstorm to write.
    index : str or None
        The index on which pip also finds mdstorm.
    library : {"petastorm", "streaming"}
        The library that is replaced; ``streaming`` is MosaicML Streaming.
    """

    unsafe: bool = False
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    todo: bool = True
    wanted: Wanted = ANY
    index: str | None = None
    library: Library = "petastorm"

    def selects(self, code: str) -> bool:
        """Whether the rule with the given code is selected."""
        if code.startswith("PM2") != (self.library == "streaming") and code != OPEN_TODOS:
            return False
        is_selected = code.startswith(tuple(self.select) or "")
        return is_selected and not code.startswith(tuple(self.ignore))

    def applies(self, code: str, cls: Class) -> bool:
        """Whether edits of the given rule and class are applied."""
        return self.selects(code) and (self.unsafe or cls == "exact")


def shown(path: Path | str, reader: Path) -> str:
    """Return a path as messages about the file `reader` show it.

    An absolute path is shown relative to the current directory, or else to the file's directory.
    """
    if os.path.isabs(path):
        here = Path.cwd()
        start = here if here in Path(path).parents else reader.absolute().parent
        path = os.path.relpath(path, start)
    return Path(path).as_posix()


@dataclass(frozen=True)
class Problem:
    """The reason why a file, or one of its cells, was left unchanged."""

    reason: str
    line: int | None = None
    cell: int | None = None

    @property
    def place(self) -> str:
        """The position as in compiler messages: ``cell 3:1``, ``1``, or an empty string."""
        cell = None if self.cell is None else f"cell {self.cell}"
        return ":".join(str(part) for part in (cell, self.line) if part is not None)

    def __str__(self) -> str:
        places = [("cell", self.cell), ("line", self.line)]
        where = ", ".join(f"{name} {number}" for name, number in places if number is not None)
        return f"{where}: {self.reason}" if where else self.reason


#: What code does with module names in strings: nothing, import modules, or replace parts of them.
Naming: TypeAlias = Literal["", "imports", "patches"]


@dataclass(frozen=True)
class Decision:
    """Why edits to a file need review because of other files; each reason is None if there is none.

    Attributes
    ----------
    waits_for : str or None
        Why no edit of its code is exact: another file that it exchanges objects with still uses
        Petastorm.
    stays : str or None
        Why names of loggers and configuration may not change: another file of the run still uses
        Petastorm.
    names : str or None
        Why strings that name modules may not change, in a file for which it is unknown which
        modules these strings import.
    group : sequence of str
        Paths of the files that must be written together with this one.
    """

    waits_for: str | None = None
    stays: str | None = None
    names: str | None = None
    group: Sequence[str] = ()


#: The decision about a file that is migrated without other files.
ALONE = Decision()


@dataclass(frozen=True)
class Outcome:
    """The outcome of migrating one file.

    Attributes
    ----------
    before, after : bytes
        The content before and after the migration; the same object if nothing changes.
    encoding : str
        The encoding of both.
    edits : sequence of Edit
        The edits that lead from `before` to `after`, in file order.
    findings : sequence of Finding
        What needs attention, in file order. The class ``review`` marks edits that only
        ``--unsafe`` applies.
    problems : sequence of Problem
        Why the file could not be read, parsed or changed. Nothing changes then, unless the problem
        is in one cell.
    names_need_review : bool
        Whether strings in the file still name Petastorm's modules, for a person to review.
    """

    before: bytes
    after: bytes
    encoding: str = "utf-8"
    edits: Sequence[Edit] = ()
    findings: Sequence[Finding] = ()
    problems: Sequence[Problem] = ()
    names_need_review: bool = False

    def texts(self) -> tuple[str, str]:
        """Return `before` and `after` as strings; undecodable bytes become surrogates."""
        before, after = (
            data.decode(self.encoding, "surrogateescape") for data in (self.before, self.after)
        )
        return before, after


@dataclass(frozen=True)
class FileOutcome:
    """The outcome for a file in a run.

    Attributes
    ----------
    path : Path
        The path as it was found.
    outcome : Outcome
    written : bool
    group : sequence of str
        Paths of the files that must be written together, including this one.
    features : Counter of (str, str)
        How often the file uses each feature of Petastorm, by feature and name.
    before, after : Facts
        The facts about it as it was found, as far as others depend on them; and as it was decided.
    """

    path: Path
    outcome: Outcome
    written: bool = False
    group: Sequence[str] = ()
    features: Counter[tuple[str, str]] = field(default_factory=Counter)
    before: Facts = field(default_factory=Facts)
    after: Facts = field(default_factory=Facts)

    @property
    def seen(self) -> Seen:
        """What the bytes of the file show now."""
        return self.after.seen if self.written else self.before.seen

    @property
    def changed(self) -> bool:
        """Whether the file would change, or has changed."""
        return self.outcome.before != self.outcome.after

    @property
    def keeps_petastorm(self) -> bool:
        """Whether the file still imports Petastorm, or names its modules in strings."""
        left = (found for found in self.outcome.findings if not found.is_open_todo)
        is_kept = any((found.rule, found.cls) in _KEEPING for found in left)
        return is_kept or self.outcome.names_need_review

    @property
    def has_results(self) -> bool:
        """Whether there are edits, findings or problems."""
        return bool(self.outcome.edits or self.outcome.findings or self.outcome.problems)

    @property
    def requires(self) -> bool:
        """Whether the file requires or installs Petastorm, or did before its migration."""
        found: list[Edit | Finding] = [*self.outcome.edits, *self.outcome.findings]
        return any(one.topic == "install" for one in found)


@dataclass
class Totals:
    """Counts over all files.

    Attributes
    ----------
    changed, written, failed : int
        Numbers of files.
    exact, review, manual, note, pending : int
        Edits and findings by class; `pending` are edits that only ``--unsafe`` applies.
    kept : int
        Files that still import Petastorm, which must therefore stay installed.
    unmarked : int
        Findings in `manual` that no TODO comment marks.
    mentions : int
        Notes in `note` that only mention Petastorm.
    """

    changed: int = 0
    written: int = 0
    failed: int = 0
    exact: int = 0
    review: int = 0
    manual: int = 0
    note: int = 0
    pending: int = 0
    kept: int = 0
    unmarked: int = 0
    mentions: int = 0

    def add(self, one: FileOutcome) -> None:
        """Add the counts of a file."""
        outcome = one.outcome
        self.changed += one.changed
        self.written += one.written
        self.failed += bool(outcome.problems)
        self.exact += sum(edit.cls == "exact" for edit in outcome.edits)
        self.review += sum(edit.cls == "review" for edit in outcome.edits)
        manual = [finding for finding in outcome.findings if finding.cls == "manual"]
        self.manual += len(manual)
        self.unmarked += sum(not (finding.is_marked or finding.is_open_todo) for finding in manual)
        self.note += sum(finding.cls == "note" for finding in outcome.findings)
        self.mentions += sum(finding.rule == _MENTION for finding in outcome.findings)
        self.pending += sum(finding.cls == "review" for finding in outcome.findings)
        self.kept += one.keeps_petastorm
