"""Who imports whom in a run, by the import statements of its files."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from mdstorm_migrate.python.exchange import RUN, Take, takes_of
from mdstorm_migrate.python.names_in_strings import RESOLVES
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.files import LARGEST

#: Import statements of files that nobody parses, also in strings of JSON and in comments.
_STATEMENT = re.compile(
    r"^[ \t\"]*(?:\#[ \t]*MAGIC[ \t]+)?"
    r"(?P<code>(?:from[ \t]+[^\n]*?import[ \t]*(?:\([^)]*\)|[^\n]*)|import[ \t][^\n]*))",
    re.MULTILINE,
)
_TEST = re.compile(r"test_.*|.*_test|conftest")


@dataclass(frozen=True)
class ImportLines:
    """What a file imports that nobody parses, and whether it resolves names."""

    path: Path
    takes: tuple[Take, ...]
    resolves: bool


def read_imports(path: Path) -> ImportLines | None:
    """Return the imports of a file; None if it has none, or cannot be read."""
    try:
        data = b"" if path.stat().st_size > LARGEST else path.read_bytes()
    except OSError:
        return None
    text = data.decode("utf-8", "replace")
    takes = tuple(_takes(text))
    return ImportLines(path, takes, RESOLVES.search(text) is not None) if takes else None


def _takes(text: str) -> Iterator[Take]:
    for match in _STATEMENT.finditer(text):
        code = match["code"].partition("\\n")[0].rstrip('", \t\r')
        try:
            yield from takes_of(ast.parse(code))
        except (SyntaxError, ValueError):
            continue
    for run in RUN.finditer(text):
        yield Take(run["path"].removesuffix("\\n"), -1, "*", "*")


class Resolver:
    """Finds files by the names that imports have for them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._by_stem: dict[str, list[tuple[tuple[str, ...], Path]]] = defaultdict(list)
        self._places: dict[Path, tuple[str, ...]] = {}
        for path in paths:
            if path.suffix in CODE:
                parts = PurePath(os.path.abspath(path)).with_suffix("").parts
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                self._places[path] = parts
                self._by_stem[parts[-1]].append((parts, path))

    def files(self, origin: Path, take: Take) -> list[Path]:
        """Return the files that a name may be taken from; none if it is of another library."""
        if take.level < 0:
            return self._run(origin, take.module)
        folder = self._places.get(origin, ())
        if origin.stem != "__init__":
            folder = folder[:-1]
        module = tuple(take.module.split(".")) if take.module else ()
        if take.level:
            base = folder[: len(folder) - take.level + 1]
            return self._exactly((*base, *module, take.name)) or self._exactly((*base, *module))
        if take.name not in ("", "*"):
            return self._nearest(folder, (*module, take.name)) or self._nearest(folder, module)
        return self._nearest(folder, module)

    def _exactly(self, parts: Sequence[str]) -> list[Path]:
        at = self._by_stem.get(parts[-1], ()) if parts else ()
        return [path for place, path in at if place == tuple(parts)]

    def _nearest(self, folder: Sequence[str], module: Sequence[str]) -> list[Path]:
        """Return the files of a module: those below a folder that the importer is below, if any."""
        if not module:
            return []
        at = self._by_stem.get(module[-1], ())
        found = [(place, path) for place, path in at if place[-len(module) :] == tuple(module)]
        near = [
            (place, path)
            for place, path in found
            if tuple(folder[: len(place) - len(module)]) == place[: -len(module)]
        ]
        if near:
            longest = max(len(place) for place, _ in near)
            return [path for place, path in near if len(place) == longest]
        return [path for _, path in found]

    def _run(self, origin: Path, target: str) -> list[Path]:
        """Return what ``%run`` means, relative to the notebook; an absolute path by its end."""
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
    """Who imports whom.

    Parameters
    ----------
    takes : mapping of Path to collection of Take
        What each file imports.

    Attributes
    ----------
    targets : dict of Path to list of (Take, list of Path)
        What each takes, and the files that it may come from.
    importers : dict of Path to set of Path
    """

    def __init__(self, takes: Mapping[Path, Collection[Take]]) -> None:
        resolver = Resolver(takes)
        self.targets = {
            path: [(take, resolver.files(path, take)) for take in taken]
            for path, taken in takes.items()
        }
        self.importers: dict[Path, set[Path]] = defaultdict(set)
        self._imported: dict[Path, set[Path]] = {}
        for path, targets in self.targets.items():
            self._imported[path] = {file for _, files in targets for file in files}
            for file in self._imported[path]:
                self.importers[file].add(path)

    def reached_by_patch(self, path: Path) -> set[Path]:
        """Return what runs in one process with a file that replaces parts of modules."""
        with_it = _closure([path], self.importers)
        if path.stem == "conftest":
            with_it |= {
                one
                for one in self.targets
                if _TEST.fullmatch(one.stem) and path.parent in one.parents
            }
        return self.imported(with_it)

    def imported(self, paths: Iterable[Path]) -> set[Path]:
        """Return what files import, directly or by way of others, themselves included."""
        return _closure(paths, self._imported)


def _closure(paths: Iterable[Path], edges: Mapping[Path, Collection[Path]]) -> set[Path]:
    """Return files and what is reached from them."""
    todo = list(paths)
    found = set(todo)
    while todo:
        new = set(edges.get(todo.pop(), ())) - found
        found |= new
        todo += new
    return found
