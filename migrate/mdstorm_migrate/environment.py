"""Conditions for running migrated code that are not met, each with the place that violates it.

They neither change nor block edits: a person reads the list before running the code. What versions
a file states is a fact of its bytes; what they must be depends on the extras that code needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from mdstorm_migrate.base.document import DecodedFile, Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.commands import commands_in, installs_all
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.lists import ALIASES, is_generated, normalised
from mdstorm_migrate.packaging.parts import pieces
from mdstorm_migrate.packaging.requirement import is_for_old_python
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.module import PythonModule

#: Whether mdstorm is on a package index. The first release there sets this to True.
IS_RELEASED = False
#: The first Databricks Runtime with long-term support that has Spark 3.5.
LOWEST_RUNTIME = (14, 3)
_NAME = "mdstorm"


@cache
def supported_pythons() -> SpecifierSet:
    """Return the Python versions that mdstorm supports, or all if mdstorm is not installed."""
    try:
        return SpecifierSet(metadata.metadata(_NAME)["Requires-Python"] or "")
    except metadata.PackageNotFoundError:
        return SpecifierSet()


def required(extras: frozenset[str]) -> dict[str, SpecifierSet]:
    """Return the version ranges of the distributions that mdstorm needs with the given extras."""
    found: dict[str, SpecifierSet] = {}
    wanted = [{"extra": extra} for extra in ("", *sorted(extras))]
    for one in _declared():
        if one.marker is None or any(map(one.marker.evaluate, wanted)):
            name = normalised(one.name)
            found[name] = found.get(name, one.specifier) & one.specifier
    return found


@cache
def _declared() -> tuple[Requirement, ...]:
    """Return the requirements in mdstorm's metadata; empty if mdstorm is not installed."""
    try:
        return tuple(map(Requirement, metadata.requires(_NAME) or ()))
    except metadata.PackageNotFoundError:
        return ()


def has_version(pinned: SpecifierSet, needed: SpecifierSet) -> bool:
    """Whether some version satisfies both specifiers, as far as can be known without an index.

    This tries the versions in the clauses, and a very large one, because mdstorm's own specifiers
    are only lower bounds.
    """
    named = [clause.version.removesuffix(".*") for one in (pinned, needed) for clause in one]
    both = pinned & needed
    return any(both.contains(version, prereleases=True) for version in (*named, "99999"))


#: The subjects of conditions: where mdstorm comes ``from``, whether it is ``installed``, a
#: ``python`` version, a Databricks ``runtime``, a ``pin``, newer ``libraries``, ``names`` that
#: differ in mdstorm, a ``misfit`` between files, imports of MosaicML ``streaming``, a file that
#: only ``mentions`` Petastorm.
Subject: TypeAlias = Literal[
    "from",
    "installed",
    "python",
    "runtime",
    "pin",
    "libraries",
    "misfit",
    "streaming",
    "mentions",
]
#: The subjects of what breaks at a place, unless a person changes it.
_BREAKING = frozenset({"python", "runtime", "pin", "libraries", "misfit"})


#: Maximum number of values from a file that one condition lists.
_LIMIT = 3


@dataclass(frozen=True)
class StatedVersion:
    """A version that a file states: one that mdstorm does not support, or a pinned library's.

    Attributes
    ----------
    subject : Subject
    label : str
        What the value is a version of, such as ``Python ``; empty for pins.
    value : str
        The version, or the whole pin, as messages quote it.
    library : str
        The pinned library; empty for other versions.
    pinned : str
        Its versions, as the file states them.
    line : int
    cell : int or None
    part : int
        The number of the part of the file.
    is_apart : bool
        Whether it is that of a job that installs only other packages than the libraries.
    """

    subject: Subject
    label: str
    value: str
    library: str = ""
    pinned: str = ""
    line: int = 0
    cell: int | None = None
    part: int = 0
    is_apart: bool = False

    def violated(self, needed: Mapping[str, SpecifierSet]) -> str | None:
        """Return what mdstorm needs instead, or None if it supports the version."""
        if self.subject == "python":
            return str(supported_pythons())
        if self.subject == "runtime":
            return f"{'.'.join(map(str, LOWEST_RUNTIME))} or newer"
        pinned = _specifier(self.pinned) if self.library in needed else None
        if pinned is None or has_version(pinned, needed[self.library]):
            return None
        return f"{self.library}{needed[self.library]}"


