"""PM000: TODO comments from an earlier run, which are reported until they are removed."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate import rules
from mdstorm_migrate.base.document import WRITTEN, Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.base.todos import todo_comments
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules.rule import rule

CODE = "PM000"


@rule(CODE, "A TODO comment is open", "manual", *WRITTEN, "text")
def check(module: PythonModule | Document) -> Iterable[Finding]:
    """Yield a finding for each TODO comment, under the rule code that the comment contains.

    The run drops comments that repeat another finding.
    """
    document = module.document if isinstance(module, PythonModule) else module
    for comment in todo_comments(document):
        known = rules.find_rule(comment.rule or CODE)
        code = CODE if known is None else known.code
        message = f"open TODO: {comment.text}" if comment.text else "open TODO"
        yield Finding(code, "manual", comment.start, comment.stop, message, is_open_todo=True)
