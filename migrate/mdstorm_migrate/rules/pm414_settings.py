"""PM414: entry points, and settings of other tools, that refer to Petastorm's modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.list_formats import ini_values
from mdstorm_migrate.packaging.toml import toml_strings
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, missing, renamed
from mdstorm_migrate.rules.rule import rule

CODE = "PM414"

#: Settings that contain module names, as ``table/key`` or ``section/key``, without ``tool.``.
_MODULES = re.compile(
    r"""mypy\.overrides/module | mypy-[^/]*/ | (?:tool:)?(?:isort|settings)/known_third_party
    | (?:ruff\.)?(?:lint\.)?isort/known[-_]third[-_]party
    | (?:tool:)?pytest(?:\.ini_options)?/filterwarnings""",
    re.VERBOSE,
)
_PROGRAMS = re.compile(
    r"project[./](?:(?:gui-)?scripts|entry-points)\b.*|poetry\.(?:scripts|plugins\..*)/.*"
    r"|(?:pdm\.scripts|poe\.tasks)[./].*|options\.entry_points/.+"
)
_MODULE = re.compile(rf"(?<![\w.@/-]){OLD_ROOT}(?P<rest>(?:\.\w+)*)(?!\.?[\w/-])")
_IN_SECTION = re.compile(rf"(?<![\w.]){OLD_ROOT}(?P<rest>(?:\.\w+)*)(?![\w-])")
#: A function, as entry points name it.
ENTRY = re.compile(rf"(?<![\w.])(?P<module>{OLD_ROOT}(?:\.\w+)*)[ \t]*:[ \t]*(?P<name>\w[\w.]*)")


@rule(CODE, "Entry points and settings of tools name mdstorm", "exact", "pyproject", "setup_cfg")
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield an edit for each setting that has the same meaning in mdstorm, otherwise a finding.

    While code imports Petastorm, there are no edits, and PM001 lists the lines.
    """
    needs = document.needs
    is_code = any(PurePath(one).suffix in (".ipynb", ".py") for one in needs.importers)
    stays = is_code or (needs.importers and not needs.moved)
    yield from (one for one in _settings(document) if isinstance(one, Finding) or not stays)


def needs_petastorm(document: Document) -> bool:
    """Whether an entry point runs what mdstorm does not have."""
    return any(isinstance(one, Finding) for one in _settings(document))


def _settings(document: Document) -> Iterator[Edit | Finding]:
    text = document.text
    for one in ini_values(text) if document.kind == "setup_cfg" else toml_strings(text):
        where = f"{one.section.removeprefix('tool.')}/{one.key}"
        if _PROGRAMS.fullmatch(where):
            yield from _entries(document, one.start, one.stop)
        elif _MODULES.fullmatch(where):
            pattern = _IN_SECTION if where.startswith("mypy-") else _MODULE
            for found in pattern.finditer(text, one.start, one.stop):
                at = found.start()
                if where.endswith("filterwarnings") and not _is_module_of_filter(text[:at]):
                    continue
                if missing(f"{OLD_ROOT}{found['rest']}") or is_commented_out(text, at):
                    continue
                message = "this setting applies to the modules that the code imports"
                yield Edit(CODE, "exact", at, at + len(OLD_ROOT), NEW_ROOT, message, topic="run")


def _is_module_of_filter(before: str) -> bool:
    """Whether a filter of warnings continues with a module: ``action:message:category:module``."""
    return re.split(r"[\n\"'=]", before)[-1].count(":") == 3


def _entries(document: Document, start: int, stop: int) -> Iterator[Edit | Finding]:
    """Yield edits and findings for entry points, which move together with the dependency."""
    for entry in ENTRY.finditer(document.text, start, stop):
        at = entry.start("module")
        path = f"{entry['module']}.{entry['name']}"
        if is_commented_out(document.text, at):
            continue
        if absent := missing(path):
            what = f"this entry point runs `{path}`; `{absent}` is not in mdstorm"
            yield Finding(CODE, "manual", at, entry.end(), what, f"{what}: it needs Petastorm")
        else:
            message = f"run `{renamed(path)}`"
            yield Edit(CODE, "exact", at, at + len(OLD_ROOT), NEW_ROOT, message, topic="run")
