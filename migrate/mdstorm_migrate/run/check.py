"""The check of a project: before and after ``-w``, and in CI.

Each installer must install what the files that it serves need, and what a mock replaces must be
imported where the mock reaches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, is_within
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.imports import ImportGraph
from mdstorm_migrate.run.outcome import shown
from mdstorm_migrate.run.project import Project
from mdstorm_migrate.run.uses import ROOTS

_NAMES = {OLD_ROOT: "Petastorm", NEW_ROOT: "mdstorm"}


@dataclass(frozen=True)
class Violation:
    """A file of a project that does not fit to others.

    Attributes
    ----------
    path : Path
    message : str
    holds : collection of Path
        The files that must not move to mdstorm because of it.
    part : int
        The number of the part of the file.
    """

    path: Path
    message: str
    holds: Collection[Path] = ()
    part: int = 0


def check(project: Project, graph: ImportGraph) -> Iterator[Violation]:
    """Yield what does not fit together in a project."""
    yield from _installers(project)
    yield from _mocks(project, graph)


def _installers(project: Project) -> Iterator[Violation]:
    """Yield the installers without a library that the files which they serve need.

    Code moves if one of its installers provides mdstorm. Code that installs, such as the definition
    of a job, may do so for any of the files around it, and only holds itself.
    """
    served = {part: project.served(part) for part in project.installers}
    having = [part for part in served if NEW_ROOT in project.installed(part)]
    provided = {one.path for part in having for one in project.provided(part)}
    for part, ones in served.items():
        for root in ROOTS:
            users = [one.path for one in ones if root in project.parts[one].needs]
            path = part.path
            if users and root not in project.installed(part):
                who = "this" if path in users else shown(users[0], path)
                what = f"{who} needs {_NAMES[root]}, which is not installed here"
                held = set(users) - provided if root == NEW_ROOT else set()
                yield Violation(path, what, held & {path} if is_code(path) else held, part.number)


def _mocks(project: Project, graph: ImportGraph) -> Iterator[Violation]:
    """Yield the mocks of a library that no file imports which the mock reaches."""
    facts = project.facts
    for path, one in facts.items():
        for root in one.patched:
            (other,) = set(ROOTS) - {root}
            reached = {*graph.reached_by_patch(path), *_conftests(path, facts)} & facts.keys()
            users = sorted(file for file in reached if other in facts[file].needs)
            names = (name for file in reached for name in facts[file].imports)
            if users and not any(is_within(name, root) for name in names):
                first = shown(users[0], path)
                what = f"this replaces parts of {_NAMES[root]}, but {first} imports {_NAMES[other]}"
                yield Violation(path, what, [path] if root == NEW_ROOT else users)


def _conftests(path: Path, paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files with fixtures that pytest loads for a test."""
    yield from (one for one in paths if one.stem == "conftest" and one.parent in path.parents)
