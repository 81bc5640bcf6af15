"""Following converters through a module: where they are made, and all that is done with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from mdstorm_migrate.module import PythonModule
from mdstorm_migrate.scopes import Binding, Scope
from mdstorm_migrate.streaming.syntax import given_to, is_len, is_none_test, parameters_of

__all__ = ["Converter", "converters"]

#: A name by its scope, an attribute of ``self`` by its class.
_Key: TypeAlias = tuple[Scope | ast.ClassDef, str]

_LOADER, _TF = "make_torch_dataloader", "make_tf_dataset"
_MAKERS = frozenset(
    {
        "petastorm.spark.make_spark_converter",
        "petastorm.spark.spark_dataset_converter.make_spark_converter",
    }
)
_ELSEWHERE = "the converter is handed to code outside of this file"


@dataclass
class Converter:
    """Names that hold the same converters, with all that is done with them.

    Attributes
    ----------
    makers : list of ast.Call
        Calls of ``make_spark_converter``.
    loaders : list of ast.Call
        Calls of ``make_torch_dataloader``.
    lengths : list of ast.expr
        ``len(converter)`` and ``converter.dataset_size``.
    deletes : list of ast.Call
        ``converter.delete()``.
    obstacles : list of (ast.AST, str)
        What has no counterpart, and why.
    """

    makers: list[ast.Call] = field(default_factory=list)
    loaders: list[ast.Call] = field(default_factory=list)
    lengths: list[ast.expr] = field(default_factory=list)
    deletes: list[ast.Call] = field(default_factory=list)
    obstacles: list[tuple[ast.AST, str]] = field(default_factory=list)

    def absorb(self, other: Converter) -> None:
        """Take all that is another's."""
        self.makers += other.makers
        self.loaders += other.loaders
        self.lengths += other.lengths
        self.deletes += other.deletes
        self.obstacles += other.obstacles

    @property
    def place(self) -> ast.AST:
        """Where to speak of it: where it is made, if that is in this module."""
        calls = self.makers or self.loaders
        return calls[0] if calls else self.obstacles[0][0]


def converters(module: PythonModule) -> list[Converter]:
    """Return the converters of a module, in the order of the text."""
    return _Follower(module).run()


