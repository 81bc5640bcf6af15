"""PM202: requirements for MosaicML Streaming become requirements for mdstorm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.commands import is_commented_out
from mdstorm_migrate.packaging.lists import is_generated
from mdstorm_migrate.packaging.requirement import Requirement, find_requirements, quoted_word
from mdstorm_migrate.packaging.rewriting import Place, list_after
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules.rule import rule

CODE = "PM202"

_KINDS: tuple[Kind, ...] = (
    *("requirements", "pyproject", "setup_cfg", "conda", "pipfile", "docker", "shell", "magic"),
    *("cluster", "python"),
)
_NAME = "mosaicml[-_.]streaming"
#: MosaicML Streaming's extras, and mdstorm's extras that install the same packages.
_EXTRAS = {"all": "all", "databricks": "databricks", "spark": "spark"}
#: Text that follows a key.
_VALUE = re.compile(r"""["']?[ \t]*[=:]""")
_MDSTORM = re.compile(r"(?<![\w./-])(?<!TODO\()mdstorm(?![\w./-])")
_ALSO = "also require mdstorm"
#: How requirements are listed in files to which one can be added.
_PLACES: dict[Kind, Place] = {
    "conda": "item",
    "docker": "word",
    "magic": "word",
    "pyproject": "string",
    "python": "string",
    "requirements": "line",
    "setup_cfg": "ini",
    "shell": "word",
}
_MESSAGE = "require mdstorm; object stores such as S3 need extras, which docs/storage.md lists"


@rule(CODE, "Requirements for MosaicML Streaming name mdstorm", "exact", *_KINDS)
def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield edits to requirements, or findings for those that need manual review."""
    document = module.document if isinstance(module, PythonModule) else module
    text = document.text
    if "streaming" not in text or (document.kind == "requirements" and is_generated(text)):
        return
    for found in find_requirements(text, name=_NAME):
        span = found.start, found.stop
        if is_commented_out(text, found.start):
            continue
        before = text[max(found.start - 1, 0) : found.start]
        if isinstance(module, PythonModule) and before not in ("'", '"'):
            continue
        is_conda = document.kind == "conda" and "pip:" not in text[: found.start]
        is_other = is_conda or found.is_conda or found.is_copy or found.is_open
        is_other |= _VALUE.match(text, found.stop) is not None
        if document.needs.streaming_importer is not None:
            if not _MDSTORM.search(text):
                yield _also(document, found, is_other)
            continue
        if is_other or _MDSTORM.search(text):
            remedy = "require mdstorm here, once, with the extra torch"
            what = "this requires MosaicML Streaming"
            yield Finding(CODE, "manual", *span, what, remedy)
            continue
        new = _required(document, found)
        if document.kind in ("docker", "shell", "magic"):
            new = quoted_word(text, *span, new)
        yield Edit(CODE, "exact", *span, new, _MESSAGE)


def _required(document: Document, found: Requirement) -> str:
    """Return the requirement for mdstorm with the extras of one for MosaicML Streaming."""
    wanted = document.needs.wanted
    extras = dict.fromkeys(filter(None, ["torch", *map(_EXTRAS.get, found.extras), *wanted.extras]))
    return f"mdstorm[{','.join(extras)}]{wanted.version}"


def _also(document: Document, found: Requirement, is_other: bool) -> Edit | Finding:
    """Return the edit that also requires mdstorm, if anything moved to it; otherwise a finding."""
    needs, new = document.needs, _required(document, found)
    what = f"{needs.streaming_importer} still imports MosaicML Streaming, so this requirement stays"
    line = document.text[document.lines.start_of(found.start) : found.start]
    place = _PLACES.get(document.kind)
    is_alone = place not in ("line", "ini") or not line.strip()
    if needs.moved and not is_other and place is not None and is_alone:
        edit = list_after(document, found, CODE, place, [new], _ALSO)
        if edit is not None:
            return replace(edit, message=f"{_ALSO}; {what}", topic=None)
    return Finding(CODE, "manual", found.start, found.stop, what, f"also require {new}")
