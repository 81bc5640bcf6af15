"""Loops of shells, and what depends on their variables."""

from __future__ import annotations

import re

from mdstorm_migrate.packaging.variables import referenced

LOOP = re.compile(r"\bfor[ \t]+(?P<name>\w+)[ \t]+in[ \t]+(?P<words>[^;\n]*)")


def looped(text: str, start: int, stop: int) -> str | None:
    """Return the variable of a loop above that a requirement has its version from."""
    names = set(referenced(text[start:stop]))
    loops = LOOP.finditer(text, 0, start) if names else ()
    return next((loop["name"] for loop in loops if loop["name"] in names), None)
