"""What the files of a run mean for each other: who imports whom, and what must move together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mdstorm_migrate.base.surroundings import ALONE, Surroundings
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.run.closure import closure
from mdstorm_migrate.run.file_facts import FileFacts
from mdstorm_migrate.run.imports import Resolver
from mdstorm_migrate.run.origins import Origins


@dataclass(frozen=True)
class _Group:
    """Files that move together: their names, and one or two that do not move without review."""

    names: tuple[str, ...]
    holding: tuple[Path, ...]


@dataclass
class RunIndex:
    """An index of the files of a run.

    Attributes
    ----------
    facts : mapping of Path to FileFacts
        By path; files that neither use Petastorm nor hand on what others use are left out.
    reaching : mapping of Path to collection of Path
        Files whose strings name modules, and what these reach.
    resolving : collection of Path
        Files that resolve names which stand elsewhere.
    """

    facts: Mapping[Path, FileFacts]
    reaching: Mapping[Path, Collection[Path]] = field(default_factory=dict)
    resolving: Collection[Path] = frozenset()
    _origins: Origins = field(init=False)
    _held: list[Path] = field(init=False)
    _groups: dict[Path, _Group] = field(init=False)
    _roots: set[Path] = field(init=False)
    _staying: list[Path] = field(init=False)
    _splitting: list[Path] = field(init=False)

    def __post_init__(self) -> None:
        self._origins = Origins(Resolver(self.facts))
        self._origins.add(self.facts)
        self._held = sorted(path for path, one in self.facts.items() if one.holds is not None)
        self._running: defaultdict[Path, set[Path]] = defaultdict(set)
        for path, targets in self._origins.targets.items():
            for file in (file for take, files in targets if take.level < 0 for file in files):
                self._running[file].add(path)
        self._groups = self._grouped()
        # one, and another one for itself
        self._staying = [path for path in self._held if self._is_felt(path)][:2]
        self._splitting = sorted(p for p, one in self.facts.items() if one.splits_conf)[:2]
        self._roots = self._handing_on_the_root()

    def around(self, path: Path) -> Surroundings:
        """Return what the other files mean for one."""
        group = self._groups.get(path)
        waits_for = next((one for one in group.holding if one != path), None) if group else None
        elsewhere = next((one for one in self._staying if one != path), None)
        conf = elsewhere or next((one for one in self._splitting if one != path), None)
        reached = self.reaching.get(path, ())
        stays = None if elsewhere is None else _because(elsewhere, self.facts[elsewhere])
        found = Surroundings(
            waits_for=None if waits_for is None else _because(waits_for, self.facts[waits_for]),
            hands_on_root=path in self._roots,
            conf=None if conf is None else _conf(conf, self.facts[conf]),
            stays=stays,
            group=group.names if group else (),
            names=self._elsewhere(path, reached),
            is_resolved=self.facts[path].naming == "configures" and bool(reached),
        )
        return ALONE if found == ALONE else found

    def _elsewhere(self, path: Path, reached: Collection[Path]) -> str | None:
        """Return why strings wait of which it is not known what they reach."""
        is_shown = len(reached) > 1 and not any(one in self.resolving for one in reached)
        if self.facts[path].naming != "patches" or is_shown:
            return None
        found = next((one for one in self._held if one != path), None)
        return None if found is None else _because(found, self.facts[found])

    def _is_felt(self, path: Path) -> bool:
        """Whether other files may notice that a file does not move."""
        one = self.facts[path]
        is_run = one.stays is not None and one.naming != "configures"
        return is_run or path in self._groups

    def _grouped(self) -> dict[Path, _Group]:
        """Return, for each file that moves together with others, all of these."""
        found: dict[Path, _Group] = {}
        for path, files in _components(self._links()).items():
            if path not in found and len(files) > 1:
                ordered = sorted(files)
                holding = [one for one in ordered if self.facts[one].holds is not None]
                group = _Group(tuple(map(str, ordered)), tuple(holding[:2]))
                found |= dict.fromkeys(files, group)
        return found

    def runners(self, path: Path) -> set[Path]:
        """Return the notebooks that ``%run`` a file, directly or by way of others."""
        return closure([path], self._running) - {path}

    def _links(self) -> Iterable[tuple[Path, ...]]:
        """Yield files that exchange objects of Petastorm's, or name the modules of each other."""
        for path, reached in self.reaching.items():
            found = ((one, self.facts[one]) for one in reached if one in self.facts)
            yield path, *(one for one, said in found if said.uses or not said.exchange.is_known)
        for path, one in self.facts.items():
            origins = {name: reached for _, name, reached in self._origins.taken(path)}
            if one.is_ours:
                yield path, *(file for reached in origins.values() for file in reached)
            else:
                for meeting in one.exchange.meetings(origins):
                    yield tuple(file for name in meeting for file in origins[name])

    def _handing_on_the_root(self) -> set[Path]:
        """Return the files whose name ``petastorm`` others take, by name, a star or ``%run``."""
        found: set[Path] = set()
        for path, one in self.facts.items():
            for take, files in self._origins.targets[path]:
                if take.name == OLD_ROOT or take.bound in one.exchange.owners:
                    found.update(files)
        owners = {owner for one in self.facts.values() for owner in one.exchange.owners}
        found |= {path for path in self.facts if path.stem in owners}
        todo = [path for path, one in self.facts.items() if one.exchange.needs_root]
        seen = set(todo)
        while todo:
            for take, files in self._origins.targets[todo.pop()]:
                new = set(files) - seen if take.name == "*" else set()
                found |= new
                seen |= new
                todo += new
        return found


def _components(links: Iterable[tuple[Path, ...]]) -> dict[Path, set[Path]]:
    """Return, for each file, those that are linked with it, itself included."""
    group: dict[Path, set[Path]] = {}
    for linked in links:
        joined = max((group.get(one, {one}) for one in linked), key=len)
        for one in linked:
            if (small := group.get(one, {one})) is not joined:
                joined |= small
                group |= dict.fromkeys(small, joined)
        group |= dict.fromkeys(linked, joined)
    return group


def _because(path: Path, one: FileFacts) -> str:
    if one.stays is None:
        return f"strings of `{path.as_posix()}` that name modules wait, and mean what this one uses"
    return f"`{path.as_posix()}` stays ({one.stays}), and shares objects with it"


def _conf(path: Path, one: FileFacts) -> str:
    why = "names the old key" if one.holds is None else "stays with Petastorm"
    return f"`{path.as_posix()}` {why}"
