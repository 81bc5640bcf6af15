"""The scopes, bindings and references of a Python module, found in one pass over its tree.

Scopes follow Python's rules: functions, lambdas and comprehensions are scopes; the functions in a
class do not see its names; the first iterable of a comprehension is evaluated outside of it;
`global` and `nonlocal` move a binding. A name may have several bindings in its scope, as in ``try``
and ``except``; this module does not decide which of them is in effect at a reference.

The pass is not recursive, so deeply nested expressions do not cause errors.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from mdstorm_migrate.petastorm.names import OLD_ROOT


@dataclass(eq=False)
class Binding:
    """One place that binds a name.

    Attributes
    ----------
    name : str
        The name that is bound; ``"*"`` for a star import.
    scope : Scope
    node : ast.AST
        The `ast.alias` of an import, otherwise the node that binds the name.
    statement : ast.Import or ast.ImportFrom or None
        The import statement; None if it is not an absolute import.
    target : str or None
        The dotted path that the name refers to: ``"petastorm"`` for ``import petastorm.spark``,
        ``"petastorm.spark"`` for ``import petastorm.spark as ps``. None if not an absolute import.
    """

    name: str
    scope: Scope
    node: ast.AST
    statement: ast.Import | ast.ImportFrom | None = None
    target: str | None = None

    @property
    def imported_module(self) -> str:
        """The module in an absolute import statement; empty for other bindings."""
        if isinstance(self.statement, ast.ImportFrom):
            return self.statement.module or ""
        is_import = self.statement is not None and isinstance(self.node, ast.alias)
        return self.node.name if is_import else ""  # type: ignore[attr-defined]


@dataclass(eq=False)
class Reference:
    """A name that is read or deleted, with the scope in which this happens."""

    node: ast.Name
    scope: Scope


@dataclass(eq=False)
class Scope:
    """A scope: its bindings and deletions, and the names that it declares as global or nonlocal."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    deleted_names: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        """Whether the scope is a class. Functions inside a class cannot read its names directly."""
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_comprehension(self) -> bool:
        """Whether the scope is a comprehension, in which ``:=`` binds names of the outer scope."""
        return isinstance(self.node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)

    @property
    def module(self) -> Scope:
        """The scope of the module."""
        *_, module = self.with_outer()
        return module

    def with_outer(self) -> Iterator[Scope]:
        """Yield this scope and the scopes around it; the module is last."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def owns(self, name: str) -> bool:
        """Whether `name` is local to this scope; deleting a name also makes it local."""
        return name in self.bindings or name in self.deleted_names

    def home(self, name: str) -> Scope | None:
        """Return the scope that owns `name` as seen from this scope, or None if no scope does."""
        scope: Scope | None = self
        while scope is not None:
            if scope is self or not scope.is_class:
                if name in scope.global_names:  # `global` also applies to inner functions
                    return self.module if self.module.owns(name) else None
                if scope.owns(name):
                    return scope
            scope = scope.parent
        return None

    def shadows_global(self, name: str) -> bool:
        """Whether this class owns `name`, but reads the module's `name` until its body binds it."""
        return self.is_class and self.owns(name) and self.module.owns(name)

    def owners(self, name: str) -> list[Scope]:
        """Return the scopes to which `name`, read in this scope, may belong."""
        home = self.home(name)
        found = [home] if home is not None else []
        return [*found, self.module] if self.shadows_global(name) else found


@dataclass
class Analysis:
    """The scopes of a module, and the nodes that rules look for in them.

    Attributes
    ----------
    module : Scope
    bindings : list of Binding
        In textual order.
    references : dict of str to list of Reference
        By name, in textual order.
    strings : list of ast.Constant
        Strings that contain the word petastorm, in textual order.
    declared : set of str
        Names in `global` and `nonlocal` statements.
    parents : dict of ast.AST to ast.AST
        In textual order.
    nodes : dict of type to list of ast.AST
        The nodes of each type, in textual order.
    scopes : dict of ast.AST to Scope
        The scope of each name that is read, each call, and each string in `strings`.
    """

    module: Scope
    bindings: list[Binding] = field(default_factory=list)
    references: dict[str, list[Reference]] = field(default_factory=dict)
    strings: list[ast.Constant] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    nodes: dict[type, list[Any]] = field(default_factory=lambda: defaultdict(list))
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)

    @property
    def calls(self) -> list[ast.Call]:
        """The calls, in textual order."""
        return self.nodes[ast.Call]


