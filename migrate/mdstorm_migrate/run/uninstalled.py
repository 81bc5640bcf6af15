"""Whether anything installs mdstorm for code that imports it now.

Databricks' machine learning runtimes bring Petastorm along, so that notebooks import it and nothing
requires it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.base.needs import Wanted
from mdstorm_migrate.packaging.installing import SHOWN
from mdstorm_migrate.run.facts import Facts, facts_of, needed_extras
from mdstorm_migrate.run.files import FileOutcome
from mdstorm_migrate.run.lists import requires_mdstorm

#: The rule of imports, and those that say something of what is installed.
_IMPORTS = "PM101"
_INSTALLS = re.compile(r"PM(?:40[1-79]|41[13])")
_REQUIRES = re.compile(r"\brequire|\binstall")
_IN_CODE = re.compile(rb"install\b[^\n]*\bmdstorm\b")


def missing_requirement(
    outcomes: Sequence[FileOutcome], paths: Iterable[Path], wanted: Wanted
) -> str | None:
    """Return what to install where code imports mdstorm now, if nothing in the run installs it.

    Parameters
    ----------
    outcomes : sequence of FileOutcome
    paths : iterable of Path
        All files of the project.
    wanted : Wanted
        How mdstorm is to be required.
    """
    importing = [
        one for one in outcomes if any(edit.rule == _IMPORTS for edit in one.outcome.edits)
    ]
    if not importing or any(map(_is_told, outcomes)) or any(map(requires_mdstorm, paths)):
        return None
    facts = Facts()
    for one in importing:
        facts |= facts_of(one.outcome.after, one.path)
    extras = needed_extras(facts) - ({"spark"} if facts.on_databricks else set())
    return str(replace(wanted, extras=tuple(sorted({*extras, *wanted.extras}))))


def _is_told(one: FileOutcome) -> bool:
    """Whether a file installs mdstorm, or something is said of what it installs."""
    said: list[Edit | Finding] = [*one.outcome.edits, *one.outcome.findings]
    return _IN_CODE.search(one.outcome.after) is not None or any(
        _INSTALLS.match(this.rule) and _REQUIRES.search(this.message) and this.message != SHOWN
        for this in said
    )
