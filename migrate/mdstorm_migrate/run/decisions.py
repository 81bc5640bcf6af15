"""Which files must move together, and which edits must wait.

Objects of Petastorm reach a file along imports, in both directions: a function is given objects,
and returns some. So files that imports link move together: files that use Petastorm, and files
that import from them, even indirectly. What is held only grows, until nothing more is held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from mdstorm_migrate.run.imports import TEST, ImportGraph, closure
from mdstorm_migrate.run.migration import Proposals
from mdstorm_migrate.run.outcome import Decision, shown

_NAMES = "names modules in strings that need review"


def decide(
    proposals: Mapping[Path, Proposals], graph: ImportGraph, resolving: set[Path]
) -> dict[Path, Decision]:
    """Return what is decided about each file.

    Parameters
    ----------
    proposals : mapping of Path to Proposals
    graph : ImportGraph
    resolving : set of Path
        Files that resolve names that are given elsewhere.
    """
    return _Decisions(proposals, graph, resolving).result()


class _Decisions:
    """The files of a run, and why some of them are held."""

    def __init__(
        self, proposals: Mapping[Path, Proposals], graph: ImportGraph, resolving: set[Path]
    ) -> None:
        self._proposals = proposals
        self._reached = {
            path: graph.reached_by_patch(path)
            for path, one in proposals.items()
            if one.naming == "patches"
        }
        # For these files, it is unknown which modules their strings import.
        self._open = {
            path
            for path, reached in self._reached.items()
            if len(reached) < 2 or not resolving.isdisjoint(reached)
        }
        self._held = dict(_held_alone(proposals))
        self._groups = self._linked(graph)
        self._sorted = sorted(self._held)
        while new := dict.fromkeys(filter(self._keeps_names, proposals), _NAMES):
            self._held |= new
            self._sorted = sorted(self._held)

    def _keeps_names(self, path: Path) -> bool:
        """Whether a file is held because edits to names in its strings have to wait."""
        if path in self._held or not self._proposals[path].has_names:
            return False
        decision = self._decision(path)
        return (decision.names or decision.waits_for) is not None

    def result(self) -> dict[Path, Decision]:
        """Return what is decided about each file."""
        return {path: self._decision(path) for path in self._proposals}

    def _decision(self, path: Path) -> Decision:
        group = self._groups.get(path, [])
        return Decision(
            waits_for=self._proposals[path].waits_for
            or self._reason(path, (one for one in group if one in self._held)),
            stays=self._reason(path, filter(self._affects, self._sorted)),
            names=self._reason(path, self._sorted if path in self._open else ()),
            group=tuple(map(str, group)),
        )

    def _affects(self, held: Path) -> bool:
        """Whether a file that does not move affects others."""
        return held in self._groups or self._proposals[held].stays is not None

    def _reason(self, path: Path, held: Iterable[Path]) -> str | None:
        """Return why the first other file of those that do not move affects `path`, or None."""
        other = next((one for one in held if one != path), None)
        if other is None:
            return None
        group = self._groups.get(path, ())
        is_linked = other in group
        linked = ", and imports link it to this file" if is_linked else ""
        are_tests = all(TEST.fullmatch(one.stem) for one in group if one in self._held)
        if is_linked and are_tests and not TEST.fullmatch(path.stem):
            linked += "; only tests hold it back, and they would stay on Petastorm"
        return f"`{shown(other, path)}` {self._held[other]}{linked}"

    def _linked(self, graph: ImportGraph) -> dict[Path, list[Path]]:
        """Return, for each file that others are linked with, these files and itself."""
        users = {path for path, one in self._proposals.items() if one.uses or one.naming}
        users |= self._held.keys()
        carrying = closure(users, graph.importers)
        links = {path: graph.imported.get(path, set()) & carrying for path in carrying}
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


def _held_alone(proposals: Mapping[Path, Proposals]) -> Iterable[tuple[Path, str]]:
    """Yield the files that do not move whatever the others do, with the reasons."""
    for path, one in proposals.items():
        if one.stays is not None:
            yield path, f"still uses Petastorm ({one.stays})"
        elif one.names_need_review:
            yield path, _NAMES
        elif one.waits_for is not None:
            yield path, f"stays on Petastorm ({one.waits_for})"
