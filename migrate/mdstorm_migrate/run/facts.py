"""Facts: what each file shows by itself, before any rule runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mdstorm_migrate.petastorm.names import CONVERTER_METHODS
from mdstorm_migrate.python.links import Links, resolves
from mdstorm_migrate.run.code_use import CodeUse, configured_use, use_of
from mdstorm_migrate.run.discover import CODE, is_code
from mdstorm_migrate.run.imports import configured_imports, text_imports
from mdstorm_migrate.run.migration import FileMigration
from mdstorm_migrate.run.old_pyarrow import OldUse, old_uses

#: An import from MosaicML Streaming, and a name that distinguishes it from other packages.
_STREAMING = re.compile(rb"^[ \t\">]*(?:from|import)[ \t]+streaming\b", re.MULTILINE)
_STREAMING_NAME = re.compile(rb"\b(?:MDSWriter|LocalDataset|Streaming(?:Dataset|DataLoader))\b")
#: Attributes that only one library's objects have, or whose meaning differs in mdstorm.
MEANINGS = {
    "_results_queue_reader": "mdstorm's readers do not have it",
    "_workers_pool": "mdstorm's readers do not have it",
    "file_urls": "a converter's are MDS shards now, not Parquet files",
}
_CHANGED_ATTRIBUTE = re.compile(rb"\.(%s)\b" % "|".join(MEANINGS).encode())


@dataclass(frozen=True)
class Seen:
    """What the bytes of code show that "Before you run it" lists.

    Attributes
    ----------
    old_uses : tuple of OldUse
        Uses of names that pyarrow has removed.
    attribute : (str, int) or None
        The first attribute in `MEANINGS`, and its line.
    streaming : int or None
        The line of the first import of MosaicML Streaming.
    """

    old_uses: tuple[OldUse, ...] = ()
    attribute: tuple[str, int] | None = None
    streaming: int | None = None


@dataclass(frozen=True)
class Facts:
    """What a file shows by itself.

    Attributes
    ----------
    mentions : bool
        Whether it mentions Petastorm; only then is it parsed.
    links : Links
        What links its code to other files.
    makes_loaders : bool
        Whether it does not mention Petastorm, but calls a method that makes a converter's loaders.
    use : CodeUse or None
        What its code uses, if it does not mention Petastorm.
    seen : Seen
    """

    mentions: bool
    links: Links
    makes_loaders: bool = False
    use: CodeUse | None = None
    seen: Seen = Seen()


def facts_of(path: Path, migration: FileMigration) -> Facts:
    """Return the facts about a file that mentions Petastorm."""
    links = migration.links()
    is_python = path.suffix in CODE
    if not is_python or (links is None and migration.problem is not None):
        imports_of = text_imports if is_python else configured_imports
        links = Links(tuple(imports_of(migration.data.decode("utf-8", "replace"))))
    return Facts(True, links or Links())


def text_facts(path: Path, data: bytes) -> Facts:
    """Return the facts about a file that does not mention Petastorm, which is not parsed."""
    text = data.decode("utf-8", "replace")
    if path.suffix not in CODE:
        links = Links(tuple(configured_imports(text)))
        return Facts(False, links, use=configured_use(path, data))
    links = Links(tuple(text_imports(text)), resolves=resolves(text))
    makes_loaders = any(f".{name}(" in text for name in CONVERTER_METHODS)
    use = use_of(path, data) if is_code(path) else None
    return Facts(False, links, makes_loaders=makes_loaders, use=use, seen=seen_in(path, data))


def seen_in(path: Path, data: bytes) -> Seen:
    """Return what code shows that "Before you run it" lists."""
    changed = _CHANGED_ATTRIBUTE.search(data) if path.suffix == ".py" else None
    attribute = changed and (changed[1].decode(), data.count(b"\n", 0, changed.start()) + 1)
    if not is_code(path):
        return Seen(attribute=attribute)
    found = _STREAMING.search(data) if b"streaming" in data else None
    is_streaming = found is not None and _STREAMING_NAME.search(data) is not None
    line = data.count(b"\n", 0, found.start()) + 1 if found and is_streaming else None
    return Seen(tuple(old_uses(path, data)), attribute, line)
