"""The relations between the files in a run: which must move together, and which must wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.base.needs import ALONE, Surroundings
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.exchange import Exchange, exchange_of
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.graph import FileFacts, ImportGraph, Origins, read_imports
from mdstorm_migrate.run.outcome import FileOutcome
from mdstorm_migrate.run.pool import map_files
from mdstorm_migrate.sources import find_source


@dataclass
class RunIndex:
    """The relations between the files in a run.

    Attributes
    ----------
    origins : Origins
        The origins of names in all files that use Petastorm or pass its objects on.
    affected_by : mapping of Path to collection of Path
        Files whose strings name modules, and the files that these strings affect.
    resolving : collection of Path
        Files that resolve names that are given elsewhere.
    """

    origins: Origins
    affected_by: Mapping[Path, Collection[Path]] = field(default_factory=dict)
    resolving: Collection[Path] = frozenset()
    facts: Mapping[Path, FileFacts] = field(init=False)

    def __post_init__(self) -> None:
        self.facts = self.origins.facts
        self._held = sorted(path for path, one in self.facts.items() if one.holds is not None)
        self._groups = {
            path: sorted(files)
            for path, files in _components(self._links()).items()
            if len(files) > 1
        }
        self._staying = [path for path in self._held if self._affects_others(path)]
        self._roots = self._sharing_root()

    def around(self, path: Path) -> Surroundings:
        """Return the effects of other files on a file."""
        group = self._groups.get(path, [])
        held = self._other(path, (one for one in group if self.facts[one].holds is not None))
        staying = self._other(path, self._staying)
        naming, reached = self.facts[path].naming, self.affected_by.get(path, ())
        is_shown = len(reached) > 1 and not any(one in self.resolving for one in reached)
        anything = self._other(path, self._held) if naming == "patches" and not is_shown else None
        found = Surroundings(
            waits_for=None if held is None else self._reason(held, path),
            shares_root=path in self._roots,
            stays=None if staying is None else self._reason(staying, path),
            group=tuple(map(str, group)),
            names=None if anything is None else self._reason(anything, path),
        )
        return ALONE if found == ALONE else found

    @staticmethod
    def _other(path: Path, files: Iterable[Path]) -> Path | None:
        return next((one for one in files if one != path), None)

    def _reason(self, held: Path, path: Path) -> str:
        """Return the reason why a file that does not move affects another one."""
        name, facts = held.as_posix(), self.facts[held]
        is_shared = held in self._groups.get(path, ())
        if (stays := facts.stays) is not None:
            shared = " and shares objects with this file" if is_shared else ""
            return f"`{name}` still uses Petastorm ({stays}){shared}"
        if self.facts[path].may_notice(facts.named):
            return f"strings in `{name}` refer to modules that this file uses"
        if is_shared:
            return f"strings in `{name}` affect a file that shares objects with this one"
        return f"strings in `{name}` refer to modules of files that still use Petastorm"

    def _affects_others(self, path: Path) -> bool:
        """Whether other files are affected if a file does not move."""
        one = self.facts[path]
        return path in self._groups or one.stays is not None

    def _links(self) -> Iterable[tuple[Path, ...]]:
        """Yield files that exchange Petastorm objects, or refer to each other's modules."""
        for path, reached in self.affected_by.items():
            known, named = self.facts.keys() & set(reached), self.facts[path].named
            yield path, *(one for one in known if self.facts[one].may_notice(named))
        for path, one in self.facts.items():
            origins = dict(self.origins.imported_origins(path))
            if one.exchange.paths or not one.exchange.is_known:
                yield path, *(file for reached in origins.values() for file in reached)
            else:
                for names in one.exchange.combinations(origins):
                    yield tuple(file for name in names for file in origins[name])

    def _sharing_root(self) -> set[Path]:
        """Return the files from which others import ``petastorm``, by name, star or ``%run``."""
        owners = {owner for one in self.facts.values() for owner in one.exchange.owners}
        found = {path for path in self.facts if path.stem in owners}
        todo = [path for path, one in self.facts.items() if one.exchange.needs_root]
        seen = set(todo)
        for path, one in self.facts.items():
            for item, files in self.origins.graph.targets.get(path, ()):
                if item.name == OLD_ROOT or item.bound in one.exchange.owners:
                    found.update(files)
        while todo:
            for item, files in self.origins.graph.targets.get(todo.pop(), ()):
                new = set(files) - seen if item.name == "*" else set()
                found |= new
                seen |= new
                todo += new
        return found


