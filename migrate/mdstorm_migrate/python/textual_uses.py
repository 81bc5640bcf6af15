"""Uses of the name ``petastorm`` in text: annotations, type comments and evaluated strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from mdstorm_migrate.petastorm.names import CONF_KEY, OLD_ROOT, missing
from mdstorm_migrate.python.calls import call_with_first, called, is_docstring
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.scopes import Scope

_CHAIN = re.compile(rf"(?<![\w./-]){OLD_ROOT}\b(?:\.[^\W\d]\w*)*")
_TYPE_COMMENT = re.compile(rf"#\s*type:(?!\s*ignore\b)[^#\n]*\b{OLD_ROOT}\b")
#: Functions through which strings may use the name ``petastorm`` at run time, as code or as a key.
_EVALUATING = frozenset({"compile", "dir", "eval", "exec", "globals", "locals", "timeit", "vars"})
#: Marks of pytest whose first argument may be a string that pytest evaluates in the module.
_CONDITIONS = frozenset({"skipif", "xfail"})
_GENERIC = frozenset({"dict", "frozenset", "list", "set", "tuple", "type"})
_MAKES_TYPES = frozenset({"ForwardRef", "NamedTuple", "NewType", "TypeVar", "TypedDict"})


@dataclass(frozen=True)
class TextualUse:
    """A use of ``petastorm`` in a string or comment, with the path's prefix that mdstorm lacks."""

    start: int
    stop: int
    path: str
    missing: str | None


def annotation_uses(module: PythonModule, scope: Scope | None) -> Iterator[TextualUse]:
    """Yield uses of a scope's ``petastorm`` in string annotations and, for a module, type comments.

    Without a scope, yield uses that no import binds: types that are not evaluated at run time.
    """
    spans = [
        module.span(string)
        for string in module.scopes.strings
        if is_annotation(module, string) and module.scopes.scopes[string].home(OLD_ROOT) is scope
    ]
    if scope is not None and scope.parent is None and _TYPE_COMMENT.search(module.text):
        comments = module.document.comments()
        spans += [(at, at + len(one)) for at, one in comments if _TYPE_COMMENT.match(one)]
    for found in (found for span in spans for found in _CHAIN.finditer(module.text, *span)):
        start, path = found.start(), found.group()
        yield TextualUse(start, start + len(OLD_ROOT), path, missing(path))


def is_annotation(module: PythonModule, string: ast.Constant) -> bool:
    """Whether type checkers read a string as code: in an annotation, or as the type of a cast."""
    node: ast.AST = string
    for parent in module.ancestors(string):
        match parent:
            case ast.Subscript(value=generic) if last_name(generic) in ("Annotated", "Literal"):
                return False
            case ast.Call(func=function, args=[first, *_]):
                return last_name(function) == "cast" and first is node
            case ast.AnnAssign():
                return parent.annotation is node
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                annotated = (one for one in ast.walk(parent.args) if isinstance(one, ast.arg))
                return node is parent.returns or any(one.annotation is node for one in annotated)
            case ast.stmt():
                return False
        node = parent
    return False


@lru_cache(maxsize=1)
def is_named_in_strings(module: PythonModule) -> bool:
    """Whether the old name must stay bound because code in strings may use it.

    Such strings are evaluated code, conditions of pytest's marks, keys of namespaces, and types
    outside of annotations, as in ``Rows = List["petastorm.Reader"]``. A false positive only costs
    ``import mdstorm as petastorm``.
    """
    evaluates = any(
        isinstance(one.func, ast.Name) and one.func.id in _EVALUATING for one in module.scopes.calls
    )
    return any(
        _CHAIN.search(str(one.value)) is not None
        and (
            evaluates
            or _is_type(module, one)
            or called(call_with_first(module, one)) in _CONDITIONS
        )
        and one.value != CONF_KEY
        and not is_docstring(module, one)
        and not is_annotation(module, one)
        for one in module.scopes.strings
    )


def _is_type(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a type outside of annotations."""
    for parent in module.ancestors(string):
        match parent:
            case ast.Subscript(value=generic):
                name = last_name(generic)
                return name != "Literal" and (name[:1].isupper() or name in _GENERIC)
            case ast.Call(func=function):
                return last_name(function) in _MAKES_TYPES
            case ast.AnnAssign(annotation=annotation):
                return last_name(annotation) == "TypeAlias"
            case ast.stmt():
                return type(parent).__name__ == "TypeAlias"  # since Python 3.12
    return False
