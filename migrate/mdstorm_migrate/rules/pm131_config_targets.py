"""PM131: classes and functions that configuration in JSON and YAML names."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import NAMES, Class, Edit, Finding
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.petastorm.configuration import (
    ARGUMENT,
    OVERRIDE,
    VALUE,
    is_called,
    is_image,
    loggers,
)
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, is_module, missing, renamed

CODE = "PM131"
TITLE = "Configuration names classes and functions of mdstorm"
CLASS: Class = "review"
KIND = ("cluster", "docker", "magic", "shell", "text")

#: Files of other kinds that are configuration.
_CONFIGURATION = frozenset({".cfg", ".ini", ".toml"})
#: Kinds that have commands alone.
_COMMANDS = frozenset({"docker", "magic", "shell"})


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield an edit for each value that is imported, and a finding for the others.

    Edits are exact together with the code that reads the file; without, `run.waiting` holds them.
    """
    yield from _in_commands(document)
    suffix = "" if document.path is None else document.path.suffix
    if document.kind in _COMMANDS:
        return
    if document.kind == "text" and suffix not in _CONFIGURATION:
        return
    for match in VALUE.finditer(document.text):
        if is_image(match["path"]):
            continue
        start, stop = match.span("path")
        path, is_entry = match["path"].replace(":", "."), ":" in match["path"]
        if is_called(match["key"]) or is_entry:
            yield _renamed(start, path)
        elif not missing(path) and not is_module(path):
            what = f'"{path}" names a part of Petastorm'
            remedy = f"{what}: name mdstorm in it if it is looked up"
            yield Finding(CODE, "manual", start, stop, what, remedy, holds=path)
    for start, _ in loggers(document.text):
        message = "configure the logger of mdstorm"
        yield Edit(CODE, CLASS, start, start + len(OLD_ROOT), NEW_ROOT, message)


def _in_commands(document: Document) -> Iterator[Edit | Finding]:
    """Yield what becomes of values that commands give to keys of the configuration."""
    told = {match.start("path") for match in VALUE.finditer(document.text)}
    done = set()
    for match in OVERRIDE.finditer(document.text):
        done.add(match.start("path"))
        path, start = match["path"], match.start("path")
        is_told = start in told and document.kind not in _COMMANDS
        if not is_told and not is_commented_out(document.text, start):
            yield _renamed(start, path)
    for match in ARGUMENT.finditer(document.text):
        path, (start, stop) = match["path"], match.span("path")
        is_told = start in done or (start in told and document.kind not in _COMMANDS)
        if is_told or is_module(path) or not is_module(path.rpartition(".")[0]):
            continue
        if not is_commented_out(document.text, start) and not _is_file(path):
            what = f'a command is given "{path}", a part of Petastorm'
            remedy = f"{what}: name mdstorm in it if it is looked up"
            yield Finding(CODE, "manual", start, stop, what, remedy)


def _renamed(start: int, path: str) -> Edit | Finding:
    """Return the edit of a path that is imported; a finding if mdstorm has nothing of the name."""
    if lacking := missing(path):
        why = f'"{path}" names a part of Petastorm; `{lacking}` is not in mdstorm'
        remedy = f"{why}: change it by hand"
        return Finding(CODE, "manual", start, start + len(path), why, remedy, holds=path)
    message = f'"{path}" becomes "{renamed(path)}"'
    return Edit(CODE, "exact", start, start + len(OLD_ROOT), NEW_ROOT, message, NAMES)


def _is_file(path: str) -> bool:
    """Whether a path of two parts is the name of a file, such as ``petastorm.zip``."""
    return path.count(".") == 1 and missing(path) is not None
