"""PM107: private and internal parts of Petastorm, which keep their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.absent import section_of
from mdstorm_migrate.petastorm.names import (
    HOMES,
    REMOVED,
    RENAMED,
    VERSION,
    is_module,
    missing,
    renamed,
)
from mdstorm_migrate.python.import_actions import incidental_names, moved
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding
from mdstorm_migrate.python.shadow import shadowed

CODE = "PM107"
TITLE = "Not offered by mdstorm: this use stays with Petastorm"
CLASS: Class = "manual"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each import and each use that mdstorm has nothing for."""
    for name in imported_names(module):
        if any(shadowed(module, binding) for binding in name.imports):
            continue  # PM115 reports it
        for binding in name.imports:
            yield from _finding(module.span(binding.node), _lacking(module, binding))
            yield from _by_accident(module, binding)
        target = name.imports[0].target or ""
        if is_module(target) or target == VERSION:  # otherwise the import has said it
            for use in name.uses:
                yield from _finding(module.span(use.node), use.missing)
            for text in name.texts:
                yield from _finding((text.start, text.stop), text.missing)


def _lacking(module: PythonModule, binding: Binding) -> str | None:
    """Return what an import asks for that mdstorm does not have."""
    alias, old = binding.node, binding.imported_module
    assert isinstance(alias, ast.alias)
    if not isinstance(binding.statement, ast.ImportFrom):
        return missing(old)
    if binding.name == "*":
        return missing(old)
    if (old, alias.name) in RENAMED or moved(module, binding) is not None:
        return None
    return missing(f"{old}.{alias.name}")


def _by_accident(module: PythonModule, binding: Binding) -> Iterator[Finding]:
    """Yield a finding for a star import that gives what Petastorm only imports itself."""
    target = binding.target or ""
    if binding.name == "*" and is_module(target):
        names = incidental_names(module, binding.scope, target)
        if names:
            which = ", ".join(f"`{name}`" for name in names)
            what = f"`from {target} import *` is what gives this file {which}"
            advice = "import that from where it comes from, then migrate the file again"
            span = module.span(binding.node)
            yield Finding(CODE, CLASS, *span, what, f"{what}; {advice}")


def _finding(span: tuple[int, int], lacking: str | None) -> Iterator[Finding]:
    if lacking is not None:
        is_private = lacking.rpartition(".")[2].startswith("_")
        what = f"`{lacking}` {'is private to Petastorm' if is_private else 'is not in mdstorm'}"
        what = f"`{lacking}` is compared" if lacking == VERSION else what
        advice = REMOVED.get(lacking, "this use stays with Petastorm until you replace it")
        if (section := section_of(lacking)) is not None:
            advice = f"{advice}: {section} of mdstorm says by what"
        module, _, name = lacking.rpartition(".")
        if name in HOMES.get(module, ()):
            advice = f"import it from {renamed(HOMES[module][name])}"
        remedy = f"{what}; {advice}"
        yield Finding(CODE, CLASS, *span, what, remedy)
