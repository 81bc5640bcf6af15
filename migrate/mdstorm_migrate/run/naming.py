"""Files whose strings name modules, and the files that these strings reach.

``mock.patch("petastorm.make_reader")`` means the library that the code under test calls, and
``_target_: petastorm.make_reader`` in a file of configuration makes objects that code takes. Such a
file and what it reaches move together, or not at all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from mdstorm_migrate.base.edits import NAMES, Edit, Finding
from mdstorm_migrate.python.exchange import Take
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.names_in_strings import patches, patches_by_name
from mdstorm_migrate.run.closure import closure
from mdstorm_migrate.run.imports import Resolver

#: What strings that name modules do: nothing, import, replace parts of modules, configure.
Naming: TypeAlias = Literal["", "imports", "patches", "configures"]

#: Rules about strings that name modules.
_NAMING = frozenset({"PM103", "PM131"})
_TEST = re.compile(r"test_.*|.*_test|conftest")
_FROM = re.compile(rb"from[ \t]+(\.*)[ \t]*([\w.]*)[ \t]+import[ \t]*\(?(.*)", re.DOTALL)
_IMPORT = re.compile(rb"import[ \t]+(.*)", re.DOTALL)
_RUN = re.compile(rb"%run[ \t]+(?:-\w+[ \t]+)*[\\\"']*([^\"'\s\\]+)")
_NAMES = re.compile(rb"(?:^|,|\()[ \t\r\n\\]*([\w.]+|\*)")
_COMMENT = re.compile(rb"#[^\n]*")


def naming_of(
    module: PythonModule | None, edits: Iterable[Edit], findings: Iterable[Finding]
) -> Naming:
    """Return what strings of a document that name modules do."""
    if any(found.rule == "PM108" for found in findings) or (module is not None and patches(module)):
        return "patches"
    is_named = any(edit.group == NAMES for edit in edits) or any(
        found.rule in _NAMING and found.holds for found in findings
    )
    if not is_named:
        return ""
    if module is None:
        return "configures"
    return "patches" if patches_by_name(module) else "imports"


class ImportGraph:
    """Who imports whom, in all files of a run.

    Parameters
    ----------
    takes : mapping of Path to collection of Take
        What each file imports.
    """

    def __init__(self, takes: Mapping[Path, Collection[Take]]) -> None:
        resolver = Resolver(takes)
        self._imported: dict[Path, set[Path]] = {
            path: {file for take in taken for file in resolver.files(path, take)}
            for path, taken in takes.items()
        }
        self._importing: dict[Path, set[Path]] = defaultdict(set)
        for path, files in self._imported.items():
            for file in files:
                self._importing[file].add(path)

    def reached_by_patch(self, path: Path) -> set[Path]:
        """Return what runs in one process with a file that replaces parts of modules."""
        with_it = closure([path], self._importing)
        if path.stem == "conftest":
            with_it |= {
                one
                for one in self._imported
                if _TEST.fullmatch(one.stem) and path.parent in one.parents
            }
        return self.imported(with_it)

    def imported(self, paths: Iterable[Path]) -> set[Path]:
        """Return what files import, directly or by way of others, themselves included."""
        return closure(paths, self._imported)


class Configured:
    """The code that may read files of configuration: the nearest that resolves names.

    Parameters
    ----------
    resolving : iterable of Path
        Files of code that resolve names.
    """

    def __init__(self, resolving: Iterable[Path]) -> None:
        self._below: dict[Path, list[Path]] = defaultdict(list)
        for path in resolving:
            for above in path.parents:
                self._below[above].append(path)

    def readers(self, path: Path) -> Sequence[Path]:
        """Return the files that may resolve the names of a file of configuration."""
        return next((self._below[one] for one in path.parents if one in self._below), ())


def takes_of(statements: Iterable[bytes]) -> Iterator[Take]:
    """Yield what import statements take, of a file that nobody parses."""
    for statement in statements:
        statement = _COMMENT.sub(b"", statement) if b"%run" not in statement else statement
        if run := _RUN.search(statement):
            yield Take(run[1].decode(errors="replace"), -1, "*", "*")
        elif found := _FROM.search(statement):
            module = found[2].decode()
            for name in _NAMES.findall(found[3]):
                yield Take(module, len(found[1]), name.decode(), name.decode())
        elif found := _IMPORT.search(statement):
            for name in _NAMES.findall(found[1]):
                yield Take(name.decode(), 0, "", name.decode())
