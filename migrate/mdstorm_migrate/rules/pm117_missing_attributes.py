"""PM117: uses and overrides of attributes that Petastorm's objects have and mdstorm's lack."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.petastorm.attributes import FINAL, INSTEAD, MISSING, OPEN, UNMISTAKABLE
from mdstorm_migrate.python.calls import bases_of, given_arguments
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.makers import makers
from mdstorm_migrate.python.module import PythonModule, dotted, last_name
from mdstorm_migrate.rules.rule import rule

CODE = "PM117"

#: How messages refer to objects that are not called like what makes them.
_OWNERS = {
    "dataset": "`reader.dataset`",
    "pieces": "a piece of `reader.dataset`",
    "load_row_groups": "a row group of load_row_groups()",
    "filesystem": "the file system",
    "get_filesystem_and_path_or_paths": "the file system",
}
_PARTS = frozenset().union(*MISSING.values())
#: The position of the codec among the arguments of a field.
_CODEC = 3


@rule(CODE, "Attributes that mdstorm's objects do not have", "manual", "python")
def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each use of a missing attribute, and each class that overrides one."""
    is_reached = module.given.names is not None
    if not (imported_names(module) or module.calls or is_reached):
        return
    own: set[str] = set()
    nodes = module.scopes.nodes
    for node in nodes[ast.ClassDef]:
        yield from _overridden(module, node, own)
    stored = [one for one in nodes[ast.Attribute] if isinstance(one.ctx, ast.Store)]
    assigned = {one.attr for one in stored if _is_self(one.value)}  # the project's own
    for node in nodes[ast.Attribute]:
        if node.attr in _PARTS and not (node.attr in assigned and _is_self(node.value)):
            yield from _missing_attribute(module, node)
    for node in nodes[ast.Constant]:
        if node.value in UNMISTAKABLE:  # in `getattr`
            yield _finding(module, node, "Reader", str(node.value))
    for given in given_arguments(module):
        if given.function == "UnischemaField":
            yield from _own_codec(module, given.call, own)


def _missing_attribute(module: PythonModule, node: ast.Attribute) -> Iterator[Finding]:
    """Yield a finding if an object in mdstorm is known not to have the attribute `node`.

    Code may set an attribute for its own use, unless the name is unmistakable.
    """
    if not isinstance(node.ctx, ast.Load) and node.attr not in UNMISTAKABLE:
        return
    kinds = makers(module, node.value) or _class_of(module, node.value)
    missing = [kind for kind in sorted(kinds) if node.attr in MISSING.get(kind, ())]
    if missing and len(missing) == len(kinds):
        yield _finding(module, node, missing[0], node.attr)
    elif node.attr in UNMISTAKABLE and not kinds:
        yield _finding(module, node, "Reader", node.attr)


def _class_of(module: PythonModule, node: ast.expr) -> set[str]:
    found = dotted(node)
    path = None if found is None else module.resolve(node, module.scope_of(found[0]))
    return {path.rpartition(".")[2]} if path else set()


def _overridden(module: PythonModule, node: ast.ClassDef, own: set[str]) -> Iterator[Finding]:
    """Yield findings for a class that mdstorm rejects, or that needs missing attributes."""
    bases = bases_of(module, node)
    final = sorted(bases & FINAL.keys())
    if final and not bases & OPEN:
        own.add(node.name)
        start = module.text.index(node.name, module.span(node)[0])
        yield _own_class((start, start + len(node.name)), node.name, final[0])
    for base in sorted(bases):
        missing = MISSING.get(base, frozenset()) - UNMISTAKABLE
        for one in ast.walk(node):
            if isinstance(one, ast.FunctionDef) and one.name in missing:
                yield _finding(module, one, base, one.name)
            elif isinstance(one, ast.Attribute) and one.attr in missing and _is_self(one.value):
                yield _finding(module, one, base, one.attr)


def _is_self(node: ast.expr) -> bool:
    return ast.unparse(node).partition("(")[0] in ("self", "super")


def _own_codec(module: PythonModule, call: ast.Call, own: set[str]) -> Iterator[Finding]:
    """Yield findings for a field's codec if its class is the project's own and not yet reported."""
    given = [*call.args[_CODEC : _CODEC + 1], *(w.value for w in call.keywords if w.arg == "codec")]
    for codec in given:
        function = codec.func if isinstance(codec, ast.Call) else None
        found = None if function is None else dotted(function)
        if function is None or found is None or last_name(function) in own | FINAL.keys():
            continue
        bindings = module.bindings(found[0].id, module.scope_of(found[0]))
        is_class = last_name(function).lstrip("_")[:1].isupper()
        is_known = any(isinstance(one.node, ast.alias | ast.ClassDef) for one in bindings)
        if is_class and is_known and not _class_of(module, function):
            yield _own_class(module.span(codec), last_name(function), "ScalarCodec")


def _own_class(span: tuple[int, int], name: str, base: str) -> Finding:
    kind = "a custom indexer" if base == "RowGroupIndexerBase" else "a custom codec"
    what = f"`{name}` is {kind}, which mdstorm rejects"
    because = f"mdstorm reads and writes no dataset with {kind}"
    return Finding(
        CODE, "manual", *span, what, f"{what}: {FINAL[base]}", holds=name, because=because
    )


def _finding(module: PythonModule, node: ast.AST, kind: str, attribute: str) -> Finding:
    start, stop = module.span(node)
    if isinstance(node, ast.FunctionDef):
        start = module.text.index(attribute, start)
        stop = start + len(attribute)
    owner = _OWNERS.get(kind, f"what {kind}() returns" if kind[0].islower() else f"`{kind}`")
    what = f"{owner} has no `{attribute}` in mdstorm"
    advice = "use its public methods, or keep the file on Petastorm"
    remedy = f"{what}: {INSTEAD.get((kind, attribute), advice)}"
    return Finding(CODE, "manual", start, stop, what, remedy, holds=f"{kind}.{attribute}")
