"""PM105: the Spark conf key of the parent cache directory, as a literal."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.petastorm.configuration import SET_KEY
from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY
from mdstorm_migrate.python.call_strings import is_docstring
from mdstorm_migrate.python.conf_writes import CONSTANT, compared_key, is_asserted, is_set
from mdstorm_migrate.python.literals import inner_span, string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules import pm201_cache_dir_argument as pm201

CODE = "PM105"
TITLE = "Set the parent cache directory under mdstorm's key"
CLASS: Class = "exact"
KIND = "python"

_TYPO = f"SparkDatasetConverter.{CONSTANT}"
_MESSAGE = f'"{CONF_KEY}" becomes "{NEW_CONF_KEY}"'


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield an edit for each literal key, and a finding where a name was put in quotes.

    mdstorm reads both keys, its own first; the constant holds Petastorm's. So the edit is exact
    only where this file sets the literal and does nothing else with either key. What the constant
    is compared with stays.
    """
    literals = [string for string in module.scopes.strings if string.value == CONF_KEY]
    compared = compared_key(module)
    if compared is not None:
        kept = [one for one in literals if not is_set(module, one)]
        literals = [one for one in literals if one not in kept]
        for literal in kept:
            what = f"this key stays: the file compares `{CONSTANT}`, which holds Petastorm's key"
            yield Finding(CODE, "note", *module.span(literal), what)
    asserted = [one for one in literals if is_asserted(module, one)]
    literals = [one for one in literals if one not in asserted]
    for literal in asserted:
        yield _of_assertion(module, literal)
    texts = sorted(set(_in_texts(module)))
    why = _why_not_exact(module, literals, texts)
    cls: Class = "review" if why else "exact"
    message = f"{_MESSAGE}; {why}" if why else _MESSAGE
    removed = [
        one
        for one in (pm201.check(module) if module.applies("PM201", "review") else ())
        if isinstance(one, Edit)
    ]
    spans = [*filter(None, (inner_span(module, literal) for literal in literals)), *texts]
    for start, stop in spans:
        if not any(one.start <= start < one.stop for one in removed):
            yield Edit(CODE, cls, start, stop, NEW_CONF_KEY, message, CODE)
    for call in module.scopes.calls:
        if call.args and string_value(call.args[0]) == _TYPO:
            what = f"`{_TYPO}` is in quotes, so another key is set than the one that is read"
            remedy = f"{what}: remove the quotes"
            yield Finding(CODE, "manual", *module.span(call.args[0]), what, remedy)


def _why_not_exact(
    module: PythonModule, literals: Iterable[ast.Constant], texts: Iterable[tuple[int, int]]
) -> str | None:
    """Return why somebody must see that all places name the same key; None if only code sets it."""
    if CONSTANT in module.text:
        return f"this file also uses `{CONSTANT}`, which holds Petastorm's key"
    if any(texts):
        return "a command or SQL names it, too; mdstorm reads both keys, its own first"
    if not all(is_set(module, one) for one in literals):
        return "this file does more than set it; mdstorm reads both keys, its own first"
    return None


def _of_assertion(module: PythonModule, literal: ast.Constant) -> Finding:
    """Leave the key that a mock waits for: which one it gets is for the code under test."""
    what = f"this key stays: a mock waits for it, and `{CONSTANT}` holds Petastorm's key"
    if module.around.conf is not None:  # somewhere the key itself or the constant stays
        return Finding(CODE, "note", *module.span(literal), what)
    remedy = f"{what}: name mdstorm's if the code under test sets the literal, which becomes that"
    return Finding(CODE, "manual", *module.span(literal), what, remedy)


def _in_texts(module: PythonModule) -> Iterator[tuple[int, int]]:
    """Yield the spans of the key in commands and in SQL: ``spark.sql(f"SET {key} = {url}")``."""
    for string in module.scopes.strings:
        if string.value == CONF_KEY or not SET_KEY.search(str(string.value)):
            continue
        if is_docstring(module, string):
            continue
        around = module.scopes.parents.get(string)
        literal = around if isinstance(around, ast.JoinedStr) else string
        for found in SET_KEY.finditer(module.text, *module.span(literal)):
            yield found.span("key")
