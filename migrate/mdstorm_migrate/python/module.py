"""A parsed Python document: its tree, scopes and literals, and positions in its text."""

from __future__ import annotations

import ast
import bisect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from mdstorm_migrate.base.document import Document, SourceError
from mdstorm_migrate.base.edits import Class
from mdstorm_migrate.base.needs import NOTHING, Given
from mdstorm_migrate.petastorm.names import CONVERTER, CONVERTER_METHODS, counterpart, is_petastorm
from mdstorm_migrate.python.scopes import Analysis, Binding, Scope, analyse


def parse_python(code: str) -> ast.Module:
    """Parse Python code.

    Raises
    ------
    SourceError
        If the code is not valid for the running Python version, with the reason and the line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes in strings
            return ast.parse(code)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SourceError(f"not Python {version}: {error.msg}", error.lineno) from None
    except ValueError as error:
        raise SourceError(f"not Python: {error}") from None
    except (RecursionError, MemoryError):
        raise SourceError("nested too deeply for Python's parser") from None


#: The text that may follow the last statement on a line.
_REST_OF_LINE = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)")


def dotted(node: ast.AST) -> tuple[ast.Name, list[str]] | None:
    """Return the name and the attributes of ``a.b.c``, or None if `node` is not such a chain."""
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node, attributes[::-1]) if isinstance(node, ast.Name) else None


def last_name(node: ast.AST) -> str:
    """Return the last part of the name in an expression: ``c`` for ``a.b().c``."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ast.unparse(node).rpartition(".")[2]


