"""PM116: imports in examples of docstrings, which doctest runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.petastorm.names import OLD_ROOT, counterpart, is_module, renamed
from mdstorm_migrate.python.literals import inner_span
from mdstorm_migrate.python.module import PythonModule

CODE = "PM116"
TITLE = "Examples in docstrings import from mdstorm"
CLASS: Class = "exact"
KIND = "python"

_IMPORT = re.compile(
    rf"^[ \t]*>>>[ \t]+(?P<statement>from[ \t]+(?P<module>{OLD_ROOT}[\w.]*)[ \t]+import[ \t]+.*?"
    rf"|import[ \t]+{OLD_ROOT}\b.*?)[ \t]*\r?$",
    re.MULTILINE,
)
#: A module that an example prints, such as that of a class.
_OUTPUT = re.compile(
    rf"""^[ \t]*>>>[^\n]*\n(?:[ \t]*\.\.\.[^\n]*\n)*
    (?:(?![ \t]*>>>)[ \t]*\S[^\n]*\n)*?
    (?![ \t]*>>>)[ \t]*(?:[^\s>][^\n]*?)??(?<![\w./-])(?P<module>{OLD_ROOT}(?:\.[a-z]\w*)+)""",
    re.MULTILINE | re.VERBOSE,
)


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield an edit for each import of what mdstorm has, and a finding for the others."""
    for string in module.scopes.strings:
        span = inner_span(module, string)
        if span is not None:
            for match in _IMPORT.finditer(module.text, *span):
                yield from _rewritten(match)
            for output in _OUTPUT.finditer(module.text, *span):
                if is_module(output["module"]):
                    what = f"an example in a docstring expects `{output['module']}` to be printed"
                    remedy = f"{what}: mdstorm prints its own name"
                    yield Finding(CODE, "manual", *output.span("module"), what, remedy)


def _rewritten(match: re.Match[str]) -> Iterator[Edit | Finding]:
    old = match["module"]
    if old is not None and _is_offered(match["statement"], old):
        message = f"the example imports from `{renamed(old)}`"
        yield Edit(CODE, CLASS, *match.span("module"), renamed(old), message)
        return
    what = "an example in a docstring imports Petastorm, and was left"
    yield Finding(CODE, "manual", *match.span("statement"), what, f"{what}: change it by hand")


def _is_offered(statement: str, module: str) -> bool:
    """Whether mdstorm has all that a ``from`` statement of one line names, in the same module."""
    try:
        (imported,) = ast.parse(statement).body
    except (SyntaxError, ValueError):
        return False
    if not isinstance(imported, ast.ImportFrom):
        return False
    found = [counterpart(module, alias.name) for alias in imported.names]
    return is_module(module) and all(
        one is not None and one.module == renamed(module) for one in found
    )
