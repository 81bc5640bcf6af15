"""Ranks and numbers of ranks that MosaicML Streaming takes from the environment itself."""

from __future__ import annotations

import ast

from mdstorm_migrate.literals import string_value
from mdstorm_migrate.module import PythonModule, dotted
from mdstorm_migrate.scopes import Scope

__all__ = ["ADVICE", "come_from_environment"]

ADVICE = (
    "shards are not those that RANK and WORLD_SIZE give; set RANK, WORLD_SIZE and LOCAL_WORLD_SIZE "
    "on each worker, as torchrun and TorchDistributor do, and take cur_shard and shard_count out"
)
#: Calls, keys of the environment, and constants, for `cur_shard` and for `shard_count`.
_RANK = ("torch.distributed.get_rank", "RANK", 0)
_SIZE = ("torch.distributed.get_world_size", "WORLD_SIZE", 1)
_DEPTH = 5


def come_from_environment(
    module: PythonModule, cur_shard: ast.expr | None, shard_count: ast.expr | None, scope: Scope
) -> bool:
    """Whether a shard and the number of shards are those that the environment gives.

    That is so of ``RANK`` and ``WORLD_SIZE``, of what `torch.distributed` says, of the only one of
    one shard, and if neither is given.
    """
    if _is_none(cur_shard) and _is_none(shard_count):
        return True
    if cur_shard is None or shard_count is None:
        return False
    constants = [getattr(one, "value", None) for one in (cur_shard, shard_count)]
    if constants == [_RANK[2], _SIZE[2]]:
        return True
    return _is_given(module, cur_shard, scope, *_RANK[:2]) and _is_given(
        module, shard_count, scope, *_SIZE[:2]
    )


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _is_given(
    module: PythonModule, node: ast.expr, scope: Scope, function: str, key: str, depth: int = 0
) -> bool:
    if isinstance(node, ast.Name):
        value = _only_value(module, node, scope)
        if value is None or depth > _DEPTH:
            return False
        return _is_given(module, value, scope, function, key, depth + 1)
    if isinstance(node, ast.Subscript):
        return _path(module, node.value, scope) == "os.environ" and string_value(node.slice) == key
    if not isinstance(node, ast.Call):
        return False
    path = _path(module, node.func, scope)
    if path == "int" and len(node.args) == 1:
        return _is_given(module, node.args[0], scope, function, key, depth + 1)
    if path in ("os.environ.get", "os.getenv"):
        return bool(node.args) and string_value(node.args[0]) == key
    return path == function


def _only_value(module: PythonModule, node: ast.Name, scope: Scope) -> ast.expr | None:
    """Return what a name is given, if that is done once."""
    bindings = module.bindings(node.id, scope)
    if len(bindings) != 1:
        return None
    statement = module.scopes.parents.get(bindings[0].node)
    is_plain = isinstance(statement, ast.Assign) and statement.targets == [bindings[0].node]
    return statement.value if is_plain and isinstance(statement, ast.Assign) else None


def _path(module: PythonModule, node: ast.AST, scope: Scope) -> str | None:
    """Return the dotted path that ``a.b.c`` stands for by its import."""
    found = dotted(node)
    if found is None:
        return None
    bindings = module.bindings(found[0].id, scope)
    if not bindings:
        return ".".join([found[0].id, *found[1]])
    target = bindings[0].target
    return ".".join([target, *found[1]]) if target is not None and len(bindings) == 1 else None
