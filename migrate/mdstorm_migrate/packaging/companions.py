"""Distributions that are made for Petastorm, where lists require them."""

from __future__ import annotations

import re

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.python.leaving import COMPANION as PACKAGE

#: The name of such a distribution, as a part of a pattern.
COMPANION = rf"(?P<companion>{PACKAGE.pattern})(?![\w./-])"


def note_companion(found: re.Match[str], rule: str) -> Finding:
    """Return the note on a distribution that is required."""
    what = f"`{found['companion']}` may need Petastorm itself, which it then brings along"
    return Finding(rule, "note", *found.span("companion"), what)
