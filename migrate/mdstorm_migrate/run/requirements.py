"""Examine the files that require Petastorm once more, with what is known of the whole project."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from mdstorm_migrate.base.document import Document, SourceError
from mdstorm_migrate.base.edits import Edit
from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.rules import all_rules
from mdstorm_migrate.run.chains import PACKAGING
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.facts import Facts, facts_of, read_facts
from mdstorm_migrate.run.pool import each
from mdstorm_migrate.run.project import Project
from mdstorm_migrate.run.settings import Settings
from mdstorm_migrate.sources import find_source

#: Larger files of requirements are not looked into for pins, in bytes.
_LARGEST = 1 << 20
#: What an edit writes that requires mdstorm, or sees that it is required already.
_MDSTORM = re.compile(r"""["']?mdstorm(?!\.).*|""", re.DOTALL)
#: Rules whose edits require mdstorm.
_REQUIRING = ("PM40",)


def needs_of(
    paths: Sequence[Path],
    outcomes: Iterable[tuple[Path, bytes]],
    settings: Settings,
    jobs: int = 1,
    naming: Collection[Path] = (),
) -> dict[Path, Needs]:
    """Return what is needed of the files that require something; empty if none names Petastorm.

    Parameters
    ----------
    paths : sequence of Path
        All files of the run.
    outcomes : iterable of (Path, bytes)
        Those that mention Petastorm, as they will be.
    settings : Settings
    jobs : int
        How many processes work.
    naming : collection of Path
        Those whose strings go on naming modules of Petastorm, such as files of configuration.
    """
    after = dict(outcomes)
    documents = {path: found for path in paths if (found := _documents(path))}
    requiring = {path for path in after if path in documents and _requires(documents[path])}
    if not requiring:
        return {}
    if not settings.selects("PM101"):  # who moves requirements alone moves the code elsewhere
        return Project(documents, requiring, {}, settings).needs()
    code = {
        path: facts_of(data, path)
        for path, data in after.items()
        if path.suffix in CODE and path.name != "setup.py"
    }
    others = [path for path in paths if path.suffix in CODE and path not in after]
    code.update(each(read_facts, others, jobs))
    for path in naming:
        code[path] = code.get(path, Facts()) | Facts(keeps=(path,))
    return Project(documents, requiring, code, settings).needs()


def _documents(path: Path) -> Sequence[Document]:
    """Return the documents of a file that requires or installs something; none of another one."""
    if path.suffix in CODE and path.name != "setup.py":
        return ()
    try:
        if path.stat().st_size > _LARGEST:
            return ()
        data = path.read_bytes()
        source = find_source(path, data[:256])
        if source is None:
            return ()
        if path.suffix in (".json", ".yml", ".yaml") and not _may_install(data):
            return ()
        found = source.read(data, path).documents
    except (OSError, SourceError):
        return ()
    return [
        one for one in found if one.kind in PACKAGING or (one.kind == "python" and one.path == path)
    ]


def _may_install(data: bytes) -> bool:
    return any(word in data for word in (b"pip", b"petastorm", b"dependencies", b"package"))


def _requires(documents: Sequence[Document]) -> bool:
    """Whether a rule would require mdstorm in a file."""
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
            if rule.code.startswith(_REQUIRING) and document.kind in rule.kinds:
                for found in rule.check(checked):
                    if isinstance(found, Edit) and _MDSTORM.fullmatch(found.replacement):
                        return True
    return False
