"""Dotted names in configuration, such as those of the objects that Hydra creates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.packaging.comments import is_commented_out

#: Keys of the objects that Hydra and Lightning create.
TARGETS = frozenset({"_target_", "class_path"})
#: A key, up to its value, and the text after a whole value.
_KEY = re.compile(r"""(?<![\w-])(?P<key>\w[\w.-]*)["']?[ \t]*[:=][ \t]*["']?\Z""")
_AFTER = re.compile(r"""["']?[ \t]*(?:[,}\]\#;\r\n]|\Z)""")


def dotted_values(text: str, root: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield the values in configuration that are dotted names in a package.

    Each comes with its key and its span. The format may be YAML, JSON, TOML or INI.
    """
    for found in re.finditer(rf"(?<![\w.-]){root}(?:[.:]\w+)*(?![\w.-])", text):
        start, stop = found.span()
        key = _KEY.search(text, max(start - 80, 0), start)
        if key and _AFTER.match(text, stop) and not is_commented_out(text, start):
            yield key["key"], found[0], start, stop
