"""PM307: requirements name MosaicML Streaming, for ``--target streaming``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.edits import Class, Edit, Finding
from mdstorm_migrate.module import PythonModule
from mdstorm_migrate.names import CONF_KEY, NEW_ROOT
from mdstorm_migrate.rules import all_rules
from mdstorm_migrate.sources.document import Document, Kind

CODE = "PM307"
TITLE = "Requirements name mosaicml-streaming"
CLASS: Class = "review"
KIND: tuple[Kind, ...] = (
    "cluster",
    "conda",
    "docker",
    "magic",
    "pipfile",
    "pyproject",
    "python",
    "requirements",
    "setup_cfg",
    "shell",
)
TARGETS = ("streaming",)

_DISTRIBUTION = "mosaicml-streaming"
_MESSAGE = "require mosaicml-streaming; keep petastorm beside it while some files import that"
_REQUIREMENT = re.compile(rf"{NEW_ROOT}(\[[^\]]*\])?")


def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield what the rules for mdstorm's requirements do, with the other distribution."""
    kind = module.document.kind if isinstance(module, PythonModule) else module.kind
    for rule in all_rules():
        if rule.code.startswith("PM4") and kind in rule.kinds:
            for found in rule.check(module):
                yield from _renamed(found, module.text)


def _renamed(found: Edit | Finding, text: str) -> Iterator[Edit | Finding]:
    if isinstance(found, Finding):
        remedy = found.remedy and found.remedy.replace(NEW_ROOT, _DISTRIBUTION)
        if found.cls == "manual":
            message = found.message.replace(NEW_ROOT, _DISTRIBUTION)
            yield replace(found, rule=CODE, message=message, remedy=remedy)
        return
    if text[found.start : found.stop] == CONF_KEY or found.message.startswith("filter"):
        return  # settings of Petastorm, which stay as long as it does
    new = _REQUIREMENT.sub(_DISTRIBUTION, found.replacement)
    yield replace(found, rule=CODE, cls=CLASS, replacement=new, message=_MESSAGE)
