"""Which files are installed together: ``-r`` and ``-c``, install commands, files of one project."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.packaging.calls import install_calls
from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.pin import Pin
from mdstorm_migrate.packaging.pins import pins_of
from mdstorm_migrate.packaging.pythons import HOSTS
from mdstorm_migrate.packaging.required_names import required_names
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.run.closure import closure
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.named import Files, joined

#: Kinds of documents that require or install something.
PACKAGING: frozenset[Kind] = frozenset(
    {
        *("cluster", "conda", "docker", "pipfile", "pyproject", "requirements", "setup_cfg"),
        *("magic", "shell", "text"),
    }
)
#: Those that are lists of requirements.
_LISTS: frozenset[Kind] = frozenset({"conda", "pipfile", "pyproject", "requirements", "setup_cfg"})
_OPTION = re.compile(
    r"""(?:^|[\s"'\[,-]) (?P<option>-r|-c|--requirement|--constraint)
    (?:[ \t=]*|["'][ \t]*,[ \t]*["'])
    (?P<name>[\w./${}~-]+)""",
    re.VERBOSE,
)
#: ``pip install .``, ``pip install -e ".[train]"``, and in images ``pip install -e /src``
_ITSELF = re.compile(
    r"""(?:(?:^|[\s"'])\.|(?:-e|--editable)[ \t=]+["']?/[\w./-]+)(?:\[[^\]]*\])?(?=["'\s]|\Z)"""
)
#: What installs a project by other tools, or has environments made of it.
_BY_TOOLS = re.compile(
    r"""\b(?:poetry|pdm|rye|uv)[ \t]+(?:-\S+[ \t]+)*(?:install|sync)(?![\w-])(?![ \t]+[\w"'])
    | \b(?:uv|pdm|hatch|rye)[ \t]+run\b
    | (?:(?:run|script)[ \t]*:|-m|[ \t]-|^)[ \t]+(?:tox|nox)(?![\w.-])
      (?![ \t]+-[es][ \t=]*["']?(?:black|doc|flake|format|lint|mypy|pre|style|typ))""",
    re.VERBOSE | re.MULTILINE,
)
#: A script that installs into an environment made elsewhere, and one that makes its own.
_JOINS = re.compile(
    r"""\binstall\b[^\n;&|]*[ \t]--user\b
    | ^[ \t]*(?:(?:conda|mamba|micromamba)[ \t]+activate|(?:source|\.)[ \t]+\S*activate)\b""",
    re.VERBOSE | re.MULTILINE,
)
_MAKES = re.compile(
    r"\b(?:conda|mamba|micromamba)[ \t]+(?:env[ \t]+)?create\b|-m[ \t]+venv\b|\bvirtualenv[ \t]"
    r"|\buv[ \t]+venv\b"
)
#: Without what a project requires.
_ALONE = re.compile(r"""(?<![\w-])--no-deps(?![\w-])""")
_RUN = re.compile(
    r"""^[ \t]*%run[ \t]+(?P<quote>["']?)(?P<name>[^\s"']+)(?P=quote)""", re.MULTILINE
)
#: What definitions in YAML, JSON and others name: ``requirements: ../requirements.txt``,
#: ``conda_env: conda.yaml``, ``conda_file: conda.yml``, ``destination: ./init/setup.sh``,
#: ``- -r requirements.txt``.
_SAID = re.compile(
    r"""(?: \b(?:requirements|conda_env|python_env|destination|environment
        |conda(?:_file|_dependencies_file)?)
        ["']?[ \t]*[:=][ \t]*["']?
      | -[ \t]+["']?-(?:r|c)[ \t]+ )
    (?P<name>[\w./${}~:-]+\.(?:txt|in|pip|ya?ml|sh|toml))\b""",
    re.VERBOSE,
)
#: Constraints in a variable of pip's or uv's.
_VARIABLE = re.compile(
    r"""\b(?:PIP|UV)_(?:CONSTRAINT|BUILD_CONSTRAINT|REQUIREMENT|OVERRIDE)["']?[ \t]*[:= ][ \t]*["']?
    (?P<name>[\w./${}~-]+)""",
    re.VERBOSE,
)
_QUOTED = re.compile(r"""["'](?P<name>[\w./-]+\.(?:txt|in|pip))["']""")
#: Files that describe a project, which ``pip install .`` reads.
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_CONSTRAINT = re.compile(r"constraint", re.IGNORECASE)
#: Lists that are installed on top of ``requirements.txt``.
_ON_TOP = re.compile(
    r"requirements[-_.](dev|development|test|tests|testing|ci|lint|docs)\.(txt|in)"
    r"|(dev|test|tests)[-_]requirements\.(txt|in)"
)


class Chains:
    """Which files are installed together.

    Parameters
    ----------
    documents : mapping of Path to sequence of Document
        Of the files that require or install something.

    Attributes
    ----------
    links : dict of Path to set of Path
        What each of them names, or stands for.
    joining : set of Path
        Scripts that install into the environment of the lists nearest to them.
    """

    def __init__(self, documents: Mapping[Path, Sequence[Document]]) -> None:
        self._documents = documents
        self._files = Files(documents)
        self._constraints: set[Path] = set()
        self.joining = {path for path in documents if self._joins(path)}
        self._alone: defaultdict[Path, set[Path]] = defaultdict(set)
        self.links = {path: set(self._of(path)) for path in documents}
        required = {path: links - self._alone[path] for path, links in self.links.items()}
        self._closures = {path: closure([path], required) for path in documents}
        self.pins = cache(self._pins)

    def of_one_run(self, path: Path) -> set[Path]:
        """Return the notebooks that run one, or are run by it, itself included."""
        runners = {one for one, found in self._closures.items() if path in found}
        return {path, *(one for one in runners | self._closures.get(path, set()) if is_code(one))}

    def together(self, path: Path) -> set[Path]:
        """Return the files that are installed with one, itself included."""
        return {path}.union(*(found for found in self._closures.values() if path in found))

    def is_constraint(self, path: Path) -> bool:
        """Whether a file constrains versions, and installs nothing."""
        return path in self._constraints or _CONSTRAINT.search(path.name) is not None

    def _pins(self, path: Path) -> list[Pin]:
        return [pin for document in self._documents[path] for pin in pins_of(document)]

    def _of(self, path: Path) -> Iterator[Path]:
        """Yield the files that one names, or stands for."""
        for document in self._documents[path]:
            yield from self._named(path, document)
        here = path.parent
        if path in self.joining:
            yield from self._nearest_lists(path)
        beside: tuple[str, ...] = PROJECT_FILES if path.name in PROJECT_FILES else ()
        if beside or path.name in ("requirements.txt", "Pipfile"):
            beside += HOSTS
        yield from (here / name for name in beside if here / name in self._documents)
        if _ON_TOP.fullmatch(path.name) and here / "requirements.txt" in self._documents:
            yield here / "requirements.txt"
        if path.name == "requirements.txt" or self._is_list(path):
            for other in self._beside(here):
                if _CONSTRAINT.search(other.name):
                    yield other

    def _joins(self, path: Path) -> bool:
        """Whether a script installs one of the libraries into an environment made elsewhere."""
        shells = [one for one in self._documents[path] if one.kind == "shell"]
        return any(
            _JOINS.search(one.text) and not _MAKES.search(one.text) for one in shells
        ) and not required_names(shells).isdisjoint((OLD_ROOT, NEW_ROOT))

    def _nearest_lists(self, path: Path) -> Iterator[Path]:
        """Yield the lists that require one of the libraries, of the nearest directory with one."""
        for directory in path.parents:
            found = [
                one
                for one in self._beside(directory)
                if any(document.kind in _LISTS for document in self._documents[one])
                and not required_names(self._documents[one]).isdisjoint((OLD_ROOT, NEW_ROOT))
            ]
            if found:
                yield from found
                return

    def _is_list(self, path: Path) -> bool:
        """Whether a file of a folder ``requirements`` lists Petastorm, or mdstorm."""
        if path.parent.name != "requirements" or self.is_constraint(path):
            return False
        return not required_names(self._documents[path]).isdisjoint((OLD_ROOT, NEW_ROOT))

    def _beside(self, directory: Path) -> Iterator[Path]:
        return (one for one in self._documents if one.parent == directory)

    def _named(self, path: Path, document: Document) -> Iterator[Path]:
        text = document.text
        spans = [(0, len(text))]
        if document.kind == "python" and path.name != "setup.py":
            spans = list(install_calls(document))
        elif document.kind in ("docker", "shell", "cluster", "text", "magic"):
            spans = [(start, stop) for _, start, stop in install_commands(text)]
            for start, stop in spans:
                if _ITSELF.search(text, start, stop):
                    found = set(self._project(path))
                    if _ALONE.search(text, start, stop):
                        self._alone[path] |= found
                    yield from found
            if any(not is_commented_out(text, one.start()) for one in _BY_TOOLS.finditer(text)):
                yield from self._project(path)
        if document.kind == "magic":
            for run in _RUN.finditer(text):
                yield from self._notebooks(path, run["name"])
        if document.kind in ("cluster", "text"):
            yield from self._said(path, text)
        for variable in _VARIABLE.finditer(text):
            if (other := self._files.resolve(path, variable["name"])) is not None:
                yield other
        for start, stop in spans:
            for option in _OPTION.finditer(text, start, stop):
                if (other := self._files.resolve(path, option["name"])) is not None:
                    if option["option"] in ("-c", "--constraint"):
                        self._constraints.add(other)
                    yield other
        if path.name in PROJECT_FILES:
            for quoted in _QUOTED.finditer(text):
                if (other := self._files.resolve(path, quoted["name"])) is not None:
                    yield other

    def _notebooks(self, path: Path, name: str) -> Iterator[Path]:
        """Yield what ``%run`` means, with or without an ending."""
        written = joined(path.parent, Path(name.lstrip("/")))
        for suffix in ("", ".py", ".ipynb"):
            found = written.with_name(f"{written.name}{suffix}")
            if found in self._documents and found != path:
                yield found

    def _said(self, path: Path, text: str) -> Iterator[Path]:
        """Yield the files that a definition installs or runs: lists, init scripts, notebooks."""
        for said in _SAID.finditer(text):
            if (found := self._files.resolve(path, said["name"])) is not None:
                yield found
        yield from self._files.programs(path, text)

    def _project(self, path: Path) -> Iterator[Path]:
        for directory in path.parents:
            found = [directory / name for name in PROJECT_FILES]
            if any(one in self._documents for one in found):
                yield from (one for one in found if one in self._documents)
                return
