"""The imports between the files in a run: which must move together, and which must wait.

Objects of Petastorm reach a file along imports, in both directions: a function is given objects,
and returns some. So files that imports link move together: files that use Petastorm, and files
that import from them, even indirectly.
"""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from mdstorm_migrate.base.needs import Surroundings
from mdstorm_migrate.petastorm.names import CONVERTER_METHODS, OLD_ROOT, counterpart
from mdstorm_migrate.python.links import RESOLVES, FileImport, Links, file_imports, runs_of
from mdstorm_migrate.run.discover import CODE, LARGEST
from mdstorm_migrate.run.outcome import FileOutcome, Naming
from mdstorm_migrate.run.pool import map_files

#: Import statements in files that are not parsed, including JSON strings and comments.
_STATEMENT = re.compile(
    r"^[ \t\"]*(?:\#[ \t]*MAGIC[ \t]+)?"
    r"(?P<code>(?:from[ \t]+[^\n]*?import[ \t]*(?:\([^)]*\)|[^\n]*)|import[ \t][^\n]*))",
    re.MULTILINE,
)
_TEST = re.compile(r"test_.*|.*_test|conftest")


@dataclass(frozen=True)
class ImportLines:
    """The imports of a file that is not parsed, whether it resolves names, and makes loaders."""

    path: Path
    imports: tuple[FileImport, ...]
    resolves: bool
    makes_loaders: bool


def read_imports(path: Path) -> ImportLines | None:
    """Return the imports of a file, or None if the file has none or cannot be read."""
    try:
        data = b"" if path.stat().st_size > LARGEST else path.read_bytes()
    except OSError:
        return None
    text = data.decode("utf-8", "replace")
    imports = tuple(_text_imports(text))
    if not imports:
        return None
    makes_loaders = any(f".{name}(" in text for name in CONVERTER_METHODS)
    return ImportLines(path, imports, RESOLVES.search(text) is not None, makes_loaders)


