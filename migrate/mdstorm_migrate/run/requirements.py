"""Examine the files that require Petastorm once more, with what is known of the whole project."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.document import Document, SourceError
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.packaging.conda_lists import REMEDY as OF_LIST
from mdstorm_migrate.packaging.requirement import OF_CONDA
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.parsing import parse_python
from mdstorm_migrate.rules import all_rules
from mdstorm_migrate.rules import pm414_settings as settings_rule
from mdstorm_migrate.run.chains import PACKAGING
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.facts import Facts, facts_of, read_facts
from mdstorm_migrate.run.hosts import hosts_of
from mdstorm_migrate.run.pool import each
from mdstorm_migrate.run.project import Project
from mdstorm_migrate.run.settings import Settings
from mdstorm_migrate.sources import find_source
from mdstorm_migrate.sources.plain import HEAD, is_notebook

#: Larger files of requirements are not looked into for pins, in bytes.
_LARGEST = 1 << 20
#: What files in JSON and YAML have of which one may install, or run, something.
_WORDS = (
    *(b"pip", b"petastorm", b"dependencies", b"package", b"spark_version", b"python", b"image"),
)
#: What an edit writes that requires mdstorm, or sees that it is required already.
_MDSTORM = re.compile(r"""["']?mdstorm(?!\.).*|""", re.DOTALL)
#: Rules whose edits require mdstorm.
_REQUIRING = ("PM40", "PM413")


def needs_of(
    paths: Sequence[Path],
    outcomes: Iterable[tuple[Path, bytes, bytes]],
    settings: Settings,
    jobs: int = 1,
    naming: Collection[Path] = (),
    pages: Collection[Path] = (),
) -> dict[Path, Needs]:
    """Return what is needed of the files that require something; empty if none names Petastorm.

    Parameters
    ----------
    paths : sequence of Path
        All files of the run.
    outcomes : iterable of (Path, bytes, bytes)
        Those that mention Petastorm, as they are and as they will be.
    settings : Settings
    jobs : int
        How many processes work.
    naming : collection of Path
        Those whose strings go on naming modules of Petastorm, such as files of configuration.
    pages : collection of Path
        Pages that tools make by importing Petastorm.
    """
    before: dict[Path, bytes] = {}
    code: dict[Path, Facts] = {}
    for path, data, after in outcomes:
        before[path] = data
        if is_code(path) or is_notebook(path, data[:HEAD]):
            code[path] = facts_of(after, path)
    documents = {
        path: found
        for path in [
            *(one for one in paths if not (one in code or is_code(one))),
            *_installing(code),
        ]
        if (found := _documents(path, before.get(path)))
    }
    requiring = {path for path in before if path in documents and _requires(documents[path])}
    setting = {path for path in before if path in documents and _sets(documents[path])}
    if not requiring and not setting and not (code and any(hosts_of(documents))):
        return {}
    if not settings.selects("PM101"):  # who moves requirements alone moves the code elsewhere
        return Project(documents, requiring, setting, {}, settings, paths, pages).needs()
    others = [path for path in paths if is_code(path) and path not in before]
    read = dict(each(read_facts, others, jobs))
    code.update(read)
    documents.update((path, found) for path in _installing(read) if (found := _documents(path)))
    for path in naming:
        code[path] = replace(code.get(path, Facts()), falls_back=()) | Facts(keeps=(path,))
    for path in setting:
        code[path] = code.get(path, Facts()) | _of_entry_points(path, documents[path])
    return Project(documents, requiring, setting, code, settings, paths, pages).needs()


def _installing(code: Mapping[Path, Facts]) -> list[Path]:
    """Return the files of code that install something, or run notebooks that may."""
    return [path for path, facts in code.items() if facts.installs]


def _documents(path: Path, data: bytes | None = None) -> Sequence[Document]:
    """Return the documents of a file that requires or installs something; none of another one."""
    try:
        if data is None:
            data = path.read_bytes() if path.stat().st_size <= _LARGEST else b""
        source = find_source(path, data[:256])
        if source is None or not _may_install(path, data):
            return ()
        found = source.read(data, path).documents
    except (OSError, SourceError, RecursionError):
        return ()
    return [one for one in found if one.kind in PACKAGING or one.kind == "python"]


def _may_install(path: Path, data: bytes) -> bool:
    if len(data) > _LARGEST:
        return False
    if path.suffix not in (".json", ".yml", ".yaml"):
        return True
    return any(word in data for word in _WORDS)


def _requires(documents: Sequence[Document]) -> bool:
    """Whether a rule would require mdstorm in a file, or have the user do so for conda.

    What runs a program of Petastorm's is no list, and the code beside it has that of others.
    """
    return any(
        _MDSTORM.fullmatch(found.replacement) and found.topic != "run"
        if isinstance(found, Edit)
        else found.cls == "manual" and (found.rule == "PM404" or _is_of_conda(found))
        for found in _found(documents, _REQUIRING)
    )


def _is_of_conda(found: Finding) -> bool:
    """Whether Pixi, or a list that conda has written, installs Petastorm."""
    return found.message == OF_CONDA and (found.rule == "PM402" or found.remedy == OF_LIST)


def _sets(documents: Sequence[Document]) -> bool:
    """Whether a file has settings that name Petastorm's modules, or runs one of its programs."""
    return any(
        found.rule == settings_rule.CODE or found.topic == "run"
        for found in _found(documents, (*_REQUIRING, settings_rule.CODE))
    )


def _of_entry_points(path: Path, documents: Sequence[Document]) -> Facts:
    """Return what the entry points of a file import."""
    facts = Facts()
    for found in _found(documents, (settings_rule.CODE,)):
        if isinstance(found, Finding) and found.cls == "manual":
            facts |= Facts(keeps=(path,))
    return facts


def _found(documents: Sequence[Document], rules: tuple[str, ...]) -> Iterator[Edit | Finding]:
    """Yield what some rules find, by the starts of their codes."""
    for document in documents:
        if OLD_ROOT not in document.text.lower():
            continue
        try:
            checked: Document | PythonModule = document
            if document.kind == "python":
                tree = parse_python(document.code)
                checked = PythonModule(document, tree)
        except SourceError:
            continue
        for rule in all_rules():
            if rule.code.startswith(rules) and document.kind in rule.kinds:
                yield from rule.check(checked)
