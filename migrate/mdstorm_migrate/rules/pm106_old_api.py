"""PM106: names and arguments from older versions of Petastorm."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.petastorm.names import RENAMED
from mdstorm_migrate.petastorm.signatures import FIXED_POSITIONS, REMOVED_KEYWORDS, RENAMED_KEYWORDS
from mdstorm_migrate.python.calls import given_arguments, keywords_of_call
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding

CODE = "PM106"
TITLE = "Names and arguments of older versions of Petastorm"
CLASS: Class = "review"
KIND = "python"

_NUMBERS = {3: "third", 4: "fourth", 6: "sixth"}


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield edits for renamed arguments, and findings for renamed imports and removed arguments.

    PM101 moves renamed imports if edits for review are applied. Code with a removed argument only
    runs under an old version of Petastorm, so its imports need review.
    """
    if not module.applies(CODE, "review"):
        for name in imported_names(module):
            for binding in name.imports:
                yield from _renamed(module, binding)
    for given in given_arguments(module):
        for keyword, node in keywords_of_call(module, given.call):
            advice = REMOVED_KEYWORDS.get(given.function, {}).get(keyword)
            new = RENAMED_KEYWORDS.get((given.function, keyword))
            if new is not None and node in given.call.keywords:
                start, _ = module.span(node)
                message = f"`{keyword}` is now called `{new}`"
                yield Edit(CODE, "exact", start, start + len(keyword), new, message)
            elif advice is not None:
                what = f"{given.function}() no longer has an argument `{keyword}`"
                yield _finding(module, node, what, advice, f"{given.function}({keyword}=)")
        fixed = FIXED_POSITIONS.get(given.function)
        if fixed is not None and len(given.positional) > fixed:
            what = (
                f"Petastorm 0.12 changed the positional arguments of {given.function}() after the "
                f"{_NUMBERS[fixed]}"
            )
            advice = "pass the rest by keyword"
            yield _finding(module, given.positional[fixed], what, advice, f"{given.function}()")


def _finding(module: PythonModule, node: ast.AST, what: str, advice: str, holds: str) -> Finding:
    """Return the finding about an argument that only an old version of Petastorm accepts."""
    return Finding(CODE, "manual", *module.span(node), what, f"{what}: {advice}", holds=holds)


def _renamed(module: PythonModule, binding: Binding) -> Iterator[Finding]:
    alias, statement = binding.node, binding.statement
    if isinstance(statement, ast.ImportFrom) and isinstance(alias, ast.alias):
        new = RENAMED.get((statement.module or "", alias.name))
        if new is not None:
            what = f"`{alias.name}` is now called `{new}`"
            yield Finding(CODE, CLASS, *module.span(alias), what, holds=alias.name)
