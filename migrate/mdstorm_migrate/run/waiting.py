"""Edits that wait for review, since something beside them stays with Petastorm.

Two libraries in one program know nothing of each other's classes: a `Reader` of mdstorm does not
take a pool of Petastorm's, and `except` does not catch the other's errors. So code moves as a
whole, or where somebody has reviewed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mdstorm_migrate.base.edits import NAMES, Edit, Finding
from mdstorm_migrate.base.surroundings import Surroundings

#: The rules about Spark's key, which has two names, and about names that code elsewhere resolves.
_CONF, _TARGETS = "PM105", "PM131"
#: Why what moves waits for what stays, if a finding does not say it.
_MIX = "the objects of the two libraries do not mix"


def with_review(
    edits: Iterable[Edit], findings: Iterable[Finding], around: Surroundings
) -> list[Edit]:
    """Return the edits of a document, those that must wait for review as such.

    Parameters
    ----------
    edits : iterable of Edit
    findings : iterable of Finding
        Those that nobody has suppressed: who does vouches for it.
    around : Surroundings
        What the other files of the run say.
    """
    edits = list(edits)
    held = min((one for one in findings if one.holds), key=lambda one: one.start, default=None)
    reason = around.waits_for
    if held is not None:
        what = f"{held.rule} in this file is to be settled first ({_named(held.holds or '')})"
        reason = f"{what}: {held.because or _MIX}"
    if any(edit.group == NAMES and edit.cls == "review" for edit in edits):
        reason = reason or "strings of this file that name modules wait as well"
    return [_reviewed(edit, reason, around) for edit in edits]


def _named(held: str) -> str:
    """Return what stays: a path as code, words as they are."""
    return held if " " in held else f"`{held}`"


def _reviewed(edit: Edit, reason: str | None, around: Surroundings) -> Edit:
    if edit.cls != "exact":
        return edit
    if edit.rule == _CONF:
        reason = reason or around.conf
    elif not edit.rule.startswith("PM1"):
        return edit
    if edit.rule == _TARGETS and not around.is_resolved:
        reason = reason or "no code of this run is known to resolve it"
    if reason is None:
        return edit
    return replace(edit, cls="review", message=f"{edit.message}; waits, since {reason}")


def names_wait(edits: Iterable[Edit], pending: Iterable[Finding]) -> bool:
    """Whether strings that name modules are among what waits for review."""
    names = {(edit.rule, edit.start) for edit in edits if edit.group == NAMES}
    return any((one.rule, one.start) in names for one in pending)


def staying(findings: Iterable[Finding]) -> str | None:
    """Return what stays with Petastorm in a file; None if all of it may move."""
    return next((_named(one.holds) for one in findings if one.holds), None)
