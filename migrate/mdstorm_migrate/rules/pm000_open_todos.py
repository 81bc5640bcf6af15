"""PM000: TODO comments of the tool, which count until they are gone."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate import rules
from mdstorm_migrate.base.document import WRITTEN, Document
from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.base.todo_comments import REFERRING, todo_comments
from mdstorm_migrate.python.module import PythonModule

CODE = "PM000"
TITLE = "A TODO comment is open"
CLASS: Class = "manual"
KIND = (*WRITTEN, "text")


def check(module: PythonModule | Document) -> Iterable[Finding]:
    """Yield a finding for each comment, under the rule that it names.

    The run drops those that say what another finding says.
    """
    document = module.document if isinstance(module, PythonModule) else module
    told: list[str] = []
    for comment in todo_comments(document):
        known = rules.find_rule(comment.rule or CODE)
        rule = CODE if known is None else known.code
        told.append(_in_full(comment.text, told))
        message = f"open TODO: {told[-1]}" if told[-1] else "open TODO"
        yield Finding(rule, CLASS, comment.start, comment.stop, message, is_open_todo=True)


def _in_full(text: str, told: Iterable[str]) -> str:
    """Return what a comment says, in the words of the one above that it refers to."""
    what = text.removeprefix(REFERRING)
    return next((full for full in told if what != text and full.startswith(what)), what)
