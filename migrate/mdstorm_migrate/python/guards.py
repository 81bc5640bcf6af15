"""Code that asks for a name before it uses it, or goes on without it."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.python.module import PythonModule

_ASKING = re.compile(r"\bhasattr\(|(?<![a-z])version", re.IGNORECASE)
_LACKING_NAME = re.compile(r"\b(?:AttributeError|ImportError|ModuleNotFoundError|NameError)\b")
_LACKING_ARGUMENT = re.compile(r"\bTypeError\b")
#: A test that a Python passes which mdstorm does not run on, as ``sys.version_info[0] < 3``.
_OLD_PYTHON = re.compile(
    r"(?:\w+\.)?(?:version_info(?:\[0\]|\.major)? (?:< (?:3|\(3,(?: (?:\d|10))?\))|== 2)|PY2)"
)


def is_of_old_python(module: PythonModule, node: ast.AST) -> bool:
    """Whether code runs on a Python alone that mdstorm does not run on."""
    child = node
    for parent in module.ancestors(node):
        match parent:
            case ast.If(test=test, body=body) if child in body:
                if _OLD_PYTHON.fullmatch(ast.unparse(test)):
                    return True
        child = parent
    return False


def is_guarded(module: PythonModule, node: ast.AST, *, is_argument: bool = False) -> bool:
    """Whether code chooses by version, or by a failure, between a node and something else."""
    return is_asked_for(module, node) or _is_tried(module, node, is_argument)


def is_asked_for(module: PythonModule, node: ast.AST) -> bool:
    """Whether code chooses by version or by ``hasattr`` between a node and something else."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.If | ast.IfExp) and _ASKING.search(ast.unparse(parent.test)):
            return True
        if isinstance(parent, ast.Call) and ast.unparse(parent.func) in ("getattr", "hasattr"):
            return True
    return False


def _is_tried(module: PythonModule, node: ast.AST, is_argument: bool) -> bool:
    lacking = _LACKING_ARGUMENT if is_argument else _LACKING_NAME
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try) and _is_choice(parent, child, lacking):
            return True
        child = parent
    return False


def _is_choice(statement: ast.Try, child: ast.AST, lacking: re.Pattern[str]) -> bool:
    """Whether a ``try`` goes on where a name is missing; a bare ``except`` does for an import."""
    if child in statement.finalbody or child in statement.orelse:
        return False
    imports = any(isinstance(one, ast.Import | ast.ImportFrom) for one in statement.body)
    for handler in statement.handlers:
        kind = "" if handler.type is None else ast.unparse(handler.type)
        if lacking.search(kind) or (imports and kind in ("", "Exception", "BaseException")):
            return True
    return False