@dataclass(frozen=True)
class Condition:
    """A condition to meet before the migrated code runs.

    Attributes
    ----------
    subject : Subject
    message : str
        The value that was found, and the one that mdstorm needs.
    path : Path or None
        The file; None for the run as a whole.
    line : int
        From 1; 0 without a path.
    cell : int or None
        The notebook cell within which lines count, from 1.
    """

    subject: Subject
    message: str
    path: Path | None = None
    line: int = 0
    cell: int | None = None

    @property
    def breaks(self) -> bool:
        """Whether something breaks at a place in a file, unless a person changes it."""
        return self.path is not None and self.subject in _BREAKING

    @property
    def place(self) -> str:
        """The place as ``a.py:3`` or ``a.ipynb:cell 2:3``; empty for the run as a whole."""
        if self.path is None:
            return ""
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.path}:{cell}{self.line}"


#: Patterns of the places where files list the Python versions that run them.
_PYTHONS = re.compile(
    r"""(?: (?<![\w.-])python[._-]?version["']?[ \t]*[:=][ \t]*
          | \bUsePythonVersion\b[^@]{0,2}@[^@]{0,120}?\bversionSpec[ \t]*:[ \t]*
          | (?<![\w.-])python["']?[ \t]*:[ \t]*
          | (?<![\w.-])python[ \t]*==?[ \t]*(?=\[?["']?\d)
          | \bpython(?=3\.\d)
          | \A(?:python-)?(?=\d\.\d+(?:\.\d+)?\s*\Z) )
    (?P<value> \[[^\]]*\] | (?:\s*-[ \t]+["']?\d\.\d+["']?[ \t]*$)+ | ["']?\d[\w.]* )""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
#: The environments of tox, SageMaker's version of Python, and the tag of an image.
_ENVIRONMENTS = re.compile(
    r"""^env_?list[ \t]*=[^\n]*(?:\n[ \t]+[^\n]*)* | \bpy_version["']?[ \t]*[:=][ \t]*["']\w+
    | (?<=\w):\d[\w.]*(?:-[\w.]+){0,3}?-py3\d+\b""",
    re.MULTILINE | re.VERBOSE,
)
#: The version of Python in the name of an environment, as in ``py39-torch`` or ``py{39,310}``.
_FACTOR = re.compile(r"\bpy\{?(?P<value>3\.?\d+(?:[ \t]*,[ \t]*3\.?\d+)*)(?![\w.])")
_NUMBERS = re.compile(r"\d+\.\d+")
#: Patterns of the places where projects declare the Python versions that they support.
_SUPPORTED_PYTHONS = re.compile(
    r"""\b(?:python_requires|requires-python)["']?[ \t]*=[ \t]*["']?(?P<value>[^"'#\n]+)
    | ^python[ \t]*=[ \t]*["'](?P<poetry>[^"'\n]*[\^~<>=*][^"'\n]*)["']
    | ^[ \t]*-[ \t]+["']?python[ \t]*(?P<conda>[<>][^"'#\n]*)""",
    re.VERBOSE | re.MULTILINE,
)
#: Python versions that a project may support; mdstorm may not support the oldest of them.
_PYTHON_VERSIONS = tuple(f"3.{minor}" for minor in range(5, 13))
#: A version of Databricks Runtime: by its key, or a whole one as the value of any key, such as the
#: default of a variable, an anchor, or a rule of a policy. A list of versions allows any of them.
_RUNTIME = re.compile(
    r"""(?: \bspark_version["']?[ \t]*[:=][ \t]*["']?
      | [:=][ \t]*(?:&[\w-]+[ \t]+)?["']?(?=\d+\.\d+\.x-[\w.-]*scala) )
    (?P<version>\d+\.\d+)""",
    re.VERBOSE,
)


def conditions_of(
    path: Path, versions: Iterable[StatedVersion], needed: Mapping[str, SpecifierSet]
) -> Iterator[Condition]:
    """Yield each condition on Python, Databricks Runtime or pins that a file's versions violate.

    Parameters
    ----------
    path : Path
    versions : iterable of StatedVersion
        The versions in the file.
    needed : mapping of str to SpecifierSet
        The version ranges of the distributions that mdstorm needs.
    """
    groups: dict[tuple[Subject, str, str], list[tuple[StatedVersion, str]]] = {}
    for one in versions:
        if (wanted := one.violated(needed)) is not None:
            groups.setdefault((one.subject, one.label, one.library), []).append((one, wanted))
    for (subject, label, _), places in groups.items():
        values = dict.fromkeys(one.value for one, _ in places)
        shown = dict.fromkeys(wanted for one, wanted in places if one.value in [*values][:_LIMIT])
        rest = f" and {len(values) - _LIMIT} more" if len(values) > _LIMIT else ""
        message = f"{label}{', '.join([*values][:_LIMIT])}{rest}; mdstorm needs {', '.join(shown)}"
        yield Condition(subject, message, path, places[0][0].line, places[0][0].cell)


def versions_in(
    file: DecodedFile, documents: Iterable[Document], modules: Iterable[PythonModule] = ()
) -> Iterator[StatedVersion]:
    """Yield the pins of mdstorm's dependencies, and unsupported versions of platforms.

    Parameters
    ----------
    file : DecodedFile
    documents : iterable of Document
        The documents of the file that describe an environment.
    modules : iterable of PythonModule, optional
        Its parsed Python documents.
    """
    parsed = {id(one.document): one for one in modules}
    for document in documents:
        divided = pieces(document, parsed.get(id(document))) if any(_stated(document)) else ()
        for part, piece in enumerate(divided):
            is_apart = piece.kind == "cluster" and _installs_others(piece)
            for at, one in _stated(piece):
                found = piece.in_file(Finding(one.subject, "note", at, at, ""), file.lines)
                cell, line = found.cell, found.line
                yield replace(one, line=line, cell=cell, part=part, is_apart=is_apart)


def _stated(document: Document) -> Iterator[tuple[int, StatedVersion]]:
    yield from chain(_old_pythons(document), _old_runtimes(document), _pins(document))


def _installs_others(piece: Document) -> bool:
    """Whether commands install packages, among them neither library nor a list."""
    is_library = any(root in piece.text for root in (OLD_ROOT, NEW_ROOT))
    return not is_library and installs_all(commands_in(piece))


def _old_pythons(document: Document) -> Iterator[tuple[int, StatedVersion]]:
    needed = supported_pythons()
    text = document.text
    old: dict[str, int] = {}
    for listed in _PYTHONS.finditer(text):
        start = listed.start("value")
        if not is_commented_out(text, start, ANY):
            for version in _NUMBERS.findall(listed["value"]):
                if not needed.contains(version):
                    old.setdefault(version, text.index(version, start))
    for environments in _ENVIRONMENTS.finditer(text):
        for one in _FACTOR.finditer(text, *environments.span()):
            for minor in re.findall(r"3\.?(\d+)", one["value"]):
                if not needed.contains(f"3.{minor}"):
                    old.setdefault(f"3.{minor}", one.start())
    for version in sorted(old, key=Version):
        yield min(old.values()), StatedVersion("python", "Python ", version)
    for declared in _SUPPORTED_PYTHONS.finditer(text):
        group = declared.lastgroup or ""
        if is_commented_out(text, declared.start(group), ANY):
            continue
        stated = declared[group].strip()
        specifier = _specifier(stated)
        # A project is resolved or installed for every Python version that it declares.
        named = () if group == "conda" else _PYTHON_VERSIONS
        if specifier is not None and (
            not has_version(specifier, needed)
            or any(specifier.contains(one) and not needed.contains(one) for one in named)
        ):
            yield declared.start(group), StatedVersion("python", "for Python ", stated)


def _old_runtimes(document: Document) -> Iterator[tuple[int, StatedVersion]]:
    is_named = "spark_version" in document.text or ".x-" in document.text
    for found in _RUNTIME.finditer(document.text) if is_named else ():
        version = tuple(map(int, found["version"].split(".")))
        if version < LOWEST_RUNTIME and not is_commented_out(document.text, found.start(), ANY):
            yield found.start(), StatedVersion("runtime", "Databricks Runtime ", found["version"])


def _pins(document: Document) -> Iterator[tuple[int, StatedVersion]]:
    is_list = document.kind == "requirements"
    names = _declared_names()
    is_generated_list = is_list and is_generated(document.text)
    if document.kind in ("markdown", "lock", "text") or is_generated_list or not names:
        return
    for pin in _pattern_of_pins(names).finditer(document.text):
        is_left_out = is_for_old_python(document.text, pin.end())
        if not (is_left_out or is_commented_out(document.text, pin.start(), ANY)):
            shown = " ".join(document.text[pin.start("name") : pin.end()].split())
            pinned = pin["key"] if pin["key"] is not None else pin["version"]
            name = normalised(pin["name"])
            yield pin.start("name"), StatedVersion("pin", "", f"`{shown}`", name, pinned)


@cache
def _declared_names() -> frozenset[str]:
    return frozenset(normalised(one.name) for one in _declared())


@cache
def _pattern_of_pins(names: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern for pins of the given distributions, in all notations used in files."""
    every = {*names, *(alias for alias, name in ALIASES.items() if name in names)}
    listed = "|".join(re.escape(name) for name in sorted(every, key=len, reverse=True))
    return re.compile(
        rf"""(?<![\w./@-]) ["']? (?P<name>{listed}) (?:\[[^\]\n]*\])? ["']? (?:
          [ \t]*=[ \t]*(?:\{{[^}}\n]*\bversion[ \t]*=[ \t]*)?["'](?P<key>[\^~<>=\d*][^"'\n]*)["']
        | [ \t]*\(?(?P<version>(?:===|==|~=|<=|>=|<|>|=)[ \t]*\d[\w.*]*
            (?:[ \t]*,[ \t]*(?:==|~=|!=|<=|>=|<|>)[ \t]*\d[\w.*]*)*) )""",
        re.VERBOSE | re.IGNORECASE,
    )


def _specifier(text: str) -> SpecifierSet | None:
    """Parse a specifier in pip's, Poetry's or conda's notation; return None for other notations."""
    clauses = []
    for clause in text.replace(" ", "").split(","):
        match = re.fullmatch(r"(\^|~|===?|~=|!=|<=|>=|<|>|=|)v?(\d[\w.]*?)(\.\*)?(?:=\w*)?", clause)
        if match is None:
            if clause not in ("*", ""):
                return None
            continue
        operator, version, star = match[1], match[2], match[3] or ""
        numbers = version.split(".")
        if operator == "^":
            clauses += [f">={version}", f"<{_next(numbers[0])}"]
        elif operator == "~":
            clauses += [f">={version}", f"=={'.'.join(numbers[:2])}.*"]
        elif operator in ("", "="):  # Poetry: `1.20`; conda: `=1.20`, any 1.20.x
            clauses.append(f"=={version}{star or ('.*' if operator else '')}")
        else:
            clauses.append(f"{operator}{version}{star}")
    try:
        return SpecifierSet(",".join(clauses))
    except (InvalidSpecifier, InvalidVersion):
        return None


def _next(number: str) -> str:
    return str(int(number) + 1) if number.isdigit() else number
