"""Names that a module imports from Petastorm, and their uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from mdstorm_migrate.petastorm.names import OLD_ROOT, VERSION, is_petastorm, missing
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding, Scope
from mdstorm_migrate.python.textual import TextualUse, textual_uses
from mdstorm_migrate.python.versions import is_decided_by


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


@dataclass(eq=False)
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
    """

    name: str
    scope: Scope
    imports: list[Binding]
    uses: list[Use] = field(default_factory=list)
    texts: list[TextualUse] = field(default_factory=list)

    @property
    def is_root(self) -> bool:
        """Whether ``import petastorm…`` binds it, without ``as``."""
        return self.name == OLD_ROOT and any(one.target == OLD_ROOT for one in self.imports)

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
    return list(found.values())


def _uses(module: PythonModule, name: ImportedName) -> Iterator[Use]:
    target = name.imports[0].target or ""
    for reference in module.scopes.references.get(name.name, ()):
        if not reference.scope.may_see(name.name, name.scope):
            continue
        node, path = module.chain(reference.node, target)
        lacking = _lacking(module, node, path)
        yield Use(node, reference.node, path, lacking)


def _lacking(module: PythonModule, node: ast.expr, path: str) -> str | None:
    """Return what mdstorm does not have of a path.

    That is the version of Petastorm, too, where something is decided by it: mdstorm's has nothing
    to do with it.
    """
    is_version = path == VERSION or path.startswith(f"{VERSION}.")
    return VERSION if is_version and is_decided_by(module, node) else missing(path)
