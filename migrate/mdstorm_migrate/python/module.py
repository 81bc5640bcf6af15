"""Python code, parsed: its tree, its scopes, its literals, and positions in its text."""

from __future__ import annotations

import ast
import bisect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from mdstorm_migrate.base.document import Document, SourceError
from mdstorm_migrate.base.edits import Class
from mdstorm_migrate.base.needs import ALONE, Surroundings
from mdstorm_migrate.petastorm.names import CONVERTER, CONVERTER_METHODS, counterpart, is_petastorm
from mdstorm_migrate.python.scopes import Analysis, Binding, Scope, analyse


def parse_python(code: str) -> ast.Module:
    """Parse Python code.

    Python's own parser is used to find things: on a file of 5,000 lines it takes 0.05 s and gives
    the place of every node, for which LibCST needs 2 s. LibCST rewrites the statements that change.

    Raises
    ------
    SourceError
        If it is not Python of the version that is running, with the reason and the line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those of escapes in strings
            return ast.parse(code)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SourceError(f"not Python {version}: {error.msg}", error.lineno) from None
    except ValueError as error:
        raise SourceError(f"not Python: {error}") from None
    except (RecursionError, MemoryError):
        raise SourceError("nested too deeply for Python's parser") from None


#: What may follow a statement that is the last one of its line.
_REST_OF_LINE = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)")


def dotted(node: ast.AST) -> tuple[ast.Name, list[str]] | None:
    """Return the name and the attributes of ``a.b.c``; None if `node` is something else."""
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node, attributes[::-1]) if isinstance(node, ast.Name) else None


def last_name(node: ast.AST) -> str:
    """Return the last part of what an expression names: ``c`` for ``a.b().c``."""
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
        Whether the edits of a rule, named by code and class, will be applied: what a rule does may
        depend on what another is allowed to.
    around : Surroundings
        What the other files of the run mean for this one.
    """

    document: Document
    tree: ast.Module
    applies: Callable[[str, Class], bool] = field(default=lambda code, cls: cls == "exact")
    around: Surroundings = ALONE

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
        """Return the character at a line from 1 and a column in bytes of UTF-8, as `ast` has it."""
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
        """Yield the parents of a node, from the inside out."""
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
        """Return `node` with all its attributes, and the path of that, if `path` is that of `node`.

        A name that ``getattr`` or ``hasattr`` looks up in it is a part of the path; the node is
        what stands before the first of them.
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
        """Return what may give `name` its meaning, seen from `scope`."""
        home = scope.home(name)
        return home.bindings.get(name, []) if home is not None else []

    def resolve(self, node: ast.AST, scope: Scope, depth: int = 5) -> str | None:
        """Return the dotted path of Petastorm's that ``a.b.c`` stands for; None if it is not one.

        Where a name has several bindings, as in ``try`` and ``except``, the one that is
        Petastorm's counts. Names from star imports are resolved too, if nothing else binds them,
        and those that are bound to one such path and to nothing else.
        """
        found = dotted(node)
        if found is None:
            return None
        name, attributes = found
        for binding in self.bindings(name.id, scope):
            if is_petastorm(binding.target):
                return ".".join([binding.target or "", *attributes])
        for other in self._other_names_of(name.id, scope) if depth else ():
            path = self.resolve(*other, depth - 1)
            if path is not None:
                return ".".join([path, *attributes])
        return self._from_star(name.id, attributes, scope)

    def _other_names_of(self, name: str, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
        """Yield the path that is all that a name is bound to, or two of them, and where it is."""
        match self.bindings(name, scope):
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
        """Calls of what Petastorm offers, with its dotted path.

        The two methods of converters are known by their names, whatever they are called on.
        """
        found = ((call, self._callee(call)) for call in self.scopes.calls)
        return [(call, path) for call, path in found if path is not None]

    def _callee(self, call: ast.Call) -> str | None:
        scope = self.scopes.scopes[call]
        path = None if self._is_redefined(call.func, scope) else self.resolve(call.func, scope)
        if path is None and isinstance(call.func, ast.Attribute):
            is_method = call.func.attr in CONVERTER_METHODS
            return f"{CONVERTER}.{call.func.attr}" if is_method else None
        return path

    def _is_redefined(self, function: ast.expr, scope: Scope) -> bool:
        """Whether the file defines a function or a class of that name, and not as a fallback."""
        if not isinstance(function, ast.Name):
            return False
        return any(
            isinstance(one.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not isinstance(
                self.scopes.parents.get(one.node), ast.Try | ast.ExceptHandler | ast.If
            )
            for one in self.bindings(function.id, scope)
        )

    def logical_line(self, offset: int) -> tuple[int, int]:
        """Return the span of the statement around a character, or of its head if it has a body.

        It is one that begins its line: of ``if x: y``, both are the ``if``.
        """
        number = bisect.bisect_right(self._heads, (offset, len(self.text))) - 1
        return self._heads[number] if number >= 0 else (offset, offset)

    @cached_property
    def _heads(self) -> list[tuple[int, int]]:
        """Spans of statements that begin their line: of compound ones, up to their body."""
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
        """Return what may stand between two statements that take the place of this one."""
        start, stop = self.span(statement)
        if _REST_OF_LINE.match(self.text, stop) is None or not self._begins_line(start):
            return "; "
        return self.document.lines.newline + self.text[self.document.lines.start_of(start) : start]

    def _begins_line(self, offset: int) -> bool:
        """Whether nothing stands before a character that its line, or one joined to it, holds."""
        line = self.document.lines.start_of(offset)
        is_joined = self.text[max(line - 3, 0) : line].rstrip("\r\n").endswith("\\")
        return not is_joined and not self.text[line:offset].strip()


_LITERAL = re.compile(r"""[rRuU]?(?P<quotes>'''|\"""|'|")(?P<inner>.*)(?P=quotes)""", re.DOTALL)


def inner_span(module: PythonModule, string: ast.Constant) -> tuple[int, int] | None:
    """Return the span between the quotes of a string that is written as what it means.

    None for strings with escapes, in several pieces, or within an f-string.
    """
    if isinstance(module.scopes.parents.get(string), ast.JoinedStr):
        return None
    start, stop = module.span(string)
    match = _LITERAL.fullmatch(module.text, start, stop)
    if match is None or match["inner"] != string.value:
        return None
    return match.span("inner")


def string_value(node: ast.AST | None) -> str | None:
    """Return the value of a string literal; None if `node` is something else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None
