"""PM122: handlers for errors of libraries that Petastorm calls, and mdstorm does not."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule, last_name

CODE = "PM122"
TITLE = "Errors of other libraries, which mdstorm does not raise"
CLASS: Class = "manual"
KIND = "python"

#: Errors of Spark, pyarrow, ZeroMQ and diskcache.
_ERRORS = frozenset(
    [
        "AnalysisException",
        "ArrowIOError",
        "ArrowInvalid",
        "ArrowException",
        "Py4JJavaError",
        "ZMQError",
    ]
)
#: Petastorm's error for more shards than row groups.
_NO_DATA = "NoDataAvailableError"
_EXPECTING = frozenset({"assertRaises", "assertRaisesRegex", "raises"})


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each such error that is caught around a call of Petastorm's API."""
    if _NO_DATA in module.text:
        yield from _expected(module)
    if not any(name in module.text for name in _ERRORS):
        return
    ours = {id(call) for call, _ in module.calls}
    for node in module.scopes.parents:
        if isinstance(node, ast.Try) and _calls(node, ours):
            for error in _caught(node):
                name = last_name(error)
                if name in _ERRORS:
                    what = f"mdstorm raises errors of its own where Petastorm let `{name}` through"
                    remedy = (
                        f"{what}: catch mdstorm.errors.MDStormError, or the builtin error, as well"
                    )
                    yield Finding(CODE, CLASS, *module.span(error), what, remedy)


def _expected(module: PythonModule) -> Iterator[Finding]:
    """Yield a note on each test that expects the error, and on each handler of it."""
    what = f"mdstorm deals out rows, not row groups: `{_NO_DATA}` is for fewer rows than shards"
    for node in module.scopes.parents:
        errors: Iterable[ast.expr] = ()
        match node:
            case ast.Call(args=[error, *_]) if last_name(node.func) in _EXPECTING:
                errors = [error]
            case ast.Try():
                errors = _caught(node)
        for error in errors:
            if last_name(error) == _NO_DATA:
                yield Finding(CODE, "note", *module.span(error), what)


def _calls(node: ast.Try, ours: set[int]) -> bool:
    return any(id(one) in ours for statement in node.body for one in ast.walk(statement))


def _caught(node: ast.Try) -> Iterator[ast.expr]:
    for handler in node.handlers:
        if isinstance(handler.type, ast.Tuple):
            yield from handler.type.elts
        elif handler.type is not None:
            yield handler.type
