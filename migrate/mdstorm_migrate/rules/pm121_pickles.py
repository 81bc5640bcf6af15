"""PM121: pickles that may hold objects of Petastorm's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule

CODE = "PM121"
TITLE = "Pickles name the library that wrote them"
CLASS: Class = "manual"
KIND = "python"

_LOADING = re.compile(r"(?:pickle|cloudpickle|dill|joblib|cPickle|pkl)\.loads?")
#: What code calls a thing of Petastorm's that people pickle.
_OURS = re.compile(r"schema|UNISCHEMA|ROWGROUPS_INDEX|petastorm|converter|ngram", re.IGNORECASE)


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each pickle that is loaded, by its names: a note if they say nothing."""
    if not imported_names(module):
        return
    for call in module.scopes.calls:
        if not (_LOADING.fullmatch(ast.unparse(call.func)) and call.args):
            continue
        what = "a pickle of Petastorm's objects needs Petastorm where it is loaded"
        if not _OURS.search(module.source_of(_around(module, call))):
            yield Finding(CODE, "note", *module.span(call), what)
            continue
        remedy = (
            f"{what}: write it anew with mdstorm; the schema in a dataset's metadata is what "
            "get_schema_from_dataset_url() returns"
        )
        yield Finding(CODE, CLASS, *module.span(call), what, remedy, holds="a pickle")


def _around(module: PythonModule, call: ast.Call) -> ast.AST:
    """Return the call with what its result is bound to."""
    statement = module.statement(call)
    return statement if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return) else call
