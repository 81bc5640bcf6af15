"""The migration of one file, step by step: parse, propose, decide, render.

Each step is done once. Between them, a run compares all files: which names they share, which of
them must wait, and what their requirements must contain.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TypeVar

from mdstorm_migrate.base.document import (
    DecodedFile,
    Document,
    Source,
    SourceError,
    is_setup_script,
)
from mdstorm_migrate.base.edits import NAMES, Edit, EditError, Finding, apply_edits
from mdstorm_migrate.base.needs import Given, Needs
from mdstorm_migrate.base.todos import MARK, todo_comments
from mdstorm_migrate.packaging.parts import parts_of
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.calls import REPLACING
from mdstorm_migrate.python.imports import imported_names, reached_uses
from mdstorm_migrate.python.links import unbound_names
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.rules import rules_for
from mdstorm_migrate.rules.pm000_open_todos import CODE as OPEN_TODO
from mdstorm_migrate.run import review
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.facts import Facts, facts, linked, seen_after
from mdstorm_migrate.run.features import features_of
from mdstorm_migrate.run.outcome import ALONE, Decision, Naming, Outcome, Problem, Settings
from mdstorm_migrate.run.parsing import Parsed
from mdstorm_migrate.run.syntax import check_format
from mdstorm_migrate.sources.decoding import is_wide

_MARK = MARK.encode()


def is_relevant(data: bytes, settings: Settings) -> bool:
    """Whether a file mentions the library or has an mdstorm TODO; other files are not parsed."""
    if is_wide(data):
        data = data.replace(b"\0", b"")
    word = settings.library.encode()
    return word in data or _MARK in data or word in data.lower()


@dataclass(frozen=True)
class Proposals:
    """What the rules propose for a file, as far as it concerns other files.

    Attributes
    ----------
    uses : bool
        Whether the file imports anything from Petastorm, or uses it through other modules.
    stays : str or None
        What in the file still needs Petastorm.
    has_names : bool
        Whether exact edits change strings that name modules.
    names_need_review : bool
        Whether strings in the file still name Petastorm's modules, for a person to review.
    naming : Naming
        What strings in the file that name modules do.
    waits_for : str or None
        Why the file must not move, although nothing in it still needs Petastorm.
    features : Counter of (str, str)
        How often the file uses each feature of Petastorm, by feature and name.
    """

    uses: bool = False
    stays: str | None = None
    has_names: bool = False
    names_need_review: bool = False
    naming: Naming = ""
    waits_for: str | None = None
    features: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(eq=False)
class _Plan:
    """A document of the file, with what its rules propose, and what was decided about it.

    Attributes
    ----------
    document : Document
    module : PythonModule or None
        The parsed document, if it is Python.
    suppressions : Suppressions
    edits, findings : list
        The proposals of all rules, of selected rules for findings; without suppressed ones.
    is_all : bool
        Whether a finding excludes the results of other rules.
    applied, pending : list
        The edits to apply, and findings for edits that need ``--unsafe``.
    """

    document: Document
    module: PythonModule | None
    suppressions: review.Suppressions
    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    is_all: bool = False
    applied: list[Edit] = field(default_factory=list)
    pending: list[Finding] = field(default_factory=list)


_Result = TypeVar("_Result")


class FileMigration:
    """The migration of a file's bytes; the file itself is not modified.

    Parameters
    ----------
    data : bytes
    path : PurePath or None
    source : Source or None
    settings : Settings
    problem : Problem, optional

    Attributes
    ----------
    data : bytes
    path : PurePath or None
    problem : Problem or None
        Why the file cannot be read, parsed or changed; later steps do nothing then.
    facts : Facts
        What links the file to others, and what is seen in it, as it was found.
    facts_after : Facts
        The facts about the file as it was decided on.
    names_need_review : bool
        Whether strings in the file still name Petastorm's modules, for a person to review.
    """

    def __init__(
        self,
        data: bytes,
        path: PurePath | None,
        source: Source | None,
        settings: Settings,
        problem: Problem | None = None,
    ) -> None:
        self.data = data
        self.path = path
        self.problem = problem
        self.names_need_review = False
        self._source = source
        self._settings = settings
        self._plans: list[_Plan] = []
        self._decided = data  # with the edits to its code
        self._file = self._attempt(self._parsed, DecodedFile("", ()))
        known = self._attempt(self._known, None)
        self.facts = self.facts_after = replace(
            linked(Path(path or ""), data, known), is_examined=True
        )

    def _attempt(self, step: Callable[[], _Result], default: _Result) -> _Result:
        """Return the result of a step, or `default` if there is, or the step meets, a problem."""
        if self.problem is None:
            try:
                return step()
            except SourceError as error:
                self.problem = _problem(error)
            except (EditError, UnicodeEncodeError) as error:
                self.problem = Problem(f"cannot be changed: {error}")
            except RecursionError:
                self.problem = Problem("nested too deeply")
            except Exception as error:  # a bug in mdstorm affects this file, not the run
                self.problem = Problem(f"internal error, please report it: {error!r}")
        return default

    # Facts

    def _parsed(self) -> DecodedFile:
        if self._source is None:
            raise SourceError("not a kind of file that can be migrated")
        file = self._source.read(self.data, self.path)
        self._plans = [
            self._plan(document)
            for document in file.documents
            if is_relevant(document.text.encode(errors="replace"), self._settings)
        ]
        return file

    def _plan(self, document: Document) -> _Plan:
        module = None
        if document.kind == "python":
            tree = parse_python(document.code)
            module = PythonModule(document, tree, self._settings.applies)
        return _Plan(document, module, review.Suppressions.of(document, module))

    @property
    def modules(self) -> list[PythonModule]:
        """The parsed Python documents: its own code, then files that notebook cells write."""
        return [plan.module for plan in self._plans if plan.module is not None]

    def _known(self) -> Parsed:
        modules = {id(module.document): module for module in self.modules}
        code = (one for one in self._file.documents if one.kind == "python")
        rest = [modules.get(id(one)) or PythonModule(one, parse_python(one.code)) for one in code]
        return Parsed(self._file, rest)

    def _facts_of(self, data: bytes, known: Parsed | None = None) -> Facts:
        """Return the facts about a result, with what strings in code still name."""
        path = Path(self.path or "")
        found = facts(path, data, known, self.facts)
        if known is not None and data != self.data:
            found = replace(found, seen=seen_after(path, data, known, found.is_installing))
        if self.names_need_review and self.modules and not is_setup_script(self.path):
            return found.also_needing(OLD_ROOT)
        return found

    def unbound(self) -> frozenset[str]:
        """Return the names that it does not bind, and that Petastorm's modules leak."""
        return self._attempt(self._unbound, frozenset())

    def _unbound(self) -> frozenset[str]:
        if not self._plans:
            self._parse_rest()
        return frozenset().union(*map(unbound_names, self.modules))

    def _parse_rest(self) -> None:
        """Parse the Python documents that do not mention Petastorm."""
        plans = {id(plan.document): plan for plan in self._plans}
        self._plans = [
            plans.get(id(document)) or self._plan(document)
            for document in self._file.documents
            if document.kind == "python" or id(document) in plans
        ]

    # Proposals

    def propose(self, given: Given) -> Proposals:
        """Run the rules about code, and return what concerns other files."""
        proposals = self._attempt(lambda: self._proposals(given), Proposals())
        is_code = self.path is not None and self.path.suffix in CODE
        return Proposals(stays=str(self.problem)) if self.problem and is_code else proposals

    def _proposals(self, given: Given) -> Proposals:
        if given.names is not None:
            self._parse_rest()
        for plan in self._plans:
            if plan.module is not None:
                plan.module = plan.module.with_given(given)
            self._run_rules(plan)
        self._decide(ALONE)
        named = [edit for plan in self._plans for edit in plan.edits if edit.group == NAMES]
        left = (one for plan in self._plans for one in plan.findings if one.rule == _NAMING)
        is_named = bool(named) or any(one.holds for one in left)
        namings = (_naming_of(module, is_named=is_named) for module in self.modules)
        features = (use for plan in self._plans for use in features_of(plan.document, plan.module))
        return Proposals(
            any(imported_names(module) or reached_uses(module) for module in self.modules),
            self._stays,
            bool(named) and not self._settings.applies(_NAMING, "review"),
            self.names_need_review,
            next(filter(None, namings), ""),
            features=Counter(features),
        )

    def _run_rules(self, plan: _Plan) -> None:
        """Run the rules about code on a document, and keep what is selected."""
        results = [
            one
            for rule in rules_for(plan.document.kind, is_about_needs=False)
            for one in rule.check(plan.document if plan.module is None else plan.module)
        ]
        findings = [one for one in results if isinstance(one, Finding)]
        alone = [one for one in findings if one.is_all and self._settings.selects(one.rule)]
        if alone:
            plan.is_all = True
            findings = [*alone, *(one for one in findings if one.is_open_todo)]
        else:
            plan.edits = [one for one in results if isinstance(one, Edit)]
        plan.findings = self._selected(plan, findings)

    def _selected(self, plan: _Plan, findings: Iterable[Finding]) -> list[Finding]:
        return [
            one
            for one in findings
            if self._settings.selects(one.rule)
            and (one.is_open_todo or not plan.suppressions.cover(one))
        ]

    # Decisions

    @property
    def _stays(self) -> str | None:
        """What in the file still needs Petastorm."""
        if self._is_ignored:
            return "`# mdstorm: ignore-file`"
        return review.remaining(one for plan in self._plans for one in plan.findings)

    @property
    def _is_ignored(self) -> bool:
        return any(plan.suppressions.whole_file for plan in self._plans)

    def _decide(self, decision: Decision) -> None:
        """Choose the edits to apply."""
        if importing := next((error for error in self._file.broken if error.imports), None):
            what = f"cell {importing.cell}, which cannot be parsed, imports Petastorm"
            what = f"{what}: the objects of the two libraries do not mix"
            decision = replace(decision, waits_for=what)
        self.names_need_review = False
        held: list[Finding] = []
        for plan in self._plans:
            is_code = plan.module is not None
            edits = review.with_review(plan.edits, [*held, *plan.findings], decision, is_code)
            plan.applied, plan.pending = _choose(edits, plan.suppressions, self._settings)
            # What a command runs is a fact about the part of the file with the command.
            left = (one for one in plan.findings if one.rule == _NAMING and one.topic != "run")
            is_left = any(one.holds for one in left)
            self.names_need_review |= is_left or review.names_need_review(edits, plan.pending)
            held += [
                plan.document.in_file(one, self._file.lines) for one in plan.findings if one.holds
            ]

    def code_after(self, decision: Decision) -> Facts:
        """Return the facts about the file with the edits to its code."""
        found = self._attempt(lambda: self._code_after(decision), None)
        self.facts_after = found or self._facts_of(self.data)
        return self.facts_after

    def _code_after(self, decision: Decision) -> Facts:
        self._decide(decision)
        edits = [
            plan.document.in_file(edit, self._file.lines)
            for plan in self._plans
            for edit in plan.applied
            if not self._is_ignored
        ]
        self._decided = (
            self._file.encode(apply_edits(self._file.text, edits)) if edits else self.data
        )
        known = self._verified(self._decided) if edits else self._known()
        return self._facts_of(self._decided, known)

    # Rendering

    def outcome(self, needs: Needs) -> Outcome:
        """Return the outcome, with requirements for the code as it was decided on."""
        outcome = self._attempt(lambda: self._rendered(needs), None)
        if outcome is None or self.problem is not None:
            self.facts_after = self._facts_of(self.data)
            problems = [] if self.problem is None else [self.problem]
            return Outcome(self.data, self.data, problems=problems)
        return outcome

    def _rendered(self, needs: Needs) -> Outcome:
        results = _Results()
        for plan in self._plans:
            self._render(plan, needs, results)
        edits = [] if self._is_ignored else sorted(results.edits, key=_position)
        file, after = self._file, self.data
        if edits:
            after = file.encode(apply_edits(file.text, edits))
        if after not in (self.data, self._decided):
            self.facts_after = self._facts_of(after, self._verified(after))
        elif after == self._decided:
            after = self._decided  # one copy of it
        library = self._settings.library
        problems = [_problem(error) for error in file.broken if library in error.libraries]
        findings = [] if self._is_ignored else sorted(results.findings, key=_position)
        return Outcome(
            self.data, after, file.encoding, edits, findings, problems, self.names_need_review
        )

    def _verified(self, after: bytes) -> Parsed:
        """Return a result, parsed.

        Raises
        ------
        EditError
            If it cannot be read, or a part of it newly fails to parse.
        """
        assert self._source is not None
        try:
            outcome = self._source.read(after, self.path)
            check_format(self.path, self._file.text, outcome.text)
            code = (document for document in outcome.documents if document.kind == "python")
            modules = [PythonModule(one, parse_python(one.code)) for one in code]
        except SourceError as error:
            raise EditError(f"the result would not parse: {error}") from None
        if outcome.unparsed > self._file.unparsed:
            raise EditError("the result would contain a cell that does not parse")
        return Parsed(outcome, modules)

    def _render(self, plan: _Plan, needs: Needs, results: _Results) -> None:
        document, module = plan.document, plan.module
        found = [] if plan.is_all else list(_about_needs(document, module, needs))
        listed = [one for one in found if isinstance(one, Edit)]
        applied, pending = _choose(listed, plan.suppressions, self._settings)
        findings = [*plan.findings, *(one for one in found if isinstance(one, Finding))]
        findings = self._selected(plan, findings)
        findings = review.without_covered_mentions(document, findings, [*plan.edits, *listed])
        findings += [*plan.pending, *pending]
        todos = review.todos_of(document, module, findings, self._settings.todo)
        lines = self._file.lines
        for edit in (*plan.applied, *applied, *todos.edits):
            results.edits.append(document.in_file(edit, lines))
        comments = {
            document.in_file(Finding(OPEN_TODO, "note", one.start, one.stop, ""), lines).start
            for one in todo_comments(document)
        }
        results.add_findings((document.in_file(one, lines) for one in todos.findings), comments)


