"""Building blocks for self-contained HTML pages, which do not load other files."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable
from importlib import resources
from string import Template

#: Characters that are invisible or change the direction of the text after them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)

_CODE = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(
    r"^(?P<fence>`{3,})\w+ (?P<title>[^\n]*)\n(?P<code>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)

#: The CSS class of a line in a diff, by the line's first character.
_MARKS = {"+": "new", "-": "old", "@": "place"}


def text(value: object) -> str:
    """Return the HTML of a value, with invisible characters escaped visibly."""
    shown = _HIDDEN.sub(lambda match: rf"\u{ord(match.group()):04x}", str(value))
    return html.escape(shown)


def prose(value: object) -> str:
    """Return the HTML of a sentence; backticks mark code."""
    return _CODE.sub(r"<code>\1</code>", text(value))


def rule_page(markdown: str) -> str:
    """Return the HTML of a rule's page without its heading: paragraphs, lists, titled blocks."""
    parts = []
    position = markdown.index("\n")
    for block in _BLOCK.finditer(markdown):
        parts += [_paragraphs(markdown[position : block.start()])]
        parts += [tag("p", prose(block["title"]), class_="quiet"), tag("pre", text(block["code"]))]
        position = block.end()
    return "".join([*parts, _paragraphs(markdown[position:])])


def _paragraphs(markdown: str) -> str:
    return "".join(_paragraph(one) for one in re.split(r"\n{2,}", markdown.strip()))


def _paragraph(markdown: str) -> str:
    before, *items = (prose(" ".join(one.split())) for one in re.split(r"(?m)^- ", markdown))
    shown = "".join(tag("li", item) for item in items)
    return (before and tag("p", before)) + (shown and tag("ul", shown))


def tag(name: str, content: str = "", **attributes: object) -> str:
    """Return an element around `content`, which is HTML; attribute values are escaped.

    In the name of an attribute, an underscore becomes a hyphen, and a trailing one is removed.
    `True` gives an attribute without a value; attributes that are `False` or None are omitted.
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return f"<{name}{given}>{content}</{name}>"


def badge(cls: str, content: object) -> str:
    """Return a small label in the colour of the CSS class `cls`."""
    return tag("span", text(content), class_=f"badge {cls}")


def tiles(label: str, counts: Iterable[tuple[str | None, int, str]]) -> str:
    """Return a list of counts, each specified by its colour class, the number, and a label."""
    entries = "".join(
        tag("li", f"<b>{number:,}</b>{tag('span', prose(what))}", class_=cls)
        for cls, number, what in counts
    )
    return tag("ul", entries, class_="tiles", aria_label=label)


def page(title: str, body: str, script: str = "") -> str:
    """Return a complete page.

    Its content security policy allows no addresses, and only the styles and scripts of this
    package, so content that was not escaped would have no effect.

    Parameters
    ----------
    title : str
    body : str
        HTML.
    script : str
        File name of a script in the ``assets`` folder.
    """
    style = _asset("page.css")
    code = _asset(script) if script else ""
    return Template(_asset("page.html")).substitute(
        title=text(title),
        body=body,
        style=style,
        script=tag("script", code) if code else "",
        style_hash=_hash(style),
        script_hash=_hash(code),
    )


def diff_block(diff: str) -> str:
    """Return the HTML of a unified diff without file names, each line in its colour."""
    lines = [line for line in diff.split("\n") if not line.startswith(("--- ", "+++ "))]
    shown = (tag("span", text(line) or " ", class_=_MARKS.get(line[:1], "same")) for line in lines)
    return tag("pre", "\n".join(shown).rstrip(), class_="diff")


def _asset(name: str) -> str:
    return (resources.files(__package__ or "") / "assets" / name).read_text("utf-8")


def _hash(code: str) -> str:
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return f"'sha256-{digest}'"
