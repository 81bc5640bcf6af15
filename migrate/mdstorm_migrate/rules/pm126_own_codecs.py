"""PM126: codecs of the project's own, which mdstorm does not take."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.own_codecs import own_codecs

CODE = "PM126"
TITLE = "Codecs of the project's own: the file waits for review"
CLASS: Class = "manual"
KIND = "python"

_ADVICE = (
    "give fields one of Petastorm's, or leave their datasets with Petastorm: "
    "docs/differences.md#schemas-codecs-and-datasets-of-rows of mdstorm"
)
_BECAUSE = "mdstorm writes and reads no dataset with a codec that is not Petastorm's"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each class made from a codec, and for each field that has another one."""
    for node, name in own_codecs(module):
        what = f"`{name}` is a codec of your own, which mdstorm rejects"
        start, stop = module.span(node)
        if isinstance(node, ast.ClassDef):
            start = module.text.index(name, start)
            stop = start + len(name)
        remedy = f"{what}: {_ADVICE}"
        yield Finding(CODE, CLASS, start, stop, what, remedy, holds=name, because=_BECAUSE)
