"""PM127: packages that are made for Petastorm, and get its objects."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.companions import companions
from mdstorm_migrate.python.module import PythonModule

CODE = "PM127"
TITLE = "Packages made for Petastorm: what is given to them waits for review"
CLASS: Class = "manual"
KIND = "python"

_BECAUSE = "what it is given would be mdstorm's"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each such package: a note, unless it is given an object."""
    for alias, name, call in companions(module):
        what = f"`{name}` seems to be made for Petastorm, which it may need itself"
        if call is None:
            yield Finding(CODE, "note", *module.span(alias), what)
        else:
            remedy = (
                f"{what}: see that it takes mdstorm's objects, or leave the file with Petastorm"
            )
            span = module.span(call.func)
            yield Finding(CODE, CLASS, *span, what, remedy, holds=name, because=_BECAUSE)
