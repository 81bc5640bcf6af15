"""Parts of its own that code gives to `Reader`, which mdstorm's does not take."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mdstorm_migrate.petastorm.names import missing
from mdstorm_migrate.python.guards import is_of_old_python
from mdstorm_migrate.python.keywords import given_arguments, keywords_of_call
from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.python.objects import bases_of, objects_made

_READER = "Reader"
#: The arguments, and what to do instead.
PARTS = {
    "cache": (
        "call make_reader or make_batch_reader with cache_type='local-disk', or leave this file "
        "with Petastorm"
    ),
    "worker_class": (
        "leave it out, and say is_batched_reader=True for batches: "
        "docs/differences.md#workers-and-their-queues of mdstorm"
    ),
}
#: The cache that is none.
_NO_CACHE = "NullCache"


def parts_of_readers(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """Yield such arguments, and their names: of calls of the class, and of its ``__init__``.

    None and `NullCache` say what mdstorm does without being told. Petastorm's own workers are not
    in mdstorm, as their imports are told.
    """
    calls = [one.call for one in given_arguments(module) if one.function == _READER]
    for call in [*calls, *_of_subclasses(module)]:
        for name, node in keywords_of_call(module, call):
            is_given = name in PARTS and not _says_nothing(module, node)
            if is_given and not is_of_old_python(module, call):
                yield node, name


def _of_subclasses(module: PythonModule) -> Iterator[ast.Call]:
    """Yield the calls by which classes that are made from it make themselves, or are made."""
    for node in module.scopes.parents:
        if isinstance(node, ast.ClassDef) and _READER in bases_of(module, node):
            for one in ast.walk(node):
                if isinstance(one, ast.Call) and _is_init(module, one.func):
                    yield one
            if not any(getattr(one, "name", "") == "__init__" for one in node.body):
                for one in module.scopes.calls:
                    if isinstance(one.func, ast.Name) and one.func.id == node.name:
                        yield one


def _is_init(module: PythonModule, function: ast.expr) -> bool:
    match function:
        case ast.Attribute(attr="__init__", value=ast.Call(func=ast.Name("super"))):
            return True
        case ast.Attribute(attr="__init__", value=owner) if dotted(owner):
            path = module.resolve(owner, module.scopes.module)
            return (path or "").rpartition(".")[2] == _READER
    return False


def _says_nothing(module: PythonModule, node: ast.AST) -> bool:
    """Whether an argument, or the value of a key, gives nothing, or what is told elsewhere."""
    parent = module.scopes.parents.get(node)
    value = node.value if isinstance(node, ast.keyword) else None
    if isinstance(parent, ast.Dict) and node in parent.keys:
        value = parent.values[parent.keys.index(node)]
    match value:
        case ast.Constant(None):
            return True
        case ast.Name(id=name) if name in objects_made(module):
            return objects_made(module)[name] == {_NO_CACHE}
        case ast.Name() | ast.Attribute():
            path = module.resolve(value, module.scopes.module)
            return path is not None and missing(path) is not None
        case ast.Call():
            return any(
                one is value and path.endswith(f".{_NO_CACHE}") for one, path in module.calls
            )
    return False
