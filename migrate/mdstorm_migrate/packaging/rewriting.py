"""Edits to requirements for Petastorm, and requirements to add next to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.requirement import Requirement, mdstorm_extras, quoted_word

#: How requirements are listed: one per ``line``, as a quoted ``string`` in an array, as a line in
#: an ``ini`` file, as a ``word`` in a command or ``joined`` by commas in one, as an ``item`` in a
#: YAML list; ``alone`` if a value consists of one requirement.
RequirementPlace: TypeAlias = Literal["line", "string", "ini", "word", "joined", "item", "alone"]
IN_COMMANDS = ("word", "joined")

MESSAGE = "require mdstorm; Petastorm's version numbers do not apply to it"
#: Distributions that Petastorm's extras installed and mdstorm's extras do not, by extra.
BROUGHT_BY_EXTRAS = {"opencv": "opencv-python", "torch": "torchvision"}
_ALREADY = "mdstorm is already required"
_OVERRIDE = "an override of mdstorm would replace the extras that are required elsewhere"
NEEDED = "require the packages that Petastorm installed and the code needs"
_MDSTORM = re.compile(r"mdstorm(?<![\w./-]mdstorm)(?![\w./-])")
#: The text that may separate two words in a command, or two strings in an array.
_SAME_LIST = re.compile(r"(?:\[[\w,]*\]|[^\[\];&|])*\Z")
#: Places where a semicolon after a requirement begins a marker, and the pattern of that marker.
_LISTS = ("line", "string", "ini", "item")
_MARKER = re.compile(r"""[ \t]*;(?:\\?(?P<quote>["'])[\w. ]*\\?(?P=quote)|[^"'#\\\r\n])*(?<!\s)""")
#: A comment after a requirement that mentions a version, which holds for Petastorm, or the reason
#: for a pin. It is the rest of its line, unless a quotation mark or a backslash may end it before.
_VERSION_COMMENT = re.compile(
    r"""["']?,?(?:[ \t]*;[^#\r\n]*?)?
    (?P<comment>[ \t]+\#[^\r\n"'\\]*(?:\bpin(?:ned)?\b|\b\d+\.\d|[<>=]=?[ ]?\d)[^\r\n"'\\]*)
    (?=[\r\n]|\Z)""",
    re.VERBOSE | re.IGNORECASE,
)
_COMMA = re.compile(r",\s*\Z")
_COPY = "Petastorm comes from a repository, a file or a changed copy"
CONDA = "there is no conda package of mdstorm"
#: The reason and the remedy if another list of the project has a requirement that is not edited.
_BESIDE = (
    "another requirement of Petastorm in this file has to be changed by hand",
    "require mdstorm in both",
)
_OPEN = "this requirement is assembled from several strings"
_OLD_PYTHON = "this requires Petastorm for Python versions that mdstorm does not support"
_UNUSED = (
    "nothing here imports Petastorm: another library may need it, such as Horovod's Spark "
    "estimators, so it is left"
)


def rewrite_requirement(
    document: Document,
    requirement: Requirement,
    rule: str,
    place: RequirementPlace,
    *,
    waits: bool = False,
) -> Iterator[Edit | Finding]:
    """Yield edits to a requirement, or a finding if it needs manual review.

    One that `waits` needs it because another one of the same project does.
    """
    needs = document.needs
    refused = refusal(document, requirement, rule)
    if refused is None and waits:
        refused = manual(requirement, rule, *_BESIDE)
    if refused is not None:
        yield refused
        return
    new = requirement_of(document, requirement.extras)
    additions = brought_in_by(needs.transitive, requirement.extras)
    message = NEEDED
    if needs.importers:
        yield Finding(rule, "note", requirement.start, requirement.stop, needs.why_petastorm_stays)
        if not needs.moved or _names_mdstorm(document, requirement, place):
            return
        marker = document.text[requirement.stop : _end(document.text, requirement, place)]
        additions = [f"{new}{marker if place in _LISTS else ''}", *additions]
        message = "also require mdstorm; code still imports Petastorm"
    elif needs.is_override or _follows_mdstorm(document, requirement, place):
        end = _end(document.text, requirement, place)
        at, end = removal(document, replace(requirement, stop=end))
        yield Edit(rule, "exact", at, end, "", why_removed(document), topic="install")
        return
    else:
        text = quoted(document, requirement, place, new)
        yield Edit(
            rule, "exact", requirement.start, requirement.stop, text, MESSAGE, topic="install"
        )
        if comment := _VERSION_COMMENT.match(document.text, requirement.stop):
            what = "remove the comment on Petastorm's version"
            yield Edit(rule, "exact", *comment.span("comment"), "", what, topic="install")
    if needs.index is not None and needs.index not in document.text:
        yield from name_index(document, requirement, rule, place)
    if additions:
        edit = list_after(document, requirement, rule, place, additions, message)
        yield edit or _no_room(requirement, rule, additions)


def rewrite_lists(
    places: Sequence[tuple[Document, Requirement, RequirementPlace]], rule: str
) -> Iterator[Edit | Finding]:
    """Yield the results for the lists of one project, of which some may be optional.

    All are left if one has to be changed by hand, because each may be installed without the others.
    """
    waits = any(requirement.is_copy or requirement.is_open for _, requirement, _ in places)
    for document, requirement, place in places:
        yield from rewrite_requirement(document, requirement, rule, place, waits=waits)


def why_removed(document: Document) -> str:
    """Return why a requirement is removed and not replaced."""
    return _OVERRIDE if document.needs.is_override else _ALREADY


def manual(requirement: Requirement, rule: str, what: str, remedy: str) -> Finding:
    """Return a finding about a requirement that a person must change."""
    return Finding(
        rule, "manual", requirement.start, requirement.stop, what, remedy, topic="install"
    )


def requirement_of(document: Document, extras: Iterable[str]) -> str:
    """Return the requirement for mdstorm that replaces one with the given Petastorm extras."""
    listed = ",".join(extras_of(document, extras))
    return f"mdstorm{f'[{listed}]' if listed else ''}{document.needs.wanted.version}"


def extras_of(document: Document, extras: Iterable[str]) -> list[str]:
    """Return mdstorm's extras where Petastorm had the given ones; constraints have none."""
    needs = document.needs
    names = [*mdstorm_extras(extras), *needs.extras, *needs.wanted.extras]
    return [] if needs.is_constraint else list(dict.fromkeys(names))


def brought_in_by(transitive: Iterable[str], extras: Iterable[str]) -> list[str]:
    """Return the distributions in `transitive` that Petastorm with these extras installed."""
    own = {BROUGHT_BY_EXTRAS.get(extra) for extra in extras}
    return [one for one in transitive if one in own or one not in BROUGHT_BY_EXTRAS.values()]


def refusal(document: Document, requirement: Requirement, rule: str) -> Finding | None:
    """Return a finding that explains why a requirement is not edited, or None if it is edited."""
    if requirement.is_copy:
        remedy = "require mdstorm, after reviewing any changes made to the copy"
        return manual(requirement, rule, _COPY, remedy)
    if requirement.is_conda:
        return manual(
            requirement, rule, CONDA, "remove petastorm here, and add `pip install mdstorm`"
        )
    if requirement.is_open:
        return manual(requirement, rule, _OPEN, "require mdstorm here, without the version")
    if requirement.is_old:
        remedy = "require mdstorm for newer Pythons, and keep this while code runs on the old ones"
        return manual(requirement, rule, _OLD_PYTHON, remedy)
    if document.needs.is_unused:
        return Finding(rule, "note", requirement.start, requirement.stop, _UNUSED, topic="install")
    return None


def quoted(document: Document, requirement: Requirement, place: RequirementPlace, new: str) -> str:
    """Return a requirement with the quotes that its place needs."""
    if place in IN_COMMANDS:
        return quoted_word(document.text, requirement.start, requirement.stop, new)
    # In YAML, unquoted brackets have a different meaning.
    is_quoted = document.text[requirement.start - 1 : requirement.start] in ("'", '"')
    if place == "alone" and re.search(r"[\[\],*]", new) and not is_quoted:
        return f'"{new}"'
    return new


def _no_room(requirement: Requirement, rule: str, additions: list[str]) -> Finding:
    names = ", ".join(f"`{name}`" for name in additions)
    what = f"the code also needs {names}, which cannot be added here"
    remedy = f"add an entry like this one, with {names} instead of Petastorm"
    return manual(requirement, rule, what, remedy)


def _names_mdstorm(document: Document, requirement: Requirement, place: RequirementPlace) -> bool:
    """Whether mdstorm is already required, in addition to Petastorm."""
    text = document.text
    if place in (*IN_COMMANDS, "alone"):
        line, end = _line_of(document, requirement)
        text = text[line:end]
    return _MDSTORM.search(re.sub(r"(?m)#.*", "", text)) is not None


def _follows_mdstorm(document: Document, requirement: Requirement, place: RequirementPlace) -> bool:
    """Whether mdstorm is already required in the same list, as after a run that kept Petastorm."""
    if place in ("line", "item"):
        return _names_mdstorm(document, requirement, place)
    text, (line, end) = document.text, _line_of(document, requirement)
    if place == "ini":
        return re.match(r"[ \t]*mdstorm(?![\w./-])", text[end:]) is not None
    start = line if place in (*IN_COMMANDS, "alone") else 0
    before = list(_MDSTORM.finditer(text, start, requirement.start))
    same = before and _SAME_LIST.match(text, before[-1].end(), requirement.start)
    return bool(same) and (place not in ("alone", "joined") or is_entry(text, requirement.start))


def _end(text: str, requirement: Requirement, place: RequirementPlace) -> int:
    """Return the end of a requirement with its marker; in a command, a quoted one may have one."""
    is_quoted = text[max(requirement.start - 1, 0) : requirement.start] in ("'", '"')
    marker = _MARKER.match(text, requirement.stop) if place in _LISTS or is_quoted else None
    return requirement.stop if marker is None else marker.end()


def _line_of(document: Document, requirement: Requirement) -> tuple[int, int]:
    """Return the span of a requirement's line, including its line break."""
    end = document.text.find("\n", requirement.stop)
    return document.lines.start_of(requirement.start), len(document.text) if end < 0 else end + 1


def name_index(
    document: Document, requirement: Requirement, rule: str, place: RequirementPlace
) -> Iterator[Edit | Finding]:
    """Yield the edit that adds mdstorm's package index, or a note if it cannot be added here."""
    option = f"--extra-index-url {document.needs.index}"
    message = "tell pip where to find mdstorm"
    if place == "line" and document.kind == "requirements":
        text = f"{option}{document.lines.newline}"
        yield Edit(rule, "exact", 0, 0, text, message, topic="install")
        return
    items = option.split() if place == "word" else [option]
    is_room = place in ("item", "word")
    if is_room and (edit := list_after(document, requirement, rule, place, items, message)):
        yield edit
    else:
        text = f"mdstorm is installed from {document.needs.index}, which this file cannot express"
        yield Finding(rule, "note", requirement.start, requirement.stop, text)


def list_after(
    document: Document,
    requirement: Requirement,
    rule: str,
    place: RequirementPlace,
    items: Sequence[str],
    message: str,
) -> Edit | None:
    """Return an edit that lists `items` next to a requirement, or None if this is impossible."""
    insertion = _insertion(document, requirement, place, items)
    if insertion is None:
        return None
    at, new = insertion
    return Edit(rule, "exact", at, at, new, message, topic="install")


def _insertion(
    document: Document, requirement: Requirement, place: RequirementPlace, items: Sequence[str]
) -> tuple[int, str] | None:
    """Return where to list `items` and the text to insert, or None if this is impossible."""
    if place in ("line", "item"):
        return _as_lines(document, requirement, place, items)
    if place == "ini":
        return _in_ini(document, requirement, items)
    if place == "string":
        return _as_strings(document, requirement, items)
    if place == "word":
        return _as_words(document.text, requirement, items)
    if place == "joined":
        words = (
            quoted_word(document.text, requirement.start, requirement.stop, one) for one in items
        )
        return requirement.start, "".join(f"{one}," for one in words)
    if not is_entry(document.text, requirement.start):
        return None
    return requirement.start, "".join(f'"{one}", ' for one in items)


def _as_lines(
    document: Document, requirement: Requirement, place: RequirementPlace, items: Sequence[str]
) -> tuple[int, str] | None:
    line = document.lines.start_of(requirement.start)
    pattern = r"[ \t]*-[ \t]+" if place == "item" else r"[ \t]*\Z"
    prefix = re.match(pattern, document.text[line : requirement.start])
    if prefix is None:
        return None
    newline = document.lines.newline
    return line, "".join(
        f"{prefix[0]}{yaml_item(one) if place == 'item' else one}{newline}" for one in items
    )


def _in_ini(
    document: Document, requirement: Requirement, items: Sequence[str]
) -> tuple[int, str] | None:
    line = document.lines.start_of(requirement.start)
    # In tox, factors before a requirement also apply to what is listed with it.
    indent = re.match(r"[ \t]*(?:[\w,{}!.-]+:[ \t]*)?", document.text[line : requirement.start])
    end = re.search(r"\r?\n|\Z", document.text[requirement.stop :])
    at = requirement.stop + (end.start() if end else 0)
    before = f"{document.lines.newline}{(indent and indent[0]) or '    '}"
    return at, "".join(f"{before}{one}" for one in items)


def _as_strings(
    document: Document, requirement: Requirement, items: Sequence[str]
) -> tuple[int, str] | None:
    newline = document.lines.newline
    line = document.lines.start_of(requirement.start)
    head = document.text[line : requirement.start]
    item = re.match(r"[ \t]*-[ \t]+", head)
    if item is not None and not head[item.end() :].strip("\"' "):
        quote = head[item.end()]
        return line, "".join(f"{item[0]}{quote}{one}{quote}{newline}" for one in items)
    opening = re.search(r"""["'][ \t]*\Z""", head)
    if opening is None or head[: opening.start()].rstrip().endswith(("=", ":")):
        return None  # the value of a key
    quote = opening[0][0]
    indent = head[: opening.start()]
    gap = " " if indent.strip() else f"{newline}{indent}"
    return line + opening.start(), "".join(f"{quote}{one}{quote},{gap}" for one in items)


def _as_words(text: str, requirement: Requirement, items: Sequence[str]) -> tuple[int, str]:
    at, quote = _word_start(text, requirement.start)
    if quote and is_entry(text, at):  # in an array, as in ``RUN ["pip", "install", "x"]``
        return at, "".join(f"{quote}{one}{quote}, " for one in items)
    words = [quoted_word(text, at, at, one) for one in items]
    return at, "".join(f"{word} " for word in words)


def yaml_item(value: str) -> str:
    """Return a requirement as a YAML item, quoted if a character has a special meaning."""
    is_special = re.search(r"[ @#]|: ", value) and not value.startswith("--")
    return f'"{value}"' if is_special else value


def removal(document: Document, requirement: Requirement) -> tuple[int, int]:
    """Return the span to remove for a requirement: its whole line if nothing else is on it.

    The comma before the last entry of a list goes with it, because JSON allows none there.
    """
    text = document.text
    at, quote = _word_start(text, requirement.start)
    comma = _COMMA.search(text, max(at - 80, 0), at)
    if quote and comma and re.compile(r"\s*\]").match(text, requirement.stop + len(quote)):
        return comma.start(), requirement.stop + len(quote)
    line, end = document.lines.start_of(at), text.find("\n", requirement.stop) + 1 or len(text)
    is_listed = quote or is_entry(text, at)
    rest = re.match(r",?[ \t]*" if is_listed else r"[ \t]*", text[requirement.stop + len(quote) :])
    stop = requirement.stop + len(quote) + (rest.end() if rest else 0)
    if text.startswith(",", at - 1) and not text.startswith(",", requirement.stop + len(quote)):
        at, stop = at - 1, requirement.stop + len(quote)  # the last of those that commas join
    others = re.sub(r"#.*", "", text[line:at] + text[stop:end]).strip()
    return (line, end) if others in ("", "-") else (at, stop)


def _word_start(text: str, start: int) -> tuple[int, str]:
    """Return the start of a requirement, including any quotation mark before it, and the mark."""
    quote = text[max(start - 1, 0) : start]
    return (start - 1, quote) if quote in ("'", '"') else (start, "")


def is_entry(text: str, at: int) -> bool:
    """Whether an entry of a bracketed list begins at the character `at`."""
    return text[max(at - 80, 0) : at].rstrip()[-1:] in (",", "[")


def left(document: Document, requirement: Requirement, rule: str) -> Finding:
    """Return the finding about a requirement that is left: nothing is known to install it."""
    needs = document.needs
    if needs.importers and not needs.moved:
        return Finding(rule, "note", requirement.start, requirement.stop, needs.why_petastorm_stays)
    what, remedy = "this string requires Petastorm", "its version numbers are its own"
    return refusal(document, requirement, rule) or manual(
        requirement, rule, what, f"require mdstorm here; {remedy}"
    )
