"""What the names in a run's files refer to in other files.

Names are followed along imports: those of Petastorm's parts, and those of functions that find
modules by their names. Values are not followed. Attributes that only Petastorm's objects have are
found by their names, in any code of a project that uses it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mdstorm_migrate.base.needs import Given
from mdstorm_migrate.petastorm.attributes import CONVERTER_FILES
from mdstorm_migrate.petastorm.names import OLD_ROOT, counterpart
from mdstorm_migrate.python.links import FileImport, Links
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.facts import Facts
from mdstorm_migrate.run.imports import TEST, ImportGraph, closure

#: A name, with attributes, and the part of Petastorm that it refers to; empty for a function that
#: finds modules. The name ``*`` stands for all names of a module of Petastorm.
_Meaning: TypeAlias = tuple[str, str]
#: Stands for the part if the name is that of a function that returns the package.
_PACKAGE = f"{OLD_ROOT}()"
#: Maximum number of dots in a name.
_LONGEST = 4


def given_to(
    facts: Mapping[Path, Facts],
    graph: ImportGraph,
    unbound: Callable[[Iterable[Path]], Mapping[Path, frozenset[str]]],
) -> dict[Path, Given]:
    """Return what each file is given, for files that mention Petastorm, and others to examine.

    Parameters
    ----------
    facts : mapping of Path to Facts
    graph : ImportGraph
    unbound : callable
        Returns the names that files use without binding them, and that Petastorm's modules leak.
    """
    mentioning = {path: one.links for path, one in facts.items() if one.is_examined}
    reached = _reached(facts, graph)
    users = _star_importers(mentioning, graph)
    leaked = unbound({one for ones in users.values() for one in ones})
    sharing, has_namesake = _sharing_root(mentioning, graph), any(map(_is_namesake, facts))
    has_converter = any(one.makes_converter for one in facts.values()) and not any(
        CONVERTER_FILES & one.defined for one in facts.values()
    )
    is_used = bool(mentioning) or any(one.moved for one in facts.values())
    listed, handed = _listed(facts, reached, graph), _handed(facts, graph)
    others = frozenset() if has_converter else CONVERTER_FILES  # of which the project has its own
    given = {}
    for path, one in sorted(facts.items()):
        packages = frozenset(name for name, part in reached[path] if part == _PACKAGE)
        names = {
            name: part
            for name, part in sorted(reached[path])
            if part not in ("", _PACKAGE) and "*" not in name
        }
        is_loading = one.makes_loaders and bool(mentioning)
        is_distinct = is_loading or (is_used and bool(one.attributes - others))
        is_given = bool(packages or handed[path]) or is_distinct
        is_reached = bool(names) or (path not in mentioning and is_given)
        if path in mentioning or is_reached:
            given[path] = Given(
                names if is_reached else None,
                path in sharing,
                frozenset().union(*(leaked[user] for user in users.get(path, ()))),
                has_namesake,
                frozenset(name for name, part in reached[path] if not part),
                frozenset(listed[path]),
                has_converter,
                packages,
                frozenset(handed[path]),
            )
    return given


def _reached(facts: Mapping[Path, Facts], graph: ImportGraph) -> Mapping[Path, set[_Meaning]]:
    """Return the names by which files reach what other files define or import."""
    known = {
        path: {
            *one.links.parts,
            *((name, "") for name in one.links.finders),
            *((name, _PACKAGE) for name in one.links.packages),
        }
        for path, one in facts.items()
        if is_code(path)
    }
    reached: defaultdict[Path, set[_Meaning]] = defaultdict(set)
    todo = [path for path, one in known.items() if one]
    while todo:
        file = todo.pop()
        # Only packages are taken to hand on the modules that they import.
        own = (one for one in known[file] if file.stem == "__init__" or "." not in one[0])
        given = sorted(own)
        for path in graph.importers.get(file, ()):
            new = {*_imported(given, file, graph.targets.get(path, ()), graph)}
            reached[path] |= new
            if path in known and not new <= known[path]:
                known[path] |= new
                todo.append(path)
    return reached


def _listed(
    facts: Mapping[Path, Facts], reached: Mapping[Path, set[_Meaning]], graph: ImportGraph
) -> Mapping[Path, set[str]]:
    """Return the names of each file that files which find modules by given names import.

    Of an imported module, they may use each.
    """
    listed: defaultdict[Path, set[str]] = defaultdict(set)
    for path, one in facts.items():
        if one.links.finders or any(not part for _, part in reached[path]):
            for item, files in graph.targets.get(path, ()):
                for file in files:
                    listed[file].add(item.name or "*")
    return listed


def _handed(facts: Mapping[Path, Facts], graph: ImportGraph) -> Mapping[Path, set[tuple[str, str]]]:
    """Return the functions of each file to which others pass a converter's loader, and how."""
    handed: defaultdict[Path, set[tuple[str, str]]] = defaultdict(set)
    todo = [(path, *found) for path, one in facts.items() for found in one.links.handed]
    while todo:
        path, function, how = todo.pop()
        for item, files in graph.targets.get(path, ()):
            if function == item.bound:
                name = item.name
            elif item.name == "*" or function.startswith(f"{item.bound}."):
                name = function.rpartition(".")[2]
            else:
                continue
            for file in files:
                if (name, how) not in handed[file]:
                    handed[file].add((name, how))
                    todo.append((file, name, how))
    return handed


