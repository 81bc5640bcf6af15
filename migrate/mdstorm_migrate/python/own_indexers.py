"""Indexers of row groups that are not Petastorm's: their classes, and what an index is built of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mdstorm_migrate.python.keywords import given_arguments
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.objects import bases_of
from mdstorm_migrate.python.own_codecs import is_own_class

_BASE = "RowGroupIndexerBase"
#: Those whose indexes mdstorm stores, also of classes made from them.
_INDEXERS = frozenset({"FieldNotNullIndexer", "SingleFieldIndexer"})
_BUILDS = "build_rowgroup_index"
#: Where it gets the indexers, if not by keyword.
_POSITION = 2


def own_indexers(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """Yield the classes and the arguments, and the names of the classes."""
    classes = set()
    for node in module.scopes.parents:
        if isinstance(node, ast.ClassDef):
            bases = bases_of(module, node)
            if bases & {_BASE, *_INDEXERS}:
                classes.add(node.name)
            if _BASE in bases and not bases & _INDEXERS:
                yield node, node.name
    for given in given_arguments(module):
        if given.function == _BUILDS:
            by_name = [one.value for one in given.call.keywords if one.arg == "indexers"]
            for values in [*given.positional[_POSITION : _POSITION + 1], *by_name]:
                for one in getattr(values, "elts", ()):
                    yield from _of_item(module, one, classes)


def _of_item(
    module: PythonModule, node: ast.expr, classes: set[str]
) -> Iterator[tuple[ast.AST, str]]:
    """Yield an indexer whose class is made from none of Petastorm's, as far as the file says."""
    if not isinstance(node, ast.Call) or not is_own_class(module, node.func):
        return
    name = last_name(node.func)
    if name not in classes and any(
        isinstance(one, ast.ClassDef) and one.name == name for one in module.scopes.parents
    ):
        yield node, name
