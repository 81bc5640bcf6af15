"""Build the scopes of a Python module in one pass over its tree.

As Python's own rules have it: functions, lambdas and comprehensions are scopes, a class body is one
that its functions do not see, the first iterable of a comprehension belongs outside of it, `global`
and `nonlocal` move a binding. A name may have several bindings in its scope, as in ``try`` and
``except``; which of them is in force at a reference is not decided here.

One pass without recursion: a deeply nested expression is no deeper here than a shallow one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeAlias

from mdstorm_migrate.python.scopes import Analysis, Binding, Reference, Scope

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def analyse(tree: ast.Module, word: str = "petastorm") -> Analysis:
    """Return the scopes of a module; `word` is the one that interesting strings contain."""
    return _Analyser(tree, word).run()


class _Analyser:
    """One walk over a tree, with a stack of its own."""

    def __init__(self, tree: ast.Module, word: str) -> None:
        self.found = Analysis(Scope(tree, None))
        self.word = word
        self.stack: list[tuple[ast.AST, Scope]] = [(tree, self.found.module)]
        self.children: list[tuple[ast.AST, Scope]] = []
        self.nonlocals: list[Binding] = []

    def run(self) -> Analysis:
        while self.stack:
            node, scope = self.stack.pop()
            self.children.clear()
            visit = getattr(self, f"visit_{type(node).__name__.lower()}", None)
            if visit is None:
                self.push(ast.iter_child_nodes(node), scope)
            else:
                visit(node, scope)
            for child, _ in self.children:
                self.found.parents[child] = node
            self.stack.extend(reversed(self.children))
        for binding in self.nonlocals:
            name, parent = binding.name, binding.scope.parent
            binding.scope = (parent and parent.home(name)) or binding.scope
            self._note(binding)
        return self.found

    def push(self, nodes: Iterable[ast.AST | None], scope: Scope) -> None:
        """Visit `nodes` next, in their order, leaving out those that are None."""
        self.children.extend((node, scope) for node in nodes if node is not None)

    def bind(self, binding: Binding) -> None:
        """Note a binding in the scope that it belongs to."""
        if binding.name in binding.scope.nonlocal_names:
            self.nonlocals.append(binding)  # the function around may bind it further down
            return
        if binding.name in binding.scope.global_names:
            binding.scope = binding.scope.module
        self._note(binding)

    def _note(self, binding: Binding) -> None:
        binding.scope.bindings.setdefault(binding.name, []).append(binding)
        if binding.target is not None:
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
        if isinstance(node.ctx, ast.Del):
            self._delete(node.id, scope)

    def _delete(self, name: str, scope: Scope) -> None:
        """Note that a name is deleted, which makes it one of the scope's own."""
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
            for binding in scope.bindings.pop(name, ()):  # an import may stand before it
                binding.scope = scope.module
                scope.module.bindings.setdefault(name, []).append(binding)

    def visit_nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.nonlocal_names.update(node.names)
        self.found.declared.update(node.names)

    def visit_excepthandler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        self._bind_name(node.name, node, scope)
        self.push(ast.iter_child_nodes(node), scope)

    def visit_matchas(self, node: ast.MatchAs, scope: Scope) -> None:
        self._bind_name(node.name, node, scope)
        self.push(ast.iter_child_nodes(node), scope)

    def visit_matchstar(self, node: ast.MatchStar, scope: Scope) -> None:
        self._bind_name(node.name, node, scope)

    def visit_matchmapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        self._bind_name(node.rest, node, scope)
        self.push(ast.iter_child_nodes(node), scope)

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
        """Defaults and annotations are outside of the function."""
        for argument in _arguments(node):
            self.push([argument.annotation], scope)
        self.push(node.args.defaults, scope)
        self.push(node.args.kw_defaults, scope)

    def _enter(self, node: _Function, scope: Scope) -> Scope:
        inner = Scope(node, scope)
        for argument in _arguments(node):
            self.bind(Binding(argument.arg, inner, argument))
        return inner

    def visit_classdef(self, node: ast.ClassDef, scope: Scope) -> None:
        self.bind(Binding(node.name, scope, node))
        parameters = getattr(node, "type_params", ())  # of Python 3.12
        self.push([*node.decorator_list, *parameters, *node.bases, *node.keywords], scope)
        self.push(node.body, Scope(node, scope))

    def visit_listcomp(self, node: _Comprehension, scope: Scope) -> None:
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
        self.found.calls.append(node)
        self.found.scopes[node] = scope
        self.push([node.func, *node.args, *node.keywords], scope)

    def visit_constant(self, node: ast.Constant, scope: Scope) -> None:
        if isinstance(node.value, str) and self.word in node.value:
            self.found.strings.append(node)
            self.found.scopes[node] = scope


def _arguments(node: _Function) -> list[ast.arg]:
    found = node.args
    named = [*found.posonlyargs, *found.args, *found.kwonlyargs]
    return named + [one for one in (found.vararg, found.kwarg) if one is not None]
