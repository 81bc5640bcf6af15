"""Strings that hold Python code."""

from __future__ import annotations

import ast
import itertools
import re
import textwrap

from mdstorm_migrate.python.built_names import RUNS
from mdstorm_migrate.python.call_strings import before_in_list
from mdstorm_migrate.python.formed import formed_text
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, last_name

#: A place in a text that ``%`` or ``format`` fills.
_PLACE = re.compile(r"%(?:\(\w+\))?[rsdf]|\{\w*(?:![rsa])?\}")


def is_code(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string, with what it is put together with, parses as Python."""
    return _parses(_whole(module, string))


def is_given_to_python(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string stands behind ``-c``, or is an argument of a command that ends with it."""
    if before_in_list(module, string) == "-c":
        return True
    parent = module.scopes.parents.get(string)
    if not (isinstance(parent, ast.List | ast.Tuple) and parent.elts[0] is string):
        return False
    match module.scopes.parents.get(parent):
        case ast.keyword() as word:
            call = module.scopes.parents.get(word)
            around = [one.value for one in call.keywords] if isinstance(call, ast.Call) else []
        case ast.Dict(values=around):
            pass
        case _:
            return False
    lists = (one.elts for one in around if isinstance(one, ast.List | ast.Tuple) and one.elts)
    return any(string_value(one[-1]) == "-c" for one in lists)


def is_run_by_name(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a name is given a string, or code that it is in, which a function runs, or Python.

    So ``exec(CODE)`` and ``run([sys.executable, "-c", CODE])`` behind ``CODE = "…"``.
    """
    names = _names_of(module, string)
    return bool(names) and any(_runs(node) & names for node in module.scopes.parents)


def _names_of(module: PythonModule, string: ast.Constant) -> set[str]:
    """Return the names that are given a string, whatever is done with it before."""
    for parent in module.ancestors(string):
        match parent:
            case ast.Assign(targets=targets):
                return {one for target in targets if (one := last_name(target))}
            case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                return {last_name(target)} - {""}
            case ast.stmt() if not isinstance(parent, ast.Expr):
                return set()
    return set()


def _runs(node: ast.AST) -> set[str]:
    """Return the names of what a call runs as code, or a list of words hands to ``-c``."""
    given: list[ast.expr] = []
    match node:
        case ast.Call(func=func, args=[first, *_]) if last_name(func) in RUNS:
            given = [first]
        case ast.List(elts=words) | ast.Tuple(elts=words) | ast.Call(args=words):
            pairs = itertools.pairwise(words)
            given = [code for option, code in pairs if string_value(option) == "-c"]
    named = (one for code in given for one in ast.walk(code))
    return {last_name(one) for one in named if isinstance(one, ast.Name | ast.Attribute)}


def _whole(module: PythonModule, string: ast.Constant) -> str:
    """Return the text that a string is put together with, with a number for what is filled in."""
    formed = formed_text(string, module.scopes.parents)
    return str(string.value) if formed is None else formed[1]


def _parses(text: str) -> bool:
    """Whether a text is code, perhaps with an indent, or with places that ``%`` fills."""
    for one in (text, _PLACE.sub("0", text)):
        try:
            ast.parse(textwrap.dedent(one))
        except (SyntaxError, ValueError):
            continue
        return True
    return False