def _text_imports(text: str) -> Iterator[FileImport]:
    for match in _STATEMENT.finditer(text):
        code = match["code"].partition("\\n")[0].rstrip('", \t\r')
        try:
            yield from file_imports(ast.parse(code))
        except (SyntaxError, ValueError):
            continue
    yield from runs_of(text)


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
    imported, importers : mapping of Path to set of Path
        The files that each file imports, and the files that import it.
    """

    def __init__(self, imports: Mapping[Path, Collection[FileImport]]) -> None:
        resolver = Resolver(imports)
        self.targets = {
            path: [(item, resolver.files(path, item)) for item in items]
            for path, items in imports.items()
        }
        self.imported: Mapping[Path, set[Path]] = {
            path: {file for _, files in targets for file in files}
            for path, targets in self.targets.items()
        }
        self.importers: dict[Path, set[Path]] = defaultdict(set)
        for path, files in self.imported.items():
            for file in files:
                self.importers[file].add(path)

    def reached_by_patch(self, path: Path) -> set[Path]:
        """Return the files that run in one process with `path`, which replaces parts of modules."""
        with_it = closure([path], self.importers)
        if path.stem == "conftest":
            with_it |= {
                one
                for one in self.targets
                if _TEST.fullmatch(one.stem) and path.parent in one.parents
            }
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


def walk_of(outcomes: Sequence[FileOutcome], paths: Sequence[Path], jobs: int = 1) -> Walk:
    """Return the walk over the imports of a run's files.

    Parameters
    ----------
    outcomes : sequence of FileOutcome
        The outcomes of the files that mention Petastorm, each examined alone.
    paths : sequence of Path
        All files of the run. The others are only searched for imports, and not at all if nothing
        uses Petastorm.
    jobs : int
        Number of processes.
    """
    found = {one.path: _File.of(one) for one in outcomes}
    left = [path for path in paths if path.suffix in CODE and path not in found]
    is_used = any(one.uses for one in found.values())
    read = list(map_files(read_imports, left, jobs)) if is_used else []
    return Walk(found, {one.path: one for one in read})


@dataclass(frozen=True)
class _File:
    """What concerns other files in the outcome of a file."""

    links: Links
    stays: str | None
    names_need_review: bool
    naming: Naming
    given: Mapping[str, str] | None

    @classmethod
    def of(cls, one: FileOutcome) -> _File:
        """Return the facts about a file; one that cannot be parsed stays on Petastorm."""
        outcome, links, stays = one.outcome, one.outcome.links, one.outcome.stays
        if links is None and outcome.problems and one.path.suffix in CODE:
            read, stays = read_imports(one.path), str(outcome.problems[0])
            links = Links(read.imports if read is not None else ())
        need_review, naming = outcome.names_need_review, outcome.naming
        return cls(links or Links(), stays, need_review, naming, one.given)

    @property
    def holds(self) -> str | None:
        """What does not move without review, or None if the whole file moves."""
        if self.stays is not None:
            return f"still uses Petastorm ({self.stays})"
        return "names modules in strings that need review" if self.names_need_review else None

    @property
    def uses(self) -> bool:
        """Whether the file uses Petastorm, rather than only mentioning it."""
        return self.links.uses or self.naming != "" or self.holds is not None


class Walk:
    """The files of a run, linked by imports."""

    def __init__(self, found: Mapping[Path, _File], read: Mapping[Path, ImportLines]) -> None:
        self._found = dict(found)
        self._read = read
        imports = {path: one.imports for path, one in read.items()}
        self._graph = ImportGraph(
            imports | {path: one.links.imports for path, one in found.items()}
        )
        self._resolving = {path for path, one in read.items() if one.resolves}
        self._resolving |= {path for path, one in found.items() if one.links.resolves}

    def reached(self) -> dict[Path, Mapping[str, str]]:
        """Return the files that use Petastorm through other files, with the names of their uses.

        Files that make a converter's loaders count even if none of their names is Petastorm's.
        """
        given: dict[Path, dict[str, str]] = defaultdict(dict)
        offers = {path: dict(one.links.offers) for path, one in self._found.items()}
        todo = [path for path, names in offers.items() if names]
        while todo:
            file = todo.pop()
            for path in self._graph.importers.get(file, ()):
                items = [item for item, files in self._graph.targets[path] if file in files]
                new = {name: at for one in items for name, at in _given(one, file, offers[file])}
                given[path] |= new
                passed = {name: at for name, at in new.items() if "." not in name}
                known = offers.setdefault(path, {})
                if passed.keys() - known.keys():
                    offers[path] = passed | known
                    todo.append(path)
        users = (path for path, one in self._found.items() if one.uses)
        carrying = closure(users, self._graph.importers)
        loading = {path for path, one in self._read.items() if one.makes_loaders}
        return {path: given.get(path, {}) for path in sorted(given.keys() | (carrying & loading))}

    def add(self, outcomes: Iterable[FileOutcome]) -> None:
        """Add the outcomes of files that have been examined again with the names they reach."""
        self._found.update({one.path: _File.of(one) for one in outcomes})

    def surroundings(self) -> dict[Path, Surroundings]:
        """Return the effects of the files on each other."""
        self._reached = {
            path: self._graph.reached_by_patch(path)
            for path, one in self._found.items()
            if one.naming == "patches"
        }
        self._held = sorted(path for path, one in self._found.items() if one.holds is not None)
        self._groups = self._linked()
        self._roots = self._sharing_root()
        return {path: self._around(path) for path in self._found}

    def _around(self, path: Path) -> Surroundings:
        """Return the effects of other files on a file."""
        group = self._groups.get(path, [])
        others = [one for one in self._held if one != path]
        reached = self._reached.get(path, set())
        is_shown = len(reached) > 1 and self._resolving.isdisjoint(reached)
        is_open = path in self._reached and not is_shown
        return Surroundings(
            waits_for=self._reason((one for one in others if one in group), path),
            shares_root=path in self._roots,
            stays=self._reason((one for one in others if self._affects(one)), path),
            group=tuple(map(str, group)),
            names=self._reason(others if is_open else (), path),
            given=self._found[path].given,
        )

    def _affects(self, held: Path) -> bool:
        """Whether a file that does not move affects others."""
        return held in self._groups or self._found[held].stays is not None

    def _reason(self, held: Iterable[Path], path: Path) -> str | None:
        """Return why the first of some files that do not move affects `path`, or None."""
        for one in held:
            linked = (
                ", and imports link it to this file" if one in self._groups.get(path, ()) else ""
            )
            return f"`{one.as_posix()}` {self._found[one].holds}{linked}"
        return None

    def _linked(self) -> dict[Path, list[Path]]:
        """Return, for each file that others are linked with, these files and itself."""
        users = {path for path, one in self._found.items() if one.uses}
        carrying = closure(users, self._graph.importers)
        links = {path: self._graph.imported.get(path, set()) & carrying for path in carrying}
        for path, reached in self._reached.items():
            links[path] = links.get(path, set()) | (reached & carrying)
        edges: dict[Path, set[Path]] = defaultdict(set)
        for path, files in links.items():
            for file in files:
                edges[path].add(file)
                edges[file].add(path)
        groups: dict[Path, list[Path]] = {}
        for path in users:
            if path not in groups:
                linked = closure([path], edges)
                group = sorted(linked.intersection(users))
                groups |= dict.fromkeys(group, group) if group[1:] else {}
        return groups

    def _sharing_root(self) -> set[Path]:
        """Return the files from which others import ``petastorm``, by name, star or ``%run``."""
        owners = {owner for one in self._found.values() for owner in one.links.owners}
        found = {path for path in self._found if path.stem in owners}
        todo = [path for path, one in self._found.items() if one.links.needs_root]
        seen = set(todo)
        for path, one in self._found.items():
            for item, files in self._graph.targets.get(path, ()):
                if item.name == OLD_ROOT or item.bound in one.links.owners:
                    found.update(files)
        while todo:
            for item, files in self._graph.targets.get(todo.pop(), ()):
                new = set(files) - seen if item.name == "*" else set()
                found |= new
                seen |= new
                todo += new
        return found


def _given(item: FileImport, file: Path, offers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the names by which an import reaches what a file offers, and their paths."""
    plain = {name: path for name, path in offers.items() if name != "*"}
    if item.name == "*":
        yield from offers.items()
    elif item.name in plain and not _is_named(item, file):
        yield item.bound, plain[item.name]
    elif item.name in ("", file.stem, file.parent.name):
        is_whole = not item.name and item.bound == item.module.partition(".")[0]
        owner = item.module if is_whole else item.bound
        yield from ((f"{owner}.{name}", path) for name, path in plain.items())
    elif "*" in offers and counterpart(offers["*"], item.name):
        yield item.bound, f"{offers['*']}.{item.name}"


def _is_named(item: FileImport, file: Path) -> bool:
    """Whether ``from package import name`` imports the file itself, rather than a name in it."""
    place = file.absolute().with_suffix("")
    written = [*filter(None, item.module.split(".")), item.name]
    return (place.parent if place.name == "__init__" else place).match("/".join(written))