@dataclass(eq=False)
class PythonModule:
    """A parsed Python document.

    Attributes
    ----------
    document : Document
        Spans count characters of its text.
    tree : ast.Module
    applies : callable
        Whether the edits of a rule, given by its code and class, will be applied: a rule may depend
        on the permissions of another rule.
    given : Given
        What the other files of the run give this one.
    """

    document: Document
    tree: ast.Module
    applies: Callable[[str, Class], bool] = field(default=lambda code, cls: cls == "exact")
    given: Given = NOTHING

    def with_given(self, given: Given) -> PythonModule:
        """Return the module with what other files give it; the scopes are shared."""
        if given == self.given:
            return self
        module = replace(self, given=given)
        module.__dict__["scopes"] = self.scopes
        return module

    @property
    def text(self) -> str:
        """The text of the document."""
        return self.document.text

    @cached_property
    def scopes(self) -> Analysis:
        """Scopes, references and calls."""
        return analyse(self.tree)

    @cached_property
    def imported_roots(self) -> frozenset[str]:
        """The packages that the module imports from."""
        return frozenset((one.target or "").partition(".")[0] for one in self.scopes.bindings)

    @cached_property
    def _is_ascii(self) -> bool:
        return self.document.code.isascii()

    def offset(self, line: int, column: int) -> int:
        """Return the character offset of an `ast` position: line from 1, column in UTF-8 bytes."""
        start = self.document.lines.starts[line - 1]
        if self._is_ascii:
            return start + column
        code = self.document.code[start : start + column]
        if code.isascii():
            return start + column
        return start + len(code.encode()[:column].decode(errors="ignore"))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the span of an expression, a statement, a keyword or an alias."""
        return (
            self.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def source_of(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, stop = self.span(node)
        return self.text[start:stop]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the parents of a node, from the innermost outward."""
        parents = self.scopes.parents
        while (parent := parents.get(node)) is not None:
            yield parent
            node = parent

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement around a node."""
        if isinstance(node, ast.stmt):
            return node
        return next(one for one in self.ancestors(node) if isinstance(one, ast.stmt))

    def chain(self, node: ast.expr, path: str) -> tuple[ast.expr, str]:
        """Return `node` with the attributes that follow it, and the path that they refer to.

        Names that ``getattr`` or ``hasattr`` look up are part of the path. The returned node ends
        before the first of them.
        """
        last: ast.AST = node
        for parent in self.ancestors(node):
            match parent:
                case ast.Attribute(attr=name):
                    if last is node:
                        node = parent
                case ast.Call(
                    func=ast.Name("getattr" | "hasattr" as function),
                    args=[first, ast.Constant(str(name)), *_],
                ) if first is last and name.isidentifier():
                    if function == "hasattr":
                        return node, f"{path}.{name}"
                case _:
                    break
            last, path = parent, f"{path}.{name}"
        return node, path

    def scope_of(self, name: ast.Name) -> Scope:
        """Return the scope in which a name is read."""
        return self.scopes.scopes.get(name, self.scopes.module)

    def bindings(self, name: str, scope: Scope) -> list[Binding]:
        """Return the bindings that may give `name` its meaning, as seen from `scope`."""
        home = scope.home(name)
        return home.bindings.get(name, []) if home is not None else []

    def resolve(self, node: ast.AST, scope: Scope, depth: int = 5) -> str | None:
        """Return the dotted path in Petastorm that ``a.b.c`` refers to, or None for anything else.

        If a name has several bindings, as in ``try`` and ``except``, the one to Petastorm counts.
        Names from star imports are resolved if nothing else binds them, and so are names whose only
        binding is an assignment of such a path.
        """
        reference = dotted(node)
        if reference is None:
            return None
        name, attributes = reference
        bindings = self.bindings(name.id, scope)
        for binding in bindings:
            if is_petastorm(binding.target):
                return ".".join([binding.target or "", *attributes])
        if (reached := self.reached(reference, scope)) is not None:
            return reached
        for other in self._other_names_of(bindings) if depth else ():
            path = self.resolve(*other, depth - 1)
            if path is not None:
                return ".".join([path, *attributes])
        return None if bindings else self._from_star(name.id, attributes, scope)

    def reached(self, reference: tuple[ast.Name, list[str]], scope: Scope) -> str | None:
        """Return the path of a part of Petastorm that a name reaches through another module."""
        if not self.given.names:
            return None
        name, attributes = reference
        bindings = self.bindings(name.id, scope)
        if bindings and not any(isinstance(one.node, ast.alias) for one in bindings):
            return None
        parts = [name.id, *attributes]
        for stop in range(len(parts), 0, -1):
            path = self.given.names.get(".".join(parts[:stop]))
            if path is not None:
                return ".".join([path, *parts[stop:]])
        return None

    def _other_names_of(self, bindings: list[Binding]) -> Iterator[tuple[ast.expr, Scope]]:
        """Yield the possible values of a name that is assigned only once, each with its scope."""
        match bindings:
            case [Binding(node=ast.Name() as target, scope=home)]:
                match self.scopes.parents.get(target):
                    case ast.Assign(targets=[ast.Name()], value=ast.IfExp(body=one, orelse=other)):
                        yield from ((one, home), (other, home))
                    case ast.Assign(targets=[ast.Name()], value=value):
                        yield value, home

    def _from_star(self, name: str, attributes: list[str], scope: Scope) -> str | None:
        if scope.home(name) is not None:
            return None
        for binding in scope.module.bindings.get("*", ()):
            module = binding.target
            if module is not None and is_petastorm(module) and counterpart(module, name):
                return ".".join([module, name, *attributes])
        return None

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """Calls to Petastorm's functions and classes, each with its dotted path.

        The two converter methods are recognised by name, on any object.
        """
        found = ((call, self._callee(call)) for call in self.scopes.calls)
        return [(call, path) for call, path in found if path is not None]

    def _callee(self, call: ast.Call) -> str | None:
        scope = self.scopes.scopes[call]
        path = None if self.defines(call.func, scope) else self.resolve(call.func, scope)
        if path is None and isinstance(call.func, ast.Attribute):
            is_method = call.func.attr in CONVERTER_METHODS
            return f"{CONVERTER}.{call.func.attr}" if is_method else None
        return path

    def defines(self, function: ast.expr, scope: Scope) -> bool:
        """Whether the file itself defines the called function or class, not just as a fallback."""
        if not isinstance(function, ast.Name):
            return False
        return (scope.home(function.id), function.id) in self._defined_names

    @cached_property
    def _defined_names(self) -> set[tuple[Scope | None, str]]:
        """The functions and classes that the file defines, other than as fallbacks."""
        return {
            (one.scope, one.name)
            for one in self.scopes.bindings
            if isinstance(one.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not isinstance(
                self.scopes.parents.get(one.node), ast.Try | ast.ExceptHandler | ast.If
            )
        }

    def logical_line(self, offset: int) -> tuple[int, int]:
        """Return the span of the statement at a character; for a compound statement, its header.

        Only statements at the start of a line count: for either part of ``if x: y``, it is the
        ``if``.
        """
        number = bisect.bisect_right(self._heads, (offset, len(self.text))) - 1
        return self._heads[number] if number >= 0 else (offset, offset)

    @cached_property
    def _heads(self) -> list[tuple[int, int]]:
        """Spans of statements that start a line, without the bodies of compound statements."""
        heads = []
        for node in ast.walk(self.tree):
            for first in getattr(node, "decorator_list", ()):
                start, stop = self.span(first)
                heads.append((self.text.rfind("@", 0, start), stop))
            if isinstance(node, ast.stmt | ast.ExceptHandler):
                start, stop = self.span(node)
                body = getattr(node, "body", None)
                heads.append((start, self.span(body[0])[0] if body else stop))
        return sorted(span for span in heads if self._begins_line(span[0]))

    def separator(self, statement: ast.stmt) -> str:
        """Return the separator between two statements that replace `statement`."""
        start, stop = self.span(statement)
        if _REST_OF_LINE.match(self.text, stop) is None or not self._begins_line(start):
            return "; "
        return self.document.lines.newline + self.text[self.document.lines.start_of(start) : start]

    def _begins_line(self, offset: int) -> bool:
        """Whether a character is the first on a line that is not joined to the previous one."""
        line = self.document.lines.start_of(offset)
        is_joined = self.text[max(line - 3, 0) : line].rstrip("\r\n").endswith("\\")
        return not is_joined and not self.text[line:offset].strip()


_LITERAL = re.compile(r"""[rRuU]?(?P<quotes>'''|\"""|'|")(?P<inner>.*)(?P=quotes)""", re.DOTALL)


def inner_span(module: PythonModule, string: ast.Constant) -> tuple[int, int] | None:
    """Return the span between the quotes of a string whose source text equals its value.

    Returns None for strings with escapes, in several pieces, or in an f-string.
    """
    span = literal_span(module, string)
    return span if span is not None and module.text[slice(*span)] == string.value else None


def literal_span(module: PythonModule, string: ast.Constant) -> tuple[int, int] | None:
    """Return the span between the quotes of a string; None if it is in pieces or an f-string."""
    if isinstance(module.scopes.parents.get(string), ast.JoinedStr):
        return None
    match = _LITERAL.fullmatch(module.text, *module.span(string))
    return None if match is None else match.span("inner")


def string_value(node: ast.AST | None) -> str | None:
    """Return the value of a string literal, or None if `node` is not one."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None
