"""What Python says of imports that fail, where tests wait for it."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import called
from mdstorm_migrate.python.literals import inner_span
from mdstorm_migrate.python.module import PythonModule

_FAILED = re.compile(rf"""import of \\?["']?(?P<module>{OLD_ROOT})\b""")
_SEARCHING = frozenset(
    ["assertIn", "assertRaisesRegex", "assertRegex", "fullmatch", "match", "search"]
)


def of_failed_import(module: PythonModule, string: ast.Constant) -> int | None:
    """Return where a string that is compared has the name in what Python says of an import.

    That is ``import of petastorm halted``, where a test has taken it out of `sys.modules`.
    """
    inner = inner_span(module, string)
    found = _FAILED.search(module.text, *inner) if inner is not None else None
    if found is None:
        return None
    match module.scopes.parents.get(string):
        case ast.Compare() | ast.keyword(arg="match"):
            return found.start("module")
        case ast.Call() as call if called(call) in _SEARCHING:
            return found.start("module")
    return None
