"""The relations between the files of a project: what is installed where, and what needs it.

Two functions decide them, for rendering, ``-w`` and ``--check`` alike: `Project.served`, which
files run where an installer's packages are, and `Project.needs`, what these files need.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath

from mdstorm_migrate.base.document import is_setup_script
from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.petastorm.names import is_within
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.facts import COMMANDS, LISTS, ROOTS, Facts
from mdstorm_migrate.run.imports import ImportGraph, closure
from mdstorm_migrate.run.outcome import shown
from mdstorm_migrate.sources.plain import kind_of

#: Modules that Petastorm or one of its extras installed, and their distributions.
_INSTALLED = {
    "cv2": "opencv-python",
    "dill": "dill",
    "diskcache": "diskcache",
    "future": "future",
    "packaging": "packaging",
    "pandas": "pandas",
    "past": "future",
    "psutil": "psutil",
    "six": "six",
    "torchvision": "torchvision",
    "zmq": "pyzmq",
}
#: The distribution that each of these extras installs.
_LIBRARIES = {
    "images": "pillow",
    "spark": "pyspark",
    "tf": "tensorflow",
    "torch": "torch",
}


#: What an image copies if it copies all code.
_ALL = frozenset({".", "./"})
#: Folders of what deploys the code in the parent folder.
_DEPLOYING = frozenset({"ci", "deploy", "deployment", "docker", "infra"})


class Project:
    """The files of a project, by their facts.

    Parameters
    ----------
    facts : mapping of Path to Facts
        The facts about each file that has any.

    Attributes
    ----------
    facts : mapping of Path to Facts
    installers : list of Path
        The files that require or install one of the two libraries.
    """

    def __init__(self, facts: Mapping[Path, Facts]) -> None:
        self.facts = facts
        self._users = [path for path, one in facts.items() if one.needs or is_code(path)]
        self._users_in: defaultdict[Path, list[Path]] = defaultdict(list)
        for path in self._users:
            self._users_in[path.parent].append(path)
        lists = {path: one for path, one in facts.items() if one.installs and not is_code(path)}
        self._listed_under: defaultdict[Path, set[str]] = defaultdict(set)
        for path, one in lists.items():
            for above in path.parents:
                self._listed_under[above] |= one.installs
        self._below = self._under(set())
        self.installers = [p for p in facts if self.installed(p) and not self._is_record(p)]
        self._own = self._under({path.parent for path in lists if self.installed(path)})

    def installed(self, path: Path) -> frozenset[str]:
        """Return the libraries that a file requires or installs."""
        return self.facts[path].installs.intersection(ROOTS)

    # What an installer serves

    def served(self, path: Path) -> list[Path]:
        """Return the files that run where the packages are that a file installs.

        These are the file itself and what it imports, notebooks that run it, what its commands
        name, and the code around it. A notebook that uses either library installs for itself, and
        an image for what it copies, or for what it runs if it copies nothing.
        """
        own = self.facts[path]
        copied = [] if own.copies & _ALL else list(self._named(path, own.copies))
        found = [path, *self._runners(path), *copied, *self._named(path, own.paths)]
        found += self._composed(path)
        if kind_of(path) == "docker" and own.needs and not own.copies:
            return sorted({*found})
        is_list = not is_code(path) and kind_of(path) in LISTS | COMMANDS
        alone = filter(is_code, copied) if is_list or is_setup_script(path) else found
        if not any(self.facts[one].needs for one in alone):
            found += self._around(path)[1]
        if is_code(path) and own.installs:
            found += closure([path], self._graph.imported) & self.facts.keys()
        return sorted({*found})

    def _runners(self, path: Path) -> Iterator[Path]:
        """Yield the notebooks that ``%run`` a notebook that installs packages."""
        if is_code(path) and self.facts[path].installs:
            for other, one in self.facts.items():
                if any(item.level < 0 and PurePath(item.module).stem == path.stem
                       for item in one.links.imports):  # fmt: skip
                    yield other

    def _composed(self, path: Path) -> Iterator[Path]:
        """Yield the files whose services run in an image."""
        above = path.parent.parent if _is_deploying(path.parent) else path.parent
        for other, one in self.facts.items() if kind_of(path) == "docker" else ():
            folders = {Path(os.path.normpath(other.parent / word)) for word in one.builds}
            if folders & {path.parent, above}:
                yield other

    def _named(self, path: Path, words: Iterable[str]) -> Iterator[Path]:
        """Yield the files with these paths, and the files in folders with them."""
        for word in words:
            for directory in path.parents:
                named = Path(os.path.normpath(directory / word.lstrip("/")))
                if named in self.facts or named in self._below:
                    yield from [named] if named in self.facts else self._below[named]
                    break

    def _around(self, path: Path) -> tuple[Path | None, list[Path]]:
        """Return the nearest directory above with code that uses either library, and its files.

        Subdirectories with their own lists only count if no other files use one. Without such code,
        configuration and commands determine the directory. Files next to the installer are added.
        """
        deployed = [one for one in path.parents if not _is_deploying(one)]
        for directories in (deployed, path.parents):
            for is_wanted in (is_code, bool):
                for under in (self._own, self._below):
                    for directory in directories:
                        files = under.get(directory, ())
                        if any(self.facts[one].needs for one in files if is_wanted(one)):
                            return directory, [*self._below.get(path.parent, ()), *files]
        return None, []

    def _under(self, ends: set[Path]) -> dict[Path, list[Path]]:
        """Return the users under each directory, except in subdirectories that are in `ends`."""
        found: defaultdict[Path, list[Path]] = defaultdict(list)
        for folder, files in self._users_in.items():
            for directory in (folder, *folder.parents):
                found[directory] += files
                if directory in ends:
                    break
        return found

    # What it needs

    def needs(self, path: Path, plain: Needs) -> Needs:
        """Return what a file must install for the files that it serves.

        Parameters
        ----------
        path : Path
        plain : Needs
            The requirement for mdstorm to write.
        """
        paths = self.served(path)
        served = [self.facts[one] for one in paths]
        keeps = [one for one in paths if self.facts[one].keeps]
        imports = frozenset().union(*(one.imports for one in served))
        listed = self._listed(path)
        extras = set().union(*(one.extras for one in served))
        builds_session = any(one.builds_session for one in served)
        on_databricks = any(one.on_databricks for one in served)
        is_given = is_code(path) or any(one.is_given_session for one in served)
        if on_databricks or (is_given and not builds_session):  # the host provides Spark
            extras.discard("spark")
        elif any(is_within(one, "pyspark") for one in imports):
            extras.add("spark")
        named = {extra for extra in extras if _LIBRARIES[extra] not in listed}
        brought = listed | {"pandas"} if "spark" in named else listed
        if on_databricks and (is_code(path) or kind_of(path) == "cluster"):
            brought |= {"pandas"}
        roots = {one.partition(".")[0] for one in imports}
        needed = dict.fromkeys(name for module, name in _INSTALLED.items() if module in roots)
        is_constraint = "constraint" in path.name
        transitive = () if is_constraint else tuple(one for one in needed if one not in brought)
        return replace(
            plain,
            extras=tuple(sorted(named)),
            transitive=transitive,
            importers=tuple(shown(one, path) for one in keeps),
            moved=any(one.moved for one in served) or not keeps,
            is_unused=self._is_unused,
            is_constraint=is_constraint,
            is_record=self._is_record(path),
        )

    def _listed(self, path: Path) -> set[str]:
        """Return the distributions that a list, and other lists for the same code, require."""
        found = set().union(*(self.facts[one].installs for one in self._included(path)))
        if is_code(path) or self.facts[path].is_complete:
            return found
        directory, _ = self._around(path)
        return found if directory is None else found | self._listed_under[directory]

    def _included(self, path: Path) -> set[Path]:
        """Return a list and the lists that it includes."""
        return closure([path], self._includes) & self.facts.keys()

    @cached_property
    def _graph(self) -> ImportGraph:
        return ImportGraph({path: one.links.imports for path, one in self.facts.items()})

    @cached_property
    def _includes(self) -> dict[Path, list[Path]]:
        return {
            path: [Path(os.path.normpath(path.parent / name)) for name in one.includes]
            for path, one in self.facts.items()
            if one.includes
        }

    @cached_property
    def _is_unused(self) -> bool:
        """Whether there is code, and none of it needs either library."""
        return bool(self._users) and not any(self.facts[one].needs for one in self._users)

    def _is_record(self, path: Path) -> bool:
        """Whether a list only records packages: no code is under it, no file mentions it."""
        if not self.facts[path].is_inventory or self._below.get(path.parent):
            return False
        others = (one for of, one in self.facts.items() if of != path)
        return not any(name.endswith(path.name) for one in others for name in one.lists)


def _is_deploying(folder: Path) -> bool:
    """Whether a folder only deploys the code in the folder above."""
    return folder.name.lower() in _DEPLOYING
