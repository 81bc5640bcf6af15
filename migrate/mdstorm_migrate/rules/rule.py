"""A rule: one object, from which its pages and reports are made. Rules register themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

from mdstorm_migrate.base.document import DocumentKind
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.python.module import PythonModule

Check: TypeAlias = Callable[[Any], Iterable[Edit | Finding]]

#: A code block on a rule's page, such as a file ``before`` the migration.
_EXAMPLE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>\w+) (?P<which>before|after|by hand)(?: (?P<path>\S+))?\n"
    r"(?P<code>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


class Example(NamedTuple):
    """A code block on a rule's page, with the name of its file, if the name matters."""

    language: str
    path: str | None
    code: str


@dataclass(frozen=True)
class Rule:
    """A migration rule.

    Attributes
    ----------
    code, title : str
    cls : Class
        The class of most of its results; each result has its own.
    kinds : tuple of DocumentKind
        The kinds of documents that it checks.
    check : callable
    """

    code: str
    title: str
    cls: Class
    kinds: tuple[DocumentKind, ...]
    check: Check

    @property
    def is_about_needs(self) -> bool:
        """Whether it depends on `Document.needs`, which are known once all code is decided on."""
        return self.code.startswith("PM4") or self.code == "PM202"

    def explain(self) -> str:
        """Return the manual's page about this rule, as Markdown."""
        text = (resources.files(__package__) / "docs" / f"{self.code}.md").read_text("utf-8")
        return f"# {self.code} {self.title}\n\nClass: `{self.cls}`.\n\n{text}"

    @property
    def prose(self) -> str:
        """The page without the examples at its end."""
        return _EXAMPLE.split(self.explain(), maxsplit=1)[0].rstrip()

    @cached_property
    def examples(self) -> dict[str, Example]:
        """The page's examples: ``before``, and ``after`` and ``by hand`` if it has them."""
        found = _EXAMPLE.finditer(self.explain())
        return {one["which"]: Example(*one.group("language", "path", "code")) for one in found}

    @property
    def recipe(self) -> dict[str, str] | None:
        """Code that the rule reports, and code that does the same with mdstorm, if known."""
        found = self.examples
        if "by hand" not in found:
            return None
        return {"before": found["before"].code, "after": found["by hand"].code}


#: The rules that have been declared, by code.
RULES: dict[str, Rule] = {}


def rule(code: str, title: str, cls: Class, *kinds: DocumentKind) -> Callable[[Check], Check]:
    """Declare a function as the check of a rule."""

    def declared(check: Check) -> Check:
        RULES[code] = Rule(code, title, cls, kinds, check)
        return check

    return declared


class Remark(NamedTuple):
    """What a rule without edits has to say about a node.

    Attributes
    ----------
    node : ast.AST
    message : str
    remedy, holds : str or None
        As in `Finding`.
    """

    node: ast.AST
    message: str
    remedy: str | None = None
    holds: str | None = None


def remarks(
    code: str, title: str, cls: Class
) -> Callable[[Callable[[PythonModule], Iterable[Remark]]], Check]:
    """Declare a function as the check of a rule that only has remarks about Python code."""

    def declared(found: Callable[[PythonModule], Iterable[Remark]]) -> Check:
        def check(module: PythonModule) -> Iterable[Finding]:
            for node, message, remedy, holds in found(module):
                yield Finding(code, cls, *module.span(node), message, remedy, holds=holds)

        return rule(code, title, cls, "python")(check)

    return declared
