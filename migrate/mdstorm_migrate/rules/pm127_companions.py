"""PM127: packages that are made for Petastorm, or use it themselves, and get its objects."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.companions import companions
from mdstorm_migrate.python.handed_on import handed_on
from mdstorm_migrate.python.module import PythonModule

CODE = "PM127"
TITLE = "Packages made for Petastorm: what is given to them waits for review"
CLASS: Class = "manual"
KIND = "python"

_BECAUSE = "what it is given would be mdstorm's"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each of the first: a note, unless it is given an object; and of uses."""
    for alias, name, call in companions(module):
        what = f"`{name}` seems to be made for Petastorm, which it may need itself"
        if call is None:
            yield Finding(CODE, "note", *module.span(alias), what)
        else:
            yield _held(module, call, name, what)
    for call, name in handed_on(module):
        what = f"`{name}` is given this for Petastorm, which it may import itself"
        yield _held(module, call, name, what)


def _held(module: PythonModule, call: ast.Call, name: str, what: str) -> Finding:
    remedy = f"{what}: see that it takes mdstorm's objects, or leave the file with Petastorm"
    span = module.span(call.func)
    return Finding(CODE, CLASS, *span, what, remedy, holds=name, because=_BECAUSE)
