"""Migrate the files of a run together, in five steps; each is done once for each file.

1. Facts: what each file shows by itself (`run.facts`).
2. Names: how files reach Petastorm through each other (`run.names`).
3. Proposals: what the rules about code want to change (`run.migration`).
4. Decisions: which edits wait (`run.decisions`).
5. Rendering: requirements for the code as it will be, comments, and a check of the result.

Facts, proposals and rendering concern one file at a time, so several processes share the files.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath

from mdstorm_migrate.base.document import Source, is_setup_script
from mdstorm_migrate.base.needs import Given, Needs
from mdstorm_migrate.mosaicml.names import ROOT as STREAMING
from mdstorm_migrate.packaging.commands import TARGETS
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.flows import Flows
from mdstorm_migrate.python.shadow import is_in_project
from mdstorm_migrate.run.code_use import configured_use, imports_library, use_of
from mdstorm_migrate.run.decisions import decide
from mdstorm_migrate.run.discover import CODE, LARGEST, LARGEST_TEXT, is_code
from mdstorm_migrate.run.facts import Facts, facts_of, text_facts
from mdstorm_migrate.run.imports import ImportGraph
from mdstorm_migrate.run.migration import FileMigration, Proposals, is_relevant
from mdstorm_migrate.run.names import given_alone, given_to
from mdstorm_migrate.run.needs import Asking, needs_of
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
from mdstorm_migrate.sources import ListedFiles, find_source


@dataclass
class Examined:
    """The files of a run, examined together.

    Attributes
    ----------
    outcomes : list of FileOutcome
        The files that mention Petastorm or use it through others, in the order of the run.
    others : dict of Path to Facts
        The other code of the project.
    paths : sequence of Path
        All files of the project.
    lists : ListedFiles
        Files of the project that may list requirements.
    """

    outcomes: list[FileOutcome] = field(default_factory=list)
    others: dict[Path, Facts] = field(default_factory=dict)
    paths: Sequence[Path] = ()
    lists: ListedFiles = field(default_factory=ListedFiles)


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
    others = [path for path in others if path.resolve() not in named]
    around = dict.fromkeys(path for path in (*others, *vendored) if is_code(path))
    with Workers(partial(Examiner, settings), len(paths) + len(around), jobs) as workers:
        facts = workers.map(Examiner.facts, dict.fromkeys(paths))
        seen = {path: one for path, one in facts.items() if one is not None}
        graph = ImportGraph({path: one.links.imports for path, one in seen.items()})
        resolving = {path for path, one in seen.items() if one.links.resolves}
        for path, one in seen.items():
            if path.suffix not in CODE and one.links.imports:
                for resolver in resolving:
                    graph.link(resolver, path)
        given = given_to(
            seen, graph, lambda paths: workers.map(Examiner.flows, dict.fromkeys(paths))
        )
        proposals = workers.map(Examiner.propose, given)
        outside = workers.map(Examiner.text_facts, around)
        unused = {path: one for path, one in seen.items() if path not in proposals}
        found = Examined(others=unused | outside, paths=[*paths, *others])
        while True:
            decisions = decide(proposals, graph, resolving)
            code = workers.map(Examiner.code_after, decisions)
            rendered = workers.map(Examiner.render, _needs(code, found, settings))
            # A file whose result is not sound stays as it is, and holds its group.
            failed = dict(_failed(rendered, proposals))
            if not failed:
                break
            proposals |= failed
    found.outcomes = [
        FileOutcome(
            path,
            rendered[path],
            group=decisions[path].group,
            features=proposals[path].features,
            use=code[path].use,
        )
        for path in paths
        if path in rendered
    ]
    return found


def _failed(
    rendered: Mapping[Path, Outcome], proposals: Mapping[Path, Proposals]
) -> Iterator[tuple[Path, Proposals]]:
    """Yield the code that was to be changed and cannot be, with what concerns other files now."""
    for path, one in rendered.items():
        whole = [problem for problem in one.problems if problem.cell is None]
        if path.suffix in CODE and whole and proposals[path].stays is None:
            yield path, replace(proposals[path], stays=str(whole[0]), has_names=False)


def migrate_alone(
    data: bytes, path: PurePath | None, source: Source, settings: Settings
) -> Outcome:
    """Return the outcome of a file that is migrated alone.

    A notebook's code determines what its install commands must install.
    """
    if not is_relevant(data, settings):
        return Outcome(data, data)
    migration = FileMigration(data, path, source, settings)
    migration.propose(given_alone(migration.flows()))
    needs = Needs(settings.wanted, settings.index)
    name = Path(path or "")
    if path is not None and is_code(name):
        asking = _asking(name, migration, ALONE)
        if asking.requires:
            found = needs_of({name: asking}, {}, [name], ListedFiles(), settings)
            needs = replace(found[name], is_unused=False)
    return migration.outcome(needs)


def _asking(path: Path, migration: FileMigration, decision: Decision) -> Asking:
    """Return what a file shows once its code is decided on."""
    after, use = migration.code_after(decision), None
    if is_code(path) or (migration.modules and not is_setup_script(path)):
        use = use_of(path, after, migration.modules if migration.problem is None else None)
        if migration.names_need_review:
            use = replace(use, keeps=(str(path),))
    else:
        use = configured_use(path, after)
    return Asking(migration.data, after, use, migration.requires)


def _needs(asking: Mapping[Path, Asking], found: Examined, settings: Settings) -> dict[Path, Needs]:
    """Return the needs of the files that mention the library."""
    if settings.library == "streaming":
        return _streaming_needs(asking, settings)
    uses = {path: one.use for path, one in found.others.items() if one.use is not None}
    return needs_of(asking, uses, found.paths, found.lists, settings)


def _streaming_needs(asking: Mapping[Path, Asking], settings: Settings) -> dict[Path, Needs]:
    """Return the needs for requirements of MosaicML Streaming, which code may still import."""
    plain = Needs(settings.wanted, settings.index)
    for path, one in asking.items():
        is_user = is_code(path) and not is_in_project(path, STREAMING)
        if is_user and imports_library(path, one.after, STREAMING):
            plain = replace(plain, moved=any(one.before != one.after for one in asking.values()))
            return {of: replace(plain, importers=(shown(path, of),)) for of in asking}
    return dict.fromkeys(asking, plain)


class Examiner:
    """The files of one process: each is read and parsed once, and kept for the next step."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._files: dict[Path, FileMigration] = {}

    def facts(self, path: Path, _: object = None) -> Facts | None:
        """Return the facts about a file, or None if it has none."""
        try:
            size = path.stat().st_size
            if size > LARGEST_TEXT and find_source(path) is None:
                return None
            if size > LARGEST:
                large = f"larger than {LARGEST >> 20} MiB"
                return self._failed(path, large) if _is_mentioned_in(path) else None
            data = path.read_bytes()
        except OSError as error:
            if path.is_symlink() and not path.exists():
                return None  # a broken link
            return self._failed(path, error.strerror or str(error))
        if is_relevant(data, self._settings) and (source := find_source(path, data)) is not None:
            self._files[path] = FileMigration(data, path, source, self._settings)
            return facts_of(path, self._files[path])
        is_configuring = any(key.encode() in data for key in (NEW_ROOT, *TARGETS))
        return text_facts(path, data) if path.suffix in CODE or is_configuring else None

    def _failed(self, path: Path, reason: str) -> Facts:
        self._files[path] = FileMigration(b"", path, None, self._settings, Problem(reason))
        return facts_of(path, self._files[path])

    def text_facts(self, path: Path, _: object = None) -> Facts:
        """Return the facts about code that is not migrated."""
        try:
            data = path.read_bytes()
        except OSError:
            data = b""
        return text_facts(path, data)

    def flows(self, path: Path, _: object = None) -> Flows:
        """Return how values flow through a file that Petastorm's reach."""
        if path not in self._files:  # it does not mention Petastorm
            data = path.read_bytes()
            source = find_source(path, data)
            self._files[path] = FileMigration(data, path, source, self._settings)
        return self._files[path].flows()

    def propose(self, path: Path, given: Given) -> Proposals:
        """Run the rules about code."""
        return self._files[path].propose(given)

    def code_after(self, path: Path, decision: Decision) -> Asking:
        """Return what the file shows once its code is decided on."""
        return _asking(path, self._files[path], decision)

    def render(self, path: Path, needs: Needs) -> Outcome:
        """Return the outcome for the file."""
        return self._files[path].outcome(needs)


def _is_mentioned_in(path: Path) -> bool:
    """Search a large file for Petastorm's name without reading the file into memory."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        return mapped.find(OLD_ROOT.encode()) >= 0
