"""Codecs that are not Petastorm's: classes made from one, and what fields of a schema are given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.python.libraries import scope_of
from mdstorm_migrate.python.module import PythonModule, dotted, last_name
from mdstorm_migrate.python.objects import bases_of

#: Petastorm's, also by the name of a module of the project's that hands them on.
_CODECS = frozenset(
    [
        *("CompressedImageCodec", "CompressedNdarrayCodec", "DataframeColumnCodec"),
        *("NdarrayCodec", "ScalarCodec"),
    ]
)
_FIELD = "UnischemaField"
#: Use of the codec of a field, and of datasets, whose metadata have the codecs.
_BY_HAND = re.compile(r"\.codec\.(?:de|en)code\(")
_OF_DATASETS = re.compile(
    r"materialize_dataset|make_(?:batch_)?reader|generate_petastorm_metadata|get_schema|set_schema"
    r"|dataset_as_rdd"
)
#: Where a field has its codec, if not by keyword.
_POSITION = 3


def own_codecs(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """Yield the classes and the arguments, and the names of the classes.

    None of a file that encodes or decodes values by a field's codec itself, and opens and writes no
    dataset: that is the same with both libraries.
    """
    if _BY_HAND.search(module.text) and not _OF_DATASETS.search(module.text):
        return
    own = set()
    for node in module.scopes.parents:
        if isinstance(node, ast.ClassDef) and bases_of(module, node) & _CODECS:
            own.add(node.name)
            yield node, node.name
    for call, path in module.calls:
        if path.rpartition(".")[2] == _FIELD and (codec := _codec_of(call)) is not None:
            name = last_name(codec.func)
            if name not in own and is_own_class(module, codec.func):
                yield codec, name


def _codec_of(call: ast.Call) -> ast.Call | None:
    """Return the call that makes the codec of a field."""
    given = [one.value for one in call.keywords if one.arg == "codec"]
    codec = next(iter([*call.args[_POSITION : _POSITION + 1], *given]), None)
    return codec if isinstance(codec, ast.Call) else None


def is_own_class(module: PythonModule, node: ast.expr) -> bool:
    """Whether something is called as classes are, and is a class of the project's."""
    name = last_name(node)
    if not name.lstrip("_")[:1].isupper() or name in _CODECS:
        return False
    found = dotted(node)
    if found is None or module.resolve(node, scope_of(module, found[0])) is not None:
        return False
    bindings = module.bindings(found[0].id, scope_of(module, found[0]))
    return any(isinstance(one.node, ast.alias | ast.ClassDef) for one in bindings)
