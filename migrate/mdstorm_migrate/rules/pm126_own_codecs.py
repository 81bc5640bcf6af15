"""PM126: codecs and indexers of the project's own, which mdstorm does not take."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.own_codecs import own_codecs
from mdstorm_migrate.python.own_indexers import own_indexers

CODE = "PM126"
TITLE = "Codecs and indexers of the project's own: the file waits for review"
CLASS: Class = "manual"
KIND = "python"

_CODEC = (
    "give fields one of Petastorm's, or leave their datasets with Petastorm: "
    "docs/differences.md#schemas-codecs-and-datasets-of-rows of mdstorm"
)
_WHY_CODEC = "mdstorm writes and reads no dataset with a codec that is not Petastorm's"
_INDEXER = (
    "make it from SingleFieldIndexer or FieldNotNullIndexer, or build and read the index with "
    "Petastorm: docs/differences.md#predicates-filters-and-selectors of mdstorm"
)
_WHY_INDEXER = "mdstorm stores and reads no index that is not of one of Petastorm's indexers"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each class made from a codec or an indexer, and for each use of one."""
    for node, name in own_codecs(module):
        yield _finding(module, node, name, "a codec", _CODEC, _WHY_CODEC)
    for node, name in own_indexers(module):
        yield _finding(module, node, name, "an indexer", _INDEXER, _WHY_INDEXER)


def _finding(
    module: PythonModule, node: ast.AST, name: str, kind: str, advice: str, because: str
) -> Finding:
    what = f"`{name}` is {kind} of your own, which mdstorm rejects"
    start, stop = module.span(node)
    if isinstance(node, ast.ClassDef):
        start = module.text.index(name, start)
        stop = start + len(name)
    remedy = f"{what}: {advice}"
    return Finding(CODE, CLASS, start, stop, what, remedy, holds=name, because=because)