_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def analyse(tree: ast.Module) -> Analysis:
    """Return the scopes, bindings and references of a module."""
    return _Analyser(tree).run()


class _Analyser:
    """One walk over a tree, with an explicit stack."""

    def __init__(self, tree: ast.Module) -> None:
        self.found = Analysis(Scope(tree, None))
        self.stack: list[tuple[ast.AST, Scope]] = [(tree, self.found.module)]
        self.children: list[tuple[ast.AST, Scope]] = []
        self.nonlocals: list[Binding] = []

    def run(self) -> Analysis:
        stack, children = self.stack, self.children
        nodes, parents = self.found.nodes, self.found.parents
        while stack:
            node, scope = stack.pop()
            kind: Any = type(node)
            nodes[kind].append(node)
            visit = visitor(_Analyser, kind) or _Analyser.visit
            visit(self, node, scope)
            if children:
                for child, _ in children:
                    parents[child] = node
                children.reverse()
                stack += children
                children.clear()
        for binding in self.nonlocals:
            name, parent = binding.name, binding.scope.parent
            binding.scope = (parent and parent.home(name)) or binding.scope
            self._note(binding)
        return self.found

    def push(self, nodes: Iterable[ast.AST | None], scope: Scope) -> None:
        """Visit `nodes` next, in order; None is skipped."""
        self.children += [(node, scope) for node in nodes if node is not None]

    def visit(self, node: ast.AST, scope: Scope) -> None:
        """Visit the children of a node, but not what all nodes share, such as operators."""
        children = self.children
        kind: Any = type(node)
        for name in _inner_fields(kind):
            value = getattr(node, name, None)
            if isinstance(value, list):
                children += [(one, scope) for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                children.append((value, scope))

    def bind(self, binding: Binding) -> None:
        """Record a binding in the scope that owns it."""
        if binding.name in binding.scope.nonlocal_names:
            self.nonlocals.append(binding)  # the enclosing function may bind the name later
            return
        if binding.name in binding.scope.global_names:
            binding.scope = binding.scope.module
        self._note(binding)

    def _note(self, binding: Binding) -> None:
        binding.scope.bindings.setdefault(binding.name, []).append(binding)
        self.found.bindings.append(binding)

    # Imports

    def visit_import(self, node: ast.Import, scope: Scope) -> None:
        self.push(node.names, scope)
        for alias in node.names:
            root = alias.name.partition(".")[0]
            target = alias.name if alias.asname else root
            self.bind(Binding(alias.asname or root, scope, alias, node, target))

    def visit_importfrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.push(node.names, scope)
        for alias in node.names:
            name = alias.asname or alias.name
            if node.level or node.module is None:
                self.bind(Binding(name, scope, alias))
            else:
                target = node.module if alias.name == "*" else f"{node.module}.{alias.name}"
                self.bind(Binding(name, scope, alias, node, target))

    # Names

    def visit_name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Store):
            self.bind(Binding(node.id, scope, node))
        else:
            self.found.references.setdefault(node.id, []).append(Reference(node, scope))
            self.found.scopes[node] = scope
        if isinstance(node.ctx, ast.Del):
            self._delete(node.id, scope)

    def _delete(self, name: str, scope: Scope) -> None:
        """Record that a name is deleted, which makes it local to the scope."""
        if name in scope.global_names:
            scope = scope.module
        if name not in scope.nonlocal_names:
            scope.deleted_names.add(name)

    def visit_annassign(self, node: ast.AnnAssign, scope: Scope) -> None:
        binds = node.simple or node.value or not isinstance(node.target, ast.Name)
        self.push([node.target if binds else None, node.annotation, node.value], scope)

    def visit_namedexpr(self, node: ast.NamedExpr, scope: Scope) -> None:
        home = scope
        while home.is_comprehension and home.parent is not None:
            home = home.parent
        self.push([node.target], home)
        self.push([node.value], scope)

    def visit_global(self, node: ast.Global, scope: Scope) -> None:
        scope.global_names.update(node.names)
        self.found.declared.update(node.names)
        if scope is self.found.module:
            return
        for name in node.names:
            for binding in scope.bindings.pop(name, ()):  # an import may precede the `global`
                binding.scope = scope.module
                scope.module.bindings.setdefault(name, []).append(binding)

    def visit_nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.nonlocal_names.update(node.names)
        self.found.declared.update(node.names)

    def visit_excepthandler(
        self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar, scope: Scope
    ) -> None:
        self._bind_name(node.name, node, scope)
        self.visit(node, scope)

    visit_matchas = visit_matchstar = visit_excepthandler

    def visit_matchmapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        self._bind_name(node.rest, node, scope)
        self.visit(node, scope)

    def _bind_name(self, name: str | None, node: ast.AST, scope: Scope) -> None:
        if name is not None:
            self.bind(Binding(name, scope, node))

    # Scopes

    def visit_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        self.bind(Binding(node.name, scope, node))
        self.push(node.decorator_list, scope)
        self._visit_signature(node, scope)
        self.push([node.returns, *getattr(node, "type_params", ())], scope)
        self.push(node.body, self._enter(node, scope))

    visit_asyncfunctiondef = visit_functiondef

    def visit_lambda(self, node: ast.Lambda, scope: Scope) -> None:
        self._visit_signature(node, scope)
        self.push([node.body], self._enter(node, scope))

    def _visit_signature(self, node: _Function, scope: Scope) -> None:
        """Visit the defaults and annotations, which belong to the outer scope."""
        annotations = [argument.annotation for argument in _arguments(node)]
        self.push([*annotations, *node.args.defaults, *node.args.kw_defaults], scope)

    def _enter(self, node: _Function, scope: Scope) -> Scope:
        inner = Scope(node, scope)
        for argument in _arguments(node):
            self.bind(Binding(argument.arg, inner, argument))
        return inner

    def visit_classdef(self, node: ast.ClassDef, scope: Scope) -> None:
        self.bind(Binding(node.name, scope, node))
        parameters = getattr(node, "type_params", ())  # since Python 3.12
        self.push([*node.decorator_list, *parameters, *node.bases, *node.keywords], scope)
        self.push(node.body, Scope(node, scope))

    def visit_listcomp(self, node: Comprehension, scope: Scope) -> None:
        inner = Scope(node, scope)
        self.push([node.generators[0].iter], scope)
        for number, generator in enumerate(node.generators):
            self.push([generator.target, *generator.ifs], inner)
            self.push([generator.iter] if number else [], inner)
        values: list[ast.expr] = (
            [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        )
        self.push(values, inner)

    visit_setcomp = visit_dictcomp = visit_generatorexp = visit_listcomp

    # What rules look for

    def visit_call(self, node: ast.Call, scope: Scope) -> None:
        self.found.scopes[node] = scope
        self.push([node.func, *node.args, *node.keywords], scope)

    def visit_constant(self, node: ast.Constant, scope: Scope) -> None:
        if isinstance(node.value, str) and OLD_ROOT in node.value.lower():
            self.found.strings.append(node)
            self.found.scopes[node] = scope


@cache
def _inner_fields(kind: Any) -> tuple[str, ...]:
    """Return the fields of a node that may be nodes of its own."""
    return tuple(name for name in kind._fields if name not in ("ctx", "op", "ops"))


@cache
def visitor(owner: type, kind: Any) -> Any:
    """Return a class's method for nodes of a type, or None if it has none."""
    return getattr(owner, f"visit_{kind.__name__.lower()}", None)


def _arguments(node: _Function) -> list[ast.arg]:
    found = node.args
    named = [*found.posonlyargs, *found.args, *found.kwonlyargs]
    return named + [one for one in (found.vararg, found.kwarg) if one is not None]
