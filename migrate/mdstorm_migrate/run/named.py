"""What files name: other files, by paths that hold where they are read, or where they end up."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from mdstorm_migrate.base.document import Document

#: The notebooks and programs that definitions run.
_PROGRAM = re.compile(
    r"""\b(?:notebook_path|python_file|main_python_file|notebook)["']?[ \t]*[:=][ \t]*["']?
    (?P<name>(?:\$\{[^}\n]*\}|[\w./~:@-])+)""",
    re.VERBOSE,
)
#: Programs and scripts in commands, and modules that Python runs.
_SCRIPT = re.compile(r"(?<![\w.-])(?P<name>[\w./${}~:@-]*[\w-]\.(?:py|ipynb|sh|bash))(?![\w.-])")
_MODULE = re.compile(r"""\bpython[\d.]*["']?[\s,]+["']?-m["']?[\s,]+["']?(?P<name>\w[\w.]*)""")
#: What an image gets of its own folder.
_COPY = re.compile(r"^[ \t]*(?:COPY|ADD)[ \t]+(?!--from)(?P<words>[^\n]+)", re.MULTILINE | re.I)
#: Comments, and commands that only look at code.
_NOT_RUN = re.compile(
    r"^[ \t]*#.*|\b(?:flake8|black|ruff|mypy|pylint|isort|bandit)\b[^\n;&|]*", re.MULTILINE
)


class Files:
    """The files of a project, found by the names that others have for them.

    Parameters
    ----------
    paths : collection of Path

    Attributes
    ----------
    folders : set of Path
        All that have some of the files in them, or further down.
    """

    def __init__(self, paths: Collection[Path]) -> None:
        self._paths = paths if isinstance(paths, (dict, set, frozenset)) else set(paths)
        self._names = {path.name for path in paths}
        self.folders = {folder for path in paths for folder in path.parents}

    def resolve(self, path: Path, name: str) -> Path | None:
        """Return the file that a name means in a file: from its directory, or one above it.

        Images and clusters keep files elsewhere: then the longest end of the name counts.
        """
        plain = Path(name)
        if plain.name not in self._names:
            return None
        parts = [part for part in plain.parts if part not in ("/", "..", ".")]
        for tried in (plain, *(Path(*parts[at:]) for at in range(len(parts)))):
            for directory in path.parents:
                found = joined(directory, tried)
                if found in self._paths and found != path:
                    return found
        return None

    def programs(self, path: Path, text: str) -> Iterator[Path]:
        """Yield the notebooks and programs that a definition in a file names."""
        for said in _PROGRAM.finditer(text):
            yield from self._any(path, [f"{said['name']}{end}" for end in ("", ".py", ".ipynb")])

    def run(self, path: Path, document: Document) -> Iterator[Path]:
        """Yield all that a document of a file runs, or copies into an image, by name."""
        text = _NOT_RUN.sub("", document.text)
        yield from self.programs(path, text)
        names = [found["name"] for found in _SCRIPT.finditer(text)]
        for found in _MODULE.finditer(text):
            module = found["name"].replace(".", "/")
            names += [f"{module}.py", f"{module}/__main__.py"]
        if document.kind == "docker":
            names += copied(text)
        yield from self._any(path, names)

    def _any(self, path: Path, names: Iterable[str]) -> Iterator[Path]:
        return (found for name in names if (found := self.resolve(path, name)) is not None)


def copied(text: str) -> list[str]:
    """Return what a Dockerfile copies into its image: files and folders."""
    found: list[str] = []
    for copy in _COPY.finditer(text):
        words = [word for word in re.findall(r"[^\s\[\]\",]+", copy["words"]) if word[:2] != "--"]
        found += words[:-1]
    return found


def joined(directory: Path, name: Path) -> Path:
    """Return a path with ``..`` taken out, without asking the file system."""
    parts = list(directory.parts)
    for part in name.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts)