def _components(links: Iterable[tuple[Path, ...]]) -> dict[Path, set[Path]]:
    """Return, for each file, the set of files linked with it, including itself."""
    group: dict[Path, set[Path]] = {}
    for linked in links:
        joined = max((group.get(one, {one}) for one in linked), key=len)
        for one in linked:
            if (small := group.get(one, {one})) is not joined:
                joined |= small
                group |= dict.fromkeys(small, joined)
        group |= dict.fromkeys(linked, joined)
    return group


def index_of(outcomes: Sequence[FileOutcome], paths: Sequence[Path], jobs: int = 1) -> RunIndex:
    """Return the index of a run.

    Parameters
    ----------
    outcomes : sequence of FileOutcome
        The outcomes of the files that mention Petastorm, each examined alone.
    paths : sequence of Path
        All files of the run. The others are read only if Petastorm objects might pass through
        them to a file that stays.
    jobs : int
        Number of processes.
    """
    facts = {one.path: _facts(one) for one in outcomes}
    left = [path for path in paths if path.suffix in CODE and path not in facts]
    naming = [path for path, one in facts.items() if one.naming]
    is_waiting = len(facts) > 1 and any(
        one.holds is not None or one.exchange.needs_root for one in facts.values()
    )
    read = list(map_files(read_imports, left, jobs)) if naming or is_waiting else []
    imports = {one.path: one.imports for one in read}
    graph = ImportGraph(imports | {path: one.exchange.imports for path, one in facts.items()})
    resolving = {one.path for one in read if one.resolves}
    resolving |= {path for path, one in facts.items() if one.exchange.resolves}
    affected_by = {}
    for path in naming:
        if facts[path].naming == "patches":
            affected_by[path] = graph.reached_by_patch(path)
        else:  # the file creates objects by names in strings: what it offers is unknown
            affected_by[path] = graph.imported([path])
            unknown = replace(facts[path].exchange, is_known=False)
            facts[path] = replace(facts[path], exchange=unknown)
    origins = Origins(graph)
    _add_importers(origins, facts, is_waiting or bool(affected_by), jobs)
    return RunIndex(origins, affected_by, resolving)


def _facts(one: FileOutcome) -> FileFacts:
    outcome = one.outcome
    if outcome.problems and outcome.exchange is None and one.path.suffix in CODE:
        unknown = Exchange(is_known=False)
        return FileFacts(unknown, stays=str(outcome.problems[0]))
    exchange = outcome.exchange or Exchange()
    return FileFacts(
        exchange,
        True,
        outcome.stays,
        outcome.names_need_review,
        outcome.naming,
        outcome.named,
    )


def _add_importers(
    origins: Origins, facts: Mapping[Path, FileFacts], is_waiting: bool, jobs: int
) -> None:
    """Add facts about files to `origins`, and about files that import from them, even indirectly.

    Each file is parsed at most once, when a file that it imports offers Petastorm objects.
    """
    new: Mapping[Path, FileFacts] = facts
    while new:
        importing: set[Path] = set()
        for path in origins.add(new):
            if is_waiting and (origins.offered[path] or not origins.facts[path].exchange.is_known):
                importing |= origins.graph.importers.get(path, set()) - origins.facts.keys()
        new = {
            path: FileFacts(exchange, mentions_petastorm=False)
            for path, exchange in map_files(_exchange_of, sorted(importing), jobs)
        }


def _exchange_of(path: Path) -> tuple[Path, Exchange] | None:
    """Return the `Exchange` of a file without mentions of Petastorm, or None if no source fits."""
    try:
        data = path.read_bytes()
        source = find_source(path, data)
        if source is None:
            return None
        documents = source.read(data, path).documents
        code = next(one for one in documents if one.kind == "python")
        module = PythonModule(code, parse_python(code.code))
        return path, exchange_of(module)
    except (OSError, SourceError, StopIteration, RecursionError):
        return path, Exchange(is_known=False)
