"""What the names in a run's files may be: parts of Petastorm, and its objects.

A fixpoint over all files: values flow through assignments, imports, arguments, results, attributes
of the project's classes, and pytest's fixtures. A file that does not mention Petastorm is parsed
once such a value reaches it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from mdstorm_migrate.base.needs import Given, Place
from mdstorm_migrate.petastorm.absent import ATTRIBUTES
from mdstorm_migrate.petastorm.names import CONVERTER, CONVERTER_METHODS, OLD_ROOT, counterpart
from mdstorm_migrate.python.flows import Flows, Term
from mdstorm_migrate.python.links import FileImport, Links
from mdstorm_migrate.run.facts import Facts
from mdstorm_migrate.run.imports import TEST, ImportGraph, closure


class Entity(NamedTuple):
    """A ``module``, ``function``, ``method`` or ``class`` of the project, or an ``object`` of one.

    `name` is the qualified name in the file, for an object that of its class.
    """

    kind: str
    path: Path
    name: str = ""


#: A path in Petastorm, with ``()`` at its end for an object that a call makes; or an `Entity`.
Value: TypeAlias = str | Entity
#: The values of keyword arguments; without a name, those that ``**`` unpacks.
_Named: TypeAlias = Sequence[tuple[str | None, set[Value]]]
#: Keywords with the arguments of another function, as in ``Thread(target=fit, args=(conv,))``.
_UNPACKED = (None, "args", "kwargs")
#: Maximum number of dots in a path.
_LONGEST = 6


def given_to(
    facts: Mapping[Path, Facts],
    graph: ImportGraph,
    parse: Callable[[Iterable[Path]], Mapping[Path, Flows]],
) -> dict[Path, Given]:
    """Return what each file is given, for files that mention Petastorm or reach it through others.

    Parameters
    ----------
    facts : mapping of Path to Facts
    graph : ImportGraph
    parse : callable
        Returns the flows of files.
    """
    mentioning = {path: one.links for path, one in facts.items() if one.is_examined}
    # Files that make a converter's loaders count even if no value is seen to reach them.
    loading = {path for path, one in facts.items() if one.makes_loaders and not one.is_examined}
    reached = closure(mentioning, graph.importers) & loading
    solver = _Solver(graph)
    wanted = mentioning.keys() | reached
    while wanted:
        solver.add(parse(sorted(wanted)))
        wanted = solver.wanted() & facts.keys()
    sharing, has_namesake = _sharing_root(mentioning, graph), any(map(_is_namesake, facts))
    finders = _finders(facts, graph)
    found = {}
    for path in sorted(solver.flows):
        names, objects = dict(solver.names(path)), solver.objects[path]
        is_reached = path in reached or bool(names) or bool(objects)
        if path in mentioning or is_reached:
            leaked = frozenset(solver.leaked(path))
            shares = path in sharing
            found[path] = Given(
                names if is_reached else None,
                objects,
                shares,
                leaked,
                has_namesake,
                frozenset(finders.get(path, ())),
            )
    return found | {path: Given() for path in mentioning.keys() - found.keys()}


def _finders(facts: Mapping[Path, Facts], graph: ImportGraph) -> Mapping[Path, set[str]]:
    """Return the names by which files reach functions that find modules by their names."""
    found = {path: {*one.links.finders} for path, one in facts.items() if one.links.finders}
    todo = [*found]
    while todo:
        file = todo.pop()
        for path in graph.importers.get(file, ()):
            names = {*_imported_names(found[file], file, graph.targets.get(path, ()), graph)}
            if not names <= found.setdefault(path, set()):
                found[path] |= names
                todo.append(path)
    return found


def _imported_names(
    names: Iterable[str],
    file: Path,
    targets: Iterable[tuple[FileImport, Sequence[Path]]],
    graph: ImportGraph,
) -> Iterator[str]:
    """Yield what some names in a file are called where imports bind them."""
    for item, files in targets:
        if file not in files or not item.bound:
            continue
        if item.name == "*":
            yield from names
        elif graph.is_whole(item, file):
            is_path = not item.name and item.bound == item.module.partition(".")[0]
            owner = item.module if is_path else item.bound
            yield from (f"{owner}.{one}" for one in names if one.count(".") < _LONGEST)
        elif item.name in names:
            yield item.bound


def _is_namesake(path: Path) -> bool:
    """Whether a file is a module with Petastorm's name in its name; a test is none."""
    name = path.parent.name if path.stem == "__init__" else path.stem
    return path.suffix == ".py" and OLD_ROOT in name and not TEST.fullmatch(name)


def given_alone(flows: Flows) -> Given:
    """Return what a file that is migrated alone shows about its own names."""
    solver = _Solver(ImportGraph({}))
    solver.add({Path(): flows})
    return Given(objects=solver.objects[Path()])


