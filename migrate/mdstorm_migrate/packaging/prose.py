"""Values of YAML and JSON that speak of code and run none."""

from __future__ import annotations

import re

#: A key whose value people read, up to a character of the value on its line.
_SAID = re.compile(
    r"""(?:^[ \t]*(?:-[ \t]+)*|[{,][ \t]*)
    ["']?(?:name|displayName|title|description|summary|message|help|label|notes?|comment)["']?
    [ \t]*:[ \t]* (?:[^"'{}\s|>][^"'{}]*|"[^"]*|'[^']*)? \Z""",
    re.VERBOSE,
)
_ENTRY = re.compile(r"""[ \t]*(?:-[ \t]+)?["']?entry["']?[ \t]*:""")
_PYGREP = re.compile(r"""\blanguage["']?[ \t]*:[ \t]*["']?pygrep\b""")
_HOOK = re.compile(r"""^[ \t]*(?:-[ \t]+)["']?\w+["']?[ \t]*:""", re.MULTILINE)


def is_prose(text: str, position: int) -> bool:
    """Whether a character is in a value that is shown to people."""
    start = text.rfind("\n", 0, position) + 1
    return _SAID.search(text[start:position]) is not None


def is_searched_for(text: str, position: int) -> bool:
    """Whether a character is in the pattern of a hook of pre-commit that searches files."""
    start = text.rfind("\n", 0, position) + 1
    if not _ENTRY.match(text, start):
        return False
    first = [hook.start() for hook in _HOOK.finditer(text, 0, position + 1)]
    following = _HOOK.search(text, text.find("\n", position) + 1 or len(text))
    end = len(text) if following is None else following.start()
    return _PYGREP.search(text, first[-1] if first else 0, end) is not None
