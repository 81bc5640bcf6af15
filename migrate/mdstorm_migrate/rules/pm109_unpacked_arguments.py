"""PM109: calls with ``*arguments`` and ``**arguments``, which cannot be checked."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.calls import given_arguments, keys_of
from mdstorm_migrate.python.module import PythonModule

CODE = "PM109"
TITLE = "Unpacked arguments cannot be checked"
CLASS: Class = "note"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a note for each call to Petastorm's API with ``*`` or ``**``.

    PM106 and PM113 check the keys of dictionaries that are written out in the file.
    """
    for given in given_arguments(module):
        stars = [one for one in given.positional if isinstance(one, ast.Starred)]
        unpacked = [f"*{module.source_of(one.value)}" for one in stars]
        words = [one.value for one in given.call.keywords if one.arg is None]
        words = [one for one in words if not any(keys_of(module, given.call, one))]
        unpacked += [f"**{module.source_of(one)}" for one in words]
        for arguments in unpacked:
            what = f"the arguments in `{arguments}` of {given.function}() were not checked"
            yield Finding(CODE, CLASS, *module.span(given.call.func), what)
