"""Migrate the files of a run together, in five steps; each is done once for each file.

1. Facts: what each file shows by itself (`run.facts`).
2. Names: how files reach Petastorm through each other (`run.names`).
3. Proposals: what the rules about code want to change (`run.migration`).
4. Decisions: which edits wait (`run.decisions`).
5. Rendering: requirements for the code as it will be (`run.project`), and comments.

The facts of changed bytes are taken once more, and `run.check` tests the result as it tests the
files of a project that nobody changes: what would not run waits also.

Facts, proposals and rendering concern one file at a time, so several processes share the files.
"""

from __future__ import annotations

import mmap
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath

from mdstorm_migrate.base.document import Source
from mdstorm_migrate.base.needs import NOTHING, Given, Needs
from mdstorm_migrate.mosaicml.names import FRONT
from mdstorm_migrate.mosaicml.names import ROOT as STREAMING
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, is_within
from mdstorm_migrate.python.shadow import is_in_project
from mdstorm_migrate.run.check import Violation, check
from mdstorm_migrate.run.decisions import decide
from mdstorm_migrate.run.discover import CODE, LARGEST, LARGEST_TEXT, is_code
from mdstorm_migrate.run.facts import Facts, facts
from mdstorm_migrate.run.imports import ImportGraph
from mdstorm_migrate.run.migration import FileMigration, Proposals, is_relevant
from mdstorm_migrate.run.names import given_to
from mdstorm_migrate.run.outcome import (
    ALONE,
    Decision,
    FileOutcome,
    Outcome,
    Problem,
    Settings,
    shown,
)
from mdstorm_migrate.run.pool import Workers
from mdstorm_migrate.run.project import Part, Project
from mdstorm_migrate.run.seen import Seen
from mdstorm_migrate.sources import find_source


@dataclass
class Examined:
    """The files of a run, examined together.

    Attributes
    ----------
    outcomes : list of FileOutcome
        The files that mention Petastorm or use it through others, in the order of the run.
    project : Project
        All files of the project, as they were decided on.
    violations : list of Violation
        What does not fit together in the project.
    """

    outcomes: list[FileOutcome] = field(default_factory=list)
    project: Project = field(default_factory=lambda: Project({}))
    violations: list[Violation] = field(default_factory=list)


def examine(
    paths: Sequence[Path],
    settings: Settings,
    jobs: int = 1,
    others: Sequence[Path] = (),
    vendored: Iterable[Path] = (),
) -> Examined:
    """Return the outcomes of files that may affect each other.

    If a file cannot be read, parsed or changed, its outcome has a problem; no error is raised.

    Parameters
    ----------
    paths : sequence of Path
    settings : Settings
    jobs : int
        Number of processes.
    others : sequence of Path
        Other files of the project, which are read but never changed.
    vendored : iterable of Path
        Code of other people in the project, which requirements must serve.
    """
    named = {path.resolve() for path in paths} if others else set()
    around = {path: False for path in others if path.resolve() not in named}
    around |= dict.fromkeys(vendored, True)
    with Workers(partial(Examiner, settings), len(paths) + len(around), jobs) as workers:
        seen = _any(workers.map(Examiner.facts, dict.fromkeys(paths)))
        graph, resolving = _linked(seen)
        given = given_to(
            seen, graph, lambda paths: workers.map(Examiner.unbound, dict.fromkeys(paths))
        )
        proposals = workers.map(Examiner.propose, given)
        every = seen | _any(workers.map(Examiner.facts_around, around))
        told: set[Part] = set()  # to install mdstorm
        refusing: set[Part] = set()  # those of them that do not
        while True:
            decisions = decide(proposals, graph, resolving)
            outcomes, project = _rendered(workers, every, decisions, told, refusing, settings)
            violations = [] if settings.library == STREAMING else list(check(project, graph))
            # A file whose result is not sound stays as it is, and holds its group.
            held = dict(_failed(outcomes, proposals)) | dict(_waiting(violations, proposals))
            now = {part for part in told if NEW_ROOT not in project.installed(part)}
            # Commands wait for what installs mdstorm for them, as code does.
            alone = {Part(one.path, one.part) for one in violations if one.holds}
            if not held and now <= refusing and alone <= told:
                break
            proposals |= held
            refusing |= now
            told |= {Part(one.path, one.part) for one in violations}
    outcomes_in_order = [
        FileOutcome(
            path,
            outcomes[path],
            group=decisions[path].group,
            features=proposals[path].features,
            before=seen[path],
            after=project.facts[path],
        )
        for path in paths
        if path in outcomes
    ]
    return Examined(outcomes_in_order, project, violations)