def _about_needs(
    document: Document, module: PythonModule | None, needs: Needs
) -> Iterator[Edit | Finding]:
    """Yield the results of the rules about needs, with the needs of the part where each one is."""
    rules = rules_for(document.kind, is_about_needs=True)
    parts = parts_of(document, module) if needs.parts else []
    for own in dict.fromkeys(needs.parts) or [needs]:
        document.needs = own
        for one in (found for rule in rules for found in rule.check(module or document)):
            number = next((n for n, part in enumerate(parts) if part.has(one.start)), 0)
            if not parts or needs.parts[number] == own:
                yield one


def _problem(error: SourceError) -> Problem:
    return Problem(str(error), error.line, error.cell)


@dataclass
class _Results:
    """The edits and findings of all documents, with positions in the file's text."""

    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add_findings(self, findings: Iterable[Finding], comments: Collection[int]) -> None:
        """Add findings; they replace other documents' open TODOs at the positions `comments`."""
        self.findings = [
            found for found in self.findings if not (found.is_open_todo and found.start in comments)
        ]
        self.findings += findings


#: Names of functions and settings that replace parts of modules named in strings.
_BY_NAME = re.compile(r"\b(?:patch|monkeypatch|mocker|sys\.modules|setitem|autodoc_mock_imports)\b")
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
            return attr in REPLACING and first is target
    return False


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
