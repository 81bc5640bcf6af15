"""Strings that ask pip for the distribution of Petastorm, in programs that run them."""

from __future__ import annotations

import ast

from mdstorm_migrate.packaging.commands import queries
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import before_in_list, function_of
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule

#: Functions that run commands, and those of which fail where the command does.
_RUNS = frozenset({"Popen", "call", "getoutput", "getstatusoutput", "popen", "run", "system"})
_CHECKS = frozenset({"check_call", "check_output"})


def asks_pip(module: PythonModule, string: ast.Constant) -> bool | None:
    """Whether something depends on the answer of pip; None if a string is no question to it."""
    call = _runner(module, string)
    if call is None or not _is_question(module, string):
        return None
    name = function_of(module, call)
    checks = any(one.arg == "check" and ast.unparse(one.value) == "True" for one in call.keywords)
    is_alone = isinstance(module.scopes.parents.get(call), ast.Expr)
    return name in _CHECKS or checks or not is_alone


def _runner(module: PythonModule, string: ast.Constant) -> ast.Call | None:
    """Return the call that runs a string as a command, or a list that it is in."""
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.List | ast.Tuple):
        parent = module.scopes.parents.get(parent)
    is_run = isinstance(parent, ast.Call) and function_of(module, parent) in _RUNS | _CHECKS
    return parent if is_run and isinstance(parent, ast.Call) else None


def _is_question(module: PythonModule, string: ast.Constant) -> bool:
    value = str(string.value)
    if value != OLD_ROOT:
        return any(queries(value))
    words = module.scopes.parents.get(string)
    listed = [string_value(one) or "" for one in getattr(words, "elts", ())]
    return before_in_list(module, string) == "show" and any("pip" in one for one in listed)
