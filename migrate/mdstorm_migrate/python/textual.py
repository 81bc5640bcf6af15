"""Uses of ``petastorm`` in string annotations and type comments."""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.petastorm.names import OLD_ROOT, missing
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.scopes import Scope

_CHAIN = re.compile(rf"(?<![\w.]){OLD_ROOT}\b(?:\.[^\W\d]\w*)*")
_TYPE_COMMENT = re.compile(rf"#\s*type:(?!\s*ignore\b)[^#\n]*\b{OLD_ROOT}\b")


#: Functions that look a name up, or run code, in a string.
_EVALUATING = frozenset(
    [
        "Timer",
        "compile",
        "delattr",
        "eval",
        "exec",
        "getattr",
        "hasattr",
        "repeat",
        "setattr",
        "timeit",
    ]
)
#: Those that make types, after whose first argument, a name, strings are code.
_MAKES_TYPES = frozenset({"NamedTuple", "NewType", "TypeVar", "TypedDict"})
#: Those whose other strings are all types, not names of fields.
_TAKES_TYPES = frozenset({"ForwardRef", "NewType", "TypeVar"})
_GENERIC_BUILTINS = frozenset({"dict", "frozenset", "list", "set", "tuple", "type"})
_GENERICS = frozenset(typing.__all__) - _MAKES_TYPES
_NAMESPACES = frozenset({"dir", "globals", "locals", "vars"})


@dataclass(frozen=True)
class TextualUse:
    """A use of ``petastorm`` in a string or a comment.

    Attributes
    ----------
    start, stop : int
        The span of the name alone.
    path : str
        The dotted path.
    missing : str or None
        The first part of it that mdstorm does not have.
    is_fixed : bool
        Whether it stays as it is, since it may be no type: the name must go on to mean something.
    is_for_typing : bool
        Whether it stands in a type of `typing`.
    """

    start: int
    stop: int
    path: str
    missing: str | None
    is_fixed: bool = False
    is_for_typing: bool = False


def textual_uses(module: PythonModule, scope: Scope | None) -> list[TextualUse]:
    """Return the uses of the ``petastorm`` that `scope` binds; comments belong to the module.

    Without a scope, those that no import reaches: types that nobody looks up at run time.
    """
    found = []
    for string in module.scopes.strings:
        is_fixed = is_forward_reference(module, string)
        is_type = is_fixed or is_annotation(module, string)
        if is_type and module.scopes.scopes[string].home(OLD_ROOT) is scope:
            known = is_fixed and is_for_typing(module, string)
            found += list(_chains(module, *module.span(string), is_fixed, known))
    if scope is not None and scope.parent is None and _TYPE_COMMENT.search(module.text):
        for offset, comment in module.document.comments():
            if _TYPE_COMMENT.match(comment):
                found += list(_chains(module, offset, offset + len(comment)))
    return found


def is_evaluated(module: PythonModule, string: ast.Constant) -> bool:
    """Whether the name ``petastorm`` may be looked up at run time, because a string says so.

    That is in code that is evaluated, in keys of namespaces, and in doctests.
    """
    text = str(string.value)
    if not _CHAIN.search(text):
        return False
    if re.search(rf">>>.*\b{OLD_ROOT}\.", text):
        return True
    for parent in module.ancestors(string):
        if isinstance(parent, ast.Subscript):
            return _is_namespace(parent.value)
        if isinstance(parent, ast.Compare):
            return any(map(_is_namespace, parent.comparators))
        if isinstance(parent, ast.Call):
            return _is_evaluating(parent.func)
        if isinstance(parent, ast.stmt):
            return False
    return False


def _is_evaluating(function: ast.expr) -> bool:
    """Whether it is one of those functions; methods like ``monkeypatch.setattr`` are none."""
    name = ast.unparse(function)
    return name.removeprefix("builtins.").removeprefix("timeit.") in _EVALUATING


def _is_namespace(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in _NAMESPACES


def _chains(
    module: PythonModule,
    start: int,
    stop: int,
    is_fixed: bool = False,
    is_for_typing: bool = False,
) -> Iterator[TextualUse]:
    for match in _CHAIN.finditer(module.text, start, stop):
        end = match.start() + len(OLD_ROOT)
        path = match.group()
        yield TextualUse(match.start(), end, path, missing(path), is_fixed, is_for_typing)


def is_annotation(module: PythonModule, string: ast.Constant) -> bool:
    """Whether Python's typing reads the string as code."""
    node: ast.AST = string
    if _is_annotating(module, string):
        return False
    for parent in module.ancestors(string):
        if isinstance(parent, ast.Subscript) and "Literal" in ast.unparse(parent.value):
            return False
        if isinstance(parent, ast.Call):
            is_cast = last_name(parent.func) == "cast"
            return is_cast and bool(parent.args) and parent.args[0] is node
        if isinstance(parent, ast.AnnAssign):
            return parent.annotation is node
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return node is parent.returns or node in _annotations(parent)
        if isinstance(parent, ast.stmt):
            return False
        node = parent
    return False


def _is_annotating(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is data of ``Annotated``, of whose arguments the first alone is a type."""
    node: ast.AST = string
    for parent in module.ancestors(string):
        match module.scopes.parents.get(parent):
            case ast.Subscript(value=generic) if last_name(generic) == "Annotated":
                return isinstance(parent, ast.Tuple) and node is not parent.elts[0]
        if isinstance(parent, ast.stmt):
            return False
        node = parent
    return False


def is_forward_reference(module: PythonModule, string: ast.Constant) -> bool:
    """Whether Python's typing may read the string as code, in a type that is no annotation.

    That is in aliases (``Rows = List["petastorm.reader.Reader"]``), base classes, ``TypeVar`` and
    the like.
    """
    if not _CHAIN.search(str(string.value)) or is_annotation(module, string):
        return False
    if _is_annotating(module, string):
        return False
    node: ast.AST = string
    for parent in module.ancestors(string):
        if isinstance(parent, ast.Subscript) and parent.slice is node:
            name = last_name(parent.value)
            return name != "Literal" and (name[:1].isupper() or name in _GENERIC_BUILTINS)
        if isinstance(parent, ast.Call):
            name = last_name(parent.func)
            return name == "ForwardRef" or (name in _MAKES_TYPES and node not in parent.args[:1])
        if isinstance(parent, ast.AnnAssign):
            return last_name(parent.annotation) == "TypeAlias"
        if isinstance(parent, ast.stmt):
            return type(parent).__name__ == "TypeAlias"  # of Python 3.12
        node = parent
    return False


def is_for_typing(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string stands in a type of ``typing``: ``Union["a.B", C]``, ``TypeVar(…)``."""
    for parent in module.ancestors(string):
        if isinstance(parent, ast.Subscript):
            name = last_name(parent.value)
            return name != "Literal" and (name in _GENERICS or name in _GENERIC_BUILTINS)
        if isinstance(parent, ast.Call):
            return last_name(parent.func) in _TAKES_TYPES
        if isinstance(parent, ast.stmt):
            return False
    return False


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST | None]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    rest = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [one.annotation for one in (*named, *rest)]
