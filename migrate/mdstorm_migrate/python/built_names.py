"""Names of modules, and code, that a program puts together of strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import IMPORTING, function_of
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.tables import keys_of_sys_modules

#: Functions that run code.
RUNS = frozenset({"compile", "eval", "exec", "run_cell"})
_BEGINS = re.compile(rf"{OLD_ROOT}(?:\.|\Z)")
#: Functions that add an option to a command line: of argparse, Click, Typer and absl.
_OPTION = re.compile(r"^(?:add_argument|argument|option|add_option|DEFINE_(?:enum|string))$")


def built_names(module: PythonModule) -> Iterator[tuple[ast.expr, str]]:
    """Yield names that are no string but made of one that begins with the library, and who asks."""
    if not any(_BEGINS.match(str(string.value)) for string in module.scopes.strings):
        return
    named = _named_constants(module.tree)
    for name, user in _names(module):
        if string_value(name) is not None:
            continue
        parts = [one.id for one in ast.walk(name) if isinstance(one, ast.Name)]
        parts += [one.attr for one in ast.walk(name) if isinstance(one, ast.Attribute)]
        if _begins(name) or any(part in named for part in parts):
            yield name, user


def _imports(module: PythonModule, call: ast.Call, code: ast.expr) -> bool:
    """Whether a call runs code that is put together, and has an import in it."""
    if function_of(module, call) not in RUNS:
        return False
    given = ast.unparse(code)
    if isinstance(code, ast.Name):
        assigned = (
            node.value
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Assign)
            and any(isinstance(one, ast.Name) and one.id == code.id for one in node.targets)
        )
        given = " ".join(map(ast.unparse, assigned))
    return re.search(r"\b(?:from|import)\b", given) is not None


def _names(module: PythonModule) -> Iterator[tuple[ast.expr, str]]:
    """Yield the names of modules, or the code, that something imports or keeps, and what does."""
    own = _importers(module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and node.args:
            name = function_of(module, node)
            if isinstance(node.func, ast.Name) and node.func.id in own:
                if not _is_other(node.args[0]):
                    yield node.args[0], f"{node.func.id}() imports"
            elif name in IMPORTING:
                if not _is_other(node.args[0], _package(node)):
                    yield node.args[0], f"{name}() imports"
            elif _imports(module, node, node.args[0]):
                yield node.args[0], f"{name}() imports"
        if isinstance(node, ast.Call | ast.Compare | ast.Subscript):
            for key in keys_of_sys_modules(node):
                if key is not None and not _is_other(key):
                    yield key, "`sys.modules` has"


def _importers(module: PythonModule) -> set[str]:
    """Return the classes and functions of a file that import what they are given the name of."""
    imported = [
        one
        for one in module.scopes.calls
        if one.args and function_of(module, one) in IMPORTING and string_value(one.args[0]) is None
    ]
    around = (parent for one in imported for parent in module.ancestors(one))
    return {one.name for one in around if isinstance(one, ast.ClassDef | ast.FunctionDef)}


def _package(call: ast.Call) -> ast.expr | None:
    """Return what a relative name begins from."""
    given = [one.value for one in call.keywords if one.arg == "package"]
    return next(iter([*call.args[1:2], *given]), None)


def _is_other(name: ast.expr, package: ast.expr | None = None) -> bool:
    """Whether a name begins with a text that the library's cannot begin with."""
    first = _first(name)
    if first.startswith("."):
        is_own = isinstance(package, ast.Name) and package.id in ("__package__", "__name__")
        return is_own or (isinstance(package, ast.Constant) and not _begins(package))
    return not (f"{OLD_ROOT}.".startswith(first) or first.startswith(f"{OLD_ROOT}."))


def _first(name: ast.expr) -> str:
    """Return the text that an expression begins with, whatever else is in it."""
    match name:
        case ast.BinOp(left=left, op=ast.Add()):
            return _first(left)
        case ast.BinOp(left=left, op=ast.Mod()):
            return _first(left).partition("%")[0]
        case ast.JoinedStr(values=[first, *_]):
            return _first(first)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return _first(text).partition("{")[0]
        case ast.Constant(value=str(text)):
            return text
    return ""


def _named_constants(tree: ast.AST) -> set[str]:
    """Return the names that are given a string of the library somewhere, or have it by default."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _OPTION.search(last_name(node.func)):
            found.update(_of_option(node))
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and _begins(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(one.id for one in targets if isinstance(one, ast.Name))
        elif isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            defaults = [*zip(plain[len(plain) - len(node.defaults) :], node.defaults, strict=True)]
            defaults += [
                (a, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d
            ]
            found.update(argument.arg for argument, default in defaults if _begins(default))
    return found


def _of_option(call: ast.Call) -> Iterator[str]:
    """Yield the names of an option of a command line whose value may be the library's name."""
    given = {one.arg: one.value for one in call.keywords if one.arg}
    values = [given[key] for key in ("choices", "default", "type") if key in given]
    if not any(_spells(value) for value in values):
        return
    for value in [*call.args, *filter(None, [given.get("dest")])]:
        if (name := string_value(value)) is not None:
            yield name.lstrip("-").replace("-", "_")


def _spells(node: ast.expr) -> bool:
    """Whether a string of an expression begins with the library's name."""
    return any(isinstance(one, ast.Constant) and _begins(one) for one in ast.walk(node))


def _begins(node: ast.AST) -> bool:
    """Whether an expression without calls has a string that begins with the library's name."""
    if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
        return False
    if isinstance(node, ast.Dict):
        return any(map(_begins, node.values))
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _BEGINS.match(node.value) is not None
    return any(map(_begins, ast.iter_child_nodes(node)))
