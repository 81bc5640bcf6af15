"""Rewrite one import statement with LibCST, keeping its layout and comments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from mdstorm_migrate.base.edits import EditError


@dataclass(frozen=True)
class SplitImport:
    """One of the statements that a ``from`` statement becomes.

    Attributes
    ----------
    module : str
        Where its names come from.
    names : dict of int to str
        Which names of the old statement it takes, by position, and what they are called there. The
        names that are bound stay the same.
    """

    module: str
    names: dict[int, str]


def split_from_import(source: str, parts: Sequence[SplitImport]) -> list[str]:
    """Return the text of each part of the statement `source`, laid out as that is.

    A comment stays with the name that it follows.

    Raises
    ------
    EditError
        If LibCST cannot parse it.
    """
    try:
        parsed = cst.parse_statement(source)
    except cst.ParserSyntaxError as error:
        raise EditError(f"LibCST cannot parse an import: {error.message}") from None
    statement = cst.ensure_type(parsed, cst.SimpleStatementLine)
    old = cst.ensure_type(statement.body[0], cst.ImportFrom)
    return [cst.Module([]).code_for_node(_part(old, part)) for part in parts]


def _part(old: cst.ImportFrom, part: SplitImport) -> cst.ImportFrom:
    aliases = old.names
    assert not isinstance(aliases, cst.ImportStar)
    module = cst.parse_expression(part.module)
    assert isinstance(module, cst.Attribute | cst.Name)
    names = [_renamed(aliases[number], name) for number, name in part.names.items()]
    new = old.with_changes(module=module, names=names)
    if len(aliases) - 1 in part.names:
        return new
    cut, last = names[-1], aliases[-1]
    if old.rpar is None:
        names[-1] = cut.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return new.with_changes(names=names)
    # White space before the parenthesis belongs to the comma, if there is one.
    if isinstance(last.comma, cst.Comma):
        end = _end(last.comma.whitespace_after, cut)
        names[-1] = cut.with_changes(comma=last.comma.with_changes(whitespace_after=end))
        return new.with_changes(names=names)
    names[-1] = cut.with_changes(comma=last.comma)
    end = _end(old.rpar.whitespace_before, cut)
    return new.with_changes(names=names, rpar=old.rpar.with_changes(whitespace_before=end))


def _renamed(alias: cst.ImportAlias, name: str) -> cst.ImportAlias:
    """Take `name`, but bind what `alias` binds."""
    if alias.evaluated_name == name:
        return alias
    asname = alias.asname or cst.AsName(cst.Name(alias.evaluated_name))
    return alias.with_changes(name=cst.Name(name), asname=asname)


def _end(
    end: cst.BaseParenthesizableWhitespace, cut: cst.ImportAlias
) -> cst.BaseParenthesizableWhitespace:
    """Return what stands before the parenthesis: `end`, with the comment that follows `cut`."""
    after = cut.comma.whitespace_after if isinstance(cut.comma, cst.Comma) else None
    if isinstance(end, cst.ParenthesizedWhitespace):
        comment = cst.TrailingWhitespace(newline=end.first_line.newline)
        if isinstance(after, cst.ParenthesizedWhitespace):
            comment = after.first_line
        return end.with_changes(first_line=comment)
    if isinstance(after, cst.ParenthesizedWhitespace) and after.first_line.comment:
        return after.with_changes(last_line=cst.SimpleWhitespace(""))
    return end
