"""Members of frames, arrays and datasets that newer releases of their libraries lack."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mdstorm_migrate.libraries import pyarrow
from mdstorm_migrate.libraries.removed import Member
from mdstorm_migrate.libraries.tables import CONVERSIONS, MEMBERS
from mdstorm_migrate.python.guards import is_guarded
from mdstorm_migrate.python.libraries import belongs_to_us, library_path
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.values import FRAME, class_of

#: Those that are no methods.
_ATTRIBUTES = frozenset({"is_monotonic", *pyarrow.MEMBERS})
#: Arguments of ``append`` that lists have not.
_OF_FRAMES = frozenset({"ignore_index", "sort", "verify_integrity"})


@dataclass(frozen=True)
class MemberUse:
    """A use of a member that is gone.

    Attributes
    ----------
    node : ast.Attribute
    member : Member
    is_known : bool
        Whether the owner is known to be of one of the classes that had it.
    """

    node: ast.Attribute
    member: Member
    is_known: bool


@lru_cache(maxsize=1)
def gone_members(module: PythonModule) -> Sequence[MemberUse]:
    """Return the uses, in the order of the text."""
    if not belongs_to_us(module) or not any(f".{name}" in module.text for name in MEMBERS):
        return []
    found = [
        use
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in MEMBERS
        for use in _uses(module, node)
        if not is_guarded(module, node)
    ]
    return sorted(found, key=lambda use: module.span(use.node))


def _uses(module: PythonModule, node: ast.Attribute) -> Iterator[MemberUse]:
    member = MEMBERS[node.attr]
    if not isinstance(node.ctx, ast.Load) or library_path(module, node.value) is not None:
        return
    if not _is_used_as(module, node):
        return
    owner = class_of(module, node.value)
    is_known = owner in member.owners or (owner == FRAME and _is_of_pandas(member))
    if node.attr == "append":
        if _is_append(module, node, is_known):
            yield MemberUse(node, member, is_known)
    elif is_known or (member.is_telling and owner is None and _may_be(module, node, member)):
        yield MemberUse(node, member, is_known)
    elif node.attr == "tostring" and owner is None and _is_bare_call(module, node):
        yield MemberUse(node, member, False)


def _is_used_as(module: PythonModule, node: ast.Attribute) -> bool:
    """Whether a method is called, and ``ix`` has an index: frames have columns as attributes."""
    parent = module.scopes.parents.get(node)
    if node.attr == "ix":
        return isinstance(parent, ast.Subscript) and parent.value is node
    if node.attr in _ATTRIBUTES:
        return True
    return isinstance(parent, ast.Call) and parent.func is node


def _is_of_pandas(member: Member) -> bool:
    return any(owner.startswith("pandas.") for owner in member.owners)


def _may_be(module: PythonModule, node: ast.Attribute, member: Member) -> bool:
    """Whether the file uses the library, in today's form, and has no such member of its own."""
    if f"def {node.attr}(" in module.text:
        return False
    if _is_of_pandas(member):
        return _has_pandas(module)
    targets = {one.target for one in module.scopes.bindings}
    return "tensorflow" in targets and "compat" not in module.text


@lru_cache(maxsize=1)
def _has_pandas(module: PythonModule) -> bool:
    return "pandas" in module.imported_roots or any(
        f".{name}(" in module.text for name in CONVERSIONS
    )


def _is_bare_call(module: PythonModule, node: ast.Attribute) -> bool:
    """Whether it is called without arguments, as no function of a module of that name is."""
    match module.scopes.parents.get(node):
        case ast.Call(func=called, args=[], keywords=[]):
            return called is node
    return False


def _is_append(module: PythonModule, node: ast.Attribute, is_known: bool) -> bool:
    """Whether ``append`` is that of frames: its result is used, as that of lists never is."""
    call = module.scopes.parents.get(node)
    if not isinstance(call, ast.Call) or call.func is not node:
        return False
    if any(keyword.arg in _OF_FRAMES for keyword in call.keywords):
        return True
    match module.scopes.parents.get(call):
        case ast.Expr():
            return False
        case ast.Assign(targets=[target]) if _has_pandas(module):
            return is_known or ast.unparse(target) == ast.unparse(node.value)
    return is_known
