"""What stands in place of a requirement of Petastorm, and beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.places import Place, is_entry, list_beside, name_index, removal
from mdstorm_migrate.packaging.requirement import (
    Requirement,
    is_for_old_python,
    is_of_conda,
    mdstorm_extras,
    quoted_word,
)

MESSAGE = "require mdstorm; Petastorm's version numbers do not apply to it"
#: What an extra of Petastorm's brought in that mdstorm's does not.
BROUGHT_BY_EXTRAS = {"opencv": "opencv-python", "torch": "torchvision"}
ALREADY = "mdstorm is already required"
_MDSTORM = re.compile(r"mdstorm(?<![\w./-]mdstorm)(?![\w./-])")
#: What stands between two words of a command, or two strings of an array.
_SAME_LIST = re.compile(r"(?:\[[\w,]*\]|[^\[\];&|])*\Z")
#: Where a semicolon behind a requirement begins a marker, and that marker.
_LISTS = ("line", "string", "ini")
_MARKER = re.compile(r"""[ \t]*;(?:\\?(?P<quote>["'])[\w. ]*\\?(?P=quote)|[^"'#\\\r\n])*(?<!\s)""")
_COPY = "Petastorm comes from a repository, a file or a changed copy"
_CONDA = "there is no conda package of mdstorm"
_OPEN = "this requirement is put together from several strings"
_OLD_PYTHON = "this requires Petastorm for Python versions that mdstorm does not support"
UNUSED = (
    "nothing here imports Petastorm: another library may need it, such as Horovod's Spark "
    "estimators, so it stays"
)


def rewrite_requirement(
    document: Document, found: Requirement, rule: str, place: Place
) -> Iterator[Edit | Finding]:
    """Yield what becomes of a requirement: edits, or a finding where manual review is needed."""
    needs = document.needs
    refusal = _refusal(document, found, rule, place)
    if refusal is not None:
        yield refusal
        return
    new = requirement_of(document, found.extras)
    beside = lost_with(needs.beside, found.extras)
    message = "require the packages that Petastorm installed and the code needs"
    if needs.importers:
        yield Finding(rule, "note", found.start, found.stop, needs.why_petastorm_stays)
        if not needs.moved or _names_mdstorm(document, found, place):
            return
        marker = _MARKER.match(document.text, found.stop) if place in _LISTS else None
        beside = [f"{new}{marker[0] if marker else ''}", *beside]
        message = "require mdstorm beside Petastorm, which code still imports"
    elif _follows_mdstorm(document, found, place):
        at, end = removal(document, found)
        yield Edit(rule, "exact", at, end, "", ALREADY, topic="install")
        return
    else:
        text = _spelt(document, found, place, new)
        yield Edit(rule, "exact", found.start, found.stop, text, MESSAGE, topic="install")
    if needs.index is not None and needs.index not in document.text:
        yield from name_index(document, found, rule, place)
    if beside:
        edit = list_beside(document, found, rule, place, beside, message)
        yield edit or _without_room(found, rule, beside)


def of_copy(found: Requirement, rule: str) -> Finding:
    """Report a requirement of a copy: ``petastorm @ https://…`` or ``petastorm==0.9+acme``."""
    remedy = "require mdstorm, after reviewing any changes made to the copy"
    return Finding(rule, "manual", found.start, found.stop, _COPY, remedy, topic="install")


def of_conda(found: Requirement, rule: str, remedy: str) -> Finding:
    """Report a requirement that conda installs."""
    return Finding(rule, "manual", found.start, found.stop, _CONDA, remedy, topic="install")


def of_old_python(found: Requirement, rule: str) -> Finding:
    """Report a requirement for Python versions that mdstorm does not support."""
    remedy = "require mdstorm for newer Pythons, and keep this while code runs on the old ones"
    return Finding(rule, "manual", found.start, found.stop, _OLD_PYTHON, remedy, topic="install")


def requirement_of(document: Document, extras: Iterable[str]) -> str:
    """Return the requirement of mdstorm in place of one with some of Petastorm's extras."""
    needs = document.needs
    if needs.is_constraint:  # which has no extras
        return f"mdstorm{needs.wanted.version}"
    names = [*mdstorm_extras(extras), *needs.extras, *needs.wanted.extras]
    listed = ",".join(dict.fromkeys(names))
    return f"mdstorm{f'[{listed}]' if listed else ''}{needs.wanted.version}"


def lost_with(beside: Iterable[str], extras: Iterable[str]) -> list[str]:
    """Return those of some distributions that a requirement with these extras brought in."""
    own = {BROUGHT_BY_EXTRAS.get(extra) for extra in extras}
    return [one for one in beside if one in own or one not in BROUGHT_BY_EXTRAS.values()]


def _refusal(document: Document, found: Requirement, rule: str, place: Place) -> Finding | None:
    """Return why a requirement is left to people, or alone; None if it is edited."""
    span = found.start, found.stop
    if found.is_copy:
        return of_copy(found, rule)
    if place != "alone" and is_of_conda(document.text, found):
        return of_conda(found, rule, "remove petastorm here, and add `pip install mdstorm`")
    if found.is_open:
        remedy = "require mdstorm here, without the version"
        return Finding(rule, "manual", *span, _OPEN, remedy, topic="install")
    if is_for_old_python(document.text[found.stop : _line_of(document, found)[1]]):
        return of_old_python(found, rule)
    if document.needs.is_unused:
        return Finding(rule, "note", *span, UNUSED, topic="install")
    return None


def _spelt(document: Document, found: Requirement, place: Place, new: str) -> str:
    """Return a requirement as it is written at a place."""
    if place == "word":
        return quoted_word(document.text, found.start, found.stop, new)
    # Brackets without quotes mean something else in YAML.
    is_quoted = document.text[found.start - 1 : found.start] in ("'", '"')
    if place == "alone" and re.search(r"[\[\],*]", new) and not is_quoted:
        return f'"{new}"'
    return new


def _without_room(found: Requirement, rule: str, beside: list[str]) -> Finding:
    names = ", ".join(f"`{name}`" for name in beside)
    what = f"the code also needs {names}, which cannot be added here"
    remedy = f"require {names} as well"
    return Finding(rule, "manual", found.start, found.stop, what, remedy, topic="install")


def _names_mdstorm(document: Document, found: Requirement, place: Place) -> bool:
    """Whether mdstorm is already required, beside Petastorm."""
    text = document.text
    if place in ("word", "alone"):
        line, end = _line_of(document, found)
        text = text[line:end]
    return _MDSTORM.search(re.sub(r"(?m)#.*", "", text)) is not None


def _follows_mdstorm(document: Document, found: Requirement, place: Place) -> bool:
    """Whether mdstorm is already required in the same list, as where Petastorm stayed beside it."""
    if place in ("line", "item"):
        return _names_mdstorm(document, found, place)
    text, (line, end) = document.text, _line_of(document, found)
    if place == "ini":
        return re.match(r"[ \t]*mdstorm(?![\w./-])", text[end:]) is not None
    start = line if place in ("word", "alone") else 0
    before = list(_MDSTORM.finditer(text, start, found.start))
    same = before and _SAME_LIST.match(text, before[-1].end(), found.start)
    return bool(same) and (place != "alone" or is_entry(text, found.start))


def _line_of(document: Document, found: Requirement) -> tuple[int, int]:
    """Return the span of the line of a requirement, its end included."""
    end = document.text.find("\n", found.stop)
    return document.lines.start_of(found.start), len(document.text) if end < 0 else end + 1
