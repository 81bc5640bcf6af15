"""PM202: requirements for MosaicML Streaming become requirements for mdstorm."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document, DocumentKind
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.lists import is_generated, required
from mdstorm_migrate.packaging.requirement import Requirement
from mdstorm_migrate.packaging.rewriting import RequirementPlace, list_after, quoted
from mdstorm_migrate.packaging.strings import required_in
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules.rule import rule

CODE = "PM202"

_KINDS: tuple[DocumentKind, ...] = (
    *("requirements", "pyproject", "setup_cfg", "conda", "pipfile", "docker", "shell", "magic"),
    *("cluster", "python"),
)
_NAME = "mosaicml[-_.]streaming"
#: MosaicML Streaming's extras, and mdstorm's extras that install the same packages.
_EXTRAS = {"all": "all", "databricks": "databricks", "spark": "spark"}
_MDSTORM = re.compile(r"(?<![\w./-])(?<!TODO\()mdstorm(?![\w./-])")
_MESSAGE = "require mdstorm; object stores such as S3 need extras, which docs/storage.md lists"


@rule(CODE, "Requirements for MosaicML Streaming name mdstorm", "exact", *_KINDS)
def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield edits to requirements, or findings for those that need manual review."""
    document, found_in = (
        (module.document, _in_code(module))
        if isinstance(module, PythonModule)
        else (module, required(module, _NAME))
    )
    text = document.text
    if "streaming" not in text or (document.kind == "requirements" and is_generated(text)):
        return
    for requirement, place in found_in:
        if requirement.is_conda or requirement.is_copy or requirement.is_open:
            place = None
        if document.needs.importers:
            if not _MDSTORM.search(text):
                yield _also(document, requirement, place)
        elif place is None or _MDSTORM.search(text):
            remedy = "require mdstorm here, once, with the extra torch"
            what = "this requires MosaicML Streaming"
            yield Finding(CODE, "manual", requirement.start, requirement.stop, what, remedy)
        else:
            new = quoted(document, requirement, place, _required(document, requirement))
            yield Edit(CODE, "exact", requirement.start, requirement.stop, new, _MESSAGE)


def _in_code(module: PythonModule) -> Iterator[tuple[Requirement, RequirementPlace | None]]:
    """Yield the requirements in strings; the place is None if pip is not known to install them."""
    for string in module.scopes.nodes[ast.Constant]:
        if isinstance(string.value, str) and "streaming" in string.value:
            for requirement, place, tool, _ in required_in(module, string, _NAME):
                yield requirement, place if tool == "pip" else None


def _required(document: Document, requirement: Requirement) -> str:
    """Return the requirement for mdstorm with the extras of one for MosaicML Streaming."""
    wanted = document.needs.wanted
    extras = dict.fromkeys(
        filter(None, ["torch", *map(_EXTRAS.get, requirement.extras), *wanted.extras])
    )
    return f"mdstorm[{','.join(extras)}]{wanted.version}"


def _also(
    document: Document, requirement: Requirement, place: RequirementPlace | None
) -> Edit | Finding:
    """Return the edit that also requires mdstorm, if anything moved to it; otherwise a finding."""
    needs, new = document.needs, _required(document, requirement)
    what = f"{needs.importers[0]} still imports MosaicML Streaming, so this requirement stays"
    edit = None
    if needs.moved and place is not None:
        edit = list_after(
            document, requirement, CODE, place, [new], f"also require mdstorm; {what}"
        )
    return edit or Finding(
        CODE, "manual", requirement.start, requirement.stop, what, f"also require {new}"
    )