def _linked(seen: Mapping[Path, Facts]) -> tuple[ImportGraph, set[Path]]:
    """Return what imports what, and the code that resolves names at run time.

    Configuration names what such code imports.
    """
    graph = ImportGraph({path: one.links.imports for path, one in seen.items()})
    resolving = {path for path, one in seen.items() if one.links.resolves}
    for path, one in seen.items():
        if path.suffix not in CODE and one.links.imports:
            for resolver in resolving:
                graph.link(resolver, path)
        for test, other in seen.items() if one.fixtures else ():
            if path.parent in test.parents and not one.fixtures.isdisjoint(other.parameters):
                graph.link(test, path)
    return graph, resolving


def _rendered(
    workers: Workers[Examiner],
    every: dict[Path, Facts],
    decisions: dict[Path, Decision],
    told: Iterable[Part],
    refusing: Container[Part],
    settings: Settings,
) -> tuple[dict[Path, Outcome], Project]:
    """Return the outcomes of the files as they were decided on, and the project with them.

    What does not install mdstorm is told to, so that the code that waits for it can move.
    """
    decided = every | workers.map(Examiner.code_after, decisions)
    needs = _needs(Project(decided), decisions, settings)
    for part in told:
        if (own := needs.get(part.path)) is not None:
            needs[part.path] = own.moving(part.number, refuses=part in refusing)
    rendered = workers.map(Examiner.render, needs)
    after = {path: one for path, (_, one) in rendered.items()}
    return {path: one for path, (one, _) in rendered.items()}, Project(decided | after)


def _any(facts: Mapping[Path, Facts | None]) -> dict[Path, Facts]:
    """Return the facts about the files that have any."""
    return {path: one for path, one in facts.items() if one is not None}


def _failed(
    outcomes: Mapping[Path, Outcome], proposals: Mapping[Path, Proposals]
) -> Iterator[tuple[Path, Proposals]]:
    """Yield the code that was to be changed and cannot be, with what concerns other files now."""
    for path, one in outcomes.items():
        whole = [problem for problem in one.problems if problem.cell is None]
        if path.suffix in CODE and whole and proposals[path].stays is None:
            yield path, replace(proposals[path], stays=str(whole[0]), has_names=False)


def _waiting(
    violations: Iterable[Violation], proposals: Mapping[Path, Proposals]
) -> Iterator[tuple[Path, Proposals]]:
    """Yield the code that was to move and does not fit to other files then."""
    for one in violations:
        for path in one.holds:
            known = proposals.get(path)
            if known is not None and (known.uses or known.naming) and known.waits_for is None:
                reason = f"`{shown(one.path, path)}`: {one.message}"
                yield path, replace(known, waits_for=reason)


def migrate_alone(
    data: bytes, path: PurePath | None, source: Source, settings: Settings
) -> Outcome:
    """Return the outcome of a file that is migrated alone.

    A notebook's code determines what its install commands must install.
    """
    if not is_relevant(data, settings):
        return Outcome(data, data)
    migration = FileMigration(data, path, source, settings)
    migration.propose(NOTHING)
    needs = Needs(settings.wanted, settings.index)
    name = Path(path or "")
    if path is not None and is_code(name):
        found = migration.code_after(ALONE)
        if found.installs:
            needs = Project({name: found}).needs(name, needs).with_user()
    return migration.outcome(needs)


