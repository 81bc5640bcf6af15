"""What mdstorm needs to run, by its own metadata."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

#: Whether an index has mdstorm. A release sets it, and nothing else is to be changed.
IS_RELEASED = False
#: The first Databricks Runtime with long support that has Spark 3.5.
LOWEST_RUNTIME = (14, 3)
_NAME = "mdstorm"


@cache
def supported_pythons() -> SpecifierSet:
    """Return the versions of Python that mdstorm runs on; any if it is not installed."""
    from packaging.specifiers import SpecifierSet

    try:
        return SpecifierSet(metadata.metadata(_NAME)["Requires-Python"] or "")
    except metadata.PackageNotFoundError:
        return SpecifierSet()


def required(extras: frozenset[str]) -> dict[str, SpecifierSet]:
    """Return the distributions that mdstorm needs with some extras, and their versions."""
    from packaging.requirements import Requirement

    found: dict[str, SpecifierSet] = {}
    try:
        declared = metadata.requires(_NAME) or []
    except metadata.PackageNotFoundError:
        return found
    for line in declared:
        one = Requirement(line)
        wanted = [{"extra": extra} for extra in ("", *sorted(extras))]
        if one.marker is None or any(map(one.marker.evaluate, wanted)):
            found[one.name] = found.get(one.name, one.specifier) & one.specifier
    return found


def has_version(pinned: SpecifierSet, needed: SpecifierSet) -> bool:
    """Whether some version fits both, as far as can be told without an index.

    The versions that the clauses name are tried, and a very large one: specifiers of mdstorm's are
    lower bounds alone.
    """
    named = [clause.version.removesuffix(".*") for one in (pinned, needed) for clause in one]
    both = pinned & needed
    return any(both.contains(version, prereleases=True) for version in (*named, "99999"))
