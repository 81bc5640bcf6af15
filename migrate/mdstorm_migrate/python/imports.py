"""What happens to the names that a module imports from Petastorm.

A name is moved only if mdstorm has all that the module uses through it; otherwise its import stays
as it is, for that use. The name ``petastorm`` itself, which ``import petastorm.spark`` binds,
becomes ``mdstorm`` together with all its uses. Where that could be seen from outside, or a use
cannot be told apart, the import becomes ``import mdstorm as petastorm``, which needs no further
edit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from mdstorm_migrate.petastorm.names import (
    NEW_ROOT,
    OLD_ROOT,
    RENAMED,
    VERSION,
    Counterpart,
    counterpart,
    is_module,
    is_petastorm,
    missing,
)
from mdstorm_migrate.python.accidents import accidental_names
from mdstorm_migrate.python.fallbacks import is_fallback_import
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.reexports import is_imported_from
from mdstorm_migrate.python.scopes import Binding, Scope
from mdstorm_migrate.python.shadow import shadowing_neighbour
from mdstorm_migrate.python.textual import TextualUse, is_evaluated, textual_uses

__all__ = ["Fate", "ImportedName", "Use", "imported_names", "moved", "shadowed"]

#: ``move``: from mdstorm. ``keep``: from Petastorm. ``both``: a second import beside the first,
#: since some uses move. ``alias``: from mdstorm, under the old name.
Fate: TypeAlias = Literal["move", "keep", "both", "alias"]


@dataclass(frozen=True)
class Use:
    """A use of an imported name.

    Attributes
    ----------
    node : ast.expr
        The name with all its attributes: ``petastorm.spark.make_spark_converter``.
    name : ast.Name
        The name alone.
    path : str
        The dotted path that `node` stands for.
    missing : str or None
        The first part of `path` that mdstorm does not have.
    """

    node: ast.expr
    name: ast.Name
    path: str
    missing: str | None


@dataclass
class ImportedName:
    """A name of a scope that is bound to something of Petastorm's.

    Attributes
    ----------
    name : str
    scope : Scope
    imports : list of Binding
        Its imports from Petastorm; usually one.
    uses : list of Use
    texts : list of TextualUse
        Its uses in annotations and other types that are strings, and in type comments.
    fate : {"move", "keep", "both", "alias"}
    """

    name: str
    scope: Scope
    imports: list[Binding]
    uses: list[Use] = field(default_factory=list)
    texts: list[TextualUse] = field(default_factory=list)
    fate: Fate = "move"

    @property
    def is_root(self) -> bool:
        """Whether ``import petastorm…`` binds it, without ``as``."""
        return self.imports[0].target == OLD_ROOT and self.name == OLD_ROOT

    @property
    def group(self) -> tuple[str, int, str]:
        """What its edits have in common."""
        return ("import", id(self.scope), self.name)


@lru_cache(maxsize=1)
def imported_names(module: PythonModule) -> Sequence[ImportedName]:
    """Return what the module imports from Petastorm, in the order of the text."""
    found: dict[tuple[Scope, str], ImportedName] = {}
    for binding in module.scopes.bindings:
        if is_petastorm(binding.target):
            key = (binding.scope, binding.name)
            found.setdefault(key, ImportedName(binding.name, binding.scope, [])).imports.append(
                binding
            )
    for name in found.values():
        name.uses = list(_uses(module, name))
        name.texts = textual_uses(module, name.scope) if name.is_root else []
        name.fate = _fate(module, name)
    return list(found.values())


def moved(module: PythonModule, binding: Binding) -> Counterpart | None:
    """Return where mdstorm has what ``from … import name`` binds; None if nowhere."""
    assert isinstance(binding.statement, ast.ImportFrom)
    assert isinstance(binding.node, ast.alias)
    old = binding.statement.module or "", binding.node.name
    if old in RENAMED and module.applies("PM106", "review"):
        return counterpart(old[0], RENAMED[old])
    return counterpart(*old)


def _uses(module: PythonModule, name: ImportedName) -> Iterator[Use]:
    target = name.imports[0].target or ""
    for reference in module.scopes.references.get(name.name, ()):
        if not reference.scope.may_see(name.name, name.scope):
            continue
        node, path = module.chain(reference.node, target)
        lacking = VERSION if _is_compared_version(module, node, path) else missing(path)
        yield Use(node, reference.node, path, lacking)


def _is_compared_version(module: PythonModule, node: ast.expr, path: str) -> bool:
    """Whether it is the version of Petastorm, with which that of mdstorm has nothing to do.

    It may be compared under a name that is made from it.
    """
    if path != VERSION and not path.startswith(f"{VERSION}."):
        return False
    if _is_compared(module, node):
        return True
    match module.statement(node):
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
            references = module.scopes.references.get(name, ())
            return any(_is_compared(module, one.node) for one in references)
    return False


def _is_compared(module: PythonModule, node: ast.AST) -> bool:
    return any(isinstance(one, ast.Compare) for one in module.ancestors(node))


def _fate(module: PythonModule, name: ImportedName) -> Fate:
    if name.is_root:
        return _fate_of_root(module, name)
    return "move" if all(_can_move(module, name, one) for one in name.imports) else "keep"


def _can_move(module: PythonModule, name: ImportedName, binding: Binding) -> bool:
    """Whether mdstorm has what an import binds, and all that is used of it."""
    target = binding.target or ""
    if shadowed(module, binding) or is_fallback_import(module, binding):
        return False
    if binding.name == "*":
        return is_module(target) and not accidental_names(module, name.scope, target)
    if isinstance(binding.statement, ast.ImportFrom) and not is_module(target):
        is_compared = target == VERSION and any(use.missing for use in name.uses)
        return moved(module, binding) is not None and not is_compared
    return is_module(target) and not any(use.missing for use in name.uses)


def _fate_of_root(module: PythonModule, name: ImportedName) -> Fate:
    targets = [_imported_module(one) for one in name.imports]
    if any(shadowed(module, one) or is_fallback_import(module, one) for one in name.imports):
        return "keep"
    lacking = [use.missing for use in name.uses] + [text.missing for text in name.texts]
    some = None in lacking
    only_imports = len(name.imports) == len(name.scope.bindings[name.name])
    named = any(isinstance(one.node, ast.alias) and one.node.asname for one in name.imports)
    plain = only_imports and not named and _can_rename(module, name)
    if any(lacking) or not all(map(is_module, targets)):
        return "both" if some and plain and not _is_looked_up(module, name) else "keep"
    return "move" if plain and not _is_exported(module, name) else "alias"


def _is_looked_up(module: PythonModule, name: ImportedName) -> bool:
    """Whether it matters which uses are left under the old name."""
    if any(isinstance(use.name.ctx, ast.Del) for use in name.uses):
        return True
    # Code in strings sees a name of a function around only if the code beside it names it.
    is_local = name.scope.parent is not None
    return is_local and any(is_evaluated(module, string) for string in module.scopes.strings)


def _imported_module(binding: Binding) -> str:
    assert isinstance(binding.node, ast.alias)
    return binding.node.name


def _can_rename(module: PythonModule, name: ImportedName) -> bool:
    """Whether the new name is free wherever the old one is used, and each use can be located."""
    if name.name in module.scopes.declared:
        return False
    references = module.scopes.references.get(name.name, ())
    for scope in {name.scope, *(one.scope for one in references)}:
        if _is_ambiguous(name, scope) or _is_taken(NEW_ROOT, scope):
            return False
    # Before Python 3.12, places in f-strings are guesses, and may be the same for several uses.
    places = {module.span(use.name) for use in name.uses}
    exact = all(module.source_of(use.name) == name.name for use in name.uses)
    return exact and len(places) == len(name.uses)


def _is_taken(name: str, scope: Scope) -> bool:
    """Whether `scope` or one around it means something else by the name of a module."""
    bindings = (one for scope in scope.with_outer() for one in scope.bindings.get(name, ()))
    return any(binding.target != name for binding in bindings)


def _is_ambiguous(name: ImportedName, scope: Scope) -> bool:
    """Whether the name may mean that of a class in `scope`, and the module's as well."""
    is_either = name.scope in (scope, scope.module)
    return is_either and scope.sees_two(name.name)