def _needs(project: Project, paths: Iterable[Path], settings: Settings) -> dict[Path, Needs]:
    """Return the needs of the files that mention the library."""
    plain = Needs(settings.wanted, settings.index)
    if settings.library == STREAMING:
        return _streaming_needs(project, paths, plain)
    if not settings.selects("PM101"):  # the code was or will be moved in another run
        return dict.fromkeys(paths, plain)
    return {path: project.needs(path, plain) for path in paths}


def _streaming_needs(project: Project, paths: Iterable[Path], plain: Needs) -> dict[Path, Needs]:
    """Return the needs for requirements of MosaicML Streaming, which code may still import."""
    for path in paths:
        imports = project.facts[path].imports if is_code(path) else ()
        is_user = any(is_within(one, STREAMING) for one in imports)
        if is_user and not is_in_project(path, STREAMING):
            names = (name for one in paths for name in project.facts[one].imports)
            is_moved = any(is_within(name, root) for name in names for root in (NEW_ROOT, FRONT))
            plain = replace(plain, moved=is_moved)
            return {of: replace(plain, importers=(shown(path, of),)) for of in paths}
    return dict.fromkeys(paths, plain)


class Examiner:
    """The files of one process: each is read and parsed once, and kept for the next step."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._files: dict[Path, FileMigration] = {}

    def facts(self, path: Path, _: object = None) -> Facts | None:
        """Return the facts about a file, or None if it has none."""
        try:
            data = _content(path)
        except OSError as error:
            if path.is_symlink() and not path.exists():
                return None  # a broken link
            return self._failed(path, error.strerror or str(error))
        if data is None:
            large = f"larger than {LARGEST >> 20} MiB"
            return self._failed(path, large) if _is_mentioned_in(path) else None
        if is_relevant(data, self._settings) and (source := find_source(path, data)) is not None:
            self._files[path] = FileMigration(data, path, source, self._settings)
            return self._files[path].facts
        return _facts(path, data)

    def _failed(self, path: Path, reason: str) -> Facts:
        self._files[path] = FileMigration(b"", path, None, self._settings, Problem(reason))
        return self._files[path].facts

    def facts_around(self, path: Path, is_vendored: bool) -> Facts | None:
        """Return the facts about a file that is not migrated; nobody edits vendored code."""
        try:
            found = _facts(path, _content(path) or b"")
        except OSError:
            return None
        return replace(found, seen=Seen()) if found is not None and is_vendored else found

    def unbound(self, path: Path, _: object = None) -> frozenset[str]:
        """Return the names that a file does not bind, and that Petastorm's modules leak."""
        return self._file(path).unbound()

    def propose(self, path: Path, given: Given) -> Proposals:
        """Run the rules about code."""
        return self._file(path).propose(given)

    def _file(self, path: Path) -> FileMigration:
        if path not in self._files:  # it does not mention Petastorm
            data = path.read_bytes()
            source = find_source(path, data)
            self._files[path] = FileMigration(data, path, source, self._settings)
        return self._files[path]

    def code_after(self, path: Path, decision: Decision) -> Facts:
        """Return the facts about the file once its code is decided on."""
        return self._files[path].code_after(decision)

    def render(self, path: Path, needs: Needs) -> tuple[Outcome, Facts]:
        """Return the outcome for the file, and the facts about it."""
        outcome = self._files[path].outcome(needs)
        return outcome, self._files[path].facts_after


#: The facts about most files, as one object.
_NO_FACTS = Facts()


def _content(path: Path) -> bytes | None:
    """Return the bytes of a file; None if it is too large, nothing if it is large and unknown."""
    size = path.stat().st_size
    if size > LARGEST_TEXT and find_source(path) is None:
        return b""
    return path.read_bytes() if size <= LARGEST else None


def _facts(path: Path, data: bytes) -> Facts | None:
    """Return the facts about a file that is not migrated, or None if it has none."""
    found = facts(path, data)
    if found != _NO_FACTS:
        return found
    return _NO_FACTS if is_code(path) else None


def _is_mentioned_in(path: Path) -> bool:
    """Search a large file for Petastorm's name without reading the file into memory."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        return mapped.find(OLD_ROOT.encode()) >= 0
