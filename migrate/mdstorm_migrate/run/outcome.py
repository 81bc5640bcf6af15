"""How files are migrated, and what became of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.base.needs import ANY, Wanted
from mdstorm_migrate.python.exchange import Exchange
from mdstorm_migrate.run.naming import Naming


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
        What of it stays with Petastorm.
    names_wait : bool
        Whether strings of it that name modules wait for review.
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
