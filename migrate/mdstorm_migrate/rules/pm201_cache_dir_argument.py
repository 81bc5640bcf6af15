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
    if len(writes) == 1 and _is_seen_at(module, writes[0], converters):
        yield from _pass_argument(module, writes[0], converters)
        return
    for write in writes:
        what = "serverless compute and Spark Connect may refuse this conf"
        remedy = f"{what}; pass {_ARGUMENT} to make_spark_converter() instead"
        yield Finding(CODE, "manual", *module.span(write.call), what, remedy)


def _is_seen_at(module: PythonModule, write: ConfWrite, converters: list[ast.Call]) -> bool:
    """Whether names of a statement are seen at all conversions, and the function is only called."""
    scopes = module.scopes.scopes
    uses = [use for name in imported_names(module) for use in name.uses]
    is_called = all(
        isinstance(call := module.scopes.parents.get(use.node), ast.Call) and call.func is use.node
        for use in uses
        if use.path.endswith(".make_spark_converter")
    )
    home = scopes[write.call]
    is_seen = all(home in scopes[call].with_outer() for call in converters)
    return bool(converters) and is_seen and is_called


def _pass_argument(
    module: PythonModule, write: ConfWrite, converters: list[ast.Call]
) -> Iterator[Edit]:
    value, scope = module.source_of(write.value), module.scopes.scopes[write.call]
    is_plain = isinstance(write.value, ast.Constant) or (
        isinstance(write.value, ast.Name) and len(module.bindings(write.value.id, scope)) <= 1
    )
    argument, new = (value, "") if is_plain else (_ARGUMENT, f"{_ARGUMENT} = {value}")
    message = f"the directory is passed to make_spark_converter(): {_ARGUMENT}={argument}"
    if isinstance(statement := module.scopes.parents[write.call], ast.Expr):
        start, stop = module.span(statement)
        line, end = module.document.lines.start_of(start), _END_OF_LINE.match(module.text, stop)
        around = module.scopes.parents[statement]
        bodies = (one for _, one in ast.iter_fields(around) if isinstance(one, list))
        is_alone = any(one == [statement] for one in bodies) and around is not module.tree
        if new or is_alone or end is None or module.text[line:start].strip():
            yield Edit(CODE, CLASS, start, stop, new or "pass", message, CODE)
        else:
            yield Edit(CODE, CLASS, line, end.end(), "", message, CODE)
    elif is_plain:  # one link of a chain
        assert isinstance(write.call.func, ast.Attribute)
        span = module.span(write.call.func.value)[1], module.span(write.call)[1]
        yield Edit(CODE, CLASS, *span, "", message, CODE)
    else:
        return
    for call in converters:
        last = [*call.args, *call.keywords]
        place = module.span(last[-1])[1] if last else module.span(call)[1] - 1
        text = f"{', ' if last else ''}{_ARGUMENT}={argument}"
        yield Edit(CODE, CLASS, place, place, text, message, CODE)
