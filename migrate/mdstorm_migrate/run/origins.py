"""Where the objects of Petastorm's come into being that names of files hold."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.exchange import Take
from mdstorm_migrate.run.file_facts import FileFacts
from mdstorm_migrate.run.imports import Resolver

#: For each name of a file, the files in which its objects of Petastorm's come into being.
Given: TypeAlias = Mapping[str, frozenset[Path]]


class Origins:
    """Follows names from file to file, along the imports of the files that are known so far.

    A file is looked at again only when one that it takes from gives more than before.

    Parameters
    ----------
    resolver : Resolver
        Of all files that may be added.

    Attributes
    ----------
    facts : dict of Path to FileFacts
        Of the files that were added.
    given : dict of Path to Given
        The names of each that hold objects of Petastorm's, or lead to some.
    targets : dict of Path to list of (Take, list of Path)
        What each takes, and the files that it may come from.
    """

    def __init__(self, resolver: Resolver) -> None:
        self.facts: dict[Path, FileFacts] = {}
        self.given: dict[Path, Given] = {}
        self.targets: dict[Path, list[tuple[Take, list[Path]]]] = {}
        self._resolver = resolver
        self._users: defaultdict[Path, set[Path]] = defaultdict(set)

    def add(self, facts: Mapping[Path, FileFacts]) -> set[Path]:
        """Add files; return these, and those that give more than before."""
        for path, one in facts.items():
            self.facts[path], self.given[path] = one, {}
            self.targets[path] = [
                (take, self._resolver.files(path, take)) for take in one.exchange.takes
            ]
            for _, files in self.targets[path]:
                for file in files:
                    self._users[file].add(path)
        changed = set(facts)
        todo = deque(dict.fromkeys([*facts, *(user for one in facts for user in self._users[one])]))
        waiting = set(todo)
        while todo:
            path = todo.popleft()
            waiting.remove(path)
            new = self._given_by(path)
            if new != self.given[path]:
                self.given[path] = new
                changed.add(path)
                again = self._users[path] - waiting
                todo += again
                waiting |= again
        return changed

    def taken(self, path: Path) -> Iterator[tuple[Take, str, frozenset[Path]]]:
        """Yield what a file takes: how, the name that is bound, and where its objects come from."""
        for take, files in self.targets[path]:
            for name, origins in self._from(take, files):
                yield take, name, origins

    def _given_by(self, path: Path) -> Given:
        one = self.facts[path]
        bound: dict[str, set[Path]] = defaultdict(set)
        given: dict[str, set[Path]] = defaultdict(set)
        for take, name, origins in self.taken(path):
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