def _is_exported(module: PythonModule, name: ImportedName) -> bool:
    """Whether others may know the name: modules that import this one, code in strings."""
    if any(is_evaluated(module, string) for string in module.scopes.strings):
        return True
    if any(text.is_fixed for text in name.texts):
        return True
    if _is_in_magics(module):
        return True
    if name.scope.parent is not None:
        return name.scope.is_class  # it is an attribute
    path = module.document.path
    if (path is not None and path.name == "__init__.py") or is_imported_from(path):
        return True
    if any(_is_in_all(module, string) for string in module.scopes.strings):
        return True
    in_try = any(
        isinstance(parent, ast.Try) for one in name.imports for parent in module.ancestors(one.node)
    )
    return not name.uses and not name.texts and not in_try


def _is_in_magics(module: PythonModule) -> bool:
    """Whether a magic of a notebook may use the name, as ``%time petastorm.make_reader(url)``."""
    text, code = module.document.text, module.document.code
    if text == code:
        return False
    uses = re.finditer(rf"(?<![\w./-]){OLD_ROOT}\.[^\W\d]", text)
    return any(code[use.start() : use.end()] != use.group() for use in uses)


def _is_in_all(module: PythonModule, string: ast.Constant) -> bool:
    if string.value != OLD_ROOT:
        return False
    statement = module.statement(string)
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets)


def shadowed(module: PythonModule, binding: Binding) -> str | None:
    """Return the neighbour of the file that an import may mean; None if there is none."""
    if isinstance(binding.statement, ast.ImportFrom):
        imported = binding.statement.module or ""
    else:
        imported = _imported_module(binding)
    return shadowing_neighbour(module.document.path, imported)
