"""Settings of a run, the same for every file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mdstorm_migrate.base.edits import Class
from mdstorm_migrate.base.needs import ANY, Wanted


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
        return (not self.select or code.startswith(tuple(self.select))) and not code.startswith(
            tuple(self.ignore)
        )

    def applies(self, code: str, cls: Class) -> bool:
        """Whether edits of a rule and a class are applied."""
        return self.selects(code) and (
            cls in ("exact", "manual") or (self.unsafe and cls == "review")
        )

    def names(self, code: str) -> bool:
        """Whether `select` names a rule in full."""
        return code in self.select
