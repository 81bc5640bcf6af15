"""Where lists have room for what else is required: beside a requirement, and for an index."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.requirement import Requirement, quoted_word

#: How requirements are listed: one a ``line``, a quoted ``string`` of an array, a line of an
#: ``ini`` file, a ``word`` of a command, an ``item`` of a list in YAML; ``alone`` where one value
#: holds just one.
Place: TypeAlias = Literal["line", "string", "ini", "word", "item", "alone"]


def name_index(
    document: Document, found: Requirement, rule: str, place: Place
) -> Iterator[Edit | Finding]:
    """Yield the edit that names the index, where there is room for one."""
    option = f"--extra-index-url {document.needs.index}"
    message = "tell pip where to find mdstorm"
    if place == "line":
        text = f"{option}{document.lines.newline}"
        yield Edit(rule, "exact", 0, 0, text, message, topic="install")
        return
    items = option.split() if place == "word" else [option]
    is_room = place in ("item", "word")
    if is_room and (edit := list_beside(document, found, rule, place, items, message)):
        yield edit
    else:
        text = f"mdstorm comes from {document.needs.index}, which this file cannot express"
        yield Finding(rule, "note", found.start, found.stop, text)


def list_beside(
    document: Document,
    found: Requirement,
    rule: str,
    place: Place,
    items: Sequence[str],
    message: str,
) -> Edit | None:
    """Return the edit that lists others beside a requirement; None where that cannot be done."""
    insertion = _insertion(document, found, place, items)
    if insertion is None:
        return None
    at, new = insertion
    return Edit(rule, "exact", at, at, new, message, topic="install")


def _insertion(
    document: Document, found: Requirement, place: Place, items: Sequence[str]
) -> tuple[int, str] | None:
    """Return where others are listed, and the text that lists them there."""
    if place in ("line", "item"):
        return _as_lines(document, found, place, items)
    if place == "ini":
        return _in_ini(document, found, items)
    if place == "string":
        return _as_strings(document, found, items)
    if place == "word":
        return _as_words(document.text, found, items)
    if not is_entry(document.text, found.start):
        return None
    return found.start, "".join(f'"{one}", ' for one in items)


def _as_lines(
    document: Document, found: Requirement, place: Place, items: Sequence[str]
) -> tuple[int, str] | None:
    line = document.lines.start_of(found.start)
    pattern = r"[ \t]*-[ \t]+" if place == "item" else r"[ \t]*"
    prefix = re.match(pattern, document.text[line : found.start])
    if prefix is None:
        return None
    newline = document.lines.newline
    return line, "".join(
        f"{prefix[0]}{yaml_item(one) if place == 'item' else one}{newline}" for one in items
    )


def _in_ini(document: Document, found: Requirement, items: Sequence[str]) -> tuple[int, str] | None:
    line = document.lines.start_of(found.start)
    indent = re.match(r"[ \t]*", document.text[line : found.start])
    end = re.search(r"\r?\n|\Z", document.text[found.stop :])
    at = found.stop + (end.start() if end else 0)
    before = f"{document.lines.newline}{(indent and indent[0]) or '    '}"
    return at, "".join(f"{before}{one}" for one in items)


def _as_strings(
    document: Document, found: Requirement, items: Sequence[str]
) -> tuple[int, str] | None:
    newline = document.lines.newline
    line = document.lines.start_of(found.start)
    head = document.text[line : found.start]
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


def _as_words(text: str, found: Requirement, items: Sequence[str]) -> tuple[int, str]:
    at, quote = _opened(text, found.start)
    if quote and is_entry(text, at):  # of an array, as in ``RUN ["pip", "install", "x"]``
        return at, "".join(f"{quote}{one}{quote}, " for one in items)
    words = [quoted_word(f"{text[:at]} ", at + 1, at + 1, one) for one in items]
    return at, "".join(f"{word} " for word in words)


def yaml_item(value: str) -> str:
    """Return a requirement as an item of YAML, where some signs begin something else."""
    is_special = re.search(r"[ @#]|: ", value) and not value.startswith("--")
    return f'"{value}"' if is_special else value


def removal(document: Document, found: Requirement) -> tuple[int, int]:
    """Return the span to remove of a requirement: its line, if nothing else stands there."""
    text = document.text
    at, quote = _opened(text, found.start)
    line, end = document.lines.start_of(at), text.find("\n", found.stop) + 1 or len(text)
    is_listed = quote or is_entry(text, at)
    rest = re.match(r",?[ \t]*" if is_listed else r"[ \t]*", text[found.stop + len(quote) :])
    stop = found.stop + len(quote) + (rest.end() if rest else 0)
    others = re.sub(r"#.*", "", text[line:at] + text[stop:end]).strip()
    return (line, end) if others in ("", "-") else (at, stop)


def _opened(text: str, start: int) -> tuple[int, str]:
    """Return where the word of a requirement begins, and its quotation mark."""
    quote = text[max(start - 1, 0) : start]
    return (start - 1, quote) if quote in ("'", '"') else (start, "")


def is_entry(text: str, at: int) -> bool:
    """Whether an entry of a list in brackets begins at a character."""
    return text[max(at - 80, 0) : at].rstrip()[-1:] in (",", "[")
