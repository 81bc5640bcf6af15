"""PM202: requirements for MosaicML Streaming become requirements for mdstorm."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.commands import is_commented_out
from mdstorm_migrate.packaging.lists import is_generated
from mdstorm_migrate.packaging.requirement import VERSIONS, quoted_word
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules.rule import rule

CODE = "PM202"

_KINDS: tuple[Kind, ...] = (
    *("requirements", "pyproject", "setup_cfg", "conda", "pipfile", "docker", "shell", "magic"),
    *("cluster", "python"),
)
_REQUIREMENT = re.compile(
    rf"""(?<![\w./@:-])mosaicml[-_.]streaming(?![\w/-]|\.\w)
    (?:[ \t]*\[(?P<extras>[^\]\n]*)\])? (?P<version>[ \t]*{VERSIONS})?""",
    re.IGNORECASE | re.VERBOSE,
)
#: MosaicML Streaming's extras, and mdstorm's extras that install the same packages.
_EXTRAS = {"all": "all", "databricks": "databricks", "spark": "spark"}
#: Text that continues a name: the value of a TOML key, a conda version, a URL, or the start of
#: concatenated or interpolated text.
_OTHER = re.compile(r"""["']?[ \t]*(?:=(?!=)|:|@)|["'][ \t]*[+%]|\$|\{""")
_MDSTORM = re.compile(r"(?<![\w./-])(?<!TODO\()mdstorm(?![\w./-])")
_MESSAGE = "require mdstorm; object stores such as S3 need extras, which docs/storage.md lists"


@rule(CODE, "Requirements for MosaicML Streaming name mdstorm", "exact", *_KINDS)
def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield edits to requirements, or findings for those that need manual review."""
    document = module.document if isinstance(module, PythonModule) else module
    text = document.text
    if "streaming" not in text or (document.kind == "requirements" and is_generated(text)):
        return
    for found in _REQUIREMENT.finditer(text):
        if is_commented_out(text, found.start()):
            continue
        before = text[max(found.start() - 1, 0) : found.start()]
        if isinstance(module, PythonModule) and before not in ("'", '"'):
            continue
        is_conda = document.kind == "conda" and "pip:" not in text[: found.start()]
        importer = document.needs.streaming_importer
        if importer is not None:
            if _MDSTORM.search(text):
                continue
            what = f"{importer} still imports MosaicML Streaming, so this requirement stays"
            yield Finding(CODE, "manual", *found.span(), what, "also require mdstorm[torch]")
            continue
        if is_conda or _OTHER.match(text, found.end()) or _MDSTORM.search(text):
            remedy = "require mdstorm here, once, with the extra torch"
            what = "this requires MosaicML Streaming"
            yield Finding(CODE, "manual", *found.span(), what, remedy)
            continue
        given = [_EXTRAS.get(one.strip().lower()) for one in (found["extras"] or "").split(",")]
        wanted = document.needs.wanted
        extras = dict.fromkeys(filter(None, ["torch", *given, *wanted.extras]))
        new = f"mdstorm[{','.join(extras)}]{wanted.version}"
        if document.kind in ("docker", "shell", "magic"):
            new = quoted_word(text, *found.span(), new)
        yield Edit(CODE, "exact", *found.span(), new, _MESSAGE)
