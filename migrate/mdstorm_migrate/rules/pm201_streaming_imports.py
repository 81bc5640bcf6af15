"""PM201: imports from MosaicML Streaming become imports from mdstorm's engine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.mosaicml import names
from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.rules.rule import rule

CODE = "PM201"

#: The name of a module in an import statement, or in one of the statement's aliases.
_MODULE = re.compile(r"streaming(?:[ \t]*\.[ \t]*\w+)*")


@rule(CODE, "Imports from MosaicML Streaming name mdstorm", "exact", "python")
def check(module: PythonModule) -> Iterator[Edit | Finding]:
    """Yield an edit for each import, and a finding for names that mdstorm does not have."""
    statements = list(_statements(module))
    if not any(names.is_known(path) for _, paths in statements for path in paths):
        return  # a different package called `streaming`
    absent = [
        (node, path) for node, paths in statements for path in paths if not names.is_mirrored(path)
    ]
    for node, path in absent:
        yield _absent(module, node, path)
    why = f"; `{absent[0][1]}` in this file is not in mdstorm" if absent else ""
    of_absent = {node for node, _ in absent}
    for node in dict.fromkeys(node for node, _ in statements):
        is_star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        if is_star:
            what = "a star import may bind names that mdstorm does not have"
            yield Finding(CODE, "manual", *module.span(node), what, "import each name")
        elif isinstance(node, ast.Import | ast.ImportFrom) and node not in of_absent:
            yield from _renamed(module, node, why)


def _statements(module: PythonModule) -> Iterator[tuple[ast.AST, list[str]]]:
    """Yield imports from `streaming`, and uses of the modules that they bind, with dotted paths."""
    modules: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and not node.level and names.is_streaming(node.module):
            yield node, [f"{node.module}.{one.name}".removesuffix(".*") for one in node.names]
            modules |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            found = [one for one in node.names if names.is_streaming(one.name)]
            if found:
                yield node, [one.name for one in found]
            for one in found:
                modules[one.asname or names.ROOT] = one.name if one.asname else names.ROOT
    for node in ast.walk(module.tree):
        is_outermost = not isinstance(module.scopes.parents.get(node), ast.Attribute)
        chain = dotted(node) if isinstance(node, ast.Attribute) and is_outermost else None
        if chain is not None and chain[0].id in modules:
            yield node, [".".join([modules[chain[0].id], *chain[1]])]


def _renamed(
    module: PythonModule, node: ast.Import | ast.ImportFrom, why: str
) -> Iterator[Edit | Finding]:
    cls: Class = "review" if why else "exact"
    start, stop = module.span(node)
    if isinstance(node, ast.ImportFrom):
        place = _MODULE.search(module.text, start, stop)
        imported = {one.name for one in node.names}
        is_front = node.module == names.ROOT and imported <= names.FRONT_NAMES
        new = names.FRONT if is_front else names.mirrored(node.module or "")
        if place is not None:
            message = f"`from {node.module} import …` becomes `from {new} import …`{why}"
            yield Edit(CODE, cls, *place.span(), new, message)
        return
    for one in node.names:
        if names.is_streaming(one.name):
            # Without "as", the import binds the top-level package, and modules are reached as its
            # attributes.
            target = one.name if one.asname else names.ROOT
            new = f"{names.mirrored(target)} as {one.asname or names.ROOT}"
            message = f"`import {one.name}` becomes `import {new}`{why}"
            yield Edit(CODE, cls, *module.span(one), new, message)


def _absent(module: PythonModule, node: ast.AST, path: str) -> Finding:
    what, remedy = names.absent(path)
    return Finding(CODE, "manual", *module.span(node), what, remedy, holds=path)
