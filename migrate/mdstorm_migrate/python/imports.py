"""Names that a module imports from Petastorm, and their uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from mdstorm_migrate.petastorm.names import (
    OLD_ROOT,
    VERSION,
    is_module,
    is_petastorm,
    is_within,
    missing,
)
from mdstorm_migrate.python.module import PythonModule, last_name, string_value
from mdstorm_migrate.python.reads import reads_bound
from mdstorm_migrate.python.scopes import Binding, Reference, Scope
from mdstorm_migrate.python.textual_uses import TextualUse, annotation_uses

#: Maximum number of assignments through which a name is followed.
_DEPTH = 3
#: Functions and methods that convert a version, and functions that make a decision based on one.
_CONVERSIONS = frozenset(
    [
        *("LooseVersion", "StrictVersion", "V", "Version", "parse", "parse_version"),
        *("float", "getattr", "int", "join", "list", "map", "partition", "replace", "rpartition"),
        *("rsplit", "split", "str", "strip", "tuple"),
    ]
)
_DECIDING = re.compile(r"startswith\Z|assert|check|require", re.IGNORECASE)
#: A requirement for a specific version of Petastorm.
_PIN = re.compile(rf"{OLD_ROOT}(?:\[[^\]]*\])?\s*[=<>~!]=")
#: What compares versions in a requirement, and methods that assemble its text.
_COMPARATOR = re.compile(r"[=<>~!]=")
_FORMATTING = frozenset(
    {"format", "format_map", "join", "replace", "safe_substitute", "substitute"}
)


@dataclass(frozen=True)
class Use:
    """A use of an imported name.

    Attributes
    ----------
    node : ast.expr
        The name with all its attributes: ``petastorm.spark.make_spark_converter``.
    name : ast.Name
        The name without attributes.
    path : str
        The dotted path that `node` refers to.
    missing : str or None
        The shortest prefix of `path` that is not in mdstorm.
    further : tuple of Use
        If `node` is a module that is bound to another name, as in ``reader = petastorm.reader`` or
        ``def f(reader=petastorm.reader)``: the uses of that name.
    """

    node: ast.expr
    name: ast.Name
    path: str
    missing: str | None
    further: tuple[Use, ...] = ()

    @property
    def first_missing(self) -> str | None:
        """The first path that is not in mdstorm, among this use and its further uses."""
        return next(filter(None, (use.missing for use in self.with_further())), None)

    @property
    def is_assigned(self) -> bool:
        """Whether an attribute is assigned or deleted here rather than read."""
        return isinstance(self.node, ast.Attribute) and not isinstance(self.node.ctx, ast.Load)

    def with_further(self) -> Iterator[Use]:
        """Yield the use itself and the uses under other names."""
        yield self
        for use in self.further:
            yield from use.with_further()


@dataclass(eq=False)
class ImportedName:
    """A name that a scope binds to a part of Petastorm.

    Attributes
    ----------
    name : str
    scope : Scope
    imports : list of Binding
        Imports from Petastorm that bind the name; usually one.
    uses : list of Use
    texts : list of TextualUse
        Uses of the name in annotations that are strings, and in type comments.
    """

    name: str
    scope: Scope
    imports: list[Binding]
    uses: list[Use] = field(default_factory=list)
    texts: list[TextualUse] = field(default_factory=list)

    @property
    def is_root(self) -> bool:
        """Whether ``import petastorm…`` binds the name, without ``as``."""
        return self.name == OLD_ROOT and any(one.target == OLD_ROOT for one in self.imports)

    @property
    def all_uses(self) -> Iterator[Use]:
        """All uses, including those under other names."""
        return (one for use in self.uses for one in use.with_further())

    @property
    def group(self) -> tuple[str, int, str]:
        """The group shared by all edits of this name."""
        return ("import", id(self.scope), self.name)


@lru_cache(maxsize=1)
def imported_names(module: PythonModule) -> Sequence[ImportedName]:
    """Return the names that the module imports from Petastorm, in textual order."""
    names: dict[tuple[Scope, str], ImportedName] = {}
    for binding in module.scopes.bindings:
        if is_petastorm(binding.target):
            key = (binding.scope, binding.name)
            names.setdefault(key, ImportedName(binding.name, binding.scope, [])).imports.append(
                binding
            )
    for name in names.values():
        name.uses = list(_uses(module, name))
        name.texts = list(annotation_uses(module, name.scope)) if name.is_root else []
    return list(names.values())


def references_of(module: PythonModule, name: str, scope: Scope) -> Iterator[Reference]:
    """Yield the reads of a name that may refer to the binding in `scope`."""
    for reference in _references(module).get((name, scope), ()):
        if not _is_class_bound(module, reference, scope):
            yield reference


@lru_cache(maxsize=1)
def _references(module: PythonModule) -> Mapping[tuple[str, Scope], Sequence[Reference]]:
    """Return the reads of names, keyed by the name and by a scope that may own the name."""
    found: dict[tuple[str, Scope], list[Reference]] = {}
    for name, references in module.scopes.references.items():
        for reference in references:
            for owner in reference.scope.owners(name):
                found.setdefault((name, owner), []).append(reference)
    return found


def _is_class_bound(module: PythonModule, reference: Reference, scope: Scope) -> bool:
    """Whether a class binds the name before a read, as in ``@petastorm.setter`` of a property."""
    own, name = reference.scope, reference.node.id
    if own is scope or not own.is_class or name in own.deleted_names:
        return False
    place = module.span(reference.node)[0]
    statements = (module.statement(binding.node) for binding in own.bindings.get(name, ()))
    return any(
        module.scopes.parents.get(one) is own.node and module.span(one)[1] <= place
        for one in statements
    )


def _uses(module: PythonModule, name: ImportedName) -> Iterator[Use]:
    target = name.imports[0].target or ""
    for reference in references_of(module, name.name, name.scope):
        yield _use(module, reference.node, target, _DEPTH)


@lru_cache(maxsize=1)
def reached_uses(module: PythonModule) -> Sequence[Use]:
    """Return the uses of Petastorm through other modules of the project."""
    names = {key.partition(".")[0] for key in module.given.names or ()}
    uses = []
    for name in sorted(names):
        for reference in module.scopes.references.get(name, ()):
            node, local = module.chain(reference.node, name)
            path = module.reached((reference.node, local.split(".")[1:]), reference.scope)
            if path is not None:
                uses.append(_use_at(module, reference.node, node, path, _DEPTH))
    return uses


def _use(module: PythonModule, name: ast.Name, target: str, depth: int) -> Use:
    return _use_at(module, name, *module.chain(name, target), depth)


def _use_at(module: PythonModule, name: ast.Name, node: ast.expr, path: str, depth: int) -> Use:
    further: list[Use] = []
    if is_module(path) and depth:
        further = [_use(module, one, path, depth - 1) for one in _other_names(module, node)]
    return Use(node, name, path, missing_prefix(module, node, path), tuple(further))


def _other_names(module: PythonModule, node: ast.expr) -> Iterator[ast.Name]:
    """Yield the reads of the name that is bound to the expression `node` and to nothing else."""
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
            yield from _reads_of_parameter(module, function, node)
            return
        case _:
            return
    for reference in module.scopes.references.get(name, ()):
        bindings = module.bindings(name, reference.scope)
        if [one.node for one in bindings] == [bound]:
            yield reference.node


def _reads_of_parameter(
    module: PythonModule,
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    node: ast.expr,
) -> Iterator[ast.Name]:
    """Yield the reads of the parameter whose default is the expression `node`."""
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


def missing_prefix(module: PythonModule, node: ast.expr, path: str) -> str | None:
    """Return the prefix of a path that is not in mdstorm, or has a different meaning in mdstorm.

    The latter is Petastorm's version, in code that makes a decision based on it.
    """
    return VERSION if is_within(path, VERSION) and _is_compared(module, node) else missing(path)


def _is_compared(module: PythonModule, node: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether a version is compared or required, in any form and under any name."""
    for parent in module.ancestors(node):
        reads = reads_bound(module, parent, node) if depth else ()
        if any(_is_compared(module, read, depth - 1) for read in reads):
            return True
        match parent:
            case ast.Compare() | ast.Match():
                return True
            case _ if is_pin(parent):
                return True
            case ast.Call(func=function):
                if _DECIDING.search(last_name(function)):
                    return True
                if function is not node and last_name(function) not in _CONVERSIONS:
                    return False
            case ast.stmt():
                return False
        node = parent
    return False


def is_pin(node: ast.AST) -> bool:
    """Whether an expression inserts a version into the text of a requirement for the library."""
    is_call = isinstance(node, ast.Call) and last_name(node.func) in _FORMATTING
    if not (is_call or isinstance(node, ast.BinOp | ast.JoinedStr)):
        return False
    texts = [string_value(one) or "" for one in ast.walk(node)]
    is_apart = OLD_ROOT in texts and any(map(_COMPARATOR.search, texts))
    return is_apart or any(map(_PIN.search, texts))
