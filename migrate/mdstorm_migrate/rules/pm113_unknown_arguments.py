"""PM113: arguments that neither Petastorm nor mdstorm has."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import is_petastorm
from mdstorm_migrate.petastorm.signatures import ACCEPTED, ADDED, REMOVED_KEYWORDS
from mdstorm_migrate.python.calls import CALLING, called, given_arguments, keywords_of_call
from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.python.scopes import Scope

CODE = "PM113"
TITLE = "Arguments that neither Petastorm nor mdstorm has"
CLASS: Class = "manual"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each unknown argument; PM106 reports arguments of older versions."""
    # Names that the file imports from other libraries, such as `DataLoader` from torch.
    others = {
        (binding.scope, binding.name)
        for binding in module.scopes.bindings
        if isinstance(binding.node, ast.alias) and not is_petastorm(binding.target)
    }
    for given in given_arguments(module):
        call, function = given.call, given.function
        accepted = ACCEPTED.get(function)
        if accepted is None or _name_of(module, call) in others:
            continue
        known = {*accepted, *ADDED, *REMOVED_KEYWORDS.get(function, ())}
        for name, node in keywords_of_call(module, call):
            if name in known:
                continue
            what = f"neither Petastorm's nor mdstorm's {function}() has an argument `{name}`"
            remedy = f"{what}: remove it, or find another way to do what it was meant for"
            yield Finding(CODE, CLASS, *module.span(node), what, remedy)


def _name_of(module: PythonModule, call: ast.Call) -> tuple[Scope | None, str] | None:
    """Return the name by which a call reaches the function, and the scope that owns the name."""
    function = call.args[0] if called(call) in CALLING and call.args else call.func
    found = dotted(function)
    if found is None:
        return None
    name = found[0].id
    return module.scopes.scopes[call].home(name), name
