"""Calls that set the parent cache directory in the Spark conf."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, last_name

#: The attribute of `SparkDatasetConverter` that holds the key.
CONSTANT = "PARENT_CACHE_DIR_URL_CONF"

SETTERS = frozenset({"set", "config"})


@dataclass(frozen=True)
class ConfWrite:
    """A call such as ``spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, url)``."""

    call: ast.Call
    key: ast.expr
    value: ast.expr


def compared_key(module: PythonModule) -> ast.AST | None:
    """Return where the constant is compared, which goes on holding Petastorm's key; None if not."""
    for node in module.scopes.parents if CONSTANT in module.text else ():
        if isinstance(node, ast.Attribute) and node.attr == CONSTANT:
            match module.scopes.parents.get(node):
                case ast.Compare() as found:
                    return found
                case ast.Call(func=ast.Attribute(attr=name)) as found if name.startswith("assert"):
                    return found
    return None


def is_asserted(module: PythonModule, literal: ast.Constant) -> bool:
    """Whether a literal stands in what a mock is asserted to be called with."""
    for parent in module.ancestors(literal):
        if isinstance(parent, ast.stmt):
            return False
        if isinstance(parent, ast.Call):
            name = last_name(parent.func)
            if re.fullmatch(r"assert_(?:any_call|called\w*|has_calls|not_called)|call", name):
                return True
    return False


def is_set(module: PythonModule, literal: ast.Constant) -> bool:
    """Whether a literal is the key of a call that sets something."""
    call = module.scopes.parents.get(literal)
    if isinstance(call, ast.keyword):
        call = module.scopes.parents.get(call)
    is_method = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    return is_method and call.func.attr in SETTERS  # type: ignore[union-attr]


def conf_writes(module: PythonModule) -> Iterator[ConfWrite]:
    """Yield the calls that set the parent cache directory, in the order of the text."""
    for call in module.scopes.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in SETTERS:
            found = _key_and_value(call)
            if found is not None and _is_key(found[0]):
                yield ConfWrite(call, *found)


def _key_and_value(call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    given = {word.arg: word.value for word in call.keywords}
    given.update(zip(("key", "value"), call.args, strict=False))
    key, value = given.get("key"), given.get("value")
    return (key, value) if key is not None and value is not None else None


def _is_key(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == CONSTANT
    return string_value(node) in (CONF_KEY, NEW_CONF_KEY)
