"""What becomes of a version number: it is shown, or something is decided by it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.formed import formed_text
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, last_name

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Functions and methods that give a version in another form.
_FORMS = re.compile(
    r"(?:V|Version|LooseVersion|StrictVersion|parse|parse_version|float|getattr|int|list|map|str"
    r"|tuple|partition|replace|rpartition|rsplit|split|strip|groups?)\Z"
)
#: Those that decide something by one.
_DECIDING = re.compile(
    r"(?:endswith|startswith|fullmatch|match|search)\Z|assert|at_?least|check|compar|compat|require",
    re.IGNORECASE,
)
#: A requirement of the library, alone or in a command.
_PIN = re.compile(rf"(?:^|\binstall\b.*[\s\"']){OLD_ROOT}(?:\[[^\]]*\])?\s*[=<>~!]=")


def is_decided_by(module: PythonModule, node: ast.AST) -> bool:
    """Whether code compares a value, in whatever form and under whatever name it goes on.

    Names and attributes are followed in the file, and so are functions that return it; a key of a
    dictionary is followed where the dictionary has a name.
    """
    return any(_is_deciding(module, one) for one in _places(module, node))


def is_pin(module: PythonModule, node: ast.AST) -> bool:
    """Whether a value goes into a requirement, as ``f"petastorm=={petastorm.__version__}"``.

    The requirement is left, so its version stays with it. A ``setup.py`` has others, which move.
    """
    path = module.document.path
    if path is not None and path.name == "setup.py":
        return False
    formed = (formed_text(one, module.scopes.parents) for one in module.scopes.strings)
    pins = [whole for whole, text in filter(None, formed) if _PIN.search(text)]
    parts = {part for whole in pins for part in ast.walk(whole)}
    return bool(parts) and any(one in parts for one in _places(module, node))


def _places(module: PythonModule, node: ast.AST) -> Iterator[ast.AST]:
    """Yield where a value stands, and where it is read again."""
    seen: set[ast.AST] = set()
    todo = [node]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            yield one
            todo += _further(module, one)


def is_beside_decision(module: PythonModule, node: ast.expr) -> bool:
    """Whether a version stands in a branch that the same version decides, as in its message."""
    text = ast.unparse(node)
    tests = (
        parent.test for parent in module.ancestors(node) if isinstance(parent, ast.If | ast.IfExp)
    )
    return any(
        isinstance(one, ast.Attribute | ast.Name)
        and ast.unparse(one) == text
        and _is_deciding(module, one)
        for test in tests
        for one in ast.walk(test)
    )


def _is_deciding(module: PythonModule, node: ast.AST) -> bool:
    """Whether the expression around a node compares it, or hands it to what does."""
    for parent in module.ancestors(node):
        match parent:
            case ast.Compare() | ast.MatchValue():
                return True
            case ast.Call(func=function) if function is not node:
                name = last_name(function)
                if _DECIDING.search(name):
                    return True
                if not _FORMS.match(name):
                    return False
            case ast.Call(func=ast.Attribute(attr=name)) if _DECIDING.search(name):
                return True
            case ast.Match(subject=subject) if subject is node:
                return True
            case ast.stmt() | ast.Dict() | ast.JoinedStr():
                return False
        node = parent
    return False


def _further(module: PythonModule, node: ast.AST) -> Iterator[ast.AST]:
    """Yield where the value is read again."""
    key: str | None = None
    for parent in module.ancestors(node):
        match parent:
            case ast.Call(func=function) if function is not node and not _FORMS.match(
                last_name(function)
            ):
                return
            case ast.Dict(keys=keys, values=values) if node in values:
                key = string_value(keys[values.index(node)])
                if key is None:
                    return
            case ast.JoinedStr():
                return
            case ast.NamedExpr(target=named):
                yield from _read(module, named, key)
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from _read(module, target, key)
                return
            case ast.AnnAssign(target=annotated):
                yield from _read(module, annotated, key)
                return
            case ast.Return():
                yield from () if key is not None else _calls_of(module, parent)
                return
            case ast.stmt():
                return
        node = parent


def _read(module: PythonModule, target: ast.expr, key: str | None) -> Iterator[ast.AST]:
    """Yield the uses of what is assigned to; of a dictionary, those of a key."""
    names = {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    attributes = {one.attr for one in ast.walk(target) if isinstance(one, ast.Attribute)}
    found: list[ast.AST] = []
    if attributes:
        found += [
            one
            for one in module.scopes.parents
            if isinstance(one, ast.Attribute) and one.attr in attributes
        ]
    else:
        found += [one.node for name in names for one in module.scopes.references.get(name, ())]
        if isinstance(module.scopes.parents.get(module.statement(target)), ast.ClassDef):
            found += [
                one
                for one in module.scopes.parents
                if isinstance(one, ast.Attribute) and one.attr in names
            ]
    for one in found:
        if key is None:
            yield one
        else:
            yield from _of_key(module, one, key)


def _of_key(module: PythonModule, node: ast.AST, key: str) -> Iterator[ast.AST]:
    match module.scopes.parents.get(node):
        case ast.Subscript(slice=index) as item if string_value(index) == key:
            yield item
        case ast.Attribute(attr="get") as method:
            call = module.scopes.parents.get(method)
            if isinstance(call, ast.Call) and call.args and string_value(call.args[0]) == key:
                yield call


def _calls_of(module: PythonModule, statement: ast.Return) -> Iterator[ast.AST]:
    """Yield the calls of the function that returns the value."""
    function = next(
        (one for one in module.ancestors(statement) if isinstance(one, _FUNCTIONS)), None
    )
    for call in module.scopes.calls if function is not None else ():
        if last_name(call.func) == function.name:  # type: ignore[union-attr]
            yield call
