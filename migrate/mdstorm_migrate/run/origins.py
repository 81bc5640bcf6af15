"""Where the objects of Petastorm's come into being that names of files hold."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.exchange import Exchange, Take
from mdstorm_migrate.run.graph import ImportGraph
from mdstorm_migrate.run.naming import Naming

#: For each name of a file, the files in which its objects of Petastorm's come into being.
Given: TypeAlias = Mapping[str, frozenset[Path]]


@dataclass(frozen=True)
class FileFacts:
    """What one file says of itself.

    Attributes
    ----------
    exchange : Exchange
        What it gives and takes.
    is_ours : bool
        Whether it uses Petastorm itself.
    stays : str or None
        What of it stays with Petastorm.
    names_wait : bool
        Whether strings of it that name modules wait for review.
    naming : Naming
        What strings of it that name modules do.
    """

    exchange: Exchange
    is_ours: bool = True
    stays: str | None = None
    names_wait: bool = False
    naming: Naming = ""

    @property
    def holds(self) -> str | None:
        """What of it does not move without review; None if all may."""
        return self.stays or ("strings in it name modules" if self.names_wait else None)

    @property
    def uses(self) -> bool:
        """Whether it does more than mention Petastorm."""
        is_used = any(OLD_ROOT in roots for _, roots in self.exchange.roots)
        return self.is_ours and (is_used or self.holds is not None or self.naming != "")


class Origins:
    """Follows names from file to file, along the imports of the files that are known so far.

    A file is looked at again only when one that it takes from gives more than before.

    Attributes
    ----------
    facts : dict of Path to FileFacts
        Of the files that were added.
    given : dict of Path to Given
        The names of each that hold objects of Petastorm's, or lead to some.
    graph : ImportGraph
        Of all files that may be added.
    """

    def __init__(self, graph: ImportGraph) -> None:
        self.facts: dict[Path, FileFacts] = {}
        self.given: dict[Path, Given] = {}
        self.graph = graph

    def add(self, facts: Mapping[Path, FileFacts]) -> set[Path]:
        """Add files; return these, and those that give more than before."""
        self.facts.update(facts)
        self.given.update({path: {} for path in facts})
        changed = set(facts)
        todo = deque(facts)
        todo += {user for one in facts for user in self._users(one)} - changed
        waiting = set(todo)
        while todo:
            path = todo.popleft()
            waiting.remove(path)
            new = self._given_by(path)
            if new != self.given[path]:
                self.given[path] = new
                changed.add(path)
                again = self._users(path) - waiting
                todo += again
                waiting |= again
        return changed

    def _users(self, path: Path) -> set[Path]:
        return {one for one in self.graph.importers.get(path, ()) if one in self.facts}

    def taken(self, path: Path) -> Iterator[tuple[str, frozenset[Path]]]:
        """Yield what a file takes: the name that is bound, and where its objects come from."""
        for take, files in self.graph.targets.get(path, ()):
            yield from self._from(take, files)

    def _given_by(self, path: Path) -> Given:
        one = self.facts[path]
        bound: dict[str, set[Path]] = defaultdict(set)
        given: dict[str, set[Path]] = defaultdict(set)
        for take, files in self.graph.targets.get(path, ()):
            for name, origins in self._from(take, files):
                bound[name] |= origins
                if take.name == "*":
                    given[name] |= origins
        for name, roots in one.exchange.roots:
            for root in roots:
                if root == OLD_ROOT:
                    given[name].add(path)
                else:
                    reached = set(bound.get(root.removeprefix("?"), ()))
                    if root.startswith("?"):
                        reached |= bound.get("*", set())
                    given[name] |= reached
                    if reached and one.is_ours and root != name:
                        given[name].add(path)
        return {name: frozenset(origins) for name, origins in given.items() if origins}

    def _from(self, take: Take, files: Iterable[Path]) -> Iterator[tuple[str, frozenset[Path]]]:
        for file in files:
            if file not in self.facts:
                continue
            origins = self.given[file]
            if not self.facts[file].exchange.is_known:
                yield take.bound, frozenset([file])
            elif take.name == "*":
                yield from origins.items()
            elif take.name in origins:
                yield take.bound, origins[take.name]
            elif origins and take.name in ("", file.stem, file.parent.name):
                yield take.bound, frozenset().union(*origins.values())