def _imported(
    known: Iterable[_Meaning],
    file: Path,
    targets: Iterable[tuple[FileImport, Sequence[Path]]],
    graph: ImportGraph,
) -> Iterator[_Meaning]:
    """Yield what imports bind of the names in a file."""
    for item, files in targets:
        if file not in files or not item.bound:
            continue
        is_whole = graph.is_whole(item, file)
        is_path = not item.name and item.bound == item.module.partition(".")[0]
        owner = item.module if is_path else item.bound
        for name, part in known:
            if item.name == "*":
                yield name, part
            elif is_whole and name != "*" and name.count(".") < _LONGEST:
                yield f"{owner}.{name}", part
            elif name == item.name:
                yield item.bound, part
            elif name == "*" and not is_whole and counterpart(part, item.name):
                yield item.bound, f"{part}.{item.name}"


def _star_importers(mentioning: Mapping[Path, Links], graph: ImportGraph) -> dict[Path, set[Path]]:
    """Return the files that import all names, of files that import all names of Petastorm's."""
    stars: defaultdict[Path, set[Path]] = defaultdict(set)
    for path, targets in graph.targets.items():
        for item, files in targets:
            for file in files if item.name == "*" else ():
                stars[file].add(path)
    leaking = (path for path, one in mentioning.items() if "*" in dict(one.parts))
    return {path: closure([path], stars) - {path} for path in leaking}


def _is_namesake(path: Path) -> bool:
    """Whether a file is a module with Petastorm's name in its name; a test is none."""
    name = path.parent.name if path.stem == "__init__" else path.stem
    return path.suffix == ".py" and OLD_ROOT in name and not TEST.fullmatch(name)


def _sharing_root(links: Mapping[Path, Links], graph: ImportGraph) -> set[Path]:
    """Return the files from which others import ``petastorm``, by name, star or ``%run``."""
    owners = {owner for one in links.values() for owner in one.owners}
    sharing = {path for path in links if path.stem in owners}
    todo = [path for path, one in links.items() if one.needs_root]
    seen = set(todo)
    for path, one in links.items():
        for item, files in graph.targets.get(path, ()):
            if item.name == OLD_ROOT or item.bound in one.owners:
                sharing.update(files)
    while todo:
        for item, files in graph.targets.get(todo.pop(), ()):
            new = set(files) - seen if item.name == "*" else set()
            sharing |= new
            seen |= new
            todo += new
    return sharing
