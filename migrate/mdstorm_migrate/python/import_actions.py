"""Decide what happens to each name that a module imports from Petastorm.

A name is moved only if mdstorm has all that the module uses through it; otherwise its import stays
as it is, for that use. The name ``petastorm`` itself, which ``import petastorm.spark`` binds,
becomes ``mdstorm`` together with all its uses. Where that could be seen from outside, or a use
cannot be told apart, the import becomes ``import mdstorm as petastorm``, which needs no further
edit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import libcst as cst

from mdstorm_migrate.base.edits import EditError
from mdstorm_migrate.petastorm.lacked import incidental_of
from mdstorm_migrate.petastorm.names import (
    NEW_ROOT,
    OLD_ROOT,
    PUBLIC,
    RENAMED,
    VERSION,
    Counterpart,
    counterpart,
    is_module,
)
from mdstorm_migrate.python.annotations import is_named_in_strings
from mdstorm_migrate.python.fallbacks import is_fallback_import
from mdstorm_migrate.python.imports import ImportedName, imported_names, references_of
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding, Scope
from mdstorm_migrate.python.shadow import shadowed

#: ``move``: from mdstorm. ``keep``: from Petastorm. ``both``: a second import beside the first,
#: since some uses move. ``alias``: from mdstorm, under the old name.
Action: TypeAlias = Literal["move", "keep", "both", "alias"]


def action_for(module: PythonModule, name: ImportedName) -> Action:
    """Return what happens to one of the names that a module imports."""
    return _actions(module)[name]


@lru_cache(maxsize=1)
def _actions(module: PythonModule) -> dict[ImportedName, Action]:
    return {name: _action(module, name) for name in imported_names(module)}


def moved(module: PythonModule, binding: Binding) -> Counterpart | None:
    """Return where mdstorm has what ``from … import name`` binds; None if nowhere."""
    assert isinstance(binding.statement, ast.ImportFrom)
    assert isinstance(binding.node, ast.alias)
    old = binding.imported_module, binding.node.name
    if old in RENAMED and module.applies("PM106", "review"):
        return counterpart(old[0], RENAMED[old])
    return counterpart(*old)


def incidental_names(module: PythonModule, scope: Scope, target: str) -> list[str]:
    """Return names that only the star import of `target` can give, and incidentally; sorted.

    What another star import gives as its own is not among them.

    Parameters
    ----------
    module : PythonModule
    scope : Scope
        Where the star import stands.
    target : str
        The module of Petastorm.
    """
    stars = {one.target or "" for one in module.scopes.module.bindings.get("*", ())} - {target}
    given = frozenset().union(*(PUBLIC.get(one, ()) for one in stars))
    return sorted(
        name
        for name in incidental_of(target) - given
        if any(
            reference.scope.home(name) is None
            for reference in module.scopes.references.get(name, ())
        )
    )


def _action(module: PythonModule, name: ImportedName) -> Action:
    if name.is_root:
        return _action_for_root(module, name)
    return "move" if all(_can_move(module, name, one) for one in name.imports) else "keep"


def _can_move(module: PythonModule, name: ImportedName, binding: Binding) -> bool:
    """Whether mdstorm has what an import binds, and all that is used of it."""
    target = binding.target or ""
    if shadowed(module, binding) or is_fallback_import(module, binding):
        return False
    if binding.name == "*":
        return is_module(target) and not incidental_names(module, name.scope, target)
    if isinstance(binding.statement, ast.ImportFrom) and not is_module(target):
        is_compared = target == VERSION and any(use.lacks for use in name.uses)
        return moved(module, binding) is not None and not is_compared
    return is_module(target) and not any(use.lacks for use in name.uses)


def _action_for_root(module: PythonModule, name: ImportedName) -> Action:
    targets = [one.imported_module for one in name.imports]
    if any(shadowed(module, one) or is_fallback_import(module, one) for one in name.imports):
        return "keep"
    lacking = [use.lacks for use in name.uses] + [text.missing for text in name.texts]
    some = None in lacking
    only_imports = len(name.imports) == len(name.scope.bindings[name.name])
    named = any(isinstance(one.node, ast.alias) and one.node.asname for one in name.imports)
    plain = only_imports and not named and _can_rename(module, name)
    if any(lacking) or not all(map(is_module, targets)):
        return "both" if some and plain and not _is_looked_up(module, name) else "keep"
    return "move" if plain and not _is_exported(module, name) else "alias"


def _is_looked_up(module: PythonModule, name: ImportedName) -> bool:
    """Whether it matters which uses are left under the old name."""
    if any(isinstance(use.name.ctx, ast.Del) for use in name.uses):
        return True
    # Code in strings sees a name of a function around only if the code beside it names it.
    return name.scope.parent is not None and is_named_in_strings(module)


def _can_rename(module: PythonModule, name: ImportedName) -> bool:
    """Whether the new name is free wherever the old one is used, and each use can be located."""
    if name.name in module.scopes.declared:
        return False
    references = references_of(module, name.name, name.scope)
    for scope in {name.scope, *(one.scope for one in references)}:
        if _is_ambiguous(name, scope) or _is_taken(NEW_ROOT, scope):
            return False
    # Before Python 3.12, places in f-strings are guesses, and may be the same for several uses.
    places = {module.span(use.name) for use in name.uses}
    exact = all(module.source_of(use.name) == name.name for use in name.uses)
    return exact and len(places) == len(name.uses)


def _is_taken(name: str, scope: Scope) -> bool:
    """Whether `scope` or one around it means something else by the name of a module."""
    bindings = (one for scope in scope.with_outer() for one in scope.bindings.get(name, ()))
    return any(binding.target != name for binding in bindings)


def _is_ambiguous(name: ImportedName, scope: Scope) -> bool:
    """Whether the name may mean that of a class in `scope`, and the module's as well."""
    is_either = name.scope in (scope, scope.module)
    return is_either and scope.sees_two(name.name)


def _is_exported(module: PythonModule, name: ImportedName) -> bool:
    """Whether others may know the name: modules that import this one, code in strings."""
    if is_named_in_strings(module) or _is_in_magics(module) or module.around.hands_on_root:
        return True
    if name.scope.parent is not None:
        return name.scope.is_class  # it is an attribute
    path = module.document.path
    if path is not None and path.name == "__init__.py":
        return True
    if any(_is_in_all(module, string) for string in module.scopes.strings):
        return True
    in_try = any(
        isinstance(parent, ast.Try) for one in name.imports for parent in module.ancestors(one.node)
    )
    is_used = name.uses or name.texts or any(one.uses for one in imported_names(module))
    return not is_used and not in_try  # perhaps it is there for others


def _is_in_magics(module: PythonModule) -> bool:
    """Whether a magic of a notebook may use the name, as ``%time petastorm.make_reader(url)``."""
    text, code = module.document.text, module.document.code
    if text == code:
        return False
    uses = re.finditer(rf"(?<![\w./-]){OLD_ROOT}\.[^\W\d]", text)
    return any(code[use.start() : use.end()] != use.group() for use in uses)


def _is_in_all(module: PythonModule, string: ast.Constant) -> bool:
    if string.value != OLD_ROOT:
        return False
    statement = module.statement(string)
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets)


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