class _Solver:
    """The values of the symbols in files that are parsed; they only grow."""

    def __init__(self, graph: ImportGraph) -> None:
        self.flows: dict[Path, Flows] = {}
        self.objects: dict[Path, dict[Place, frozenset[str]]] = {}
        self._graph = graph
        self._files: dict[Path, dict[FileImport, Sequence[Path]]] = {}
        self._known: dict[Path, dict[str, set[Value]]] = defaultdict(dict)
        self._readers: dict[Path, dict[str, set[Path]]] = defaultdict(lambda: defaultdict(set))
        self._changed: set[Path] = set()
        self._called: set[Path] = set()
        self._fixtures: dict[str, list[Path]] = defaultdict(list)
        self._of_terms: dict[int, set[Value]] = {}
        self._path = self._reader = Path()

    def add(self, flows: Mapping[Path, Flows]) -> None:
        """Add files, and let values flow until nothing changes."""
        self.flows |= flows
        for path, one in flows.items():
            for name in one.fixtures:
                self._fixtures[name].append(path)
        self._files |= {path: dict(self._graph.targets.get(path, ())) for path in flows}
        self._changed |= self.flows.keys()
        while self._changed:
            for path in sorted(self._changed):
                self._changed.remove(path)
                self._flow(path)

    def _flow(self, path: Path) -> None:
        """Let values flow through a file once; if this changes them, the file is changed again."""
        self._path = self._reader = path
        self._of_terms = {}
        own = self.flows[path]
        for target, term in own.flows:
            self._assign(target, self._values(term))
        for symbol, name in own.tested.items():
            self._grow(path, symbol, self._fixture(name))
        self.objects[path] = dict(self._made(own))

    def _made(self, own: Flows) -> Iterator[tuple[Place, frozenset[str]]]:
        """Yield the expressions that may be Petastorm's objects, with the paths of their makers.

        The package itself counts as one, because code may ask it for its version.

        The values of each term are needed in any case, because calls pass their arguments.
        """
        for place, term in own.terms.items():
            made = {
                value.removesuffix("()")
                for value in self._values(term)
                if isinstance(value, str) and (value == OLD_ROOT or value.endswith("()"))
            }
            if made:
                yield place, frozenset(made)

    def wanted(self) -> set[Path]:
        """Return the files that Petastorm's parts or objects reach, and that are not parsed yet."""
        found = set(self._called)
        for path, own in self.flows.items():
            names = {symbol for symbol in self._symbols(path) if self._carries(path, symbol)}
            for other in self._graph.importers.get(path, ()):
                items = (item for item, files in self._graph.targets[other] if path in files)
                if any(self._gives(path, names, item) for item in items):
                    found.add(other)
            if path.stem == "conftest" and not names.isdisjoint(own.fixtures.values()):
                found |= {
                    one
                    for one in self._graph.targets
                    if TEST.fullmatch(one.stem) and path.parent in one.parents
                }
        return found - self.flows.keys()

    def _gives(self, path: Path, names: set[str], item: FileImport) -> bool:
        """Whether an import from a file, with these names of Petastorm's, provides one of them."""
        stars = self._stars(path)
        if self._graph.is_whole(item, path):
            return bool(names or stars)
        return item.name in names or any(counterpart(one, item.name) for one in stars)

    def _stars(self, path: Path, seen: frozenset[Path] = frozenset()) -> list[str]:
        """Return the modules of Petastorm whose names a file has, also through other files."""
        found: list[str] = []
        for one in self._known[path].get("*", ()):
            if isinstance(one, str):
                found.append(one)
            elif one.path not in seen:
                found += self._stars(one.path, seen | {path})
        return found

    def names(self, path: Path) -> Iterator[tuple[str, str]]:
        """Yield the names, with attributes, by which a file reaches parts of Petastorm."""
        self._path = path
        for item in filter(lambda one: one.bound, self._files[path]):
            for value in sorted(self._of_import(item), key=str):
                if isinstance(value, str):
                    yield from [] if value.endswith("()") else [(item.bound, value)]
                elif value.kind == "module":
                    is_whole = not item.name and item.bound == item.module.partition(".")[0]
                    owner = item.module if is_whole else item.bound
                    prefix = "" if item.name == "*" else f"{owner}."
                    for symbol in self._symbols(value.path):
                        paths = sorted(filter(_is_part, self._read(value.path, symbol)), key=str)
                        yield from ((f"{prefix}{symbol}", str(one)) for one in paths[:1])

    def leaked(self, path: Path) -> set[str]:
        """Return what files use unbound that import all names of a file, also through others."""
        stars: defaultdict[Path, set[Path]] = defaultdict(set)
        for other in closure([path], self._graph.importers) & self.flows.keys():
            for item, files in self._files[other].items():
                for file in files if item.name == "*" else ():
                    stars[file].add(other)
        return set().union(*(self.flows[one].unbound for one in closure([path], stars) - {path}))

    def _symbols(self, path: Path) -> list[str]:
        """Return the names of a module that are not private to a function or class."""
        own = self.flows.get(path, Flows())
        targets = (target for target, _ in own.flows if isinstance(target, str))
        return [one for one in dict.fromkeys(targets) if not {".", "*", "("}.intersection(one)]

    def _carries(self, path: Path, symbol: str, seen: frozenset[Value] = frozenset()) -> bool:
        """Whether a symbol is, returns or contains a part or an object of Petastorm."""
        for value in self._known[path].get(symbol, ()):
            if isinstance(value, str):
                return True
            if value in seen or value.kind == "module":
                continue
            inner = [f"{value.name}()"]
            if value.kind in ("class", "object"):
                own = f"{value.name}."
                inner += [name for name in self._known[value.path] if name.startswith(own)]
            if any(self._carries(value.path, one, seen | {value}) for one in inner):
                return True
        return False

    # Values

    def _grow(self, path: Path, symbol: str, values: Iterable[Value]) -> None:
        known = self._known[path].setdefault(symbol, set())
        new = set(values) - known
        if new:
            known |= new
            self._changed |= self._readers[path][symbol]

    def _read(self, path: Path, symbol: str, seen: frozenset[Path] = frozenset()) -> set[Value]:
        """Return the values of a symbol, also if a star import provides it."""
        known, readers = self._known[path], self._readers[path]
        readers[symbol].add(self._reader)
        found = set(known.get(symbol, ()))
        if found or "." in symbol or path in seen:
            return found
        readers["*"].add(self._reader)
        for value in set(known.get("*", ())):
            if isinstance(value, Entity):
                found |= self._read(value.path, symbol, seen | {path})
            elif counterpart(value, symbol):
                found.add(f"{value}.{symbol}")
        return found

    def _values(self, term: Term) -> set[Value]:
        """Return what a term of the current file may be."""
        found = self._of_terms.get(id(term))
        if found is None:
            found = self._of_terms[id(term)] = self._of_term(term)
        return found

    def _of_term(self, term: Term) -> set[Value]:
        match term:
            case "name", str(symbol):
                return self._read(self._path, symbol)
            case "path", str(path):
                return {path}
            case "function" | "class" as kind, str(name):
                return {Entity(kind, self._path, name)}
            case "self", str(name):
                return {Entity("object", self._path, name)}
            case "import", FileImport() as item:
                return self._of_import(item)
            case "attribute", owner, str(name):
                found = {
                    one for value in self._values(owner) for one in self._attribute(value, name)
                }
                return found | ({f"{CONVERTER}.{name}"} if name in CONVERTER_METHODS else set())
            case "call", function, arguments, words:
                given = [self._values(one) for one in arguments]
                named = [(name, self._values(term)) for name, term in words]
                called = self._values(function)
                if not called:
                    return self._launch(given, named)
                return {one for value in called for one in self._call(value, given, named)}
            case "any", parts:
                return {one for part in parts for one in self._values(part)}
        return set()

    def _of_import(self, item: FileImport) -> set[Value]:
        files = self._files[self._path].get(item, ())
        return {one for file in files for one in self._of_file(item, file)}

    def _of_file(self, item: FileImport, file: Path) -> set[Value]:
        """Return what an import of one file provides."""
        if self._graph.is_whole(item, file):
            return {Entity("module", file)}
        if file not in self.flows:
            return {Entity("function", file, item.name)}
        return self._read(file, item.name)

    def _attribute(self, value: Value, name: str) -> set[Value]:
        if isinstance(value, str):
            if not _is_part(value):
                if name == "fields":  # of a schema
                    return {value}
                maker = value.removesuffix("()").rpartition(".")[2]
                return {ATTRIBUTES[maker, name]} if (maker, name) in ATTRIBUTES else set()
            return {f"{value}.{name}"} if value.count(".") < _LONGEST else set()
        if value.kind == "module":
            is_parsed = value.path in self.flows
            return (
                self._read(value.path, name)
                if is_parsed
                else {Entity("function", value.path, name)}
            )
        if value.kind not in ("class", "object"):
            return set()
        found: set[Value] = set()
        for owner in self._lineage(value):
            for one in self._read(owner.path, f"{owner.name}.{name}"):
                if not isinstance(one, Entity) or one.kind != "function" or value.kind == "class":
                    found.add(one)
                    continue
                own = self.flows[one.path]
                if one.name in own.detached:
                    found.add(one)
                elif one.name in own.properties:
                    found |= self._read(one.path, f"{one.name}()")
                else:
                    found.add(one._replace(kind="method"))
        return found

    def _lineage(self, value: Entity) -> list[Entity]:
        """Return a class, and its base classes in the project."""
        found = [value]
        for one in found:
            current, self._path = self._path, one.path
            for base in self.flows[one.path].bases.get(one.name, ()):
                parts = (part for part in self._values(base) if isinstance(part, Entity))
                found += [part for part in parts if part.kind == "class" and part not in found]
            self._path = current
        return found

    def _launch(self, given: Sequence[set[Value]], named: _Named) -> set[Value]:
        """Return what a function of the project returns that another library's function gets.

        Other arguments are passed to it, as in ``HorovodRunner(np=2).run(fit, conv=conv)``.
        """
        found: set[Value] = set()
        for number, values in enumerate([*given, *(values for _, values in named)], 1):
            for value in values:
                if isinstance(value, Entity) and value.kind in ("function", "method"):
                    found |= self._call(value, given[number:], named)
        return found

    def _call(self, value: Value, given: Sequence[set[Value]], named: _Named) -> set[Value]:
        if isinstance(value, str):
            return {f"{value}()"} if _is_part(value) else set()
        if value.kind in ("module", "object"):
            return set()
        if value.path not in self.flows:
            if any(map(_is_carried, (*given, *(values for _, values in named)))):
                self._called.add(value.path)
            return set()
        if value.kind != "class":
            self._pass(value.path, value.name, value.kind == "method", given, named)
            return self._read(value.path, f"{value.name}()")
        for owner in self._lineage(value):
            own, init = self.flows[owner.path], f"{owner.name}.__init__"
            if init in own.parameters:
                self._pass(owner.path, init, True, given, named)
            fields = own.fields.get(owner.name, ())
            for name, values in (*zip(fields, given, strict=False), *named):
                if name in fields:
                    self._grow(owner.path, f"{owner.name}.{name}", values)
        return {value._replace(kind="object")}

    def _pass(
        self,
        path: Path,
        function: str,
        is_bound: bool,
        given: Sequence[set[Value]],
        named: _Named,
    ) -> None:
        """Pass arguments to the parameters of a function; unpacked ones may be any of them."""
        parameters = self.flows[path].parameters.get(function, ())
        passed = [*zip(parameters[is_bound:], given, strict=False)]
        for word, values in named:
            if word in parameters:
                passed.append((word, values))
            elif word in _UNPACKED:
                passed += [(name, values) for name in parameters[is_bound:]]
        for name, values in passed:
            self._grow(path, f"{function}.{name}", values)

    def _assign(self, target: str | Term, values: set[Value]) -> None:
        """Add values to a symbol, or to an attribute of the project's objects."""
        if isinstance(target, str):
            self._grow(self._path, target, values)
            return
        _, owner, name = target
        for value in self._values(owner) if values else ():
            if isinstance(value, Entity) and value.kind in ("class", "object"):
                self._grow(value.path, f"{value.name}.{name}", values)
            elif isinstance(value, Entity) and value.kind == "module":
                self._grow(value.path, name, values)

    def _fixture(self, name: str) -> set[Value]:
        """Return what pytest passes for a parameter."""
        found: set[Value] = set()
        for path in self._fixtures.get(name, ()):
            is_near = path.stem == "conftest" and path.parent in self._path.parents
            if is_near or path == self._path:
                values = self._read(path, f"{self.flows[path].fixtures[name]}()")
                if is_near and _is_carried(values):
                    self._graph.link(self._path, path)
                found |= values
        return found


def _is_part(value: Value) -> bool:
    """Whether a value is a part of Petastorm, not an object."""
    return isinstance(value, str) and not value.endswith("()")


def _is_carried(values: set[Value]) -> bool:
    """Whether some values are Petastorm's, or objects of the project that may have such."""
    return any(isinstance(value, str) or value.kind == "object" for value in values)


def _sharing_root(links: Mapping[Path, Links], graph: ImportGraph) -> set[Path]:
    """Return the files from which others import ``petastorm``, by name, star or ``%run``."""
    owners = {owner for one in links.values() for owner in one.owners}
    found = {path for path in links if path.stem in owners}
    todo = [path for path, one in links.items() if one.needs_root]
    seen = set(todo)
    for path, one in links.items():
        for item, files in graph.targets.get(path, ()):
            if item.name == OLD_ROOT or item.bound in one.owners:
                found.update(files)
    while todo:
        for item, files in graph.targets.get(todo.pop(), ()):
            new = set(files) - seen if item.name == "*" else set()
            found |= new
            seen |= new
            todo += new
    return found
