"""Comparisons of the names of modules and of loggers with strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mdstorm_migrate.python.module import PythonModule

#: What holds the name of a module, or of the logger of a message.
_HOLDS_MODULE = re.compile(
    r"[\w.()]+\.__(?:module|name|package)__|\b(?:rec|record|logger|log)\.name\b|^module(?:_name)?\b"
    r"|(?:repr|str)\(type\([\w.]+\)\)|\b\w+\.record_tuples\b|\.records\[-?\d+\]\.name\b"
)
#: Tables whose keys are the names of all modules, or of all loggers.
_NAMES_ALL = re.compile(
    r"(?:\bsys|\b(?:__import__|import_module)\('sys'\))\.modules\b|\bloggerDict\b"
)


class ModuleTest(NamedTuple):
    """A comparison of the name of a module or of a logger with a string, or a table of strings."""

    #: The name, as it is spelled.
    asked: str
    #: The string or the table, where it is compared.
    node: ast.AST


def in_find_class(module: PythonModule, node: ast.AST) -> bool:
    """Whether a node stands in ``find_class``, the method of unpicklers that finds classes."""
    return "find_class" in (getattr(one, "name", "") for one in module.ancestors(node))


def module_test(module: PythonModule, string: ast.Constant) -> ModuleTest | None:
    """Return where a string is compared with the name of a module or of a logger.

    As in ``cls.__module__ == "petastorm.reader"`` and ``record.name.startswith("petastorm")``. A
    table of such strings is followed by its name.
    """
    child: ast.AST = string
    for parent in module.ancestors(string):
        match parent:
            case ast.Tuple() | ast.List() | ast.Set():
                child = parent
            case ast.Assign(targets=[ast.Name(id=name)]) if child is not string:
                tests = (_test_of(module, node) for node in _named(module, name))
                return next(filter(None, tests), None)
            case _:
                return _test_of(module, child)
    return None


def _named(module: PythonModule, name: str) -> Iterator[ast.AST]:
    """Yield where a name is read, also as an attribute of a class."""
    yield from (one.node for one in module.scopes.references.get(name, ()))
    for node in module.scopes.parents:
        if isinstance(node, ast.Attribute) and node.attr == name:
            yield node


def _test_of(module: PythonModule, node: ast.AST) -> ModuleTest | None:
    """Return the comparison of an expression with the name of a module."""
    match module.scopes.parents.get(node):
        case ast.Compare(left=left, comparators=comparators):
            others = [left, *comparators]
        case ast.Call(func=ast.Attribute(attr="startswith", value=value)) as call:
            others = [value] if node in call.args else []
        case ast.Call(func=ast.Attribute(attr=name), args=[*given]) if name.startswith("assert"):
            others = [one for one in given if one is not node]
        case _:
            return None
    found = (_HOLDS_MODULE.search(ast.unparse(one)) for one in others)
    asked = next((match[0] for match in found if match is not None), None)
    asked = asked or next(
        (ast.unparse(one) for one in others if _is_listed_name(module, one)), None
    )
    return None if asked is None else ModuleTest(asked, node)


def _is_listed_name(module: PythonModule, node: ast.expr) -> bool:
    """Whether it is a name in `sys.modules`, of a logger that there is, or of a record's."""
    for table in tables_of(module, node):
        if ".records" in table:
            return re.search(r"\.name\b", ast.unparse(node)) is not None
        return _NAMES_ALL.search(table) is not None
    return False


def tables_of(module: PythonModule, node: ast.expr) -> Iterator[str]:
    """Yield what the loops go over whose items a node is made of, as it is spelled."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    for parent in module.ancestors(node):
        loops: Sequence[ast.For | ast.comprehension] = []
        if isinstance(parent, ast.For):
            loops = [parent]
        elif isinstance(parent, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            loops = parent.generators
        for loop in loops:
            if isinstance(loop.target, ast.Name) and loop.target.id in names:
                yield ast.unparse(loop.iter)
