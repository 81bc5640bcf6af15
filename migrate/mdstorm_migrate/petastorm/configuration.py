"""How configuration names Spark's key of the parent cache directory, and entry points."""

from __future__ import annotations

import re

from mdstorm_migrate.petastorm.names import CONF_KEY

#: Where cells in other languages than Python set or read Spark's key.
KEY_IN_CELLS = re.compile(
    rf"""(?:\b(?i:SET)\s+`?|--conf[= ]+["']?|["'])(?P<key>{re.escape(CONF_KEY)})(?![\w.])"""
)
#: An entry point.
ENTRY_POINT = re.compile(
    r"(?:(?<=[\"'=\s])|^)(?P<module>petastorm(?:\.\w+)*)[ \t]*:[ \t]*(?P<name>\w+(?:\.\w+)*)"
)
#: One with its name in the same string, as in ``setup.py``.
NAMED_ENTRY_POINT = re.compile(rf"[\w.-]+[ \t]*=[ \t]*{ENTRY_POINT.pattern}")
