"""PM201, 203: imports from MosaicML Streaming, and its dotted names in strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.mosaicml import names
from mdstorm_migrate.packaging.configuration import TARGETS, dotted_values
from mdstorm_migrate.python.calls import resolved_as
from mdstorm_migrate.python.imports import references_of
from mdstorm_migrate.python.module import PythonModule, inner_span
from mdstorm_migrate.python.scopes import Binding
from mdstorm_migrate.rules.rule import rule

#: The name of a module in an import statement.
_MODULE = re.compile(r"streaming(?:[ \t]*\.[ \t]*\w+)*")
_PATH = re.compile(r"streaming(?:\.\w+)*")


@rule("PM201", "Imports from MosaicML Streaming name mdstorm", "exact", "python")
def imports(module: PythonModule) -> Iterator[Edit | Finding]:
    """Yield an edit for each import, and a finding for names that mdstorm does not have."""
    bindings = [one for one in module.scopes.bindings if names.is_streaming(one.target)]
    paths = [*map(_imported, bindings), *_uses(module, bindings)]
    if not any(names.is_known(path) for _, path in paths):
        return  # a different package called `streaming`
    absent = [(node, path) for node, path in paths if not names.is_mirrored(path)]
    for node, path in absent:
        yield _absent("PM201", module.span(node), path)
    why = f"; `{absent[0][1]}` in this file is not in mdstorm" if absent else ""
    for statement in dict.fromkeys(one.statement for one in bindings):
        if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            what = "a star import may bind names that mdstorm does not have"
            yield Finding("PM201", "manual", *module.span(statement), what, "import each name")
        elif statement is not None and all(node is not statement for node, _ in absent):
            yield from _renamed(module, statement, why)


def _imported(binding: Binding) -> tuple[ast.AST, str]:
    """Return an import statement, and a dotted path that it imports."""
    assert binding.statement is not None
    is_whole = isinstance(binding.statement, ast.Import)
    return binding.statement, (binding.imported_module if is_whole else binding.target) or ""


def _uses(module: PythonModule, bindings: list[Binding]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the attributes of imported modules and objects that the code uses, with their paths."""
    for target, name, scope in {(one.target or "", one.name, one.scope): None for one in bindings}:
        for reference in references_of(module, name, scope):
            node, path = module.chain(reference.node, target)
            if path != target:
                yield node, path


def _renamed(
    module: PythonModule, statement: ast.Import | ast.ImportFrom, why: str
) -> Iterator[Edit]:
    cls: Class = "review" if why else "exact"
    if isinstance(statement, ast.ImportFrom):
        place = _MODULE.search(module.text, *module.span(statement))
        is_front = statement.module == names.ROOT and all(
            one.name in names.FRONT_NAMES for one in statement.names
        )
        new = names.FRONT if is_front else names.mirrored(statement.module or "")
        if place is not None:
            message = f"`from {statement.module} import …` becomes `from {new} import …`{why}"
            yield Edit("PM201", cls, *place.span(), new, message)
        return
    for one in statement.names:
        if names.is_streaming(one.name):
            # Without "as", the import binds the top-level package, and modules are reached as its
            # attributes.
            target = one.name if one.asname else names.ROOT
            new = f"{names.mirrored(target)} as {one.asname or names.ROOT}"
            message = f"`import {one.name}` becomes `import {new}`{why}"
            yield Edit("PM201", cls, *module.span(one), new, message)


@rule(
    "PM203",
    "Module paths of MosaicML Streaming in strings name mdstorm",
    "exact",
    "python",
    "cluster",
    "conda",
)
def strings(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield an edit for each dotted name in a string, or a finding if mdstorm does not have it."""
    if isinstance(module, PythonModule):
        yield from _in_code(module)
        return
    for key, path, start, stop in dotted_values(module.text, names.ROOT):
        if key in TARGETS and names.is_known(path):
            yield _named(path, (start, stop), names.shortest(path))


def _in_code(module: PythonModule) -> Iterator[Edit | Finding]:
    for string in module.scopes.nodes[ast.Constant]:
        path, inner = str(string.value), inner_span(module, string)
        if inner is None or not _PATH.fullmatch(path) or not names.is_known(path):
            continue
        match resolved_as(module, string):
            case "target":
                yield _named(path, inner, names.shortest(path))
            case "patched":
                why = "; check that the code under test looks it up there"
                yield _named(path, inner, names.mirrored(path), why)
            case "imported":
                yield _named(path, inner, names.mirrored(path))


def _named(path: str, span: tuple[int, int], new: str, why: str = "") -> Edit | Finding:
    """Return the edit to a name in a string, or a finding if mdstorm does not have it."""
    if not names.is_mirrored(path):
        return _absent("PM203", span, path)
    message = f'"{path}" becomes "{new}"{why}'
    return Edit("PM203", "review" if why else "exact", *span, new, message)


def _absent(rule: str, span: tuple[int, int], path: str) -> Finding:
    """Return the finding about a name that mdstorm does not have."""
    remedy = f"see docs/mosaicml.md#{names.section_of(path) or 'what-is-different'}"
    return Finding(rule, "manual", *span, f"`{path}` is not in mdstorm", remedy, holds=path)
