"""Code that waits together with the lists that install Petastorm for it.

Where every list that serves some code goes on installing Petastorm, since a pin beside it awaits a
review, code that imports mdstorm could not be run. One list that installs mdstorm is enough. A host
whose Python is too old is such a list, too. What a script or an image runs waits for the install of
its own in any case.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.packaging.local_wheels import NO_INDEX
from mdstorm_migrate.packaging.runs import RUN_HERE
from mdstorm_migrate.run.chains import PACKAGING
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.files import FileOutcome
from mdstorm_migrate.sources.plain import HEAD, kind_of

#: The rule about pins.
_PINS = "PM412"
_OLD_PYTHON = "{} runs a Python that mdstorm does not: --unsafe moves the code"
#: Why code waits that names such a Python itself.
OF_ITSELF = _OLD_PYTHON.format("this file")
#: Rules about names that the whole run shares.
_SHARED = frozenset({"PM103", "PM105"})
#: Kinds of files that install something and run it.
_RUNNING = ("cluster", "docker", "shell", "text")
_MDSTORM = re.compile(rb"""(?:^|[\s"'=,])mdstorm(?=[\[\s"'=<>~!,;]|$)(?!\))""", re.MULTILINE)
#: Comments, and the setting of this command that says how mdstorm is to be required.
_NO_LIST = re.compile(rb"(?m)(?:^|\s)#.*|^requirement[ \t]*=.*")
#: Where hooks of pre-commit are listed, whose environments hold nothing but what they list.
_HOOKS = re.compile(r"\.pre-commit-(?:config|hooks)\.ya?ml")
#: Larger files are no lists, in bytes.
_LARGEST = 1 << 20


def waiting_code(
    found: Mapping[Path, FileOutcome], paths: Sequence[Path], needed: Mapping[Path, Needs]
) -> dict[Path, str]:
    """Return the files that must not move without the lists of theirs, and why.

    Parameters
    ----------
    found : mapping of Path to FileOutcome
        Of the files that mention Petastorm, seen together.
    paths : sequence of Path
        All files of the project.
    needed : mapping of Path to Needs
        What the project needs of files; of hosts, what they run.
    """
    held = {path for path, one in found.items() if _is_held(one)}
    if not held:
        return {}
    moved = {path for path, one in found.items() if _is_moved(one)}
    moved |= {path for path in paths if path not in found and requires_mdstorm(path)}
    folders = {folder for path, one in found.items() if _moves(one) for folder in path.parents}
    serving: defaultdict[Path, list[Path]] = defaultdict(list)
    runs = {path: needed[path].runs for path in held if path in needed and needed[path].runs}
    for path in sorted(
        {*moved, *(one for one in held if one not in runs or _awaits_review(found[one]))}
    ):
        if (folder := _served(path, folders)) is not None:
            serving[folder].append(path)
    waiting: dict[Path, str] = {}
    for path, one in found.items():
        lists = [path] if path in held | moved and path.suffix in CODE else None
        if lists is None:
            lists = [other for folder in path.parents for other in serving.get(folder, ())]
        if _moves(one) and lists and held.issuperset(lists):
            pinned = [other for other in lists if _has_pin(found[other])]
            waiting[path] = _reason(path, min(pinned or lists), found)
    for path in found:
        below = (one for one in sorted(waiting) if path.parent in one.parents)
        if _HOOKS.fullmatch(path.name) and (first := next(below, None)) is not None:
            waiting[path] = f"`{first.as_posix()}` waits"
    for host in sorted(runs):
        own = (path for path in runs[host] if path in found and _moves(found[path]))
        waiting |= {path: _reason(path, host, found) for path in own}
    for path, one in found.items():
        together = next((name for name in one.group if Path(name) in waiting), None)
        if waiting and path not in waiting and (together or _is_shared(one)):
            waiting[path] = f"`{together or next(iter(waiting))}` waits"
    alone = {path: _reason(path, path, found) for path in held if _runs(found[path])}
    return {**alone, **waiting}


def _served(path: Path, folders: set[Path]) -> Path | None:
    """Return the nearest folder above a list with code that would move.

    None of a notebook, and of hooks, which install nothing for code.
    """
    if (path.suffix in CODE and path.name != "setup.py") or _HOOKS.fullmatch(path.name):
        return None
    return next((folder for folder in path.parents if folder in folders), None)


def _reason(path: Path, first: Path, found: Mapping[Path, FileOutcome]) -> str:
    where = "this file" if first == path else f"`{first.as_posix()}`"
    if not _awaits_review(found[first]):
        return _OLD_PYTHON.format(where)
    messages = (one.message for one in found[first].outcome.findings)
    is_command = any(RUN_HERE in one or NO_INDEX in one for one in messages)
    what = "a command" if is_command else "a pin"
    return f"{where} requires Petastorm until {what} is reviewed: --unsafe moves both"


def _moves(one: FileOutcome) -> bool:
    """Whether edits of a file follow what is installed: names of modules, not other libraries'."""
    return any(
        edit.rule.startswith(("PM1", "PM4")) and edit.cls == "exact" and not _is_requiring(edit)
        for edit in one.outcome.edits
    )


def _runs(one: FileOutcome) -> bool:
    """Whether edits of a file follow what it installs itself."""
    if kind_of(one.path, one.outcome.before[:HEAD]) in _RUNNING:
        return _moves(one)
    return any(edit.cls == "exact" and edit.topic == "run" for edit in one.outcome.edits)


def _is_requiring(said: Edit | Finding) -> bool:
    return said.topic == "install"


def _is_held(one: FileOutcome) -> bool:
    """Whether all that a file would require of mdstorm awaits a review."""
    return (_awaits_review(one) or _is_old_host(one)) and not _is_moved(one)


def _awaits_review(one: FileOutcome) -> bool:
    return any(map(_is_requiring, (one for one in one.outcome.findings if one.cls == "review")))


def _is_old_host(one: FileOutcome) -> bool:
    """Whether a file tells of a Python, or a runtime, that is too old."""
    return any(found.topic == "python" for found in one.outcome.findings)


def _has_pin(one: FileOutcome) -> bool:
    """Whether the pin that awaits a review is one of the file itself."""
    return any(found.rule == _PINS for found in one.outcome.findings)


def requires_now(one: FileOutcome) -> bool:
    """Whether edits of a file require mdstorm."""
    return any(map(_is_requiring, one.outcome.edits))


def _is_moved(one: FileOutcome) -> bool:
    return requires_now(one) or (_is_list(one.path) and _names_mdstorm(one.outcome.before))


def _is_shared(one: FileOutcome) -> bool:
    return any(edit.rule in _SHARED and edit.cls == "exact" for edit in one.outcome.edits)


def requires_mdstorm(path: Path) -> bool:
    """Whether a file is a list of requirements with mdstorm in it."""
    try:
        if not _is_list(path) or path.stat().st_size > _LARGEST:
            return False
        return _names_mdstorm(path.read_bytes())
    except OSError:
        return False


def _is_list(path: Path) -> bool:
    return path.name == "setup.py" or kind_of(path) in PACKAGING


def _names_mdstorm(data: bytes) -> bool:
    return b"mdstorm" in data and _MDSTORM.search(_NO_LIST.sub(b"", data)) is not None
