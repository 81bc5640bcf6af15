"""What the files of a run mean for each other: who imports whom, and what must move together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from mdstorm_migrate.base.surroundings import ALONE, Surroundings
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.exchange import Exchange, Take
from mdstorm_migrate.run.imports import Resolver

#: For each name of a file, the files in which its objects of Petastorm's come into being.
Origins: TypeAlias = dict[str, frozenset[Path]]


@dataclass(frozen=True)
class Facts:
    """What one file says of itself.

    Attributes
    ----------
    exchange : Exchange
        What it gives and takes.
    is_ours : bool
        Whether it uses Petastorm itself.
    stays : str or None
        What of it stays with Petastorm.
    splits_conf : bool
        Whether it names the configuration's key in ways that an edit does not reach.
    names_wait : bool
        Whether strings of it that name modules wait for review.
    """

    exchange: Exchange
    is_ours: bool = True
    stays: str | None = None
    splits_conf: bool = False
    names_wait: bool = False


@dataclass
class RunIndex:
    """An index of the files of a run.

    Attributes
    ----------
    facts : mapping of Path to Facts
        By path; files that neither use Petastorm nor hand on what others use are left out.
    """

    facts: Mapping[Path, Facts]
    _groups: dict[Path, frozenset[Path]] = field(init=False)
    _roots: set[Path] = field(init=False)
    _staying: list[Path] = field(init=False)
    _splitting: list[Path] = field(init=False)
    _naming: list[Path] = field(init=False)

    def __post_init__(self) -> None:
        resolver = Resolver(self.facts)
        self._targets = {
            path: [(take, resolver.files(path, take)) for take in one.exchange.takes]
            for path, one in self.facts.items()
        }
        self._origins = self._all_origins()
        self._staying = self.staying[:2]  # one, and another one for itself
        self._splitting = sorted(p for p, one in self.facts.items() if one.splits_conf)[:2]
        self._naming = sorted(path for path, one in self.facts.items() if one.names_wait)[:2]
        self._groups = _components(self._links())
        self._roots = self._handing_on_the_root()

    def around(self, path: Path) -> Surroundings:
        """Return what the other files mean for one."""
        group = self._groups.get(path, frozenset())
        others = sorted(one for one in group if one != path)
        staying = [one for one in others if self.facts[one].stays is not None]
        elsewhere = next((one for one in self._staying if one != path), None)
        conf = elsewhere or next((one for one in self._splitting if one != path), None)
        naming = next((one for one in self._naming if one != path), None)
        names = None if naming is None else f"strings of `{naming.as_posix()}` wait"
        if elsewhere is not None:
            names = _because(elsewhere, self.facts[elsewhere].stays)
        found = Surroundings(
            _because(staying[0], self.facts[staying[0]].stays) if staying else None,
            path in self._roots,
            None if conf is None else _conf(conf, self.facts[conf]),
            names,
            tuple(map(str, sorted(group))) if len(group) > 1 else (),
        )
        return ALONE if found == ALONE else found

    def runners(self, path: Path) -> set[Path]:
        """Return the notebooks that ``%run`` a file, directly or by way of others."""
        found: set[Path] = set()
        todo = [path]
        while todo:
            one = todo.pop()
            new = {
                other
                for other, targets in self._targets.items()
                if any(take.level < 0 and one in files for take, files in targets)
            }
            todo += new - found
            found |= new
        return found - {path}

    @property
    def staying(self) -> list[Path]:
        """Files of which something stays with Petastorm, which must stay installed for them."""
        return sorted(path for path, one in self.facts.items() if one.stays is not None)

    def gives(self, path: Path) -> Collection[str]:
        """Return the names of a file that hold objects of Petastorm's, or lead to some."""
        return self._origins[path]

    def _all_origins(self) -> dict[Path, Origins]:
        """Follow names from file to file until nothing new is reached."""
        found: dict[Path, Origins] = {path: {} for path in self.facts}
        users: dict[Path, set[Path]] = defaultdict(set)
        for path, targets in self._targets.items():
            for _, files in targets:
                for file in files:
                    users[file].add(path)
        todo = list(self.facts)
        while todo:
            path = todo.pop()
            new = self._origins_of(path, found)
            if new != found[path]:
                found[path] = new
                todo += users[path]
        return found

    def _origins_of(self, path: Path, found: Mapping[Path, Origins]) -> Origins:
        one = self.facts[path]
        bound: dict[str, set[Path]] = defaultdict(set)
        given: dict[str, set[Path]] = defaultdict(set)
        for take, files in self._targets[path]:
            for name, origins in self._taken(take, files, found):
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

    def _links(self) -> Iterable[tuple[Path, ...]]:
        """Yield files that exchange objects of Petastorm's."""
        for path, one in self.facts.items():
            origins = {
                name: reached
                for take, files in self._targets[path]
                for name, reached in self._taken(take, files, self._origins)
            }
            if one.is_ours:
                yield path, *(file for reached in origins.values() for file in reached)
            else:
                for meeting in one.exchange.meetings(origins):
                    yield tuple(file for name in meeting for file in origins[name])

    def _taken(
        self, take: Take, files: Iterable[Path], found: Mapping[Path, Origins]
    ) -> Iterable[tuple[str, frozenset[Path]]]:
        """Yield what is bound by taking a name from files, and where it comes from."""
        for file in files:
            origins = found.get(file, {})
            if not self.facts[file].exchange.is_known:
                yield take.bound, frozenset([file])
            elif take.name == "*":
                yield from origins.items()
            elif take.name in origins:
                yield take.bound, origins[take.name]
            elif origins and take.name in ("", file.stem, file.parent.name):
                yield take.bound, frozenset().union(*origins.values())

    def _handing_on_the_root(self) -> set[Path]:
        """Return the files whose name ``petastorm`` others take, with a star or ``%run``."""
        found: set[Path] = set()
        todo = [path for path, one in self.facts.items() if one.exchange.needs_root]
        seen = set(todo)
        while todo:
            for take, files in self._targets[todo.pop()]:
                new = set(files) - seen if take.name == "*" else set()
                found |= new
                seen |= new
                todo += new
        return found


def _components(links: Iterable[tuple[Path, ...]]) -> dict[Path, frozenset[Path]]:
    """Return, for each file, those that are linked with it, itself included."""
    group: dict[Path, set[Path]] = {}
    for linked in links:
        joined = set(linked).union(*(group.get(one, ()) for one in linked))
        for one in joined:
            group[one] = joined
    return {path: frozenset(joined) for path, joined in group.items()}


def _because(path: Path, stays: str | None) -> str:
    return f"`{path.as_posix()}` stays ({stays}), and shares objects with it"


def _conf(path: Path, one: Facts) -> str:
    why = "names the old key" if one.stays is None else "stays with Petastorm"
    return f"`{path.as_posix()}` {why}"
