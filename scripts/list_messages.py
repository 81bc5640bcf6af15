"""Make the site's index of messages, from the errors and warnings in the source."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("compat", "mds_backend")
#: A placeholder for a value in a message.
_GAP = "…"

_HEAD = """\
# Index of messages

The messages of mdstorm's errors and warnings. `…` marks the parts that vary. Each heading links to
the explanation of the error class.
"""


def messages() -> dict[str, list[str]]:
    """Return the messages in the source, by the error's class or `warning`."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for package in _PACKAGES:
        for file in sorted((_ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    kind = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    text = next(filter(None, map(_text_of, node.args)), "")
                    if re.search(r"\w{3}", text):
                        kind = "warning" if kind.startswith("warn") else kind
                        found[kind].add(" ".join(text.split()))
    return {kind: sorted(texts, key=_letters) for kind, texts in found.items()}


def page(classes: list[str]) -> str:
    """Return the page about the warnings and the errors of these classes."""
    found = messages()
    parts = [_HEAD]
    for kind in [*sorted(classes), "warning"]:
        link = f"[{kind}](troubleshooting.md#{kind.lower()})" if kind in classes else "Warnings"
        lines = "\n".join(f"- `` {text} ``" for text in found.get(kind, ()))
        parts.append(f"\n## {link}\n\n{lines}\n" if lines else "")
    return "".join(parts)


def _text_of(node: ast.expr) -> str:
    """Return the text of a string, with a placeholder for each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%(\.\d)?[a-z]", _GAP, node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or _GAP for part in node.values)
    if isinstance(node, ast.BinOp) and (_text_of(node.left) or _text_of(node.right)):
        return (_text_of(node.left) or _GAP) + (_text_of(node.right) or _GAP)
    return ""


def _letters(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().lower()
