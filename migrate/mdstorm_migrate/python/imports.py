"""Names that a module imports from Petastorm, and their uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from mdstorm_migrate.petastorm.names import OLD_ROOT, VERSION, is_module, is_petastorm, missing
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.rebound import is_rebound
from mdstorm_migrate.python.scopes import Binding, Reference, Scope
from mdstorm_migrate.python.textual import TextualUse, textual_uses
from mdstorm_migrate.python.versions import is_beside_decision, is_decided_by, is_pin

#: Through how many names a module is followed.
_DEPTH = 3


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
    further : tuple of Use
        Of a module that is bound to another name, as in ``reader = petastorm.reader`` and in
        ``def f(reader=petastorm.reader)``: the uses of that name.
    """

    node: ast.expr
    name: ast.Name
    path: str
    missing: str | None
    further: tuple[Use, ...] = ()

    @property
    def lacks(self) -> str | None:
        """What mdstorm does not have of all that is used through it."""
        return next(filter(None, (use.missing for use in self.with_further())), None)

    def with_further(self) -> Iterator[Use]:
        """Yield the use, and those under other names."""
        yield self
        for use in self.further:
            yield from use.with_further()


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
    def all_uses(self) -> Iterator[Use]:
        """All uses, those under other names included."""
        return (one for use in self.uses for one in use.with_further())

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


def references_of(module: PythonModule, name: str, scope: Scope) -> Iterator[Reference]:
    """Yield where a name is read that may mean what `scope` binds to it."""
    for reference in module.scopes.references.get(name, ()):
        if not reference.scope.may_see(name, scope) or _is_of_class(module, reference, scope):
            continue
        if not is_rebound(module, reference, scope):
            yield reference


def _is_of_class(module: PythonModule, reference: Reference, scope: Scope) -> bool:
    """Whether a class has bound the name for certain before it reads it.

    As for the second ``petastorm`` in ``@property def petastorm(self)`` and ``@petastorm.setter``.
    """
    own, name = reference.scope, reference.node.id
    if own is scope or not own.is_class or name in own.deleted_names:
        return False
    place = module.span(reference.node)[0]
    statements = (module.statement(binding.node) for binding in own.bindings.get(name, ()))
    return any(
        module.scopes.parents.get(statement) is own.node and module.span(statement)[1] <= place
        for statement in statements
    )


def _uses(module: PythonModule, name: ImportedName) -> Iterator[Use]:
    target = name.imports[0].target or ""
    for reference in references_of(module, name.name, name.scope):
        yield _use(module, reference.node, target, _DEPTH)


def _use(module: PythonModule, name: ast.Name, target: str, depth: int) -> Use:
    node, path = module.chain(name, target)
    further: list[Use] = []
    if is_module(path) and depth:
        further = [_use(module, one, path, depth - 1) for one in _other_names(module, node)]
    return Use(node, name, path, lacking(module, node, path), tuple(further))


def _other_names(module: PythonModule, node: ast.expr) -> Iterator[ast.Name]:
    """Yield where a name is read to which an expression is bound, and nothing else."""
    function = module.scopes.parents.get(node)
    match function:
        case (
            ast.Assign(targets=[ast.Name(id=name) as bound])
            | ast.AnnAssign(target=ast.Name(id=name) as bound)
        ):
            pass
        case ast.NamedExpr(target=bound):
            name = bound.id
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            yield from _of_default(module, function, node)
            return
        case _:
            return
    for reference in module.scopes.references.get(name, ()):
        bindings = module.bindings(name, reference.scope)
        if [one.node for one in bindings] == [bound]:
            yield reference.node


def _of_default(
    module: PythonModule,
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    node: ast.expr,
) -> Iterator[ast.Name]:
    """Yield where a parameter is read whose default is an expression."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(plain[len(plain) - len(given.defaults) :], given.defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    for name in (argument.arg for argument, default in pairs if default is node):
        for reference in module.scopes.references.get(name, ()):
            home = reference.scope.home(name)
            if home is not None and home.node is function:
                yield reference.node


def lacking(module: PythonModule, node: ast.expr, path: str) -> str | None:
    """Return what mdstorm does not have of a path.

    That is the version of Petastorm, too, where something is decided by it, in what is said of the
    decision, and where Petastorm is required in it: mdstorm's has nothing to do with it.
    """
    is_version = path == VERSION or path.startswith(f"{VERSION}.")
    if is_version and (
        is_decided_by(module, node) or is_beside_decision(module, node) or is_pin(module, node)
    ):
        return VERSION
    return missing(path)
