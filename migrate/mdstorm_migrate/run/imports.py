"""The imports between the files in a run."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePath

from mdstorm_migrate.packaging.configuration import TARGETS, dotted_values
from mdstorm_migrate.petastorm.names import is_petastorm
from mdstorm_migrate.python.links import FileImport, file_imports, named_modules, runs_of
from mdstorm_migrate.run.discover import CODE

#: Import statements in files that are not parsed, including JSON strings and comments.
_LINE = r"[^\n\\]*(?:\\(?:\r?\n|.)[^\n\\]*)*"
_STATEMENT = re.compile(
    rf"""^[ \t"]*(?:\#[ \t]*MAGIC[ \t]+)?(?P<code>
    from[ \t]+[^\n]*?import[ \t]*(?:\((?:[^()\#]|\#[^\n]*)*\)|{_LINE}) | import[ \t]{_LINE} )""",
    re.MULTILINE | re.VERBOSE,
)
#: What separates the lines of a cell in the text of a notebook, after an escaped backslash or not.
_BETWEEN_LINES = re.compile(r'(?:(\\)\\)?\\n",[ \t]*\r?\n[ \t]*"')
TEST = re.compile(r"test_.*|.*_test|conftest")


def text_imports(text: str) -> Iterator[FileImport]:
    """Yield the imports in the text of a file that is not parsed."""
    if '\\n",' in text:
        text = _BETWEEN_LINES.sub(r"\1\n", text)
    for match in _STATEMENT.finditer(text):
        yield from _statement_imports(match["code"].partition("\\n")[0].rstrip('", \t\r'))
    yield from named_modules(text)
    yield from runs_of(text)


def configured_imports(text: str) -> Iterator[FileImport]:
    """Yield what configuration names for code that creates objects, except from Petastorm."""
    if any(key in text for key in TARGETS):
        for key, path, _, _ in dotted_values(text, r"\w+"):
            module, _, name = path.rpartition(".")
            if key in TARGETS and module and not is_petastorm(path):
                yield FileImport(module, 0, name, "")


@lru_cache(maxsize=4096)
def _statement_imports(code: str) -> Sequence[FileImport]:
    """Return the imports of a statement; cached because many files repeat it."""
    try:
        return list(file_imports(ast.parse(code).body))
    except (SyntaxError, ValueError):
        return []


class Resolver:
    """Finds the files that import statements refer to."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._by_stem: dict[str, list[tuple[tuple[str, ...], Path]]] = defaultdict(list)
        self._places: dict[Path, tuple[str, ...]] = {}
        for path in paths:
            if path.suffix in CODE:
                parts = PurePath(os.path.abspath(path)).with_suffix("").parts
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                self._places[path] = parts
                self._by_stem[parts[-1]].append((parts, path))

    def place(self, path: Path) -> tuple[str, ...]:
        """Return the path of a module without suffix or ``__init__``; empty for other files."""
        return self._places.get(path, ())

    def files(self, origin: Path, item: FileImport) -> list[Path]:
        """Return the files that a name may be imported from; empty for names of other libraries."""
        if item.level < 0:
            return self._run(origin, item.module)
        folder = self.place(origin)
        if origin.stem != "__init__":
            folder = folder[:-1]
        module = tuple(item.module.split(".")) if item.module else ()
        if item.level:
            base = folder[: len(folder) - item.level + 1]
            return self._exactly((*base, *module, item.name)) or self._exactly((*base, *module))
        if item.name not in ("", "*"):
            return self._nearest(folder, (*module, item.name)) or self._nearest(folder, module)
        return self._nearest(folder, module)

    def packages(self, file: Path, importer: Path) -> Iterator[Path]:
        """Yield the ``__init__`` files of the packages that an import of a file runs first.

        Those of the importer's own packages have run before.
        """
        parts = self.place(file)
        for stop in range(len(parts) - 1, 0, -1):
            found = [one for one in self._exactly(parts[:stop]) if one.stem == "__init__"]
            if not found or self.place(importer)[:stop] == parts[:stop]:
                return
            yield from found

    def _exactly(self, parts: Sequence[str]) -> list[Path]:
        at = self._by_stem.get(parts[-1], ()) if parts else ()
        return [path for place, path in at if place == tuple(parts)]

    def _nearest(self, folder: Sequence[str], module: Sequence[str]) -> list[Path]:
        """Return a module's files: the closest ones in folders above the importer, or else all."""
        at = self._by_stem.get(module[-1], ()) if module else ()
        if not at:
            return []
        matching = [(place, path) for place, path in at if place[-len(module) :] == tuple(module)]
        near = [
            (place, path)
            for place, path in matching
            if tuple(folder[: len(place) - len(module)]) == place[: -len(module)]
        ]
        if near:
            longest = max(len(place) for place, _ in near)
            return [path for place, path in near if len(place) == longest]
        return [path for _, path in matching]

    def _run(self, origin: Path, target: str) -> list[Path]:
        """Return the files that ``%run`` may mean; absolute paths match by their last two parts."""
        written = PurePath(target)
        suffixless = written.with_suffix("") if written.suffix in CODE else written
        if not written.is_absolute():
            folder = self._places.get(origin, ("",))[:-1]
            joined = os.path.normpath(os.path.join(*folder, str(suffixless))) if folder else ""
            return self._exactly(PurePath(joined).parts)
        at = self._by_stem.get(suffixless.name, ())
        ends = suffixless.parts[-2:]
        return [path for place, path in at if place[-len(ends) :] == ends]


class ImportGraph:
    """The imports between files.

    Parameters
    ----------
    imports : mapping of Path to collection of FileImport
        The imports of each file.

    Attributes
    ----------
    targets : dict of Path to list of (FileImport, list of Path)
        The imports of each file, with the files that each may come from.
    imported, importers : mapping of Path to set of Path
        The files that each file imports, and the files that import it.
    """

    def __init__(self, imports: Mapping[Path, Collection[FileImport]]) -> None:
        self._resolver = resolver = Resolver(imports)
        self.targets = {
            path: [(item, resolver.files(path, item)) for item in items]
            for path, items in imports.items()
        }
        self._tests = [path for path in imports if TEST.fullmatch(path.stem)]
        self.imported: defaultdict[Path, set[Path]] = defaultdict(set)
        self.importers: defaultdict[Path, set[Path]] = defaultdict(set)
        for path, targets in self.targets.items():
            for file in {file for _, files in targets for file in files}:
                self.link(path, file)
                for package in resolver.packages(file, path):
                    self.link(path, package)

    def is_whole(self, item: FileImport, file: Path) -> bool:
        """Whether an import imports the file itself, rather than a name in it."""
        if item.name in ("", "*"):
            return True
        written = (*filter(None, item.module.split(".")), item.name)
        return self._resolver.place(file)[-len(written) :] == written

    def link(self, path: Path, file: Path) -> None:
        """Record that a file imports another one, or gets objects from it in another way."""
        self.imported[path].add(file)
        self.importers[file].add(path)

    def reached_by_patch(self, path: Path) -> set[Path]:
        """Return the files that run in one process with `path`, which replaces parts of modules."""
        with_it = closure([path], self.importers)
        if served := {one.parent for one in with_it if one.stem == "conftest"}:
            with_it |= {one for one in self._tests if not served.isdisjoint(one.parents)}
        return closure(with_it, self.imported)


def closure(paths: Iterable[Path], edges: Mapping[Path, Collection[Path]]) -> set[Path]:
    """Return the given files and all files that can be reached from them."""
    todo = list(paths)
    found = set(todo)
    while todo:
        new = set(edges.get(todo.pop(), ())) - found
        found |= new
        todo += new
    return found
