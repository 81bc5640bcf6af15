"""What stands in place of a requirement of Petastorm, and beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.bounds import PYTHON as LOWEST
from mdstorm_migrate.packaging.conflicts import conflicts_in
from mdstorm_migrate.packaging.own_extras import lost_with, run_by
from mdstorm_migrate.packaging.pin import PYTHON
from mdstorm_migrate.packaging.places import Place, list_beside, name_index
from mdstorm_migrate.packaging.requirement import (
    COPY,
    Requirement,
    find_requirements,
    is_for_old_python,
    is_of_conda,
    mdstorm_extras,
    of_conda,
    quoted_word,
)
from mdstorm_migrate.packaging.same_list import is_second
from mdstorm_migrate.packaging.upper_bounds import WORDS
from mdstorm_migrate.packaging.variables import definition, referenced
from mdstorm_migrate.petastorm.names import NEW_ROOT

#: A requirement of Spark.
_SPARK = re.compile(r"(?<![\w./-])(?:pyspark|databricks-connect)(?=[=<>~!\s\"'\[]|\Z)")
FOR_OLD_PYTHON = "this requires Petastorm for a Python that mdstorm does not run on"
_OPEN = "a version of Petastorm, or another text, is joined to this requirement"
_CLOSE = "require mdstorm here, without the version"
MESSAGE = "require mdstorm; version numbers of Petastorm do not apply to it"


def rewrite_requirement(
    document: Document, found: Requirement, rule: str, place: Place, marker: str = ""
) -> Iterator[Edit | Finding]:
    """Yield what becomes of a requirement: edits, or a finding where manual review is needed.

    `marker` is an environment marker that it stands under, such as ``; python_version < "3.10"``.
    """
    needs = document.needs
    if found.is_fork:
        yield of_fork(found, rule)
        return
    if place != "alone" and is_of_conda(document.text, found):
        yield of_conda(found, rule, "take petastorm out here, and add `pip install mdstorm`")
        return
    if found.is_open:
        yield Finding(rule, "manual", found.start, found.stop, _OPEN, _CLOSE, topic="install")
        return
    rest = document.text[found.stop : _line_of(document, found)[1]]
    if is_for_old_python(rest) or is_for_old_python(marker):
        what = FOR_OLD_PYTHON
        others = (one for one in find_requirements(document.text) if one != found)
        is_other = any(others) or _names_mdstorm(document, found, "ini")
        instead = "remove it" if is_other else f"require mdstorm for Python {LOWEST} and newer"
        remedy = f"{what}: {instead}, or keep that Python's code apart"
        is_alone = needs.importers and not needs.moved
        if is_alone:
            yield Finding(rule, "note", found.start, found.stop, what)
        else:
            span = found.start, found.stop
            yield Finding(rule, "manual", *span, what, remedy, topic="install")
        return
    cls, message = verdict(document)
    run = [] if _SPARK.search(document.text) else run_by(document, found)
    new = requirement_of(document, found.extras, run)
    beside = [] if needs.is_constraint else lost_with(needs.beside, found.extras)
    if needs.importers:
        yield Finding(rule, "note", found.start, found.stop, needs.why_petastorm_stays)
        is_done = _names_mdstorm(document, found, place) or is_second(document, found, place)
        if not needs.moved or is_done:
            return
        beside = [new, *beside, *needs.bounds]
        message = _beside(message if cls == "review" else None, needs.falls_back)
    elif place in ("line", "item") and _names_mdstorm(document, found, place):
        line, end = _line_of(document, found)
        yield Edit(rule, cls, line, end, "", "mdstorm is required already")
        return
    else:
        text = new
        if place == "word":
            text = quoted_word(document.text, found.start, found.stop, new)
        elif place == "alone" and re.search(r"[\[\],*]", new):
            # Brackets without quotes mean something else in YAML.
            is_quoted = document.text[found.start - 1 : found.start] in ("'", '"')
            text = new if is_quoted else f'"{new}"'
        yield Edit(rule, cls, found.start, found.stop, text, message, topic="install")
        yield from _unused(document, found, rule)
        message = "require what came in through Petastorm, and what the code needs"
        if is_second(document, found, place):
            own = {name for name in beside if name not in lost_with(beside, ())}
            before = find_requirements(document.text, 0, found.start)
            own -= {name for one in before for name in lost_with(own, one.extras)}
            beside = [name for name in beside if name in own]  # the others stand with the first
    if needs.index is not None and needs.index not in document.text:
        yield from name_index(document, found, rule, place, cls)
    if beside:
        edit = list_beside(document, found, rule, place, beside, cls, message)
        if edit is not None:
            yield edit
        else:
            names = ", ".join(f"`{name}`" for name in beside)
            text = f"the code also needs {names}, which this place cannot hold"
            yield Finding(rule, "manual", found.start, found.stop, text, f"require {names} as well")


def _beside(held: str | None, falls_back: bool) -> str:
    """Return what is said of mdstorm beside Petastorm; `held` is what it waits for."""
    why = "beside Petastorm, which code still imports"
    if not falls_back:
        why += f", and which works with {WORDS} alone"
    return f"require mdstorm {why}" if held is None else f"{held} ({why})"


def _unused(document: Document, found: Requirement, rule: str) -> Iterator[Finding]:
    """Report variables, such as axes of a matrix, that chose the version of a requirement."""
    text = document.text
    for name in dict.fromkeys(referenced(text[found.start : found.stop])):
        span = definition(text, name)
        before = text[: found.start]
        if span is None or name in referenced("".join(_versions(before))):
            continue  # said with the first requirement that has it
        what = f"`{name}` chooses a version of Petastorm: remove it once mdstorm is required"
        yield Finding(rule, "note", *span, what)


def _versions(text: str) -> Iterator[str]:
    return (text[one.start : one.stop] for one in find_requirements(text))


def renamed(document: Document, start: int, stop: int, rule: str) -> Edit:
    """Return the edit of a name that goes with a requirement, as in an option of an installer."""
    cls, _ = verdict(document)
    return Edit(rule, cls, start, stop, NEW_ROOT, "name mdstorm, which takes Petastorm's place")


def of_fork(found: Requirement, rule: str) -> Finding:
    """Report a requirement of a fork: ``petastorm @ https://…`` or ``petastorm==0.9+acme``."""
    what = "Petastorm is installed from a URL, perhaps a fork with changes of its own"
    remedy = "require mdstorm, after a review of what the fork changes"
    if found.is_copy:
        what = COPY
    elif found.is_of_uber:
        what, remedy = "Petastorm is installed from its own repository", "require mdstorm"
    return Finding(rule, "manual", found.start, found.stop, what, remedy, topic="install")


