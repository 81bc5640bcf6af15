"""Migrate one file: read it, run the rules, apply the selected edits, verify the result."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from mdstorm_migrate.base.document import (
    MARK,
    DecodedFile,
    Document,
    Source,
    SourceError,
    todo_comments,
)
from mdstorm_migrate.base.edits import NAMES, Edit, EditError, Finding, apply_edits
from mdstorm_migrate.base.needs import ALONE, Needs, Surroundings
from mdstorm_migrate.python.imports import imported_names, reached_uses
from mdstorm_migrate.python.links import Links, links_of
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.rules import all_rules
from mdstorm_migrate.rules.pm000_open_todos import CODE
from mdstorm_migrate.run import review
from mdstorm_migrate.run.outcome import Naming, Outcome, Problem, Settings
from mdstorm_migrate.sources.plain import is_wide

_MARK = MARK.encode()


def is_relevant(data: bytes, settings: Settings) -> bool:
    """Whether a file mentions the library or has an mdstorm TODO; other files are not parsed."""
    if is_wide(data):
        data = data.replace(b"\0", b"")
    word = settings.library.encode()
    return word in data or _MARK in data or word in data.lower()


def migrate_bytes(
    data: bytes,
    path: PurePath | None,
    source: Source,
    settings: Settings,
    around: Surroundings = ALONE,
    needs: Needs | None = None,
) -> Outcome:
    """Return the outcome of migrating a file's bytes; the file itself is not modified.

    Parameters
    ----------
    data : bytes
    path : PurePath or None
    source : Source
    settings : Settings
    around : Surroundings
        The effect of the other files of the run on this one.
    needs : Needs, optional
        The project's needs for the requirements in the file.
    """
    if around.given is None and not is_relevant(data, settings):
        return Outcome(data, data)
    try:
        file = source.read(data, path)
        for document in file.documents:
            document.needs = needs or Needs(settings.wanted, settings.index)
        results = _check_documents(file, settings, around)
        edits: Sequence[Edit] = results.to_apply()
        after = file.encode(apply_edits(file.text, edits)) if edits else data
        if after != data:
            _verify(file, after, path, source)
    except SourceError as error:
        return Outcome(data, data, problems=[_problem(error)])
    except (EditError, UnicodeEncodeError) as error:
        return Outcome(data, data, problems=[Problem(f"cannot be changed: {error}")])
    except RecursionError:
        return Outcome(data, data, problems=[Problem("nested too deeply")])
    problems = [_problem(error) for error in file.broken if settings.library in error.libraries]
    findings = [] if results.is_ignored else sorted(results.findings, key=_position)
    return Outcome(
        data,
        after,
        file.encoding,
        edits,
        findings,
        problems,
        results.links,
        results.stays,
        results.names_need_review,
        results.naming,
    )


def _problem(error: SourceError) -> Problem:
    return Problem(str(error), error.line, error.cell)


def _verify(file: DecodedFile, after: bytes, path: PurePath | None, source: Source) -> None:
    """Raise `EditError` if the result cannot be read, or a part of it newly fails to parse."""
    try:
        outcome = source.read(after, path)
        check_format(path, file.text, outcome.text)
        for document in outcome.documents:
            if document.kind == "python":
                parse_python(document.code)
    except SourceError as error:
        raise EditError(f"the result would not parse: {error}") from None
    if outcome.unparsed > file.unparsed:
        raise EditError("the result would contain a cell that does not parse")


def _check_documents(file: DecodedFile, settings: Settings, around: Surroundings) -> _Results:
    """Run the rules on all documents; the results have positions in the text of the file."""
    results = _Results()
    if importing := next((error for error in file.broken if error.imports), None):
        what = f"cell {importing.cell}, which cannot be parsed, imports Petastorm"
        around = replace(around, waits_for=f"{what}: the objects of the two libraries do not mix")
    for document in file.documents:
        is_reached = around.given is not None and document.kind == "python"
        if is_reached or is_relevant(document.text.encode(errors="replace"), settings):
            _migrate_document(document, file, settings, around, results)
    results.stays = (
        "`# mdstorm: ignore-file`" if results.is_ignored else review.remaining(results.findings)
    )
    return results


@dataclass
class _Results:
    """The results of the rules after selection and review, with positions in the file's text."""

    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    todos: list[Edit] = field(default_factory=list)
    is_ignored: bool = False
    links: Links | None = None
    stays: str | None = None
    names_need_review: bool = False
    naming: Naming = ""

    def to_apply(self) -> list[Edit]:
        """Return the edits to apply, in file order."""
        return [] if self.is_ignored else sorted([*self.edits, *self.todos], key=_position)

    def add_findings(self, findings: Iterable[Finding], comments: Collection[int]) -> None:
        """Add findings; they replace other documents' open TODOs at the positions `comments`."""
        self.findings = [
            found for found in self.findings if not (found.is_open_todo and found.start in comments)
        ]
        self.findings += findings


