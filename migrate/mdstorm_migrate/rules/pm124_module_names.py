"""PM124: names of modules that are compared with Petastorm's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.module_tests import in_find_class, module_test

CODE = "PM124"
TITLE = "Names of modules that are compared"
CLASS: Class = "manual"
KIND = "python"

_NAME = re.compile(rf"{OLD_ROOT}(?:\.\w+)*\.?")


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each string with which the name of a module or a logger is compared."""
    for string in module.scopes.strings:
        value = str(string.value)
        test = module_test(module, string) if _NAME.fullmatch(value) else None
        if test is None or in_find_class(module, test.node):
            continue  # PM121 has those of unpicklers
        if not _knows_both(module, string):
            what = f'`{test.asked}` is compared with "{value}"'
            remedy = (
                f"{what}: for mdstorm it begins with `mdstorm`, and with `mdstorm_backend` where "
                "it is the engine's"
            )
            yield Finding(CODE, CLASS, *module.span(string), what, remedy)


def _knows_both(module: PythonModule, string: ast.Constant) -> bool:
    """Whether the comparison names mdstorm as well."""
    around = (one for one in module.ancestors(string) if isinstance(one, ast.Compare | ast.BoolOp))
    return any(NEW_ROOT in ast.unparse(one) for one in around)
