"""Uses of what newer releases of libraries no longer have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.libraries.removed import Removed
from mdstorm_migrate.libraries.tables import NAMES
from mdstorm_migrate.petastorm.names import is_petastorm
from mdstorm_migrate.python.guards import is_asked_for, is_guarded
from mdstorm_migrate.python.libraries import LibraryUse, belongs_to_us, library_uses
from mdstorm_migrate.python.module import PythonModule

#: Names that mean something else in NumPy 2; it does not run with Petastorm.
_BACK = frozenset({"numpy.bool", "numpy.long"})
#: How many names a finding lists.
_LISTED = 5
#: A pin of Lightning to a release before 2.0, which mdstorm does not ask anyone to leave.
_OLD_LIGHTNING = re.compile(
    r"\blightning(?:\[[\w,-]*\])?[ ]*(?:==[ ]*[01]\.|~=[ ]*[01]\.\d+\.|<[ ]*[12]\b)"
)


@dataclass(frozen=True)
class Gone:
    """A place where something is used that is gone.

    Attributes
    ----------
    node : ast.AST
        The place.
    name : str
        How to call it in a message.
    removed : Removed
    use : LibraryUse or None
        Of a name of a library: its import, or its use.
    """

    node: ast.AST
    name: str
    removed: Removed
    use: LibraryUse | None = None


@lru_cache(maxsize=1)
def gone_names(module: PythonModule) -> Sequence[Gone]:
    """Return where names of libraries are used that are gone, in the order of the text.

    Left out are places where the code chooses between releases, names that the file itself puts
    back (``np.float = float``), and files that use neither Petastorm nor mdstorm.
    """
    if not belongs_to_us(module):
        return []
    uses_petastorm = any(is_petastorm(one.target) for one in module.scopes.bindings)
    found: list[Gone] = []
    put_back = set()
    for use in library_uses(module):
        path = _in_tables(use.path)
        if path is None or (path in _BACK and not uses_petastorm):
            continue
        node = use.part(path.count(".") + 1)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            put_back.add(path)
        elif not _is_named_by_import(use, path) and not _is_chosen(module, node, path):
            name = path if isinstance(node, ast.alias) else ast.unparse(node)
            found.append(Gone(node, name, NAMES[path], use))
    kept = [one for one in found if one.use and _in_tables(one.use.path) not in put_back]
    return sorted(kept, key=lambda one: module.span(one.node))


def _is_chosen(module: PythonModule, node: ast.AST, path: str) -> bool:
    """Whether the code can do without a name.

    A ``try`` around a name that can be replaced exactly does not count: where it catches something
    else, it would hide that the name is gone.
    """
    if NAMES[path].exact and isinstance(node, ast.expr):
        return is_asked_for(module, node)
    return is_guarded(module, node)


def _is_named_by_import(use: LibraryUse, path: str) -> bool:
    """Whether a use is of a name of which the import says that it is gone."""
    imported = use.path.count(".") + 1 - use.depth
    return isinstance(use.node, ast.expr) and path.count(".") + 1 <= imported


def _in_tables(path: str) -> str | None:
    """Return the part of a dotted path that is gone; None if none is."""
    parts = path.split(".")
    candidates = (".".join(parts[:stop]) for stop in range(2, len(parts) + 1))
    return next((one for one in candidates if one in NAMES), None)


def grouped(module: PythonModule, code: str, places: Iterable[Gone]) -> Iterator[Finding]:
    """Yield one finding for the places that share release and advice, at the first of them.

    Left out is what Lightning 2.0 removed if the file itself pins an older one. Those that begin in
    one statement are one finding, too.
    """
    groups: dict[tuple[str, str], list[Gone]] = {}
    is_pinned = _OLD_LIGHTNING.search(module.document.text) is not None
    for one in sorted(places, key=lambda one: module.span(one.node)):
        if is_pinned and one.removed.release.startswith("Lightning"):
            continue
        groups.setdefault((one.removed.release, one.removed.instead), []).append(one)
    statements: dict[int, list[list[Gone]]] = {}
    for some in groups.values():
        line, _ = module.logical_line(module.span(some[0].node)[0])
        statements.setdefault(line, []).append(some)
    for together in statements.values():
        span = module.span(together[0][0].node)
        message = "; ".join(map(_message, together))
        remedy = "; ".join(map(_remedy, together))
        yield Finding(code, "manual", *span, message, remedy)


def _subject(places: Sequence[Gone]) -> str:
    names = _names(places)
    more = len(names) - _LISTED
    listed = ", ".join(f"`{name}`" for name in names[:_LISTED])
    listed += f" and {more} more" if more > 0 else ""
    return f"{listed} {'is' if len(names) == 1 else 'are'} gone"


def _names(places: Sequence[Gone]) -> list[str]:
    return list(dict.fromkeys(one.name for one in places))


def _message(places: Sequence[Gone]) -> str:
    message = f"{_subject(places)} from {places[0].removed.release} on"
    is_repeated = len(places) > len(_names(places))
    return f"{message}, in {len(places)} places" if is_repeated else message


def _remedy(places: Sequence[Gone]) -> str:
    ruff = next((one.removed.ruff for one in places if one.removed.ruff), "")
    return places[0].removed.sentence(_subject(places), ruff)
