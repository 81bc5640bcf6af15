"""The import statements of files that nobody parses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mdstorm_migrate.python.call_strings import RESOLVERS
from mdstorm_migrate.python.exchange import Take, resolves
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.files import LARGEST, FileOutcome
from mdstorm_migrate.run.naming import ImportGraph, takes_of

_IMPORTS = re.compile(
    rb"^[ \t\"]*(?:\#[ \t]*MAGIC[ \t]+)?(?:from[ \t]+[^\n]*?import[ \t]*(?:\([^)]*\)|[^\n]*)"
    rb"|import[ \t][^\n]*|%run[ \t][^\n]*)",
    re.MULTILINE,
)
_WORD = re.compile(rb"\w+|\*")
_RESOLVERS = re.compile(RESOLVERS.encode() + rb"\(")


@dataclass(frozen=True)
class ImportLines:
    """The import statements of a file: the words of their modules, and of the names."""

    path: Path
    statements: tuple[tuple[frozenset[bytes], frozenset[bytes]], ...]
    texts: tuple[bytes, ...]
    resolves: bool

    def takes(self) -> Iterator[Take]:
        """Yield what they take."""
        return takes_of(self.texts)

    def take(self, given: Mapping[bytes, frozenset[bytes]]) -> bool:
        """Whether a statement takes one of the names that a file gives, or all of the file."""
        for modules, names in self.statements:
            if any(module in given for module in names):
                return True  # `from package import module`, `import module`, `%run module`
            if any(names & given[module] for module in modules if module in given):
                return True
        return False


def read_imports(path: Path) -> ImportLines | None:
    """Return the import statements of a file; None if it has none, or cannot be read."""
    try:
        data = b"" if path.stat().st_size > LARGEST else path.read_bytes()
    except OSError:
        return None
    found = []
    texts = tuple(match.group() for match in _IMPORTS.finditer(data))
    for text in texts:
        before, _, after = text.partition(b"import")
        is_from = b"from" in before
        words = frozenset(_WORD.findall(after if is_from else text))
        found.append((frozenset(_WORD.findall(before)) if is_from else words, words))
    does = _RESOLVERS.search(data) is not None and resolves(data.decode(errors="replace"))
    return ImportLines(path, tuple(found), texts, does) if found else None


def graph_of(read: Iterable[ImportLines], outcomes: Iterable[FileOutcome]) -> ImportGraph:
    """Return who imports whom, of files that were read and of those that were examined."""
    takes: dict[Path, Collection[Take]] = {one.path: tuple(one.takes()) for one in read}
    for one in outcomes:
        if one.path.suffix in CODE:
            takes[one.path] = () if one.outcome.exchange is None else one.outcome.exchange.takes
    return ImportGraph(takes)
