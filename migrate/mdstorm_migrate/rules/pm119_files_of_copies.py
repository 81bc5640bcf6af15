"""PM119: a converter's files that are passed to code that reads Parquet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule, last_name

CODE = "PM119"
TITLE = "The copy of a converter is MDS, not Parquet"
CLASS: Class = "manual"
KIND = "python"

_ATTRIBUTES = frozenset({"cache_dir_url", "file_urls"})
#: Functions that open files, judging by their names.
_OPENING = re.compile(
    r"parquet|read|load|open|scan|glob|listdir|\bls\b|walk|copy|endswith", re.IGNORECASE
)
#: Functions that return the same paths in a different form.
_SAME = re.compile("Path|format|join|list|removeprefix|replace|sorted|str|strip|urlparse")


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each call, except Petastorm's, that may open a converter's files."""
    ours = {call for call, _ in module.calls}
    own = {one.name for one in module.scopes.parents if isinstance(one, ast.FunctionDef)}
    used = [one for one in module.scopes.parents
            if isinstance(one, ast.Attribute) and one.attr in _ATTRIBUTES]  # fmt: skip
    for node in used if imported_names(module) else ():
        for place in (node, *_kept_as(module, node)):
            calls = (one for one in module.ancestors(place) if isinstance(one, ast.Call))
            call = next((one for one in calls if not _SAME.fullmatch(last_name(one.func))), None)
            callee = "" if call is None else ast.unparse(call.func)
            if call not in ours and callee not in own and _OPENING.search(callee):
                what = f"`{node.attr}` points to MDS shards, not Parquet"
                remedy = f"{what}: if {callee}() reads them, read the DataFrame, or write Parquet"
                yield Finding(CODE, CLASS, *module.span(place), what, remedy, holds=node.attr)


def _kept_as(module: PythonModule, node: ast.AST) -> Iterator[ast.Name]:
    """Yield the reads of variables that hold the paths, directly or through other variables."""
    todo, seen = [node], {""}
    while todo:
        one = todo.pop()
        loops = getattr(module.scopes.parents.get(one), "generators", ())
        targets = [loop.target for loop in loops if loop.iter is one]
        calls = (parent for parent in module.ancestors(one) if isinstance(parent, ast.Call))
        if all(_SAME.fullmatch(last_name(call.func)) for call in calls):
            match module.statement(one):
                case ast.Assign(targets=[target]) | ast.For(target=target):
                    targets.append(target)
        new = {target.id for target in targets if isinstance(target, ast.Name)} - seen
        seen |= new
        reads = [read.node for name in new for read in module.scopes.references.get(name, ())]
        yield from reads
        todo += reads
