"""PM201: pass the parent cache directory where the Spark conf cannot be set."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.python.conf_writes import ConfWrite, conf_writes
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule

CODE = "PM201"
TITLE = "Pass the parent cache directory where the conf of Spark cannot be set"
CLASS: Class = "review"
KIND = "python"

_ARGUMENT = "parent_cache_dir_url"

#: What code for Spark Connect or serverless compute says.
_NO_CONF = re.compile(
    r"\bDatabricksSession\b|\bdatabricks\.connect\b|\.remote\(|\bSPARK_REMOTE\b|\bserverless\b"
)
_END_OF_LINE = re.compile(r"[ \t]*(\r\n|\r|\n|\Z)")


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield edits where the code is for such compute, or the rule is asked for by its code."""
    if not (module.is_asked_for(CODE) or _NO_CONF.search(module.text)):
        return
    if not module.applies("PM101", "exact"):
        return  # Petastorm has no such argument
    writes = list(conf_writes(module))
    converters = [
        call
        for call, path in module.calls
        if path.rpartition(".")[2] == "make_spark_converter"
        and not any(keyword.arg == _ARGUMENT for keyword in call.keywords)
    ]
    if not writes:
        return
    if len(writes) > 1 or not _reaches(module, writes[0], converters):
        for write in writes:
            what = "serverless compute and Spark Connect may refuse this conf"
            remedy = f"{what}; give {_ARGUMENT} to make_spark_converter() instead"
            yield Finding(CODE, "manual", *module.span(write.call), what, remedy)
        return
    yield from _pass_argument(module, writes[0], converters)


def _reaches(module: PythonModule, write: ConfWrite, converters: list[ast.Call]) -> bool:
    """Whether what the statement names is seen at all calls, and there are some."""
    scopes = module.scopes.scopes
    home = scopes[write.call]
    for call in converters:
        scope = scopes[call]
        while scope is not home and scope.parent is not None:
            scope = scope.parent
        if scope is not home:
            return False
    return bool(converters) and not _is_handed_on(module)


def _is_handed_on(module: PythonModule) -> bool:
    """Whether the function is more than called, as in ``partial(make_spark_converter)``."""
    for name in imported_names(module):
        for use in name.uses:
            parent = module.scopes.parents.get(use.node)
            is_called = isinstance(parent, ast.Call) and parent.func is use.node
            if use.path.endswith(".make_spark_converter") and not is_called:
                return True
    return False


def _has_one_meaning(module: PythonModule, write: ConfWrite) -> bool:
    """Whether the value is a name that is bound but once."""
    scope = module.scopes.scopes[write.call]
    return isinstance(write.value, ast.Name) and len(module.bindings(write.value.id, scope)) <= 1


def _pass_argument(
    module: PythonModule, write: ConfWrite, converters: list[ast.Call]
) -> Iterator[Edit]:
    value = module.source_of(write.value)
    is_plain = isinstance(write.value, ast.Constant) or _has_one_meaning(module, write)
    argument = value if is_plain else _ARGUMENT
    message = f"the directory is given to make_spark_converter(): {_ARGUMENT}={argument}"
    statement = module.statement(write.call)
    if isinstance(statement, ast.Expr) and statement.value is write.call:
        new = "" if is_plain else f"{_ARGUMENT} = {value}"
        yield Edit(CODE, CLASS, *_replaced_statement(module, statement, new), message, CODE)
    elif is_plain:
        # One link of a chain, as in SparkSession.builder.config(key, value).getOrCreate().
        assert isinstance(write.call.func, ast.Attribute)
        start = module.span(write.call.func.value)[1]
        yield Edit(CODE, CLASS, start, module.span(write.call)[1], "", message, CODE)
    else:
        return
    for call in converters:
        last = [*call.args, *call.keywords]
        place = module.span(last[-1])[1] if last else module.span(call)[1] - 1
        text = f"{', ' if last else ''}{_ARGUMENT}={argument}"
        yield Edit(CODE, CLASS, place, place, text, message, CODE)


def _replaced_statement(
    module: PythonModule, statement: ast.stmt, new: str
) -> tuple[int, int, str]:
    """Return the span that a statement takes, and what stands there instead.

    If nothing comes in its place, its line goes with it; where Python needs a statement, it becomes
    ``pass``.
    """
    start, stop = module.span(statement)
    lines = module.document.lines
    line = lines.start_of(start)
    end = _END_OF_LINE.match(module.text, stop)
    is_needed = len(_body_of(module, statement)) == 1 and not isinstance(
        module.scopes.parents[statement], ast.Module
    )
    if not new and is_needed:
        new = "pass"
    if not new and end is not None and not module.text[line:start].strip():
        return line, end.end(), ""
    return start, stop, new or "pass"


def _body_of(module: PythonModule, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements that a statement is one of."""
    around = module.scopes.parents[statement]
    return next(
        body for _, body in ast.iter_fields(around) if isinstance(body, list) and statement in body
    )
