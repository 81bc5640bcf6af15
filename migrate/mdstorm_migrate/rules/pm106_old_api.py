"""PM106: names and arguments of older versions of Petastorm."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.petastorm.names import RENAMED
from mdstorm_migrate.petastorm.signatures import REMOVED_KEYWORDS
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.keywords import keywords_of_call
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding

CODE = "PM106"
TITLE = "Names and arguments of older versions of Petastorm"
CLASS: Class = "review"
KIND = "python"


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield what was renamed, and arguments that are gone.

    A renamed import is moved by PM101, if edits to review are applied.
    """
    if not module.applies(CODE, "review"):
        for name in imported_names(module):
            for binding in name.imports:
                yield from _renamed(module, binding)
    for call, path in module.calls:
        function = path.rpartition(".")[2]
        for keyword, node in keywords_of_call(module, call):
            advice = REMOVED_KEYWORDS.get(function, {}).get(keyword)
            if advice is not None:
                what = f"{function}() has no argument `{keyword}` any more"
                span = module.span(node)
                yield Finding(CODE, "manual", *span, what, f"{what}: {advice}")


def _renamed(module: PythonModule, binding: Binding) -> Iterator[Finding]:
    alias, statement = binding.node, binding.statement
    if isinstance(statement, ast.ImportFrom) and isinstance(alias, ast.alias):
        new = RENAMED.get((statement.module or "", alias.name))
        if new is not None:
            what = f"`{alias.name}` is called `{new}` today"
            yield Finding(CODE, CLASS, *module.span(alias), what, holds=alias.name)
