"""The imports between the files in a run, and the files that create Petastorm objects."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TypeAlias

from mdstorm_migrate.petastorm.names import OLD_ROOT, is_changed_by_patch
from mdstorm_migrate.python.exchange import RESOLVES, RUN, Exchange, FileImport, file_imports
from mdstorm_migrate.run.discover import CODE, LARGEST
from mdstorm_migrate.run.outcome import Naming

#: Import statements in files that are not parsed, including JSON strings and comments.
_STATEMENT = re.compile(
    r"^[ \t\"]*(?:\#[ \t]*MAGIC[ \t]+)?"
    r"(?P<code>(?:from[ \t]+[^\n]*?import[ \t]*(?:\([^)]*\)|[^\n]*)|import[ \t][^\n]*))",
    re.MULTILINE,
)
_TEST = re.compile(r"test_.*|.*_test|conftest")


@dataclass(frozen=True)
class ImportLines:
    """The imports of a file that is not parsed, and whether it resolves names."""

    path: Path
    imports: tuple[FileImport, ...]
    resolves: bool


def read_imports(path: Path) -> ImportLines | None:
    """Return the imports of a file, or None if the file has none or cannot be read."""
    try:
        data = b"" if path.stat().st_size > LARGEST else path.read_bytes()
    except OSError:
        return None
    text = data.decode("utf-8", "replace")
    imports = tuple(_text_imports(text))
    return ImportLines(path, imports, RESOLVES.search(text) is not None) if imports else None


def _text_imports(text: str) -> Iterator[FileImport]:
    for match in _STATEMENT.finditer(text):
        code = match["code"].partition("\\n")[0].rstrip('", \t\r')
        try:
            yield from file_imports(ast.parse(code))
        except (SyntaxError, ValueError):
            continue
    for run in RUN.finditer(text):
        yield FileImport(run["path"].removesuffix("\\n"), -1, "*", "*")


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

    def files(self, origin: Path, item: FileImport) -> list[Path]:
        """Return the files that a name may be imported from; empty for names of other libraries."""
        if item.level < 0:
            return self._run(origin, item.module)
        folder = self._places.get(origin, ())
        if origin.stem != "__init__":
            folder = folder[:-1]
        module = tuple(item.module.split(".")) if item.module else ()
        if item.level:
            base = folder[: len(folder) - item.level + 1]
            return self._exactly((*base, *module, item.name)) or self._exactly((*base, *module))
        if item.name not in ("", "*"):
            return self._nearest(folder, (*module, item.name)) or self._nearest(folder, module)
        return self._nearest(folder, module)

    def _exactly(self, parts: Sequence[str]) -> list[Path]:
        at = self._by_stem.get(parts[-1], ()) if parts else ()
        return [path for place, path in at if place == tuple(parts)]

    def _nearest(self, folder: Sequence[str], module: Sequence[str]) -> list[Path]:
        """Return a module's files: the closest ones in folders above the importer, or else all."""
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
    importers : dict of Path to set of Path
    """

    def __init__(self, imports: Mapping[Path, Collection[FileImport]]) -> None:
        resolver = Resolver(imports)
        self.targets = {
            path: [(item, resolver.files(path, item)) for item in items]
            for path, items in imports.items()
        }
        self.importers: dict[Path, set[Path]] = defaultdict(set)
        self._imported: dict[Path, set[Path]] = {}
        for path, targets in self.targets.items():
            self._imported[path] = {file for _, files in targets for file in files}
            for file in self._imported[path]:
                self.importers[file].add(path)

    def reached_by_patch(self, path: Path) -> set[Path]:
        """Return the files that run in one process with `path`, which replaces parts of modules."""
        with_it = _closure([path], self.importers)
        if path.stem == "conftest":
            with_it |= {
                one
                for one in self.targets
                if _TEST.fullmatch(one.stem) and path.parent in one.parents
            }
        return self.imported(with_it)

    def imported(self, paths: Iterable[Path]) -> set[Path]:
        """Return the given files and all files that they import, directly or indirectly."""
        return _closure(paths, self._imported)


def _closure(paths: Iterable[Path], edges: Mapping[Path, Collection[Path]]) -> set[Path]:
    """Return the given files and all files that can be reached from them."""
    todo = list(paths)
    found = set(todo)
    while todo:
        new = set(edges.get(todo.pop(), ())) - found
        found |= new
        todo += new
    return found


#: For each name in a file, the files that create the Petastorm objects that the name may hold.
OriginsByName: TypeAlias = Mapping[str, frozenset[Path]]


@dataclass(frozen=True)
class FileFacts:
    """The facts about one file that concern other files.

    Attributes
    ----------
    exchange : Exchange
        The names that it offers to other files and imports from them.
    mentions_petastorm : bool
        Whether it mentions Petastorm itself.
    stays : str or None
        What in it still needs Petastorm.
    names_need_review : bool
        Whether strings in it that name modules need review.
    naming : Naming
        What strings in it that name modules do.
    named : frozenset of str
        The dotted paths of Petastorm that these strings name, or that it replaces.
    """

    exchange: Exchange
    mentions_petastorm: bool = True
    stays: str | None = None
    names_need_review: bool = False
    naming: Naming = ""
    named: frozenset[str] = frozenset()

    @property
    def holds(self) -> str | None:
        """What in the file does not move without review, or None if the whole file moves."""
        return self.stays or ("strings in it name modules" if self.names_need_review else None)

    @property
    def uses(self) -> bool:
        """Whether the file uses Petastorm, rather than only mentioning it."""
        is_used = any(OLD_ROOT in roots for _, roots in self.exchange.roots)
        return self.mentions_petastorm and (is_used or self.holds is not None or self.naming != "")

    def may_notice(self, named: Iterable[str]) -> bool:
        """Whether a file that refers to or replaces these Petastorm paths may affect this one."""
        if not self.exchange.is_known:
            return True
        paths = self.exchange.paths or {OLD_ROOT}
        return self.uses and any(
            is_changed_by_patch(used, path) for used in paths for path in named
        )


class Origins:
    """The origins of names, followed from file to file along the known imports.

    A file is examined again only if a file that it imports offers more than before.

    Attributes
    ----------
    facts : dict of Path to FileFacts
        The facts about the files that were added.
    offered : dict of Path to OriginsByName
        For each file, the names that hold Petastorm objects or lead to some.
    graph : ImportGraph
        The imports of all files that may be added.
    """

    def __init__(self, graph: ImportGraph) -> None:
        self.facts: dict[Path, FileFacts] = {}
        self.offered: dict[Path, OriginsByName] = {}
        self.graph = graph

    def add(self, facts: Mapping[Path, FileFacts]) -> set[Path]:
        """Add files; return these and all other files that now offer more than before."""
        self.facts.update(facts)
        self.offered.update({path: {} for path in facts})
        changed = set(facts)
        todo = deque(facts)
        todo += {user for one in facts for user in self._users(one)} - changed
        waiting = set(todo)
        while todo:
            path = todo.popleft()
            waiting.remove(path)
            new = self._offered_by(path)
            if new != self.offered[path]:
                self.offered[path] = new
                changed.add(path)
                again = self._users(path) - waiting
                todo += again
                waiting |= again
        return changed

    def _users(self, path: Path) -> set[Path]:
        return {one for one in self.graph.importers.get(path, ()) if one in self.facts}

    def imported_origins(self, path: Path) -> Iterator[tuple[str, frozenset[Path]]]:
        """Yield the bound name and the origins of its objects for each import in a file."""
        for item, files in self.graph.targets.get(path, ()):
            yield from self._from(item, files)

    def _offered_by(self, path: Path) -> OriginsByName:
        one = self.facts[path]
        bound: dict[str, set[Path]] = defaultdict(set)
        offered: dict[str, set[Path]] = defaultdict(set)
        for item, files in self.graph.targets.get(path, ()):
            for name, origins in self._from(item, files):
                bound[name] |= origins
                if item.name == "*":
                    offered[name] |= origins
        for name, roots in one.exchange.roots:
            for root in roots:
                if root == OLD_ROOT:
                    offered[name].add(path)
                else:
                    reached = set(bound.get(root.removeprefix("?"), ()))
                    if root.startswith("?"):
                        reached |= bound.get("*", set())
                    offered[name] |= reached
                    if reached and one.mentions_petastorm and root != name:
                        offered[name].add(path)
        return {name: frozenset(origins) for name, origins in offered.items() if origins}

    def _from(
        self, item: FileImport, files: Iterable[Path]
    ) -> Iterator[tuple[str, frozenset[Path]]]:
        for file in files:
            if file not in self.facts:
                continue
            origins = self.offered[file]
            if not self.facts[file].exchange.is_known:
                yield item.bound, frozenset([file])
            elif item.name == "*":
                yield from origins.items()
            elif item.name in origins:
                yield item.bound, origins[item.name]
            elif origins and item.name in ("", file.stem, file.parent.name):
                yield item.bound, frozenset().union(*origins.values())
