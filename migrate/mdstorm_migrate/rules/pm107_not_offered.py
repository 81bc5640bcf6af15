"""PM107: private and internal parts of Petastorm, which code must continue to import from there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.petastorm import names as petastorm
from mdstorm_migrate.petastorm.absent import home_of, is_unknown, section_of
from mdstorm_migrate.python.calls import bases_of, given_arguments
from mdstorm_migrate.python.import_actions import incidental_names, moved_to
from mdstorm_migrate.python.imports import (
    Use,
    imported_names,
    is_pin,
    missing_prefix,
    reached_uses,
    references_of,
)
from mdstorm_migrate.python.makers import makers
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding
from mdstorm_migrate.python.shadow import shadowed
from mdstorm_migrate.rules.rule import rule

CODE = "PM107"

#: Why a file that compares Petastorm's version remains on Petastorm.
_DECIDES = "its branches depend on Petastorm's version"
_PATCHED = "the patch is made for Petastorm's code"
_MADE = "mdstorm's `Reader` raises an error if it is constructed directly"
_SUPER = ("super().__init__", "Reader.__init__")
_BY_HAND = (
    "only make_reader and make_batch_reader make a `Reader` of mdstorm: call one of them with the "
    "URL: see mdstorm's docs/differences.md#workers-and-their-queues"
)


@rule(CODE, "Not offered by mdstorm, and still imported from Petastorm", "manual", "python")
def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each import statement and each use that mdstorm does not support.

    Names in the same import statement that need the same advice share a finding.
    """
    places_by_advice: dict[tuple[ast.stmt | None, str, str], list[tuple[tuple[int, int], str]]] = {}
    for name in imported_names(module):
        if any(shadowed(module, binding) for binding in name.imports):
            continue  # PM115 reports this name
        for binding in name.imports:
            missing = _missing(module, binding)
            if missing is not None:
                key = binding.statement, _state(missing), _advice(missing)
                places_by_advice.setdefault(key, []).append((module.span(binding.node), missing))
            yield from _leaked_names(module, binding)
        target = name.imports[0].target or ""
        is_known = petastorm.is_module(target) or target == petastorm.VERSION  # others: see above
        for use in name.all_uses:
            if is_known or use.is_assigned:
                yield from _used(module, use)
        if is_known:
            for text in name.texts:
                yield from _without_holds(_use_findings((text.start, text.stop), text.missing))
    for use in (one for used in reached_uses(module) for one in used.with_further()):
        yield from _used(module, use)
    yield from _other_versions(module)
    for (_, state, advice), places in places_by_advice.items():
        spans, names = zip(*places, strict=True)
        yield _finding(min(spans), list(dict.fromkeys(names)), state, advice)
    yield from _readers_by_hand(module)


def _used(module: PythonModule, use: Use) -> Iterator[Finding]:
    """Yield the finding about a use of what mdstorm does not have, or about a patch."""
    if use.is_assigned:
        yield _replaced(module, use)
    elif use.missing == petastorm.VERSION and any(map(is_pin, module.ancestors(use.node))):
        yield from _version_in_requirement(module, use.node)
    else:
        yield from _use_findings(module.span(use.node), use.missing)


def _other_versions(module: PythonModule) -> Iterator[Finding]:
    """Yield the findings about versions of what may be Petastorm, as of a parameter."""
    uses = (
        *(use for name in imported_names(module) for use in name.all_uses),
        *(one for used in reached_uses(module) for one in used.with_further()),
    )
    known = {use.node for use in uses}
    for node in module.scopes.nodes[ast.Attribute]:
        is_version = node.attr == "__version__" and node not in known
        if is_version and petastorm.OLD_ROOT in makers(module, node.value):
            missing = missing_prefix(module, node, petastorm.VERSION)
            yield from _use_findings(module.span(node), missing)


def _replaced(module: PythonModule, use: Use) -> Finding:
    what = f"`{use.path}` is replaced at run time"
    remedy = f"{what}: decide whether mdstorm needs the patch, and where"
    span = module.span(use.node)
    return Finding(CODE, "manual", *span, what, remedy, holds=use.path, because=_PATCHED)


def _readers_by_hand(module: PythonModule) -> Iterator[Finding]:
    """Yield a finding for each `Reader` that code constructs directly."""
    made = [given.call for given in given_arguments(module) if given.function == "Reader"]
    for node in module.scopes.nodes[ast.ClassDef]:
        if "Reader" in bases_of(module, node):
            made += _constructions(module, node)
    for node in made:
        what = "this constructs a `Reader` directly"
        remedy = f"{what}: {_BY_HAND}"
        span = module.span(node)
        yield Finding(CODE, "manual", *span, what, remedy, holds="Reader()", because=_MADE)


