"""Imports that go, and the imports and functions that come in their place."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mdstorm_migrate.import_statements import Part, split_from_import
from mdstorm_migrate.module import PythonModule
from mdstorm_migrate.statements import body_of, replaced_statement

__all__ = ["Change", "PlaceError", "find_place", "import_changes"]

_LINE = re.compile(r"[^\r\n]*")
_BLANK_LINES = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")


class PlaceError(ValueError):
    """Why there is no place for new imports."""


@dataclass(frozen=True)
class Change:
    """A span of the module, and what stands there instead."""

    start: int
    stop: int
    text: str


def find_place(
    module: PythonModule, statements: Sequence[ast.stmt], nodes: Sequence[ast.AST]
) -> ast.stmt:
    """Return the import at which new imports are seen from all of some nodes.

    Parameters
    ----------
    module : PythonModule
    statements : sequence of ast.stmt
        Imports of what goes.
    nodes : sequence of ast.AST
        What changes.

    Raises
    ------
    PlaceError
        If all of them are conditional, or in a function that does not hold all nodes.
    """
    parents = module.scopes.parents
    for one in sorted(statements, key=module.span):
        if isinstance(parents[one], ast.Module) and _has_own_lines(module, one):
            return one
    for one in sorted(statements, key=module.span):
        function = parents[one]
        is_around = all(function in module.ancestors(node) for node in nodes)
        if isinstance(function, ast.FunctionDef) and is_around and _has_own_lines(module, one):
            return one
    raise PlaceError("Petastorm is imported where other imports may not come")


def import_changes(
    module: PythonModule,
    place: ast.stmt,
    gone: dict[ast.stmt, set[ast.alias]],
    imports: Sequence[str],
    blocks: Sequence[str],
) -> list[Change]:
    """Return the changes of import statements.

    Parameters
    ----------
    module : PythonModule
    place : ast.stmt
        The import before which new ones come.
    gone : dict of ast.stmt to set of ast.alias
        What import statements bind no longer.
    imports, blocks : sequence of str
        New import statements, and new definitions, which come behind the imports that follow.
    """
    changes = []
    for statement in {place: None, **dict.fromkeys(gone)}:
        rest = _without(module, statement, gone.get(statement, set()))
        if statement is place:
            wanted = [line for line in imports if not _has(module, place, line)]
            parts = [*wanted, *([rest] if rest else [])]
            rest = module.separator(place).join(parts)
        if rest != module.source_of(statement):
            changes.append(Change(*replaced_statement(module, statement, rest)))
    if blocks:
        taken_out = {one for one, names in gone.items() if len(names) == len(_names(one))}
        changes.append(_definitions(module, place, taken_out - {place}, blocks))
    return changes


def _names(statement: ast.stmt) -> Sequence[ast.alias]:
    assert isinstance(statement, ast.Import | ast.ImportFrom)
    return statement.names


def _has_own_lines(module: PythonModule, statement: ast.stmt) -> bool:
    return module.separator(statement) != "; "


def _has(module: PythonModule, place: ast.stmt, line: str) -> bool:
    """Whether an import stands before or beside another already, in the same cell."""
    return any(
        isinstance(one, ast.Import | ast.ImportFrom)
        and module.source_of(one) == line
        and _cell(module, one) == _cell(module, place)
        for one in body_of(module, place)
    )


def _without(module: PythonModule, statement: ast.stmt, gone: set[ast.alias]) -> str:
    """Return an import statement without some of its names; empty if none is left."""
    assert isinstance(statement, ast.Import | ast.ImportFrom)
    if not gone:
        return module.source_of(statement)
    kept = {number: one for number, one in enumerate(statement.names) if one not in gone}
    if not kept:
        return ""
    if isinstance(statement, ast.Import):
        return f"import {', '.join(module.source_of(one) for one in kept.values())}"
    names = {number: one.name for number, one in kept.items()}
    part = Part(statement.module or "", names)
    return split_from_import(module.source_of(statement), [part])[0]


def _definitions(
    module: PythonModule, place: ast.stmt, taken_out: set[ast.stmt], blocks: Sequence[str]
) -> Change:
    """Return new definitions behind the imports that follow `place` in its cell."""
    body = body_of(module, place)
    last = end = place
    for one in body[body.index(place) + 1 :]:
        is_import = isinstance(one, ast.Import | ast.ImportFrom)
        if not is_import or _cell(module, one) != _cell(module, place):
            break
        end = one
        last = last if one in taken_out else one
    newline = module.document.lines.newline
    indent = module.document.lines.indent_of(module.span(place)[0])
    between = 2 if indent else 3
    text = "".join(newline * between + _indented(block, indent, newline) for block in blocks)
    following = body[body.index(end) + 1 :][:1]
    if following and _cell(module, following[0]) == _cell(module, place):
        blank = _BLANK_LINES.match(module.text, _end_of_line(module, end))
        assert blank is not None
        text += newline * max(between - blank.group().count("\n"), 0)
    at = _end_of_line(module, last)
    return Change(at, at, text)


def _end_of_line(module: PythonModule, statement: ast.stmt) -> int:
    """Return where the last line of a statement ends, with its comment."""
    found = _LINE.match(module.text, module.span(statement)[1])
    assert found is not None
    return found.end()


def _indented(block: str, indent: str, newline: str) -> str:
    lines = [indent + line if line else "" for line in block.split("\n")]
    return newline.join(lines)


def _cell(module: PythonModule, statement: ast.stmt) -> int:
    return module.document.segment_at(module.span(statement)[0])[1]
