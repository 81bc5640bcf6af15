"""Where uv takes a dependency from: ``[tool.uv.sources]``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit
from mdstorm_migrate.packaging.toml_text import TomlKey, toml_keys, value_of
from mdstorm_migrate.petastorm.names import NEW_ROOT

_TABLE = "tool.uv.sources"
_INDEX = re.compile(r"\bindex[ \t]*=")
_ORIGIN = re.compile(r"\b(?:git|path|url|workspace)[ \t]*=")


def has_own_source(text: str, name: str) -> bool:
    """Whether uv takes a dependency from a repository, a folder or a URL, not from an index."""
    return any(not _is_index(text, key) for key in _sources(text, name))


def rewrite_indexes(document: Document, name: str, rule: str) -> Iterator[Edit]:
    """Yield the edits that take mdstorm from the index of a dependency, which may lack it."""
    text = document.text
    if document.needs.importers or any(_sources(text, NEW_ROOT)):
        return
    for key in _sources(text, name):
        if _is_index(text, key):
            message = "take mdstorm from this index, if it is there; else remove the entry"
            yield Edit(rule, "review", key.start, key.stop, NEW_ROOT, message)


def _sources(text: str, name: str) -> Iterator[TomlKey]:
    return (key for key in toml_keys(text) if key.table == _TABLE and key.name.lower() == name)


def _is_index(text: str, key: TomlKey) -> bool:
    start, stop = value_of(text, key)
    return bool(_INDEX.search(text, start, stop)) and not _ORIGIN.search(text, start, stop)
