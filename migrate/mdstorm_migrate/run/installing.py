"""What a file requires or installs, and where: the distributions, files and folders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from mdstorm_migrate.base.document import Document, DocumentKind, is_setup_script
from mdstorm_migrate.packaging import acts
from mdstorm_migrate.packaging.commands import command_text, commands_in, installs_all
from mdstorm_migrate.packaging.lists import (
    is_constraint_file,
    is_generated,
    is_inventory,
    names_beside,
    required_names,
)
from mdstorm_migrate.packaging.strings import required_in
from mdstorm_migrate.packaging.words import instructions
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules import pm403_setup
from mdstorm_migrate.run.uses import ROOTS

#: Kinds of files that list requirements, and those that run commands where they install packages.
LISTS: frozenset[DocumentKind] = frozenset(
    {"conda", "pipfile", "pyproject", "requirements", "setup_cfg"}
)
RUNNING: frozenset[DocumentKind] = frozenset({"cluster", "docker", "shell"})
#: The suffix of a list of requirements.
_LIST_SUFFIX = re.compile(r"\.(?:in|pip|txt)\b")
_FILE_NAME = re.compile(r"[\w.-]+")
#: A line that includes another list of requirements.
_INCLUDES = re.compile(r"^[ \t]*(?:-r|--requirement)[ \t=]*(?P<name>[^\s#]+)", re.MULTILINE)
_REQUIRED_EXTRAS = re.compile(rf"\b{NEW_ROOT}\[([\w, -]+)\]")
#: A string that may require mdstorm.
_REQUIRED = re.compile(rf"""["'][^"'\n]*\b{NEW_ROOT}(?:\[[\w, -]*\])?(?=[\s"'=<>~!;@])""")
#: A file or folder that a command names, and what an image copies.
_PATH = re.compile(
    r"(?<![\w.:/-])(?:\./)?((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|ipynb))(?![\w:/-])", re.MULTILINE
)
_BUILDS = re.compile(r"\b(?:build|context)[\"']?[ \t]*:[ \t]*[\"']?(\.[\w./-]*|[\w-][\w./-]*)")
_WORD = re.compile(r"[^\s\\\[\]\"',]+")


def installation_of(
    path: Path,
    documents: Sequence[Document],
    kind: DocumentKind | None,
    modules: Sequence[PythonModule] = (),
) -> dict[str, Any]:
    """Return the facts about what a file requires or installs; a constraint does neither."""
    text = "".join(map(command_text, documents))
    running = [one for one in documents if one.kind in RUNNING]
    copies = frozenset(word for one in running for word in _copied(one))
    extras = _REQUIRED_EXTRAS.findall(text)
    is_list = not is_constraint_file(path) and not is_generated(text)
    installs = frozenset(required_names(documents)) if is_list else frozenset()
    beside = installs
    if kind in LISTS or is_setup_script(path):
        beside = frozenset(names_beside(documents, ROOTS, modules))
    return {
        "installs": installs,
        "beside": beside & installs,
        "required_extras": frozenset(re.findall(r"[\w-]+", " ".join(extras))),
        "is_inventory": kind == "requirements" and is_inventory(text),
        "is_complete": installs_all(chain.from_iterable(map(commands_in, documents))),
        "includes": tuple(match["name"] for match in _INCLUDES.finditer(text)),
        "paths": frozenset(
            paths_in([*running, *(one for one in documents if one.kind == "python")])
        ),
        "copies": copies,
        "is_bare": kind == "docker" and not copies,
        "builds": frozenset(one for each in running for one in _BUILDS.findall(command_text(each))),
        "folders": frozenset(folders_in(running)),
    }


def _copied(document: Document) -> Iterator[str]:
    """Yield what an image copies, except from other stages; the last word is where it goes."""
    for name, start, stop in instructions(document.text) if document.kind == "docker" else ():
        if name in ("COPY", "ADD") and "--from" not in document.text[start:stop]:
            yield from _WORD.findall(document.text, start, stop)[:-1]


def folders_in(documents: Iterable[Document]) -> Iterator[str]:
    """Yield the folders into which commands go, or whose projects they install."""
    for document in documents:
        for command in commands_in(document):
            yield from acts.folders(command)


def paths_in(documents: Sequence[Document]) -> Iterator[str]:
    """Yield the paths of files and folders that commands name, also as modules."""
    is_here = not any(folders_in(documents))
    for document in documents:
        yield from (one for one in _PATH.findall(command_text(document)) if one.strip("./"))
        for command in commands_in(document):
            ran = (one.word.text for one in acts.runs(command) if one.kind == "module")
            yield from (f"{one.replace('.', '/')}.py" for one in ran)
            found = acts.installs(command) if is_here else None
            yield from (one.text for one in found.lists) if found is not None else ()


def lists_in(text: str) -> Iterator[str]:
    """Yield the names in a text of files that may be lists of requirements."""
    if _LIST_SUFFIX.search(text) is not None:
        names = (one.rstrip(".") for one in _FILE_NAME.findall(text))
        yield from (one for one in names if _LIST_SUFFIX.search(one))


def requires(module: PythonModule, root: str) -> bool:
    """Whether code requires or installs one of the libraries."""
    if root == OLD_ROOT:
        return OLD_ROOT in module.text.lower() and pm403_setup.requires(module)
    return _REQUIRED.search(module.text) is not None and any(
        one.tool is not None
        for string in module.scopes.nodes[ast.Constant]
        if NEW_ROOT in str(string.value)
        for one in required_in(module, string, NEW_ROOT)
    )
