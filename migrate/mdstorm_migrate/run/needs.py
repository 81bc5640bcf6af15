"""The packages that requirement lists must contain for the code that they serve."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mdstorm_migrate.base.document import Document, Kind, is_setup_script
from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.packaging.lists import is_inventory, required_names
from mdstorm_migrate.petastorm.names import NEW_ROOT
from mdstorm_migrate.run.code_use import LIBRARIES, CodeUse
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.outcome import Settings, shown
from mdstorm_migrate.sources import ListedFiles, read_file
from mdstorm_migrate.sources.plain import kind_of

#: Kinds of files that list requirements.
_LISTS: frozenset[Kind] = frozenset({"conda", "pipfile", "pyproject", "requirements", "setup_cfg"})
#: Size in bytes above which files are not considered lists.
_LARGEST = 1 << 20

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
#: A line that includes another list of requirements.
_INCLUDES = re.compile(r"^[ \t]*(?:-r|--requirement)[ \t=]*(?P<name>[^\s#]+)", re.MULTILINE)
#: Commands that install a list, or a project with its requirements.
_BY_LIST = re.compile(
    r"""\binstall\b(?:[^\n\\]|\\\r?\n|\\.)*?[\s"'](?:-[re]\b|--(?:requirement|editable)\b|\.)
    |\benv[ ](?:create|update)\b|^[^#\n]*\b(?:nox|pdm|pipenv|poetry|tox|uv[ ](?:run|sync))\b""",
    re.VERBOSE | re.MULTILINE,
)
#: Strings that identify scripts and definitions that install packages on Databricks.
_FOR_DATABRICKS = (b"/databricks/", b"spark_version")


@dataclass(frozen=True)
class Asking:
    """A file whose rules ask what the code needs.

    Attributes
    ----------
    before, after : bytes
        Its content, and its content after edits to its code.
    use : CodeUse or None
        What its code uses after them; None for files without code.
    requires : bool
        Whether it requires or installs Petastorm.
    """

    before: bytes
    after: bytes
    use: CodeUse | None
    requires: bool


def needs_of(
    asking: Mapping[Path, Asking],
    others: dict[Path, CodeUse],
    paths: Iterable[Path],
    lists: ListedFiles,
    settings: Settings,
) -> dict[Path, Needs]:
    """Return the needs of each file that mentions Petastorm.

    Parameters
    ----------
    asking : mapping of Path to Asking
        The files that mention Petastorm.
    others : dict of Path to CodeUse
        What other code and configuration of the project uses.
    paths : iterable of Path
        All files of the project.
    lists : ListedFiles
    settings : Settings
    """
    plain = Needs(settings.wanted, settings.index)
    if not settings.selects("PM101"):  # the code was or will be moved in another run
        return dict.fromkeys(asking, plain)
    paths = list(paths)
    code = others | {path: one.use for path, one in asking.items() if one.use is not None}
    requiring = {path: one.before for path, one in asking.items() if one.requires}
    project = _Project(code, _lists(paths, requiring, lists), requiring)
    is_unused = bool(code) and not any(use.uses_either for use in code.values())
    running = [path for path, one in asking.items() if is_code(path) and b"%run" in one.before]
    found = {}
    for path, one in asking.items():
        use = project.use(path, _runners(path, asking, running))
        if any(mark in one.before for mark in _FOR_DATABRICKS):
            use = replace(use, on_databricks=True)
        is_record = _is_record(path, one.before, paths, code)
        needs = _needs(path, use, project, plain)
        found[path] = replace(needs, is_unused=is_unused, is_record=is_record)
    return found


def _needs(path: Path, use: CodeUse, project: _Project, plain: Needs) -> Needs:
    """Return what a list must contain for the code that it serves."""
    listed = project.listed(path)
    extras = set(use.extras)
    is_given = not use.builds_session and (is_code(path) or use.is_given_session)
    if use.on_databricks or is_given:  # the host provides Spark
        extras.discard("spark")
    elif "pyspark" in use.imports:
        extras.add("spark")
    named = {extra for extra in extras if LIBRARIES[extra] not in listed}
    brought = listed | {"pandas"} if "spark" in named else listed
    if use.on_databricks and (is_code(path) or kind_of(path) == "cluster"):
        brought |= {"pandas"}
    is_constraint = "constraint" in path.name
    imported = dict.fromkeys(name for module, name in _INSTALLED.items() if module in use.imports)
    transitive = () if is_constraint else tuple(name for name in imported if name not in brought)
    return replace(
        plain,
        extras=tuple(sorted(named)),
        transitive=transitive,
        importers=tuple(shown(one, path) for one in use.keeps),
        moved=use.moved or not use.keeps,
        is_constraint=is_constraint,
    )


def _is_record(path: Path, data: bytes, paths: Iterable[Path], code: Iterable[Path]) -> bool:
    """Whether a list only records installed packages: no code is under it, no file mentions it."""
    if kind_of(path) != "requirements":
        return False
    text = data.decode("utf-8", "replace")
    if not is_inventory(text) or any(path.parent in one.parents for one in code):
        return False
    name = path.name.encode()
    return not any(name in _text_of(one) for one in paths if one != path)


def _text_of(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= _LARGEST else b""
    except OSError:
        return b""


class _Project:
    """The code of a run, and the lists of requirements that serve it.

    A list serves the code in the nearest directory above it that contains code, except for
    subdirectories that have their own lists.
    """

    def __init__(
        self,
        code: Mapping[Path, CodeUse],
        lists: Mapping[Path, Sequence[Document]],
        requiring: Iterable[Path],
    ) -> None:
        self._code = code
        self._lists = lists
        self._names = {path: required_names(documents) for path, documents in lists.items()}
        self._listed_under: defaultdict[Path, set[str]] = defaultdict(set)
        for path, names in self._names.items():
            for above in path.parents if not is_code(path) else ():
                self._listed_under[above] |= names
        self._below = self._aggregated(set())
        # On a second run, lists require mdstorm instead: they still serve their directories.
        serving = [path for path, names in self._names.items() if NEW_ROOT in names]
        ends = {path.parent for path in (*requiring, *serving) if not is_code(path)}
        self._own = self._aggregated(ends)

    def use(self, path: Path, running: Iterable[Path] = ()) -> CodeUse:
        """Return the `CodeUse` of the code that a list or an installing notebook serves."""
        own = self._code.get(path, CodeUse())
        for runner in running:
            own |= self._code[runner]
        return own if own.uses_either else self._anchor(path)[1]

    def listed(self, path: Path) -> set[str]:
        """Return the distributions that a list, and other lists for the same code, require."""
        found = set().union(*(self._names[one] for one in self._included(path)))
        if is_code(path) or self._is_complete(path):
            return found
        anchor, _ = self._anchor(path)
        return found if anchor is None else found | self._listed_under[anchor]

    def _is_complete(self, path: Path) -> bool:
        """Whether the commands in a file install packages, but not from a list."""
        text = "".join(document.text for document in self._lists.get(path, ()))
        return any(True for _ in install_commands(text)) and _BY_LIST.search(text) is None

    def _included(self, path: Path) -> set[Path]:
        """Return a list and the lists that it includes."""
        found: set[Path] = set()
        todo = [path]
        while todo:
            one = todo.pop()
            if one not in found and one in self._lists:
                found.add(one)
                texts = (document.text for document in self._lists[one])
                names = (match["name"] for text in texts for match in _INCLUDES.finditer(text))
                todo += (Path(os.path.normpath(one.parent / name)) for name in names)
        return found

    def _anchor(self, path: Path) -> tuple[Path | None, CodeUse]:
        """Return the nearest parent directory whose code uses either library, and its `CodeUse`."""
        for below in (self._own, self._below):
            for directory in path.parents:
                if (use := below.get(directory, CodeUse())).uses_either:
                    return directory, use
        return None, CodeUse()

    def _aggregated(self, ends: set[Path]) -> dict[Path, CodeUse]:
        """Return each directory's `CodeUse`, not counting subdirectories that are in `ends`."""
        found: defaultdict[Path, CodeUse] = defaultdict(CodeUse)
        own: defaultdict[Path, CodeUse] = defaultdict(CodeUse)
        for path, use in self._code.items():
            own[path.parent] |= use
        for directory, use in own.items():
            for above in (directory, *directory.parents):
                found[above] |= use
                if above in ends:
                    break
        return found


def _lists(
    paths: Iterable[Path], requiring: Mapping[Path, bytes], lists: ListedFiles
) -> dict[Path, Sequence[Document]]:
    """Return the documents of all files that list requirements."""
    found = {path: read_file(path, data).documents for path, data in requiring.items()}
    for path in paths:
        if path not in found and (kind_of(path) in _LISTS or is_setup_script(path)):
            found[path] = lists[path].documents
    return found


def _runners(path: Path, asking: Mapping[Path, Asking], running: Iterable[Path]) -> Iterator[Path]:
    """Yield those of the notebooks `running` that ``%run`` the notebook `path`.

    What it installs is for them also.
    """
    if not (is_code(path) and asking[path].requires):
        return
    stem = re.escape(os.fsencode(path.stem))
    run = re.compile(rb"%run[ \t]+[^\r\n]*?(?<!\w)" + stem + rb"(?![\w-])")
    for other in running:
        if other != path and run.search(asking[other].before):
            yield other
