"""Migrate the files of a run, seen together; those that must move together are written so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.base.surroundings import ALONE, Surroundings
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.run.discover import CODE, Skipped
from mdstorm_migrate.run.facts import Facts, facts_of
from mdstorm_migrate.run.files import FileOutcome, examine_file
from mdstorm_migrate.run.index import RunIndex
from mdstorm_migrate.run.indexing import index_of
from mdstorm_migrate.run.installs import is_install
from mdstorm_migrate.run.lists import OF_ITSELF, requires_now, waiting_code
from mdstorm_migrate.run.outcome import Problem
from mdstorm_migrate.run.pool import each
from mdstorm_migrate.run.requirements import needs_of
from mdstorm_migrate.run.settings import Settings
from mdstorm_migrate.run.write import WriteError, check_writable, write_file


def run(
    found: Iterable[Path | Skipped],
    settings: Settings,
    *,
    write: bool = False,
    backup: str | None = None,
    jobs: int = 1,
    others: Sequence[Path] = (),
) -> Iterator[FileOutcome]:
    """Yield the files that have edits, findings or problems, in the order of `found`.

    A file that cannot be read, parsed or written is a problem of its outcome, never an error.

    Parameters
    ----------
    found : iterable of Path or Skipped
        Files; those that were skipped are passed over.
    settings : Settings
    write : bool
        Whether files are written.
    backup : str, optional
        What the name of a copy of the old file ends in.
    jobs : int
        How many processes work.
    others : sequence of Path
        Other files of the project, which are read and stay as they are.
    """
    paths = [one for one in found if isinstance(one, Path)]
    outcomes = [one for one in examine(paths, settings, jobs, others) if one.has_something_to_say]
    yield from _written(outcomes, backup) if write else outcomes


def examine(
    paths: Sequence[Path], settings: Settings, jobs: int = 1, others: Sequence[Path] = ()
) -> list[FileOutcome]:
    """Return what would become of the files that mention Petastorm, seen together.

    Each file is examined as if it were alone; those for which others matter, and those that require
    or install something, once more.
    """
    outcomes = list(each(partial(examine_file, settings=settings), paths, jobs))
    index = index_of(outcomes, paths, jobs)
    around = {one.path: index.around(one.path) for one in outcomes}
    found = {}
    for one in outcomes:
        said = around[one.path]
        again = examine_file(one.path, settings, said) if _matters(said, one) else None
        found[one.path] = replace(again or one, group=said.group)
    for path, imports in _imports_of_runners(index, found).items():
        said = around[path] = replace(around[path], imports=imports)
        if again := examine_file(path, settings, said):
            found[path] = replace(again, group=said.group)
    needed = _needs(paths, found.values(), settings, jobs, others)
    for path, needs in needed.items():
        said = around.get(path, ALONE)
        if again := examine_file(path, settings, said, needs):
            found[path] = replace(again, group=said.group)
    moving = dict(found)
    for path, reason in waiting_code(found, [*paths, *others], needed).items():
        said = around[path] = replace(around.get(path, ALONE), waits_with=reason)
        if again := examine_file(path, settings, said, needed.get(path)):
            found[path] = replace(again, group=said.group)
    staying = {path: found[path] for path in found if _stays(path, around)}
    if staying and any(map(requires_now, found.values())):
        still = _needs(paths, {**moving, **staying}.values(), settings, jobs, others)
        for path, needs in _serving_both(found, needed, still).items():
            said = around.get(path, ALONE)
            if again := examine_file(path, settings, said, needs):
                found[path] = replace(again, group=said.group)
    return [found[path] for path in paths if path in found]


def _stays(path: Path, around: Mapping[Path, Surroundings]) -> bool:
    """Whether a file of code waits for a Python that it names itself, or for one that does."""
    said = around.get(path, ALONE)
    named = (around.get(other, ALONE).waits_with for other in (path, *map(Path, said.group)))
    return path.suffix in CODE and said.waits_with is not None and OF_ITSELF in named


def _serving_both(
    found: Mapping[Path, FileOutcome], needed: Mapping[Path, Needs], still: Mapping[Path, Needs]
) -> dict[Path, Needs]:
    """Return what is needed of the lists that would move, where code of theirs stays after all."""
    return {
        path: replace(needed[path], importers=still[path].importers, moved=still[path].moved)
        for path, one in found.items()
        if path in needed and path in still and still[path].importers and requires_now(one)
    }


def _imports_of_runners(
    index: RunIndex, found: Mapping[Path, FileOutcome]
) -> dict[Path, frozenset[str]]:
    """Return what notebooks import that run one that installs something, if one keeps Petastorm."""
    imports: dict[Path, frozenset[str]] = {}
    for path, one in found.items():
        if path.suffix in CODE and any(map(is_install, one.outcome.edits)):
            facts = Facts()
            for runner in index.runners(path):
                if runner in found:
                    facts |= facts_of(found[runner].outcome.after, runner)
            if facts.keeps:
                imports[path] = facts.imports & {OLD_ROOT, NEW_ROOT}
    return imports


def _needs(
    paths: Sequence[Path],
    outcomes: Iterable[FileOutcome],
    settings: Settings,
    jobs: int,
    others: Sequence[Path],
) -> dict[Path, Needs]:
    """Return what is needed of the files of the run that require something."""
    outcomes = list(outcomes)
    seen = [
        (one.path, one.outcome.before, one.outcome.after or one.outcome.before) for one in outcomes
    ]
    naming = {one.path for one in outcomes if _names_petastorm(one)}
    pages = {one.path for one in outcomes if _is_collected(one)}
    if not others:
        return needs_of(paths, seen, settings, jobs, naming, pages)
    named = {path.resolve(): path for path in paths}
    around = [path for path in others if path not in named]
    seen = [(path.resolve(), before, after) for path, before, after in seen]
    naming, pages = ({path.resolve() for path in files} for files in (naming, pages))
    needs = needs_of([*named, *around], seen, settings, jobs, naming, pages)
    return {
        named[path]: replace(one, runs=frozenset(named.get(code, code) for code in one.runs))
        for path, one in needs.items()
        if path in named
    }


def _names_petastorm(one: FileOutcome) -> bool:
    """Whether strings of a file go on naming modules of Petastorm, which must stay installed."""
    is_read = one.outcome.naming in ("configures", "imports", "patches")
    return is_read and (one.outcome.names_wait or one.outcome.stays is not None)


def _is_collected(one: FileOutcome) -> bool:
    """Whether a file is a page that tools make of Petastorm's docstrings, which they import."""
    return any(found.topic == "docstrings" for found in one.outcome.findings)


