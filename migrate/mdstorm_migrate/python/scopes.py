"""Scopes, bindings and references of a Python module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Binding:
    """One place that gives a name its meaning.

    Attributes
    ----------
    name : str
        The name that is bound; ``"*"`` for a star import.
    scope : Scope
    node : ast.AST
        The `ast.alias` of an import, else the node that binds.
    statement : ast.Import or ast.ImportFrom or None
        The import statement; None if it is not an absolute import.
    target : str or None
        The dotted path that the name stands for: ``"petastorm"`` for ``import petastorm.spark``,
        ``"petastorm.spark"`` for ``import petastorm.spark as ps``. None if not an absolute import.
    """

    name: str
    scope: Scope
    node: ast.AST
    statement: ast.Import | ast.ImportFrom | None = None
    target: str | None = None

    @property
    def imported_module(self) -> str:
        """The module that the import statement names; empty if it is no absolute import."""
        if isinstance(self.statement, ast.ImportFrom):
            return self.statement.module or ""
        is_import = self.statement is not None and isinstance(self.node, ast.alias)
        return self.node.name if is_import else ""  # type: ignore[attr-defined]


@dataclass(eq=False)
class Reference:
    """A name that is read or deleted, and the scope in which it stands."""

    node: ast.Name
    scope: Scope


@dataclass(eq=False)
class Scope:
    """A scope: its own bindings and deletions, and the names that it hands to others."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    deleted_names: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        """Whether functions within do not see its names."""
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_comprehension(self) -> bool:
        """Whether ``:=`` within binds outside."""
        return isinstance(self.node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)

    @property
    def module(self) -> Scope:
        """The scope of the module."""
        *_, module = self.with_outer()
        return module

    def with_outer(self) -> Iterator[Scope]:
        """Return this scope and those around it, the module's last."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def owns(self, name: str) -> bool:
        """Whether `name` is local here: one that is deleted is, too."""
        return name in self.bindings or name in self.deleted_names

    def home(self, name: str) -> Scope | None:
        """Return the scope that owns `name` as it is seen from here; None if none does."""
        for scope in self.with_outer():
            if scope.is_class and scope is not self:
                continue
            if name in scope.global_names:  # that holds for the functions within, too
                return self.module if self.module.owns(name) else None
            if scope.owns(name):
                return scope
        return None

    def sees_two(self, name: str) -> bool:
        """Whether this is a class with a name of its own, which means the module's until bound."""
        return self.is_class and self.owns(name) and self.module.owns(name)

    def may_see(self, name: str, owner: Scope) -> bool:
        """Whether `name`, read here, may mean the one that `owner` owns."""
        return owner is self.home(name) or (owner is self.module and self.sees_two(name))


@dataclass
class Analysis:
    """All scopes of a module.

    Attributes
    ----------
    module : Scope
    bindings : list of Binding
        Those of imports, in the order of the text.
    references : dict of str to list of Reference
        By name, in the order of the text.
    calls : list of ast.Call
        In the order of the text.
    strings : list of ast.Constant
        Those that contain the word petastorm, in the order of the text.
    declared : set of str
        Names in `global` and `nonlocal` statements.
    parents : dict of ast.AST to ast.AST
    scopes : dict of ast.AST to Scope
        Of calls and strings: the scope in which they stand.
    """

    module: Scope
    bindings: list[Binding] = field(default_factory=list)
    references: dict[str, list[Reference]] = field(default_factory=dict)
    calls: list[ast.Call] = field(default_factory=list)
    strings: list[ast.Constant] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
