"""Rewrite the requirements in install commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.commands import command_requirements, queries
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.local_wheels import without_index
from mdstorm_migrate.packaging.loops import looped
from mdstorm_migrate.packaging.origins import other_origins
from mdstorm_migrate.packaging.requirement import Requirement, of_conda
from mdstorm_migrate.packaging.rewriting import renamed, rewrite_requirement, verdict
from mdstorm_migrate.packaging.runs import run_beside
from mdstorm_migrate.packaging.sentences import MAY_SPEAK, is_sentence
from mdstorm_migrate.petastorm.names import NEW_ROOT

#: Kinds of documents whose commands run.
_SCRIPTS = frozenset({"cluster", "docker", "magic", "pyproject", "setup_cfg", "shell"})
#: Those that may name pages about a project; of other texts, those in TOML.
_WITH_LINKS = frozenset({"cluster", "pipfile", "pyproject", "setup_cfg"})
#: What is said of a command that asks for Petastorm where nothing depends on the answer.
SHOWN = "this command shows whether Petastorm is installed; by mdstorm's name, it shows mdstorm"
#: A command that brings the file of a distribution, and such a file as an install names it.
_BRINGS = re.compile(r"\bpip[\d.]*[ \t](?:[^\n;&|]*[ \t])?(?:download|wheel)\b[^\n;&|]*\Z")
_FILE = re.compile(r"(?<![\w-])petastorm-\d[^\s\"'/]*\.(?:whl|zip|tar\.gz)\b")


def rewrite_commands(document: Document, rule: str) -> Iterator[Edit | Finding]:
    """Yield what becomes of the requirements in the install commands of a document.

    Options, quotes and other packages stay. A version that is not quoted, which a shell takes for a
    redirection (``petastorm>=0.12``), goes with the rest. An install awaits the review of a command
    in its line that runs a script or code of Petastorm's, which would be gone.
    """
    stays = bool(document.needs.importers)
    reasons = []
    required = list(command_requirements(document.text))
    for tool, found in required:
        if document.kind in MAY_SPEAK and is_sentence(document.text, found.start):
            what = "this text speaks of a command that installs Petastorm"
            yield Finding(rule, "note", found.start, found.stop, what)
            continue
        if tool == "pip":
            if not stays and (file := _file_of(document.text, found)):
                what = f"`{file}` is installed by its name, which this brings"
                remedy = f"{what}: require mdstorm here and there"
                span = found.start, found.stop
                yield Finding(rule, "manual", *span, what, remedy, topic="install")
                continue
            if not stays and (name := looped(document.text, found.start, found.stop)):
                what = f"this installs one release of Petastorm after the other, by `{name}`"
                remedy = f"{what}: install mdstorm once, without a loop, or take this out"
                span = found.start, found.stop
                yield Finding(rule, "manual", *span, what, remedy, topic="install")
                continue
            reason = None if stays else run_beside(document.text, found.start)
            if not stays and reason is None:
                reason = without_index(document.text, found)
            reasons += [reason] if reason else []
            for one in rewrite_requirement(document, found, rule, "word"):
                yield one if reason is None or isinstance(one, Finding) else _held(one, reason)
            continue
        if tool == "name":
            if not document.needs.importers:
                yield renamed(document, found.start, found.stop, rule)
            continue
        remedy = "take petastorm out of this command and add `pip install mdstorm`"
        yield of_conda(found, rule, remedy)
    has_links = document.kind in _WITH_LINKS or _is_toml(document)
    yield from other_origins(document.text, rule, has_links=has_links)
    if document.kind in _SCRIPTS:
        installed = [found for tool, found in required if tool == "pip"]
        for one in _rewrite_queries(document, installed, rule):
            yield _held(one, reasons[0]) if reasons and isinstance(one, Edit) else one


def _is_toml(document: Document) -> bool:
    return document.path is not None and document.path.suffix == ".toml"


def _held(edit: Edit, reason: str) -> Edit:
    """Return an edit that awaits a review together with the command that runs something."""
    if edit.cls != "exact":
        return edit
    return replace(edit, cls="review", message=f"{edit.message}; waits, since {reason}")


def _file_of(text: str, found: Requirement) -> str | None:
    """Return the file of Petastorm's that is installed by its name, if a command brings it."""
    start = text.rfind("\n", 0, found.start) + 1
    brings = _BRINGS.search(text, start, found.start)
    file = _FILE.search(text, found.stop)
    return file[0] if brings and file and not is_commented_out(text, file.start()) else None


def _rewrite_queries(
    document: Document, installed: list[Requirement], rule: str
) -> Iterator[Edit | Finding]:
    """Yield what becomes of commands that ask for Petastorm, as the install here does."""
    if document.needs.importers:
        return  # it stays
    is_moved = any(not found.is_fork for found in installed)
    for query in queries(document.text):
        start, stop = query.span("name")
        if document.kind in MAY_SPEAK and is_sentence(document.text, start):
            continue
        if is_moved:
            cls, _ = verdict(document)
            yield Edit(rule, cls, start, stop, NEW_ROOT, "ask for mdstorm, which is installed here")
        elif _only_shows(document, query):
            yield Finding(rule, "note", start, stop, SHOWN)
        else:
            what = f"this command asks for the distribution of Petastorm: `{query[0]}`"
            remedy = "name mdstorm here, or take this out"
            yield Finding(rule, "manual", start, stop, what, remedy)


def _only_shows(document: Document, query: re.Match[str]) -> bool:
    """Whether a command is in a cell of a notebook, and nothing depends on what it finds."""
    is_cell = document.path is not None and document.path.suffix in (".ipynb", ".py")
    before = document.text[: query.start()].rpartition("\n")[2]
    is_given = re.search(r"=[ \t]*!", before) is not None  # to a name of the cell
    rest = document.text[query.end() :].partition("\n")[0]
    open_quotes = [one for one in ('"', "'") if query[0].count(one) % 2]
    for quote in open_quotes:  # up to the end of the pattern, which may name others
        rest = rest.partition(quote)[2]
    is_used = is_given or re.match(r"""["' \t]*(?:&&|\|)""", rest)
    return is_cell and not is_used
