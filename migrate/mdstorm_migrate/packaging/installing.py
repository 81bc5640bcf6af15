"""Rewrite the requirements in install commands."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.commands import command_requirements
from mdstorm_migrate.packaging.requirement import of_conda, other_origins
from mdstorm_migrate.packaging.rewriting import rewrite_requirement


def rewrite_commands(document: Document, rule: str) -> Iterator[Edit | Finding]:
    """Yield what becomes of the requirements in the install commands of a document.

    Options, quotes and other packages stay. A version that is not quoted, which a shell takes for a
    redirection (``petastorm>=0.12``), goes with the rest.
    """
    for tool, found in command_requirements(document.text):
        if tool == "pip":
            yield from rewrite_requirement(document, found, rule, "word")
            continue
        remedy = "take petastorm out of this command and add `pip install mdstorm`"
        yield of_conda(found, rule, remedy)
    yield from other_origins(document.text, rule)
