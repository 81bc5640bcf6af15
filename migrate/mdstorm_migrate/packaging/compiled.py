"""Which lists of requirements a tool has compiled from which sources."""

from __future__ import annotations

import re
from pathlib import Path

from mdstorm_migrate.packaging.requirement import is_generated


def is_compiled_from(text: str, path: Path, source: Path) -> bool:
    """Whether a tool has written a list from a source, by what its comments say.

    Parameters
    ----------
    text : str
        Of the list.
    path, source : Path
        Of both. In another folder than the list's, the source must be named with its own.
    """
    if not is_generated(text):
        return False
    name = source.name if source.parent == path.parent else f"{source.parent.name}/{source.name}"
    named = rf"^[ \t]*\#[^\n]*(?<![\w.-]){re.escape(name)}(?![\w.-])"
    return re.search(named, text, re.MULTILINE) is not None
