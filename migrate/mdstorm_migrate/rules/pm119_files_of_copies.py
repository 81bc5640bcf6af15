"""PM119: the files of a converter, given to what reads Parquet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule, last_name

CODE = "PM119"
TITLE = "The copy of a converter is MDS, not Parquet"
CLASS: Class = "manual"
KIND = "python"

_ATTRIBUTES = frozenset({"cache_dir_url", "file_urls"})
#: What opens files, by the looks of its name.
_OPENING = re.compile(
    r"parquet|read|load|open|scan|glob|listdir|\bls\b|walk|copy|endswith", re.IGNORECASE
)


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each call that may open them and is not one of Petastorm's."""
    if not any(name in module.text for name in _ATTRIBUTES):
        return
    if not (imported_names(module) or module.around.takes_converters):
        return
    ours = {id(call) for call, _ in module.calls}
    functions = _functions(module)
    carriers = _carriers(module, functions)
    for node in ast.walk(module.tree):
        name = _carried(node, carriers)
        call = None if name is None else _receiver(module, node)
        if call is None or id(call) in ours:
            continue
        callee = ast.unparse(call.func)
        if isinstance(call.func, ast.Attribute):
            callee = (
                callee if isinstance(call.func.value, ast.Name | ast.Attribute) else call.func.attr
            )
        if callee in functions or not _OPENING.search(callee):
            continue
        what = f"`{name}` names MDS shards, not Parquet"
        if callee.rpartition(".")[2] == "endswith":
            remedy = f"{what}: if {callee}() looks for `.parquet`, look for `.mds` instead"
        else:
            remedy = (
                f"{what}: if {callee}() reads them, read the DataFrame, or write Parquet for it"
            )
        yield Finding(CODE, CLASS, *module.span(node), what, remedy, holds=name)


def _functions(module: PythonModule) -> dict[str, list[str]]:
    """Return the parameters of the functions of the file, by name."""
    return {
        node.name: [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _carriers(module: PythonModule, functions: dict[str, list[str]]) -> dict[str, str]:
    """Return the variables and parameters that hold them, with the attribute."""
    found: dict[str, str] = {}
    count = -1
    while count < len(found):
        count = len(found)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Assign | ast.For | ast.comprehension):
                value = node.value if isinstance(node, ast.Assign) else node.iter
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                found |= dict.fromkeys(names, name) if (name := _inner(value, found)) else {}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                given = zip(functions.get(node.func.id, ()), node.args, strict=False)
                found |= {one: name for one, value in given if (name := _inner(value, found))}
    return found


def _inner(value: ast.expr, carriers: dict[str, str]) -> str | None:
    """Return the attribute that an expression hands on: one in a call is the call's."""
    if isinstance(value, ast.Call):
        return None
    return next(filter(None, (_carried(one, carriers) for one in ast.walk(value))), None)


def _carried(node: ast.AST, carriers: dict[str, str]) -> str | None:
    if not (isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load)):
        return None
    if isinstance(node, ast.Name):
        return carriers.get(node.id)
    return node.attr if node.attr in _ATTRIBUTES else None


def _receiver(module: PythonModule, node: ast.AST) -> ast.Call | None:
    """Return the call that gets a value, alone, in a list or as a part of a string or a path."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Call):
            if last_name(parent.func) not in _HANDING_ON:
                return parent
        elif not isinstance(parent, _PARTS):
            return None
    return None


#: What gives the same paths in another form.
_HANDING_ON = frozenset(
    ["Path", "format", "list", "lstrip", "removeprefix", "replace", "sorted", "str", "strip"]
)
_PARTS = (
    ast.Attribute,
    ast.BinOp,
    ast.FormattedValue,
    ast.JoinedStr,
    ast.List,
    ast.Starred,
    ast.Subscript,
    ast.Tuple,
    ast.keyword,
)
