"""How values flow through a Python file: the facts from which a run learns what its names may be.

The order of statements does not matter, a container counts as all of its elements, and a symbol is
a variable with its scopes, such as ``train.conv``, or what a function returns, such as ``train()``.
A term says what an expression may be:

=====================================  =======================================================
``("name", symbol)``                   the values of a symbol
``("path", path)``                     a part of Petastorm
``("import", item)``                   what a `FileImport` imports from another file
``("function" | "class" | "self", q)`` a function, a class, or an object of a class in this file
``("attribute", term, name)``          an attribute
``("call", term, arguments, words)``   what a call returns
``("any", terms)``                     any of several terms
=====================================  =======================================================
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mdstorm_migrate.base.needs import Place
from mdstorm_migrate.petastorm.absent import INCIDENTAL
from mdstorm_migrate.petastorm.names import OLD_ROOT, is_petastorm
from mdstorm_migrate.python.calls import ADDING, CALLING
from mdstorm_migrate.python.links import file_import, imported_by_name, runs_of
from mdstorm_migrate.python.module import PythonModule, dotted, last_name, place_of
from mdstorm_migrate.python.scopes import Comprehension, Scope, visitor

Term: TypeAlias = tuple[Any, ...]

#: Functions that return their arguments, or containers or iterators of them.
_SAME = frozenset(
    [
        *("cast", "deepcopy", "dict", "enumerate", "iter", "list", "next", "reversed"),
        *("set", "sorted", "tuple", "zip"),
    ]
)
#: Methods that return the object itself, or an element of it.
_ELEMENT = frozenset(
    ["__enter__", "__getitem__", "cache", "copy", "get", "items", "persist", "pop", "values"]
)


@dataclass
class Flows:
    """How values flow through a file.

    Attributes
    ----------
    flows : list of (str or Term, Term)
        Symbols and attributes, with terms whose values they may have.
    parameters : dict of str to tuple of str
        The names of the parameters of each function.
    bases : dict of str to tuple of Term
        The base classes of each class.
    fields : dict of str to tuple of str
        The annotated names of each class, which are the parameters of a dataclass.
    detached : set of str
        Class methods, without the parameter for the class, and static methods.
    properties : set of str
        The functions that are called by reading an attribute.
    fixtures : dict of str to str
        The functions that pytest calls for parameters with these names.
    tested : dict of str to str
        Parameters to which pytest may pass a fixture: their symbols, and their names.
    unbound : frozenset of str
        Names that it uses without binding them, and that modules of Petastorm leak.
    terms : dict of Place to Term
        The terms of calls, arguments, assigned values, and objects with attributes.
    """

    flows: list[tuple[str | Term, Term]] = field(default_factory=list)
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bases: dict[str, tuple[Term, ...]] = field(default_factory=dict)
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)
    detached: set[str] = field(default_factory=set)
    properties: set[str] = field(default_factory=set)
    fixtures: dict[str, str] = field(default_factory=dict)
    tested: dict[str, str] = field(default_factory=dict)
    unbound: frozenset[str] = frozenset()
    terms: dict[Place, Term] = field(default_factory=dict)


def flows_of(module: PythonModule) -> Flows:
    """Return how values flow through a module."""
    return _Reader(module).run()


_NONE: Term = ("any", ())
#: A reader, and usual names of readers that come from elsewhere.
_READER: Term = ("call", ("path", f"{OLD_ROOT}.make_reader"), (), ())
_READER_NAME = re.compile(r"(?:^|_)reader$", re.IGNORECASE)
#: Maximum depth of a term.
_DEEPEST = 50


class _Reader:
    """One walk over the nodes of a module."""

    def __init__(self, module: PythonModule) -> None:
        self.module = module
        self.found = Flows()
        self.scopes = {one.node: one.scope for one in module.scopes.bindings}
        self.names: dict[Scope, str] = {}
        self.known: dict[ast.AST | None, Term] = {}
        self.depth = 0

    def run(self) -> Flows:
        for binding in self.module.scopes.bindings:
            symbol = self.symbol(binding.name, binding.scope)
            if is_petastorm(binding.target):
                self.flow(symbol, ("path", binding.target))
            elif isinstance(binding.node, ast.alias):
                item = file_import(self.module.scopes.parents[binding.node], binding.node)
                if (
                    item.name
                    or item.bound != item.module.partition(".")[0]
                    or "." not in item.module
                ):
                    self.flow(symbol, ("import", item))  # others: see `of_import`
        for item in runs_of(self.module.text):
            self.flow("*", ("import", item))
        scopes = self.module.scopes
        self.found.unbound = frozenset(
            name
            for name in INCIDENTAL & scopes.references.keys()
            if any(one.scope.home(name) is None for one in scopes.references[name])
        )
        for kind, nodes in self.module.scopes.nodes.items():
            if visit := visitor(_Reader, kind):
                for node in nodes:
                    visit(self, node)
        return self.found

    def flow(self, target: str | Term, term: Term) -> None:
        if term != _NONE:
            self.found.flows.append((target, term))

    def keep(self, node: ast.expr) -> None:
        """Keep the term of an expression whose values rules ask for."""
        term = self.term(node)
        if term != _NONE:
            self.found.terms[place_of(node)] = term

    def name(self, scope: Scope) -> str:
        """Return the qualified name of a scope with a dot at its end; empty for the module."""
        if scope.parent is None:
            return ""
        if scope not in self.names:
            own = getattr(scope.node, "name", None) or f"<{getattr(scope.node, 'lineno', 0)}>"
            self.names[scope] = f"{self.name(scope.parent)}{own}."
        return self.names[scope]

    def symbol(self, name: str, scope: Scope) -> str:
        home = scope.home(name)
        return f"{self.name(home)}{name}" if home is not None else name

    # Terms

    def terms(self, nodes: Iterable[ast.expr | None]) -> Term:
        found = tuple(one for one in map(self.term, nodes) if one != _NONE)
        return found[0] if len(found) == 1 else ("any", found)

    def term(self, node: ast.AST | None) -> Term:
        """Return the term of an expression; parts that are nested too deeply are unknown."""
        if node not in self.known:
            if self.depth == _DEEPEST:
                return _NONE
            self.depth += 1
            self.known[node] = self.of_node(node)
            self.depth -= 1
        return self.known[node]

    def of_node(self, node: ast.AST | None) -> Term:
        match node:
            case ast.Name(id=name):
                return "name", self.symbol(name, self.module.scope_of(node))
            case ast.Attribute(value=value, attr=name):
                owner = self.term(value)
                if name == "dataset" and self.is_reader(value):
                    owner = "any", (owner, _READER)
                return self.of_import(node) or ("attribute", owner, name)
            case ast.Call():
                return self.of_call(node)
            case ast.IfExp(body=one, orelse=other):
                return self.terms([one, other])
            case (
                ast.BoolOp(values=parts)
                | ast.Dict(values=parts)
                | ast.List(elts=parts)
                | ast.Tuple(elts=parts)
                | ast.Set(elts=parts)
            ):
                return self.terms(parts)
            case (
                ast.Subscript(value=value)
                | ast.Starred(value=value)
                | ast.Await(value=value)
                | ast.NamedExpr(value=value)
                | ast.ListComp(elt=value)
                | ast.GeneratorExp(elt=value)
                | ast.DictComp(value=value)
            ):
                return self.term(value)
        return _NONE

    def of_call(self, node: ast.Call) -> Term:
        function = node.func
        if (item := imported_by_name(node)) is not None:
            return "import", item
        name = last_name(function)
        if name in _SAME or name == "enter_context":
            return self.terms([*node.args, *(word.value for word in node.keywords)])
        arguments = tuple(map(self.term, node.args))
        words = tuple((word.arg, self.term(word.value)) for word in node.keywords)
        call = "call", self.term(function), arguments, words
        if isinstance(function, ast.Attribute) and name in _ELEMENT:
            return "any", (self.term(function.value), call)
        return ("any", (*arguments[:1], call)) if name in CALLING else call

    def is_reader(self, node: ast.expr) -> bool:
        """Whether a parameter or an attribute has the usual name of a reader."""
        if not _READER_NAME.search(last_name(node)):
            return False
        if not isinstance(node, ast.Name):
            return OLD_ROOT in self.module.imported_roots
        bindings = self.module.bindings(node.id, self.module.scope_of(node))
        return bool(bindings) and all(isinstance(one.node, ast.arg) for one in bindings)

    def of_import(self, node: ast.Attribute) -> Term | None:
        """Return the term of a module in ``a.b.c`` after ``import a.b``."""
        name, attributes = dotted(node) or (None, [])
        bindings = self.module.bindings(name.id, self.module.scope_of(name)) if name else ()
        for binding in bindings:
            if isinstance(binding.node, ast.alias) and not binding.node.asname:
                path = binding.imported_module
                if isinstance(binding.statement, ast.Import) and not is_petastorm(path):
                    parts = path.split(".")[1:]
                    if parts and attributes == parts:
                        return "import", file_import(
                            self.module.scopes.parents[binding.node], binding.node
                        )
        return None

    # Flows

    def assign(self, target: ast.AST | None, term: Term) -> None:
        match target:
            case ast.Name(id=name):
                scope = self.scopes.get(target) or self.module.scope_of(target)
                self.flow(self.symbol(name, scope), term)
            case ast.Attribute(value=value, attr=name):
                self.flow(("attribute", self.term(value), name), term)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.assign(part, term)
            case ast.Subscript(value=value) | ast.Starred(value=value):
                self.assign(value, term)

    def visit_assign(self, node: ast.Assign) -> None:
        self.keep(node.value)
        for target in node.targets:
            self.assign(target, self.term(node.value))

    def visit_annassign(self, node: ast.AnnAssign) -> None:
        self.assign(node.target, self.term(node.value))
        self.assign(node.target, self.annotated(node.annotation))

    def visit_namedexpr(self, node: ast.NamedExpr) -> None:
        self.assign(node.target, self.term(node.value))

    def visit_for(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        self.assign(node.target, self.term(node.iter))

    visit_asyncfor = visit_for

    def visit_listcomp(self, node: Comprehension) -> None:
        for generator in node.generators:
            self.visit_for(generator)

    visit_setcomp = visit_dictcomp = visit_generatorexp = visit_listcomp

    def visit_withitem(self, node: ast.withitem) -> None:
        self.assign(node.optional_vars, self.term(node.context_expr))

    def visit_return(self, node: ast.Return | ast.Yield) -> None:
        for parent in self.module.ancestors(node):
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                self.flow(f"{self.qualified(parent)}()", self.term(node.value))
                return

    visit_yield = visit_return

    def visit_call(self, node: ast.Call) -> None:
        for one in (node, *node.args, *(word.value for word in node.keywords)):
            self.keep(one)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ADDING:
            self.assign(node.func.value, self.terms(node.args[-1:]))

    def visit_formattedvalue(self, node: ast.FormattedValue) -> None:
        self.keep(node.value)

    def visit_match(self, node: ast.Match) -> None:
        self.keep(node.subject)

    def visit_attribute(self, node: ast.Attribute) -> None:
        self.keep(node.value)

    def qualified(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
        return f"{self.name(self.scopes[node])}{node.name}"

    def visit_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        name, given = self.qualified(node), node.args
        self.flow(name, ("function", name))
        plain = [*given.posonlyargs, *given.args]
        self.found.parameters[name] = tuple(one.arg for one in (*plain, *given.kwonlyargs))
        decorators = {last_name(getattr(one, "func", one)) for one in node.decorator_list}
        if self.scopes[node].is_class and plain and "staticmethod" not in decorators:
            kind = "class" if "classmethod" in decorators else "self"
            self.flow(f"{name}.{plain[0].arg}", (kind, name.rpartition(".")[0]))
        if decorators & {"classmethod", "staticmethod"}:
            self.found.detached.add(name)
        if "classmethod" in decorators:
            self.found.parameters[name] = self.found.parameters[name][1:]
        if decorators & {"property", "cached_property"}:
            self.found.properties.add(name)
        if "fixture" in decorators:
            self.found.fixtures[node.name] = name
        if "fixture" in decorators or node.name.startswith("test"):
            self.found.tested |= {f"{name}.{one.arg}": one.arg for one in plain}
        for one in node.decorator_list:
            if isinstance(one, ast.Call) and last_name(one.func) == "parametrize":
                for argument in plain:
                    self.flow(f"{name}.{argument.arg}", self.terms(one.args[1:]))
        for argument in (*plain, *given.kwonlyargs):
            self.flow(f"{name}.{argument.arg}", self.annotated(argument.annotation))

    visit_asyncfunctiondef = visit_functiondef

    def annotated(self, annotation: ast.expr | None) -> Term:
        """Return the term of an object with a type that is a name."""
        found = self.term(annotation) if isinstance(annotation, ast.Name | ast.Attribute) else _NONE
        return _NONE if found == _NONE else ("call", found, (), ())

    def visit_classdef(self, node: ast.ClassDef) -> None:
        name = self.qualified(node)
        self.flow(name, ("class", name))
        self.found.bases[name] = tuple(map(self.term, node.bases))
        annotated = (one.target for one in node.body if isinstance(one, ast.AnnAssign))
        self.found.fields[name] = tuple(one.id for one in annotated if isinstance(one, ast.Name))