def _migrate_document(
    document: Document,
    file: DecodedFile,
    settings: Settings,
    around: Surroundings,
    results: _Results,
) -> None:
    module = _parsed(document, settings, around) if document.kind == "python" else None
    if module is not None and results.links is None:  # other modules are files that cells write
        results.links = links_of(module)
    suppressions = review.Suppressions.of(document, module)
    results.is_ignored |= suppressions.whole_file
    found: list[Edit | Finding] = []
    for rule in all_rules():
        if document.kind in rule.kinds:
            found += rule.check(document if module is None else module)
    found = _exclusive_or_all(found, settings)
    edits = [one for one in found if isinstance(one, Edit)]
    findings = [
        one
        for one in found
        if isinstance(one, Finding)
        and settings.selects(one.rule)
        and (one.is_open_todo or not suppressions.cover(one))
    ]
    findings = review.without_covered_mentions(document, findings, edits)
    reported = [*results.findings, *findings]
    edits = review.with_review(edits, reported, around, module is not None)
    applied, pending = _choose(edits, suppressions, settings)
    is_name_left = any(one.rule == _NAMING and one.holds for one in findings)
    results.names_need_review |= is_name_left or review.names_need_review(edits, pending)
    if module is not None:
        is_named = is_name_left or any(edit.group == NAMES for edit in edits)
        results.naming = results.naming or _naming_of(module, is_named=is_named)
    todos = review.todos_of(document, module, [*findings, *pending], settings.todo)
    results.edits += [document.in_file(edit, file.lines) for edit in applied]
    results.todos += [document.in_file(edit, file.lines) for edit in todos.edits]
    comments = {
        document.in_file(Finding(CODE, "note", one.start, one.stop, ""), file.lines).start
        for one in todo_comments(document)
    }
    results.add_findings((document.in_file(one, file.lines) for one in todos.findings), comments)


#: Names of functions and settings that replace parts of modules named in strings.
_BY_NAME = re.compile(r"\b(?:patch|monkeypatch|mocker|sys\.modules|setitem|autodoc_mock_imports)\b")
#: Methods that replace an attribute of an object.
_REPLACING = frozenset({"object", "setattr", "delattr", "spy", "stub"})
#: The rule about strings that contain module names.
_NAMING = "PM103"


def _naming_of(module: PythonModule, *, is_named: bool) -> Naming:
    """Return what a document does with module names in strings: import, replace parts, or nothing.

    ``mock.patch("petastorm.make_reader")`` refers to the library that the code under test calls, so
    such a file and the files that it affects are migrated together or not at all.
    """
    if _replaces(module) or (is_named and _BY_NAME.search(module.text) is not None):
        return "patches"
    return "imports" if is_named else ""


def _replaces(module: PythonModule) -> bool:
    """Whether a mock or an assignment replaces a part of what the module imports."""
    return any(
        use.is_assigned or _is_mocked(module.scopes.parents.get(use.node), use.node)
        for uses in (*(name.all_uses for name in imported_names(module)), reached_uses(module))
        for use in uses
    )


def _is_mocked(call: ast.AST | None, target: ast.expr) -> bool:
    """Whether a call replaces an attribute of `target`."""
    match call:
        case ast.Call(func=ast.Attribute(attr=attr), args=[first, _, *_]):
            return attr in _REPLACING and first is target
    return False


def _exclusive_or_all(found: list[Edit | Finding], settings: Settings) -> list[Edit | Finding]:
    """Return all results, or only open TODOs and the findings that exclude others, if any do."""
    saying = [
        one
        for one in found
        if isinstance(one, Finding) and one.is_all and settings.selects(one.rule)
    ]
    open_todos = [one for one in found if isinstance(one, Finding) and one.is_open_todo]
    return [*saying, *open_todos] if saying else found


def _parsed(document: Document, settings: Settings, around: Surroundings) -> PythonModule:
    tree = parse_python(document.code)
    return PythonModule(document, tree, settings.applies, around)


def _choose(
    edits: Sequence[Edit], suppressions: review.Suppressions, settings: Settings
) -> tuple[list[Edit], list[Finding]]:
    """Return the edits to apply, and findings for edits that need ``--unsafe``."""
    unwanted: set[Hashable] = set()
    unsafe: set[Hashable] = set()
    for edit in edits:
        if not settings.selects(edit.rule) or suppressions.cover(edit):
            unwanted.add(_group(edit))
        elif not settings.applies(edit.rule, edit.cls):
            unsafe.add(_group(edit))
    wanted = [edit for edit in edits if _group(edit) not in unwanted]
    applied = [edit for edit in wanted if _group(edit) not in unsafe]
    pending = [
        Finding(
            edit.rule,
            "review",
            edit.start,
            edit.stop,
            edit.message,
            topic=edit.topic,
            reason=edit.reason,
        )
        for edit in wanted
        if _group(edit) in unsafe
    ]
    return applied, pending


def _group(edit: Edit) -> Hashable:
    """Return the group of an edit; an edit without one is its own group."""
    return id(edit) if edit.group is None else edit.group


def _position(found: Edit | Finding) -> tuple[int, int, str]:
    return found.start, found.stop, found.rule


#: Names of TOML files that do not end in ``.toml``.
_TOML = ("Pipfile",)


def check_format(path: PurePath | None, before: str, after: str) -> None:
    """Raise an error if the text `before` can be parsed, but the text `after` cannot.

    Files other than TOML, JSON and INI always pass.

    Raises
    ------
    EditError
        If the text cannot be parsed. The message contains the parser's reason.
    """
    if path is None:
        return
    suffix = ".toml" if path.name in _TOML else path.suffix.lower()
    parse = _PARSERS.get(suffix)
    if parse is None or _error(parse, before) is not None:
        return
    if (error := _error(parse, after)) is not None:
        raise EditError(f"the result would not parse: {error}")


def _error(parse: Callable[[str], object], text: str) -> Exception | None:
    try:
        parse(text)
    except ValueError as error:
        return error
    return None


def _parse_toml(text: str) -> None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    tomllib.loads(text)


def _parse_ini(text: str) -> None:
    import configparser

    try:
        configparser.RawConfigParser(strict=False).read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error


#: The parser for each suffix.
_PARSERS: dict[str, Callable[[str], object]] = {
    ".toml": _parse_toml,
    ".json": json.loads,
    ".cfg": _parse_ini,
    ".ini": _parse_ini,
}
