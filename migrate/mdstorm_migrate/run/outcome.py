"""How files are migrated, what became of one, and counts over all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from mdstorm_migrate.base.edits import Class, Edit, Finding, Topic
from mdstorm_migrate.base.needs import ANY, Wanted
from mdstorm_migrate.python.exchange import Exchange

#: Findings that mean that an import of Petastorm stays, by rule and class.
_KEEPING = frozenset(
    {
        ("PM101", "review"),
        ("PM106", "review"),
        ("PM107", "manual"),
        ("PM115", "manual"),
    }
)
#: The rule whose notes are mentions.
_MENTION = "PM001"


@dataclass(frozen=True)
class Settings:
    """How files are migrated.

    Attributes
    ----------
    unsafe : bool
        Whether edits of the class ``review`` are applied.
    select, ignore : sequence of str
        Codes of rules, or how such codes begin; an empty `select` selects all. What is ignored is
        not selected.
    todo : bool
        Whether TODO comments for manual review are inserted.
    wanted : Wanted
        How mdstorm is required.
    index : str or None
        Where pip also finds mdstorm.
    """

    unsafe: bool = False
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    todo: bool = True
    wanted: Wanted = ANY
    index: str | None = None

    def selects(self, code: str) -> bool:
        """Whether the rule of a code runs."""
        is_selected = code.startswith(tuple(self.select) or "")
        return is_selected and not code.startswith(tuple(self.ignore))

    def applies(self, code: str, cls: Class) -> bool:
        """Whether edits of a rule and a class are applied."""
        return self.selects(code) and (self.unsafe or cls == "exact")


@dataclass(frozen=True)
class Problem:
    """Why a file was left alone, or a cell of it."""

    reason: str
    line: int | None = None
    cell: int | None = None

    @property
    def place(self) -> str:
        """``cell 3:1``, ``1``, or nothing: where it is, as in compilers' messages."""
        cell = None if self.cell is None else f"cell {self.cell}"
        return ":".join(str(part) for part in (cell, self.line) if part is not None)

    def __str__(self) -> str:
        places = [("cell", self.cell), ("line", self.line)]
        where = ", ".join(f"{name} {number}" for name, number in places if number is not None)
        return f"{where}: {self.reason}" if where else self.reason


#: What strings of a file that name modules do: nothing, import them, replace parts of them.
Naming: TypeAlias = Literal["", "imports", "patches"]


@dataclass(frozen=True)
class Outcome:
    """What became of one file.

    Attributes
    ----------
    before, after : bytes
        The file as it is, and as it would be; the same object if nothing changes.
    encoding : str
        That of the text in both.
    edits : sequence of Edit
        Those that lead from `before` to `after`, in the order of the file.
    findings : sequence of Finding
        What needs attention, in the order of the file. The class ``review`` is for edits that
        only ``--unsafe`` applies.
    problems : sequence of Problem
        Reasons why the file could not be read, parsed or changed; then nothing changes, unless it
        is about one cell.
    exchange : Exchange or None
        What its Python code gives to other files and takes from them.
    stays : str or None
        What of it still needs Petastorm.
    names_wait : bool
        Whether strings of it that name modules need review.
    naming : Naming
        What strings of it that name modules do.
    """

    before: bytes
    after: bytes
    encoding: str = "utf-8"
    edits: Sequence[Edit] = ()
    findings: Sequence[Finding] = ()
    problems: Sequence[Problem] = ()
    exchange: Exchange | None = None
    stays: str | None = None
    names_wait: bool = False
    naming: Naming = ""

    def texts(self) -> tuple[str, str]:
        """Return `before` and `after` as text; bytes that are none are surrogates in it."""
        before, after = (
            data.decode(self.encoding, "surrogateescape") for data in (self.before, self.after)
        )
        return before, after


@dataclass(frozen=True)
class FileOutcome:
    """What became of a file.

    Attributes
    ----------
    path : Path
        As it was found.
    outcome : Outcome
    written : bool
    group : sequence of str
        Paths of the files that are written together with it, its own included.
    """

    path: Path
    outcome: Outcome
    written: bool = False
    group: Sequence[str] = ()

    @property
    def changed(self) -> bool:
        """Whether it would change, or did."""
        return self.outcome.before != self.outcome.after

    @property
    def keeps_petastorm(self) -> bool:
        """Whether it still imports Petastorm."""
        left = (found for found in self.outcome.findings if not found.is_open_todo)
        return any((found.rule, found.cls) in _KEEPING for found in left)

    @property
    def has_something_to_say(self) -> bool:
        """Whether there are edits, findings or problems."""
        return bool(self.outcome.edits or self.outcome.findings or self.outcome.problems)

    @property
    def requires(self) -> bool:
        """Whether it requires or installs Petastorm, or did."""
        return "install" in self.topics

    @property
    def topics(self) -> frozenset[Topic]:
        """What its edits and findings depend on the code around for."""
        edits, findings = self.outcome.edits, self.outcome.findings
        topics = [*(one.topic for one in edits), *(one.topic for one in findings)]
        return frozenset(topic for topic in topics if topic is not None)


@dataclass
class Totals:
    """Counts over files.

    Attributes
    ----------
    changed, written, failed : int
        Files.
    exact, review, manual, note, pending : int
        Edits and findings by class; `pending` are edits that ``--unsafe`` would apply.
    kept : int
        Files that still import Petastorm, which therefore must stay installed.
    unmarked : int
        Of `manual`, those that no TODO comment marks.
    mentions : int
        Of `note`, mentions of Petastorm of which nothing else is said.
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
        """Count a file."""
        outcome = one.outcome
        self.changed += one.changed
        self.written += one.written
        self.failed += bool(outcome.problems)
        self.exact += sum(edit.cls == "exact" for edit in outcome.edits)
        self.review += sum(edit.cls == "review" for edit in outcome.edits)
        manual = [found for found in outcome.findings if found.cls == "manual"]
        self.manual += len(manual)
        self.unmarked += sum(not (found.is_marked or found.is_open_todo) for found in manual)
        self.note += sum(found.cls == "note" for found in outcome.findings)
        self.mentions += sum(found.rule == _MENTION for found in outcome.findings)
        self.pending += sum(found.cls == "review" for found in outcome.findings)
        self.kept += one.keeps_petastorm
