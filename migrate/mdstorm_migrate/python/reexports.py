"""Whether other files import the name ``petastorm`` from a module."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePath

from mdstorm_migrate.base.directories import is_foreign, is_project
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT

_FROM = re.compile(
    rf"^[ \t]*from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*"
    rf"(?:\([^)]*\b{OLD_ROOT}\b[^)]*\)|[^(\n]*\b{OLD_ROOT}\b)",
    re.MULTILINE,
)
_STAR = re.compile(r"^[ \t]*from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*\*", re.MULTILINE)
#: A use of the name, and what else may give it to a file: its own import, migrated or not.
_USE = re.compile(rf"(?<![\w.]){OLD_ROOT}\.")
_IMPORT = re.compile(rf"^[ \t]*import[ \t][^\n]*\b(?:{OLD_ROOT}|{NEW_ROOT})\b", re.MULTILINE)
#: ``lib.petastorm``, in code or in a string such as the target of a mock.
_ATTRIBUTE = re.compile(rf"(?<![\w.])(?P<owner>[\w.]+)\.{OLD_ROOT}\b")


def is_imported_from(path: PurePath | None, roots: Sequence[Path] = ()) -> bool:
    """Whether a file of the project takes the name from a module.

    Modules are told apart by the last part of their names, and names by their looks: a mistake
    costs no more than an import under the old name that nobody needs. The project is also what
    `roots` hold: nothing may say where it begins, and one repository may have several.
    """
    if path is None or path.suffix != ".py":
        return False
    above = Path(path).absolute().parents
    project = next(filter(is_project, above), None)
    packages = next(one for one in above if not (one / "__init__.py").exists())
    own = _imported_from(str(project or packages), project is not None)
    return path.stem in own or any(path.stem in _imported_from(str(one), True) for one in roots)


@lru_cache(maxsize=64)
def _imported_from(directory: str, is_whole: bool) -> frozenset[str]:
    """Return the last parts of the modules from which files of a directory take the name."""
    files = _python_files(directory, is_whole)
    return frozenset(stem for path in files for stem in _modules(path))


def _python_files(directory: str, is_whole: bool) -> Iterator[str]:
    """Yield the files of a whole project, or else those of the packages in a directory."""
    for folder, below, names in os.walk(directory):
        below[:] = [
            name
            for name in below
            if not is_foreign(Path(folder, name))
            and (is_whole or os.path.exists(os.path.join(folder, name, "__init__.py")))
        ]
        yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def _modules(path: str) -> Iterator[str]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return  # to open a pipe would wait for who writes into it
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return
    if OLD_ROOT.encode() not in data:
        return
    text = data.decode("utf-8", errors="replace")
    taken = [match["module"] for match in _FROM.finditer(text)]
    if _USE.search(text) and not _IMPORT.search(text):
        taken += [match["module"] for match in _STAR.finditer(text)]
    yield from (_last(module) for module in taken if module.partition(".")[0] != OLD_ROOT)
    for owner in {_last(match["owner"]) for match in _ATTRIBUTE.finditer(text)}:
        yield owner
        for alias in re.finditer(rf"(?P<module>[\w.]+)[ \t]+as[ \t]+{owner}\b", text):
            yield _last(alias["module"])


def _last(path: str) -> str:
    return path.rpartition(".")[2]