class _Follower:
    """Joins names that hold the same converters."""

    def __init__(self, module: PythonModule) -> None:
        self.module = module
        self.found: dict[_Key, Converter] = {}
        self.pending: list[_Key] = []
        self.unnamed: list[Converter] = []
        self.uses: set[ast.AST] = set()

    def run(self) -> list[Converter]:
        for call, path in self.module.calls:
            if path in _MAKERS:
                self._at(call, call).makers.append(call)
            elif path.rpartition(".")[2] in (_LOADER, _TF):
                assert isinstance(call.func, ast.Attribute)
                key = self._key(call.func.value)
                if key is not None:
                    self._know(key)
                elif call.func.value not in [maker for one in self.unnamed for maker in one.makers]:
                    self._unnamed(call, "what the loader is made of has no name")
        while self.pending:
            self._follow(self.pending.pop())
        distinct = {id(one): one for one in [*self.found.values(), *self.unnamed]}
        for one in distinct.values():
            self._judge(one)
        return sorted(distinct.values(), key=lambda one: self.module.span(one.place))

    def _at(self, value: ast.expr, maker: ast.Call) -> Converter:
        """Return the converter of the name that a value is given to."""
        statement = self.module.scopes.parents[value]
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            key = self._key(statement.targets[0])
            if key is not None:
                return self._know(key)
        return self._unnamed(maker, "the converter is not given a name of its own")

    def _unnamed(self, node: ast.AST, reason: str) -> Converter:
        self.unnamed.append(Converter(obstacles=[(node, reason)]))
        return self.unnamed[-1]

    def _know(self, key: _Key) -> Converter:
        if key not in self.found:
            self.found[key] = Converter()
            self.pending.append(key)
        return self.found[key]

    def _join(self, one: _Key, other: _Key) -> None:
        first, second = self._know(one), self._know(other)
        if first is not second:
            first.absorb(second)
            for key, converter in self.found.items():
                if converter is second:
                    self.found[key] = first

    def _key(self, node: ast.AST) -> _Key | None:
        """Return what a name or an attribute of ``self`` is known by; None if it is neither."""
        if isinstance(node, ast.Name):
            scope = self._scope(node)
            return (scope, node.id) if scope is not None else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            around = [one for one in self.module.ancestors(node) if isinstance(one, ast.ClassDef)]
            if node.value.id == "self" and around:
                return (around[0], node.attr)
        return None

    def _scope(self, node: ast.Name) -> Scope | None:
        """Return the scope that a name belongs to."""
        if isinstance(node.ctx, ast.Store):
            for scope in self._scopes():
                if any(one.node is node for one in scope.bindings.get(node.id, ())):
                    return scope
            return None
        for reference in self.module.scopes.references.get(node.id, ()):
            if reference.node is node:
                return reference.scope.home(node.id)
        return None

    def _scopes(self) -> Iterator[Scope]:
        """Yield the scopes in which something is called, and those around them."""
        seen: set[Scope] = set()
        for scope in self.module.scopes.scopes.values():
            one: Scope | None = scope
            while one is not None and one not in seen:
                seen.add(one)
                yield one
                one = one.parent

    def _follow(self, key: _Key) -> None:
        home, name = key
        if isinstance(home, ast.ClassDef):
            self._follow_attribute(key, home, name)
            return
        for binding in home.bindings.get(name, ()):
            self._check_binding(key, binding)
        for reference in self.module.scopes.references.get(name, ()):
            if reference.scope.home(name) is home:
                self._use(key, reference.node)

    def _follow_attribute(self, key: _Key, owner: ast.ClassDef, name: str) -> None:
        for node in ast.walk(self.module.tree):
            if not isinstance(node, ast.Attribute) or node.attr != name:
                continue
            if self._key(node) != key:
                self.found[key].obstacles.append((node, _ELSEWHERE))
            elif isinstance(node.ctx, ast.Store):
                self._check_value(key, node)
            else:
                self._use(key, node)

    def _check_binding(self, key: _Key, binding: Binding) -> None:
        if isinstance(binding.node, ast.arg):
            self._follow_parameter(key, binding)
        else:
            self._check_value(key, binding.node)

    def _check_value(self, key: _Key, target: ast.AST) -> None:
        """A name may hold converters, another such name, or None."""
        statement = self.module.scopes.parents.get(target)
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Constant) and value.value is None:
            return
        if isinstance(value, ast.Call) and any(
            call is value and path in _MAKERS for call, path in self.module.calls
        ):
            return
        other = self._key(value) if value is not None else None
        if other is not None and other in self.found:
            return
        self.found[key].obstacles.append((target, "the name of the converter means other things"))

    def _follow_parameter(self, key: _Key, binding: Binding) -> None:
        """All calls of the function must be in this module, and give it a converter."""
        function = binding.scope.node
        if not isinstance(function, ast.FunctionDef) or binding.scope.parent is None:
            self.found[key].obstacles.append((binding.scope.node, _ELSEWHERE))
            return
        around = binding.scope.parent
        references = [
            one
            for one in self.module.scopes.references.get(function.name, ())
            if one.scope.home(function.name) is around
        ]
        for reference in references:
            call = self.module.scopes.parents[reference.node]
            given = (
                given_to(call, function, binding.name)
                if isinstance(call, ast.Call) and call.func is reference.node
                else None
            )
            other = self._key(given) if given is not None else None
            if other is None:
                self.found[key].obstacles.append((binding.scope.node, _ELSEWHERE))
            else:
                self._join(key, other)
        if around.is_class or not references:
            self.found[key].obstacles.append((binding.scope.node, _ELSEWHERE))

    def _use(self, key: _Key, node: ast.expr) -> None:
        converter, parents = self.found[key], self.module.scopes.parents
        parent = parents[node]
        if node in self.uses:
            return
        self.uses.add(node)
        if isinstance(parent, ast.Attribute):
            self._use_attribute(converter, parent)
        elif is_len(parent, self.module):
            assert isinstance(parent, ast.Call)
            converter.lengths.append(parent)
        elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            other = self._key(parent.targets[0])
            if other is None:
                converter.obstacles.append((node, _ELSEWHERE))
            else:
                self._join(key, other)
        elif isinstance(parent, ast.Call | ast.keyword):
            self._use_argument(key, node, parent)
        elif not isinstance(parent, ast.Delete) and not is_none_test(parent):
            converter.obstacles.append((node, _ELSEWHERE))

    def _use_attribute(self, converter: Converter, attribute: ast.Attribute) -> None:
        call = self.module.scopes.parents[attribute]
        is_called = isinstance(call, ast.Call) and call.func is attribute
        if attribute.attr == _LOADER and isinstance(call, ast.Call) and is_called:
            converter.loaders.append(call)
        elif attribute.attr == "delete" and isinstance(call, ast.Call) and is_called:
            converter.deletes.append(call)
        elif attribute.attr == "dataset_size" and not is_called:
            converter.lengths.append(attribute)
        elif attribute.attr == _TF:
            reason = "MosaicML Streaming has nothing for TensorFlow"
            converter.obstacles.append((attribute, reason))
        else:
            reason = f"MosaicML Streaming has nothing for `.{attribute.attr}`"
            converter.obstacles.append((attribute, reason))

    def _use_argument(self, key: _Key, node: ast.expr, parent: ast.AST) -> None:
        """The function must be one of this module."""
        call = parent if isinstance(parent, ast.Call) else self.module.scopes.parents[parent]
        assert isinstance(call, ast.Call)
        scope = self.module.scopes.scopes[call]
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        home = scope.home(name)
        bindings = home.bindings.get(name, []) if home is not None else []
        if len(bindings) == 1 and isinstance(bindings[0].node, ast.FunctionDef):
            function = bindings[0].node
            for argument in parameters_of(function):
                if given_to(call, function, argument) is node:
                    inner = self._inner_scope(function)
                    if inner is not None:
                        self._join(key, (inner, argument))
                        return
        self.found[key].obstacles.append((node, _ELSEWHERE))

    def _inner_scope(self, function: ast.FunctionDef) -> Scope | None:
        return next((one for one in self._scopes() if one.node is function), None)

    def _judge(self, converter: Converter) -> None:
        """Find what stands in the way of all of it taken together."""
        if not converter.makers:
            reason = "the converter is made outside of this file"
            converter.obstacles.append((converter.place, reason))
        if converter.deletes and converter.lengths:
            gone = min(self.module.span(one)[0] for one in converter.deletes)
            for length in converter.lengths:
                if self.module.span(length)[0] > gone:
                    reason = "its length is asked for after it was deleted"
                    converter.obstacles.append((length, reason))
