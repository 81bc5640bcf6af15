"""PM403: ``setup.py``, ``setup.cfg`` and other INI files, and code that installs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise

from mdstorm_migrate.base.document import Document, is_setup_script
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.base.needs import ANY
from mdstorm_migrate.packaging.commands import looks, rewrite_commands, rewrite_runs, runs_in_string
from mdstorm_migrate.packaging.lists import rewrite_listed
from mdstorm_migrate.packaging.rewriting import (
    CONDA,
    IN_COMMANDS,
    MESSAGE,
    left,
    manual,
    rewrite_requirement,
)
from mdstorm_migrate.packaging.strings import commands_of_string, is_module_run, required_in
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.calls import is_docstring
from mdstorm_migrate.python.module import PythonModule, inner_span, string_value
from mdstorm_migrate.rules.commands import elsewhere
from mdstorm_migrate.rules.rule import rule

CODE = "PM403"

#: Uses of Petastorm in a string that also installs it. The string is edited only if all its uses
#: can be edited.
_USING = re.compile(rf"(?:from|import|-m)[ \t]+{OLD_ROOT}\b")


@rule(
    CODE, "setup.py, setup.cfg and code that installs name mdstorm", "exact", "python", "setup_cfg"
)
def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield edits to a ``setup.py``, an INI file, or other code that installs packages."""
    if isinstance(module, PythonModule):
        strings = [one for one in module.scopes.strings if OLD_ROOT in str(one.value).lower()]
        waits = is_setup_script(module.document.path) and any(
            one.tool is None or one.requirement.is_copy or one.requirement.is_open
            for string in strings
            for one in required_in(module, string)
        )
        for string in strings:
            yield from _string_results(module, string, waits=waits)
        for string in strings:  # magics have their own rule
            yield from looks(
                module.document, CODE, commands_of_string(module, string, is_placed=True)
            )
        return
    results = [*rewrite_listed(module, CODE), *rewrite_commands(module, CODE)]
    yield from [*results, *elsewhere(module, results, CODE)]


def requires(module: PythonModule) -> bool:
    """Whether code requires or installs Petastorm."""
    return any(one.topic == "install" for one in check(module))


def _string_results(
    module: PythonModule, string: ast.Constant, *, waits: bool
) -> Iterator[Edit | Finding]:
    """Yield edits and findings for a string in code that requires or installs Petastorm.

    In a ``setup.py`` with another requirement that is left open, a requirement waits for it.
    """
    value, span = str(string.value), inner_span(module, string)
    is_text = is_docstring(module, string)
    commands = commands_of_string(module, string, is_placed=True)
    runs = rewrite_runs(module.document, CODE, commands) if span and not is_text else ()
    edits = [one for one in runs if isinstance(one, Edit)]  # others may be messages
    if is_module_run(module, string):  # PM103 renames it
        edits = []
    if not (is_text or edits):
        yield from _commands(module, string)
    is_using = len(edits) < len(_USING.findall(value))
    yield from () if is_using else edits
    for requirement, place, tool, is_message in required_in(module, string):
        if tool is None:
            yield left(module.document, requirement, CODE)
        elif tool == "conda":
            yield manual(
                requirement, CODE, CONDA, "remove petastorm here, and let pip install mdstorm"
            )
        elif not (is_using and place in IN_COMMANDS):
            document = _without_additions(module.document) if is_message else module.document
            for result in rewrite_requirement(document, requirement, CODE, place, waits=waits):
                yield result
                is_whole = (result.start, result.stop) == (requirement.start, requirement.stop)
                if is_whole and isinstance(result, Edit):
                    yield from _version_arguments(module, string)


def _without_additions(document: Document) -> Document:
    """Return the document as it is for a message, of which only the name changes.

    A message and the pattern that a test compares it with are in different files, and the code
    around them may need different extras. In a pattern, brackets have another meaning.
    """
    needs = replace(document.needs, wanted=ANY, index=None, extras=(), transitive=(), moved=False)
    return replace(document, needs=needs)


def _commands(module: PythonModule, string: ast.Constant) -> Iterator[Finding]:
    """Yield the finding about what a string runs that needs Petastorm."""
    is_verbatim = inner_span(module, string) is not None
    value, commands = str(string.value), commands_of_string(module, string)
    ran = runs_in_string(value, commands, CODE, is_verbatim=is_verbatim)
    for one in islice((one for one in ran if isinstance(one, Finding)), 1):
        start, stop = module.span(string)
        yield replace(one, start=start, stop=stop)


def _version_arguments(module: PythonModule, string: ast.Constant) -> Iterator[Edit]:
    """Yield the edit that removes a separate version argument: ``f("petastorm", version=v)``."""
    call = module.scopes.parents.get(string)
    if isinstance(call, ast.keyword):
        call = module.scopes.parents.get(call)
    given = [*call.args, *call.keywords] if isinstance(call, ast.Call) else []
    for before, one in pairwise(given):
        value = string_value(one) if isinstance(one, ast.expr) else None
        if (value or "")[:1].isdigit() or getattr(one, "arg", None) == "version":
            start, stop = module.span(before)[1], module.span(one)[1]
            yield Edit(CODE, "exact", start, stop, "", MESSAGE, topic="install")
