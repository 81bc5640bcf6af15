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


#: What gives the same paths in another form.
_SAME = frozenset({"Path", "format", "list", "replace", "sorted", "str"})


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each call that may open them and is not one of Petastorm's."""
    ours = {call for call, _ in module.calls}
    own = {one.name for one in module.scopes.parents if isinstance(one, ast.FunctionDef)}
    used = [one for one in module.scopes.parents
            if isinstance(one, ast.Attribute) and one.attr in _ATTRIBUTES]  # fmt: skip
    for node in used if imported_names(module) else ():
        for place in (node, *_kept_as(module, node)):
            calls = (one for one in module.ancestors(place) if isinstance(one, ast.Call))
            call = next((one for one in calls if last_name(one.func) not in _SAME), None)
            callee = "" if call is None else ast.unparse(call.func)
            if call not in ours and callee not in own and _OPENING.search(callee):
                what = f"`{node.attr}` points to MDS shards, not Parquet"
                remedy = f"{what}: if {callee}() reads them, use the DataFrame, or write Parquet"
                yield Finding(CODE, CLASS, *module.span(place), what, remedy, holds=node.attr)


def _kept_as(module: PythonModule, node: ast.AST) -> Iterable[ast.Name]:
    """Yield where a variable is read that is bound to a value, or to its items."""
    loop = module.scopes.parents.get(node)
    targets = [one.target for one in getattr(loop, "generators", ()) if one.iter is node]
    match module.statement(node):
        case ast.Assign(targets=[target]) | ast.For(target=target) if not targets:
            targets = [target]
    for name in (one.id for one in targets if isinstance(one, ast.Name)):
        yield from (one.node for one in module.scopes.references.get(name, ()))