def _matters(around: Surroundings, one: FileOutcome) -> bool:
    """Whether a file is migrated otherwise among others than alone."""
    rules = {edit.rule for edit in one.outcome.edits}
    if around.waits_for is not None or around.hands_on_root or around.is_resolved:
        return True
    return ("PM103" in rules and (around.stays or around.names) is not None) or (
        "PM105" in rules and around.conf is not None
    )


def _written(outcomes: Sequence[FileOutcome], backup: str | None) -> Iterator[FileOutcome]:
    """Write files, and yield them as they are now: of a group all, or none if one cannot be."""
    refused = dict(_refused(outcomes))
    for one in outcomes:
        reason = refused.get(str(one.path))
        other = next((path for path in one.group if path in refused), None)
        if not one.changed:
            yield one
        elif reason is not None:
            yield _unwritten(one, reason)
        elif other is not None:
            yield _unwritten(one, f"{other}, which must move together with it, cannot be")
        else:
            yield _write(one, backup)


def _refused(outcomes: Iterable[FileOutcome]) -> Iterator[tuple[str, str]]:
    """Yield files that cannot be written, and why."""
    for one in outcomes:
        if one.changed:
            try:
                check_writable(one.path, one.outcome.before)
            except WriteError as error:
                yield str(one.path), str(error)


def _write(one: FileOutcome, backup: str | None) -> FileOutcome:
    try:
        write_file(one.path, one.outcome.before, one.outcome.after, backup)
    except WriteError as error:
        return _unwritten(one, str(error))
    return replace(one, written=True)


def _unwritten(one: FileOutcome, reason: str) -> FileOutcome:
    problem = Problem(f"not written: {reason}")
    outcome = replace(one.outcome, after=one.outcome.before, problems=[problem])
    return replace(one, outcome=outcome)
