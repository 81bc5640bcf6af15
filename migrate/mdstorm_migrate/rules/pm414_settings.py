"""PM414: entry points, and settings of other tools, that name modules of Petastorm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.comments import ANY, INI, SHELL, is_commented_out
from mdstorm_migrate.packaging.origins import other_origins
from mdstorm_migrate.packaging.poetry import is_from_elsewhere
from mdstorm_migrate.packaging.pyproject import dependency_keys
from mdstorm_migrate.packaging.requirement import find_requirements
from mdstorm_migrate.packaging.rewriting import verdict
from mdstorm_migrate.packaging.tool_options import module_options, warning_filters
from mdstorm_migrate.packaging.tool_settings import Setting, tool_settings
from mdstorm_migrate.packaging.uv_sources import has_own_source
from mdstorm_migrate.petastorm.configuration import ENTRY_POINT, NAMED_ENTRY_POINT
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, missing, renamed
from mdstorm_migrate.python.literals import inner_span
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.shadow import has_own_package

CODE = "PM414"
TITLE = "Entry points and settings of tools name mdstorm"
CLASS: Class = "exact"
KIND = ("python", "pyproject", "setup_cfg", "cluster", "docker", "shell", "text")

_WORD = re.compile(r"(?<![\w.@])(?<!(?<!mypy)-)petastorm(?P<rest>(?:\.(?:\w+|\*))*)(?!\.?[\w/-])")
_NAMED = re.compile(r"(?<![\w-])petastorm(?![\w-])")
#: Before the name of a marker that tests are selected by.
_SELECTED = re.compile(r"""(?<![\w-])-m[ \t=]*(?:\\?["'][^"'\n]*|\w*)\Z""")
#: The updates of dependencies, and Pyright's settings, as YAML and JSON have them.
_ELSEWHERE = re.compile(
    r"\.?(?:dependabot\.ya?ml|renovate(?:rc)?(?:\.json[5c]?)?|pyrightconfig\.json)"
)
#: What begins comments where it is not as in shells.
_COMMENTS: dict[Kind, re.Pattern[str]] = {"cluster": ANY, "setup_cfg": INI, "text": ANY}
#: How far before a name one of mdstorm's is looked for, in characters.
_FAR = 80


def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield an edit for each setting that means the same with mdstorm, a finding for others."""
    if isinstance(module, PythonModule):
        path = module.document.path
        if path is not None and path.name == "setup.py":
            for string in module.scopes.strings:
                if (span := inner_span(module, string)) is not None:
                    yield from _entries(module.document, NAMED_ENTRY_POINT, *span)
        return
    for setting in module_options(module.text):
        yield from _modules(module, setting)
    if module.kind not in ("pyproject", "setup_cfg"):
        for at, category in warning_filters(module.text, 0, len(module.text)):
            if not category and not is_commented_out(module.text, at):
                yield _of_filter(module, at, category)
        if module.path is not None and _ELSEWHERE.fullmatch(module.path.name.lower()):
            yield from _others(module, 0, len(module.text), module.path.name, set())
        return
    told: set[int] = set()
    for setting in tool_settings(module):
        start, stop = setting.start, setting.stop
        match setting.use:
            case "program":
                yield from _entries(module, ENTRY_POINT, start, stop)
            case "modules":
                yield from _modules(module, setting)
            case "distributions":
                yield from _distributions(module, setting)
            case "warnings":
                found = [*warning_filters(module.text, start, stop)]
                yield from (_of_filter(module, *one) for one in found)
                told.update(at for at, _ in found)
                if not setting.where.startswith("testenv"):  # where commands stand
                    yield from _others(module, start, stop, setting.where, told)
            case _:
                yield from _others(module, start, stop, setting.where, told)


def _entries(
    document: Document, pattern: re.Pattern[str], start: int, stop: int
) -> Iterator[Edit | Finding]:
    """Yield what becomes of entry points, which move together with the dependency."""
    for entry in pattern.finditer(document.text, start, stop):
        at = entry.start("module")
        if is_commented_out(document.text, at, INI):
            continue
        path = f"{entry['module']}.{entry['name']}"
        if has_own_package(document.path):
            what = f"this entry point runs `{path}` of the project's own package"
            yield Finding(CODE, "note", at, entry.end(), what)
        elif lacking := missing(path):
            what = f"this entry point runs `{path}`; `{lacking}` is not in mdstorm"
            yield Finding(CODE, "manual", at, entry.end(), what, f"{what}: it needs Petastorm")
        elif document.needs.importers and not document.needs.moved:
            yield _stays(document, at, entry.end())
        elif _is_of_fork(document):
            what = "this entry point waits for the dependency, which has a source of its own"
            yield Finding(CODE, "note", at, entry.end(), what)
        else:
            cls, _ = verdict(document)
            message = f"run `{renamed(path)}`"
            yield Edit(CODE, cls, at, at + len(OLD_ROOT), NEW_ROOT, message)


def _of_filter(document: Document, at: int, category: str) -> Edit | Finding:
    """Return what becomes of the module or the class that a filter of warnings names."""
    needs = document.needs
    if category and (lacking := missing(category)):
        what = f"pytest imports `{category}`; `{lacking}` is not in mdstorm"
        return Finding(CODE, "manual", at, at + len(category), what, f"{what}: take this out")
    if needs.importers and not needs.moved:
        return _stays(document, at, at + len(OLD_ROOT))
    message = "filter the warnings of mdstorm"
    return Edit(CODE, "review", at, at + len(OLD_ROOT), NEW_ROOT, message)


def _is_of_fork(document: Document) -> bool:
    """Whether the requirement of a file stays since it names where Petastorm comes from."""
    text = document.text
    if any(found.is_fork for found in find_requirements(text)) or any(
        other_origins(text, CODE, has_links=True)
    ):
        return True
    return document.kind == "pyproject" and (
        has_own_source(text, OLD_ROOT)
        or any(
            key.name.lower() == OLD_ROOT and is_from_elsewhere(text, key)
            for key in dependency_keys(text)
        )
    )


def _modules(document: Document, setting: Setting) -> Iterator[Edit | Finding]:
    """Yield what becomes of names of modules: mdstorm's instead, or beside where both are used."""
    text, needs = document.text, document.needs
    for word in _WORD.finditer(text, setting.start, setting.stop):
        start, stop = word.span()
        if is_commented_out(document.text, start, _COMMENTS.get(document.kind, SHELL)):
            continue
        plain = re.sub(r"(?:\.\*)+$", "", word[0])
        if lacking := missing(plain):
            what = f"`{setting.where}` names `{plain}`; `{lacking}` is not in mdstorm"
            yield Finding(CODE, "note", start, stop, what)
        elif needs.importers and not needs.moved:
            yield _stays(document, start, stop)
        elif not needs.importers:
            message = "this setting is for the modules that the code imports"
            yield Edit(CODE, "exact", start, start + len(OLD_ROOT), NEW_ROOT, message)
        elif NEW_ROOT not in text[setting.start - 1 : setting.stop] and not _is_beside(text, start):
            yield _beside(document, setting, word)


def _distributions(document: Document, setting: Setting) -> Iterator[Edit | Finding]:
    """Yield what becomes of the names of distributions, which follow what is required."""
    cls, _ = verdict(document)
    is_of_fork = _is_of_fork(document)
    for found in _modules(document, setting):
        if is_of_fork and isinstance(found, Edit):
            what = f"`{setting.where}` names the distribution, which has a source of its own"
            yield Finding(CODE, "note", setting.start, setting.stop, what)
        elif isinstance(found, Edit):
            yield replace(found, cls=cls, message="this setting is for what is required")
        else:
            yield found


def _beside(document: Document, setting: Setting, word: re.Match[str]) -> Edit:
    """Return the edit that names mdstorm before Petastorm in a setting of both libraries."""
    text, start = document.text, word.start()
    new, message = renamed(word[0]), "this setting is for both libraries"
    quote = text[start - 1 : start]
    is_string = document.kind == "pyproject" and quote in ('"', "'")
    if is_string and start == setting.start and not _is_item(text, start - 1):
        if word.end() == setting.stop:  # one name, which becomes an array
            array = f"[{quote}{new}{quote}, {quote}{word[0]}{quote}]"
            return Edit(CODE, "exact", start - 1, setting.stop + 1, array, message)
        is_string = False  # the names in the string have commas between them
    gap = f"{quote}, {quote}" if is_string else _gap(text, start)
    return Edit(CODE, "exact", start, start, f"{new}{gap}", message)


def _is_item(text: str, start: int) -> bool:
    """Whether a string of TOML stands in an array, not behind the equals sign of its key."""
    return not text[:start].rstrip(" \t").endswith("=")


def _gap(text: str, start: int) -> str:
    """Return what stands between two names where no string of TOML ends."""
    line = text.rfind("\n", 0, start) + 1
    if line and not text[line:start].strip():
        newline = "\r\n" if text[:line].endswith("\r\n") else "\n"
        return f"{newline}{text[line:start]}"
    return ","


def _is_beside(text: str, start: int) -> bool:
    """Whether the string before the one that holds a character names mdstorm."""
    before = text[max(start - _FAR, 0) : start]
    return re.search(r"""mdstorm[\w.*]*["']?[\s,]*["']?\Z""", before) is not None


def _others(
    document: Document, start: int, stop: int, where: str, told: set[int]
) -> Iterator[Finding]:
    """Yield a note for each line that names Petastorm, but for places and lines in `told`."""
    if where.endswith("/markers"):
        return  # people's own names
    for word in _NAMED.finditer(document.text, start, stop):
        at = word.start()
        line = document.lines.start_of(at)
        if {at, line} & told or _SELECTED.search(document.text, start, at):
            continue
        if not is_commented_out(document.text, at, _COMMENTS.get(document.kind, SHELL)):
            told.add(line)
            what = f"`{where}` is a setting for `petastorm`: it may have to name mdstorm"
            yield Finding(CODE, "note", *word.span(), what)


def _stays(document: Document, start: int, stop: int) -> Finding:
    what = f"this setting stays: {document.needs.who_stays} Petastorm"
    return Finding(CODE, "note", start, stop, what)
