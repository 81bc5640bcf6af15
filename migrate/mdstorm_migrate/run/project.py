"""The relations between the parts of a project: what is installed where, and what needs it.

Two functions decide them, for rendering, ``-w`` and ``--check`` alike: `Project.served`, which
parts run where an installer's packages are, and `Project.needs`, what these parts need. A part is a
file, or a part of one that is installed separately, such as a stage, a service or a job. What a
part runs that installs one of the libraries is served by that part alone.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from mdstorm_migrate.base.document import DocumentKind, is_setup_script
from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.packaging.lists import is_constraint_file
from mdstorm_migrate.packaging.words import COMMANDS
from mdstorm_migrate.petastorm.names import OLD_ROOT, is_within
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.facts import Facts
from mdstorm_migrate.run.imports import ImportGraph, closure
from mdstorm_migrate.run.installing import LISTS, RUNNING
from mdstorm_migrate.run.outcome import shown
from mdstorm_migrate.run.uses import ROOTS
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


#: Kinds of files with commands that may run apart from the code around them.
_APART = RUNNING - {"docker"}
#: What an image copies if it copies all code.
_ALL = frozenset({".", "./"})
#: Folders of what deploys the code in the parent folder.
_DEPLOYING = frozenset({"ci", "deploy", "deployment", "docker", "infra"})


class Part(NamedTuple):
    """A part of a file: the whole file, if it is not divided."""

    path: Path
    number: int = 0


class Project:
    """The files of a project, by their facts.

    Parameters
    ----------
    facts : mapping of Path to Facts
        The facts about each file that has any.

    Attributes
    ----------
    facts : mapping of Path to Facts
    parts : dict of Part to Facts
        The facts about each part.
    installers : list of Part
        The parts that require or install one of the two libraries.
    """

    def __init__(self, facts: Mapping[Path, Facts]) -> None:
        self.facts = facts
        self.parts = {
            Part(path, number): one
            for path, whole in facts.items()
            for number, one in enumerate(whole.parts or [whole])
        }
        self._users_in: defaultdict[Path, list[Part]] = defaultdict(list)
        for part, one in self.parts.items():
            if (one.needs or is_code(part.path)) and not self._serves_itself(part):
                self._users_in[part.path.parent].append(part)
        lists = {path: one for path, one in facts.items() if one.installs and not is_code(path)}
        self._lists = [path for path in lists if self._is_list(path)]
        self._listed_under: defaultdict[Path, set[str]] = defaultdict(set)
        self._beside_under: defaultdict[Path, set[str]] = defaultdict(set)
        for path, one in lists.items():
            for above in path.parents:
                self._listed_under[above] |= one.installs
                self._beside_under[above] |= one.beside if self._is_list(path) else set()
        self._below = self._under(set())
        self._root = _common_folder(facts)
        self._known = {*facts, *self._below, *(path.parent for path in self._lists)}
        self.installers = [
            part for part in self.parts if self.installed(part) and not self._is_record(part.path)
        ]
        # A job that installs for itself installs nothing for others beside it.
        having = {
            path.parent
            for path, one in lists.items()
            if one.installs.intersection(ROOTS) and self._kind(path) != "cluster"
        }
        self._own = self._under(having)

    def installed(self, part: Part) -> frozenset[str]:
        """Return the libraries that a part requires or installs."""
        return self.parts[part].installs.intersection(ROOTS)

    def _kind(self, path: Path) -> DocumentKind | None:
        return self.facts[path].kind or kind_of(path)

    # What an installer serves

    def served(self, part: Part) -> list[Part]:
        """Return the parts that run where the packages are that a part installs.

        These are the part itself and what is built on it, what its file imports, notebooks that run
        it, what its commands name, and the code around it. A notebook that uses either library
        installs for itself, and an image for what it copies. What gets no code of the project, such
        as an image that copies nothing, only installs for what it runs, and so does a job that only
        runs the files that it names.
        """
        path = part.path
        own = [self.parts[one] for one in self._family(part)]
        naming = [one for one in self.installing(path) if not self._serves_itself(one)]
        served = [*self._certain(part), *naming, *self._started_by(naming)]
        is_container = part.number > 0 and self._kind(path) == "cluster"
        runs = is_container or any(one.needs for one in own)
        if runs and all(one.is_bare for one in own):
            return sorted({*served})
        if self.parts[part].is_direct and (run := self._run(self._run_by(part))):
            return sorted({*served, *run})
        served += self._to_serve([path])
        is_list = not is_code(path) and self._kind(path) in LISTS | COMMANDS
        is_apart = is_list or is_setup_script(path)
        alone = [one for one in self._copied(part) if is_code(one.path)] if is_apart else served
        alone = [one for one in alone if not self._serves_itself(one)]
        if not any(self.parts[one].needs for one in alone):
            served += self._around(path)[1]
        if is_code(path) and self.facts[path].installs:
            served += self._to_serve(closure([path], self._graph.imported) & self.facts.keys())
        return sorted({*served})

    def _is_list(self, path: Path) -> bool:
        return is_setup_script(path) or (not is_code(path) and self._kind(path) in LISTS)

    @cached_property
    def _unserved(self) -> list[Part]:
        """What keeps Petastorm where nothing is installed for it."""
        served = {one for part in self.installers for one in self.served(part)}
        keeping = (part for part, one in self.parts.items() if one.keeps and part not in served)
        return [part for part in keeping if not self._serves_itself(part)]

    def provided(self, part: Part) -> list[Part]:
        """Return the parts for which the packages that a part installs suffice.

        Commands that install for what they run may do so apart from the code around them.
        """
        certain = self._certain(part)
        is_run = any(self.parts[one].needs or self.parts[one].shared for one in certain)
        if not is_run or self._kind(part.path) not in _APART:
            return self.served(part)
        files = closure([one.path for one in certain], self._graph.imported) & self.facts.keys()
        return [*certain, *self._to_serve(files)]

    def _certain(self, part: Part) -> list[Part]:
        """Return what a part installs for, besides the code around it."""
        family, runners = self._family(part), self._to_serve(self._runners(part.path))
        others = [*self._copied(part), *self._composed(part), *self._run_by(part)]
        return [*family, *runners, *others]

    def _copied(self, part: Part) -> list[Part]:
        """Return what an image copies, unless it copies all code."""
        copies = {word for one in self._family(part) for word in self.parts[one].copies}
        return [] if copies & _ALL else self._named(part.path, copies)

    def _run_by(self, part: Part) -> list[Part]:
        """Return what the commands of a part, and of those built on it, name."""
        paths = {word for one in self._family(part) for word in self.parts[one].paths}
        return self._named(part.path, paths)

    def _started_by(self, commands: Iterable[Part]) -> list[Part]:
        """Return the code that commands run or images copy, with what it imports."""
        found = (one for part in commands for one in (*self._run_by(part), *self._copied(part)))
        named = sorted({one.path for one in found if is_code(one.path)})
        return self._to_serve(closure(named, self._graph.imported) & self.facts.keys())

    def parts_of(self, path: Path) -> list[Part]:
        """Return the parts of a file."""
        return [Part(path, number) for number in range(len(self.facts[path].parts) or 1)]

    def stays(self, part: Part) -> bool:
        """Whether only Petastorm is installed where a part is, and nothing there needs mdstorm."""
        above = self.parts[part].above
        related = {*self._family(part), *(Part(part.path, number) for number in above)}
        installed = frozenset[str]().union(*map(self.installed, related))
        served = (one for other in related for one in self.served(other))
        return installed == {OLD_ROOT} and not any(self.parts[one].moved for one in served)

    def _family(self, part: Part) -> list[Part]:
        """Return a part and the parts that are built on it and install neither library again."""
        built = (one for one in self.parts_of(part.path) if part.number in self.parts[one].above)
        return [part, *(one for one in built if one != part and not self.installed(one))]

    def _serves_itself(self, part: Part) -> bool:
        """Whether what a part runs has an installation of its own.

        Classes that configuration names are created by code, which may be installed elsewhere.
        """
        path, own = part.path, self.parts[part]
        is_run = own.imports <= {*ROOTS} and (
            part.number > 0 or (not is_code(path) and self._kind(path) in RUNNING)
        )
        return is_run and any(self.installed(Part(path, number)) for number in own.above)

    def _to_serve(self, paths: Iterable[Path]) -> list[Part]:
        """Return the parts of files that have no installation of their own."""
        parts = (part for path in paths for part in self.parts_of(path))
        return [part for part in parts if not self._serves_itself(part)]

    def _runners(self, path: Path) -> Iterator[Path]:
        """Yield the notebooks that ``%run`` a notebook that installs packages."""
        if is_code(path) and self.facts[path].installs:
            for other in self._graph.importers.get(path, ()):
                targets = self._graph.targets.get(other, ())
                if any(item.level < 0 and path in files for item, files in targets):
                    yield other

    def _composed(self, part: Part) -> Iterator[Part]:
        """Yield the services that run in the image of a Dockerfile, or of this stage of it.

        A service without a build may run that of another: by an anchor, ``extends``, or its name.
        """
        path = part.path
        if self._kind(path) != "docker":
            return
        above = path.parent.parent if _is_deploying(path.parent) else path.parent
        last = self.parts_of(path)[-1]
        stages = {self.parts[one].name for one in self._family(part)}
        is_whole = last in self._family(part)
        stages |= {""} if is_whole else set()
        for other, whole in self.facts.items():
            services = self._to_serve([other]) if whole.builds else []
            for service in services:
                own = self.parts[service]
                images = [own] if own.builds else [self.parts[one] for one in services]
                if any(
                    image.name in stages
                    and Path(os.path.normpath(other.parent / word)) in (path.parent, above)
                    for image in images
                    for word in image.builds
                ):
                    yield service
        if is_whole:
            yield from self._in_any_image

    @cached_property
    def _in_any_image(self) -> list[Part]:
        """The containers that get no code and no packages but those of an image, of any name."""
        return [
            part
            for part, one in self.parts.items()
            if part.number > 0
            and one.needs
            and one.is_bare
            and self._kind(part.path) == "cluster"
            and not (self.facts[part.path].builds or self._serves_itself(part))
        ]

    def _named(self, path: Path, words: Iterable[str]) -> list[Part]:
        """Return the files with these paths, and what is in folders with them."""
        found = []
        for named in self._places(path, words):
            found += self._to_serve([named]) if named in self.facts else self._below.get(named, [])
        return found

    def _places(self, path: Path, words: Iterable[str]) -> Iterator[Path]:
        """Yield the files and folders of the project that words in a file name."""
        for word in words:
            for directory in path.parents:
                named = Path(os.path.normpath(directory / word.lstrip("/")))
                if named in self._known:
                    yield named
                if named in self._known or directory == self._root:
                    break

    def installing(self, path: Path) -> list[Part]:
        """Return the commands that install a list by its path, or run in its folder or image."""
        return self._installing.get(path, [])

    @cached_property
    def _lists_installed_by(self) -> Mapping[Part, list[Path]]:
        """The lists that commands install."""
        found: defaultdict[Part, list[Path]] = defaultdict(list)
        for path, parts in self._installing.items():
            for part in parts:
                found[part].append(path)
        return found

    @cached_property
    def _installing(self) -> Mapping[Path, list[Part]]:
        installing: defaultdict[Path, list[Part]] = defaultdict(list)
        lists_in: defaultdict[Path, list[Path]] = defaultdict(list)
        for path in self._lists:
            lists_in[path.parent].append(path)
        lists = {*self._lists}
        for part, one in self.parts.items():
            if self._kind(part.path) in RUNNING and (one.paths or one.folders or one.builds):
                files = closure([*self._places(part.path, one.paths)], self._includes)
                folders = {*self._places(part.path, one.folders | one.builds)}
                beside = (path for folder in folders for path in lists_in.get(folder, ()))
                for path in {*lists.intersection(files), *beside}:
                    installing[path].append(part)
        return installing

    def _run(self, named: Iterable[Part]) -> list[Part]:
        """Return programs with what they import, or nothing if that does not show what they use."""
        files = closure([one.path for one in named], self._graph.imported) & self.facts.keys()
        run = self._to_serve(files)
        found = [self.facts[one] for one in files]
        is_shown = not any(one.links.resolves or one.names_script for one in found)
        return run if is_shown and any(self.parts[one].needs for one in run) else []

    def _around(self, path: Path) -> tuple[Path | None, list[Part]]:
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
                        if any(self.parts[one].needs for one in files if is_wanted(one.path)):
                            return directory, [*self._own.get(path.parent, ()), *files]
        return None, []

    def _under(self, ends: set[Path]) -> dict[Path, list[Part]]:
        """Return the users under each directory, except in subdirectories that are in `ends`."""
        found: defaultdict[Path, list[Part]] = defaultdict(list)
        for folder, files in self._users_in.items():
            for directory in (folder, *folder.parents):
                found[directory] += files
                if directory in ends:
                    break
        return found

    # What it needs

    def needs(self, path: Path, plain: Needs) -> Needs:
        """Return what a file, and each of its parts, must install for what it serves.

        Parameters
        ----------
        path : Path
        plain : Needs
            The requirement for mdstorm to write.
        """
        first, *rest = [self._needs_of(part, plain) for part in self.parts_of(path)]
        return replace(first, parts=(first, *rest)) if rest else first

    def _needs_of(self, part: Part, plain: Needs) -> Needs:
        """Return what a part must install for what it serves."""
        path = part.path
        parts = self._with(part)
        served = [self.parts[one] for one in parts]
        keeps = dict.fromkeys(one.path for one in parts if self.parts[one].keeps)
        imports = frozenset().union(*(one.imports for one in served))
        beside, listed = self._listed(part)
        extras = set().union(*(one.extras for one in served))
        builds_session = any(one.builds_session for one in served)
        on_databricks = any(one.on_databricks for one in served)
        roots = {one.partition(".")[0] for one in imports}
        if "opencv-python" in beside and "cv2" not in roots:  # it was there for Petastorm's images
            extras.add("images")
        # Commands in code install for the code itself, and lists in code for other environments.
        is_hosted = is_code(path) and (path.suffix != ".py" or self.parts[part].is_complete)
        is_hosted &= not self.parts[part].is_bare
        is_given = is_hosted or any(one.is_given_session for one in served)
        if on_databricks or (is_given and not builds_session):  # the host provides Spark
            extras.discard("spark")
        elif any(is_within(one, "pyspark") for one in imports):
            extras.add("spark")
        named = {
            one for one in extras if _LIBRARIES[one] not in (beside if one == "spark" else listed)
        }
        brought = beside | {"pandas"} if "spark" in named else beside
        if on_databricks and (is_code(path) or self._kind(path) == "cluster"):
            brought |= {"pandas"}
        needed = dict.fromkeys(name for module, name in _INSTALLED.items() if module in roots)
        is_constraint = is_constraint_file(path)
        transitive = () if is_constraint else tuple(one for one in needed if one not in brought)
        return replace(
            plain,
            extras=tuple(sorted(named)),
            transitive=transitive,
            importers=tuple(shown(one, path) for one in keeps),
            # Code that installs nothing runs where others install mdstorm for it.
            moved=any(one.moved for one in served)
            or not keeps
            or (is_code(path) and not self.installed(part)),
            is_unused=self._is_unused,
            is_constraint=is_constraint,
            is_record=self._is_record(path),
        )

    def _with(self, part: Part) -> list[Part]:
        """Return what runs where a part does; commands run where a list is that they install."""
        lists = self._lists_installed_by.get(part, ())
        if not lists or self.installed(part):
            found = self.served(part)
            # What nothing is installed for in a folder above may run with any list below.
            is_kept = OLD_ROOT in self.installed(part) and self._is_list(part.path)
            above = [one for one in self._unserved if one.path.parent in part.path.parents]
            return sorted({*found, *above}) if is_kept else found
        beside = (
            one for path in lists for list_ in self.parts_of(path) for one in self.served(list_)
        )
        return sorted({*self._certain(part), *beside})

    def _listed(self, part: Part) -> tuple[set[str], set[str]]:
        """Return what is installed with a part's requirement, and also by lists for the same code.

        What Petastorm itself brought, such as PySpark and pandas, must be among the former, because
        the latter may not be installed there. What code needs besides was installed by others.
        """
        path = part.path
        own = {part.number} if is_code(path) else {0, *self.parts[part].above}
        parts = [self.parts[Part(path, number)] for number in own]
        parts += [self.facts[one] for one in self._included(path) - {path}]
        beside = set[str]().union(*(one.beside for one in parts))
        listed = set[str]().union(*(one.installs for one in parts))
        if is_code(path) or self.parts[part].is_complete:
            return beside, listed
        directory, _ = self._around(path)
        if directory is not None:
            listed |= self._listed_under[directory]
            if self._kind(path) in COMMANDS - LISTS:  # they install lists
                beside |= self._beside_under[directory]
        return beside, listed

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
        is_needed = any(one.needs or one.shared - {*ROOTS} for one in self.facts.values())
        return not is_needed and any(map(is_code, self.facts))

    def _is_record(self, path: Path) -> bool:
        """Whether a list only records packages: no code is under it, no file mentions it."""
        if not self.facts[path].is_inventory or self._below.get(path.parent):
            return False
        others = (one for of, one in self.facts.items() if of != path)
        return not any(name.endswith(path.name) for one in others for name in one.lists)


def _common_folder(paths: Iterable[Path]) -> Path | None:
    """Return the folder with all files, unless some paths are relative and others are not."""
    folders = {os.fspath(path.parent) for path in paths}
    is_mixed = len({os.path.isabs(one) for one in folders}) != 1
    return None if is_mixed else Path(os.path.commonpath(folders))


def _is_deploying(folder: Path) -> bool:
    """Whether a folder only deploys the code in the folder above."""
    return folder.name.lower() in _DEPLOYING
