"""PM301: aliases that libraries dropped, where the same thing has another name in all releases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Edit
from mdstorm_migrate.python.gone import Gone, gone_names
from mdstorm_migrate.python.members import gone_members
from mdstorm_migrate.python.module import PythonModule

CODE = "PM301"
TITLE = "Names of NumPy and pandas that newer releases lack, and what they stood for"
CLASS: Class = "exact"
KIND = "python"

#: Packages whose star imports bind no builtin's name.
_HARMLESS = frozenset({"mdstorm", "petastorm", "pyspark", "typing"})
#: Around ``-np.inf`` nothing binds more tightly than the minus there.
_LOOSE = (
    ast.AnnAssign,
    ast.Assign,
    ast.Call,
    ast.Compare,
    ast.List,
    ast.Return,
    ast.Tuple,
    ast.arguments,
    ast.keyword,
)


def check(module: PythonModule) -> Iterable[Edit]:
    """Yield an edit for each such name."""
    for gone in gone_names(module):
        yield from edit_of(module, gone)
    for use in gone_members(module):
        new = use.member.removed.exact
        _, stop = module.span(use.node)
        start = stop - len(use.node.attr)
        if new and module.text[start:stop] == use.node.attr:
            cls: Class = "exact" if use.is_known else "review"
            message = f"`.{use.node.attr}` becomes `.{new}`: {use.member.removed.release} lacks it"
            yield Edit(CODE, cls, start, stop, new, message)


def edit_of(module: PythonModule, gone: Gone) -> Iterator[Edit]:
    """Yield the edit of one name; none if it is imported by a ``from``, or cannot be located."""
    exact, node = gone.removed.exact, gone.node
    if not exact or not isinstance(node, ast.Attribute) or gone.use is None:
        return
    start, stop = module.span(node)
    found = re.fullmatch(r"(?P<owner>[\w.]+)\.(?P<name>\w+)", module.text[start:stop])
    if found is None or found["name"] != node.attr or "." in ast.unparse(node.value):
        return
    if isinstance(module.scopes.parents.get(node), ast.MatchValue):
        return  # there, a name without a dot would be bound
    owner, _, name = exact.rpartition(".")
    if owner == "numpy":
        start, new = stop - len(node.attr), name
    elif owner:  # a number, or minus infinity
        new = exact.replace("numpy", found["owner"])
        is_loose = isinstance(module.scopes.parents.get(node), _LOOSE)
        new = f"({new})" if new.startswith("-") and not is_loose else new
    elif _is_free(module, gone, exact):
        new = exact
    else:
        return
    message = f"`{gone.name}` becomes `{new}`: {gone.removed.release} lacks it"
    yield Edit(CODE, CLASS, start, stop, new, message)


def _is_free(module: PythonModule, gone: Gone, builtin: str) -> bool:
    """Whether a name means the builtin where it would stand."""
    assert gone.use is not None
    if any(builtin in scope.bindings for scope in gone.use.scope.with_outer()):
        return False
    stars = (one for scope in gone.use.scope.with_outer() for one in scope.bindings.get("*", ()))
    return all((one.target or "").partition(".")[0] in _HARMLESS for one in stars)