def verdict(document: Document) -> tuple[Class, str]:
    """Return the class of an edit that requires mdstorm, and what is said of it.

    It awaits a review where a pin, here or in a file that is installed with this one, conflicts.
    """
    held = document.needs.held
    found = sorted(conflicts_in(document), key=lambda one: one.pin.name != PYTHON)
    if found:
        held = "; ".join(dict.fromkeys(f"`{one.shown}`: {one.needed}" for one in found))
    if held is None:
        return "exact", MESSAGE
    return "review", f"require mdstorm, together with another version than {held}"


def requirement_of(document: Document, extras: Sequence[str], more: Sequence[str] = ()) -> str:
    """Return the requirement of mdstorm in place of one with some of Petastorm's extras.

    With `more` of mdstorm's own.
    """
    needs = document.needs
    if needs.is_constraint:  # which has no extras
        return f"mdstorm{needs.wanted.version}"
    names = [*mdstorm_extras(tuple(extras)), *needs.extras, *more, *needs.wanted.extras]
    listed = ",".join(dict.fromkeys(names))
    return f"mdstorm{f'[{listed}]' if listed else ''}{needs.wanted.version}"


def _names_mdstorm(document: Document, found: Requirement, place: Place) -> bool:
    """Whether mdstorm is required already, beside Petastorm."""
    text = document.text
    if place in ("word", "alone"):
        line, end = _line_of(document, found)
        text = text[line:end]
    text = re.sub(r"(?m)#.*", "", text)
    return re.search(r"(?<![\w./-])mdstorm(?![\w./-])", text) is not None


def _line_of(document: Document, found: Requirement) -> tuple[int, int]:
    """Return the span of the line of a requirement, its end included."""
    end = document.text.find("\n", found.stop)
    return document.lines.start_of(found.start), len(document.text) if end < 0 else end + 1
