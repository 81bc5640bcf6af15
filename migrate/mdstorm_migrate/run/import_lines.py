"""The import statements of files that nobody parses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.python.exchange import Take
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.names_in_strings import RESOLVERS, resolves
from mdstorm_migrate.python.parsing import parse_python
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.files import LARGEST, FileOutcome
from mdstorm_migrate.run.naming import ImportGraph, takes_of
from mdstorm_migrate.sources import find_source

_IMPORTS = re.compile(
    rb"^[ \t\"]*(?:\#[ \t]*MAGIC[ \t]+)?(?:from[ \t]+[^\n]*?import[ \t]*(?:\([^)]*\)|[^\n]*)"
    rb"|import[ \t][^\n]*|%run[ \t][^\n]*)",
    re.MULTILINE,
)
_WORD = re.compile(rb"\w+|\*")
_RESOLVERS = re.compile(rb"\b" + RESOLVERS.encode() + rb"\b")


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


class Importers:
    """Which files import something by which words, each of them asked for once.

    Parameters
    ----------
    read : iterable of ImportLines
    """

    def __init__(self, read: Iterable[ImportLines]) -> None:
        self._by_name: defaultdict[bytes, list[Path]] = defaultdict(list)
        self._by_module: defaultdict[bytes, list[tuple[Path, frozenset[bytes]]]] = defaultdict(list)
        self._opened: dict[bytes, dict[bytes, list[Path]]] = {}
        self._seen: set[Path] = set()
        for one in read:
            for modules, names in one.statements:
                for module in modules:
                    self._by_module[module].append((one.path, names))
                for name in names:
                    self._by_name[name].append(one.path)

    def of(self, module: str, names: Iterable[str]) -> Iterator[Path]:
        """Yield the files that take a module or some names in it, but for those yielded before."""
        word = module.encode(errors="surrogateescape")  # names of files may hold any bytes
        within = self._within(word)
        found = [self._by_name.pop(word, ()), within.pop(b"*", ())]
        found += (within.pop(name.encode(), ()) for name in names)
        for path in chain.from_iterable(found):
            if path not in self._seen:
                self._seen.add(path)
                yield path

    def _within(self, module: bytes) -> dict[bytes, list[Path]]:
        """Return who takes which name, of the statements that name a module."""
        if module not in self._opened:
            opened = self._opened[module] = defaultdict(list)
            for path, names in self._by_module.pop(module, ()):
                for name in names:
                    opened[name].append(path)
        return self._opened[module]


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
    does = _RESOLVERS.search(data) is not None and _resolves(path, data)
    return ImportLines(path, tuple(found), texts, does) if found else None


def _resolves(path: Path, data: bytes) -> bool:
    """Whether a file resolves names; one that cannot be read may do so."""
    source = find_source(path, data[:256])
    try:
        documents = () if source is None else source.read(data, path).documents
        code = [one for one in documents if one.kind == "python"]
        return any(resolves(PythonModule(one, parse_python(one.code))) for one in code)
    except (SourceError, RecursionError):
        return True


def graph_of(read: Iterable[ImportLines], outcomes: Iterable[FileOutcome]) -> ImportGraph:
    """Return who imports whom, of files that were read and of those that were examined."""
    takes: dict[Path, Collection[Take]] = {one.path: tuple(one.takes()) for one in read}
    for one in outcomes:
        if one.path.suffix in CODE:
            takes[one.path] = () if one.outcome.exchange is None else one.outcome.exchange.takes
    return ImportGraph(takes)