def _constructions(module: PythonModule, node: ast.ClassDef) -> list[ast.Call]:
    """Return the calls that construct the `Reader` of a class that derives from it.

    These are calls of its ``super().__init__``, or of the class if it does not define `__init__`.
    """
    inits = [
        one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    ]
    calls = [one for init in inits for one in ast.walk(init) if isinstance(one, ast.Call)]
    if inits:
        return [one for one in calls if ast.unparse(one.func) in _SUPER]
    reads = (one.node for one in references_of(module, node.name, module.scopes.module))
    parents = ((module.scopes.parents.get(read), read) for read in reads)
    return [one for one, read in parents if isinstance(one, ast.Call) and one.func is read]


def _version_in_requirement(module: PythonModule, node: ast.AST) -> Iterator[Finding]:
    """Yield the finding about a version in a requirement, unless it is in an error message."""
    if not any(isinstance(one, ast.Raise) for one in module.ancestors(node)):
        what = "this puts Petastorm's version into a requirement"
        remedy = f"{what}: require mdstorm instead"
        yield Finding(CODE, "manual", *module.span(node), what, remedy)


def _without_holds(found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings without `holds`, because types in strings do not exchange objects."""
    return (replace(finding, holds=None) for finding in found)


def _missing(module: PythonModule, binding: Binding) -> str | None:
    """Return the prefix of an imported path that mdstorm lacks, or None if it has the path."""
    alias, old = binding.node, binding.imported_module
    assert isinstance(alias, ast.alias)
    if not isinstance(binding.statement, ast.ImportFrom):
        return petastorm.missing(old)
    if binding.name == "*":
        return petastorm.missing(old)
    if (old, alias.name) in petastorm.RENAMED or moved_to(module, binding) is not None:
        return None
    return petastorm.missing(f"{old}.{alias.name}")


def _leaked_names(module: PythonModule, binding: Binding) -> Iterator[Finding]:
    """Yield a finding for a star import of names that Petastorm only imports for its own use."""
    target = binding.target or ""
    if binding.name == "*" and petastorm.is_module(target):
        names = incidental_names(module, target)
        if names:
            which = ", ".join(f"`{name}`" for name in names)
            what = f"`from {target} import *` gives this file {which}, by accident"
            advice = "import it from its own module, then migrate the file again"
            span = module.span(binding.node)
            yield Finding(CODE, "manual", *span, what, f"{what}; {advice}", holds=f"{target}.*")


def _use_findings(span: tuple[int, int], missing: str | None) -> Iterator[Finding]:
    if missing is not None:
        yield _finding(span, [missing], _state(missing), _advice(missing))


def _finding(span: tuple[int, int], missing: list[str], state: str, advice: str) -> Finding:
    module = missing[0].rpartition(".")[0]
    rest = (name.removeprefix(f"{module}.") for name in missing[1:])
    names = [f"`{name}`" for name in (missing[0], *rest)]
    which = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    what = f"{which} {'is' if len(names) == 1 else 'are'} {state}"
    holding = (name for name in missing if not (petastorm.is_independent(name) or _is_blank(name)))
    holds = next(holding, None)
    because = _DECIDES if holds == petastorm.VERSION else None
    return Finding(CODE, "manual", *span, what, f"{what}; {advice}", holds=holds, because=because)


def _state(missing: str) -> str:
    if missing == petastorm.VERSION:
        return "compared"
    if _is_blank(missing):
        return "a blank to fill in"
    if is_unknown(missing):
        return "in neither mdstorm nor Petastorm 0.13.1"
    is_private = missing.rpartition(".")[2].startswith("_")
    return "private to Petastorm" if is_private else "not in mdstorm"


def _is_blank(missing: str) -> bool:
    """Whether a name consists of underscores, like the blanks in exercises."""
    return not missing.rpartition(".")[2].strip("_")


def _advice(missing: str) -> str:
    module, _, name = missing.rpartition(".")
    if _is_blank(missing):
        return "fill in a name that mdstorm has"
    if name in petastorm.HOMES.get(module, ()):
        return f"import it from {petastorm.renamed(petastorm.HOMES[module][name])}"
    if is_unknown(missing) and missing not in petastorm.REMOVED:
        home = home_of(name)
        old = "perhaps from an older version or a fork: replace this use"
        return old if home is None else f"{petastorm.renamed(home)} has one"
    kept = "the import from Petastorm stays until you replace it"
    advice = petastorm.REMOVED.get(missing, kept)
    section = section_of(missing)
    return advice if section is None else f"{advice}: see mdstorm's {section}"
