"""Unified diffs, as git writes them."""

from __future__ import annotations

import difflib


def unified_diff(before: str, after: str, path: str) -> str:
    """Return a unified diff, with paths as git writes them; empty if the texts are equal."""
    name = path.lstrip("/")
    lines = difflib.unified_diff(
        _lines(before), _lines(after), f"a/{name}", f"b/{name}", lineterm="\n"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    """Split at line feeds alone, so that a carriage return is part of its line."""
    return [line + "\n" for line in text.split("\n")[:-1]] + [text.rpartition("\n")[2]] * bool(
        text.rpartition("\n")[2]
    )
