"""Calls that set the parent cache directory in the Spark conf."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY
from mdstorm_migrate.python.module import PythonModule, string_value

#: The attribute of `SparkDatasetConverter` that holds the key.
CONSTANT = "PARENT_CACHE_DIR_URL_CONF"

_SETTERS = frozenset({"set", "config"})


@dataclass(frozen=True)
class ConfWrite:
    """A call such as ``spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, url)``."""

    call: ast.Call
    key: ast.expr
    value: ast.expr


def conf_writes(module: PythonModule) -> Iterator[ConfWrite]:
    """Yield the calls that set the parent cache directory, in the order of the text."""
    for call in module.scopes.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _SETTERS:
            given = {word.arg: word.value for word in call.keywords}
            given.update(zip(("key", "value"), call.args, strict=False))
            if _is_key(given.get("key")) and "value" in given:
                yield ConfWrite(call, given["key"], given["value"])


def _is_key(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == CONSTANT
    return string_value(node) in (CONF_KEY, NEW_CONF_KEY)
