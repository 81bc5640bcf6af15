"""PM105: the Spark conf key of the parent cache directory, as a literal."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY
from mdstorm_migrate.python.conf_writes import CONSTANT, SETTERS
from mdstorm_migrate.python.literals import inner_span, string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules import pm201_cache_dir_argument as pm201

CODE = "PM105"
TITLE = "Set the parent cache directory under mdstorm's key"
CLASS: Class = "exact"
KIND = "python"

_TYPO = f"SparkDatasetConverter.{CONSTANT}"


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield an edit for each literal key, and a finding where a name was put in quotes.

    mdstorm reads both keys, its own first; the constant holds Petastorm's. So the edit is exact
    only where this file sets the literal and does nothing else with either key.
    """
    literals = [string for string in module.scopes.strings if string.value == CONF_KEY]
    only_set = CONSTANT not in module.text and all(_is_set(module, one) for one in literals)
    cls: Class = "exact" if only_set else "review"
    removed = [
        one
        for one in (pm201.check(module) if module.applies("PM201", "review") else ())
        if isinstance(one, Edit)
    ]
    for literal in literals:
        span = inner_span(module, literal)
        if span is not None and not any(one.start <= span[0] < one.stop for one in removed):
            message = f'"{CONF_KEY}" becomes "{NEW_CONF_KEY}"'
            yield Edit(CODE, cls, *span, NEW_CONF_KEY, message, CODE)
    for call in module.scopes.calls:
        if call.args and string_value(call.args[0]) == _TYPO:
            what = f"`{_TYPO}` is in quotes, so another key is set than the one that is read"
            remedy = f"{what}: remove the quotes"
            yield Finding(CODE, "manual", *module.span(call.args[0]), what, remedy)


def _is_set(module: PythonModule, literal: ast.Constant) -> bool:
    call = module.scopes.parents.get(literal)
    if isinstance(call, ast.keyword):
        call = module.scopes.parents.get(call)
    is_method = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    return is_method and call.func.attr in SETTERS  # type: ignore[union-attr]
