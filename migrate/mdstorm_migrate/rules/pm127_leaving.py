"""PM127: objects of Petastorm's that leave for what stays with Petastorm, and for pickles."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.leaving import companions, examples, given_away, pickles
from mdstorm_migrate.python.module import PythonModule

CODE = "PM127"
TITLE = "Objects passed to code that stays with Petastorm: the file waits for review"
CLASS: Class = "manual"
KIND = "python"

_GIVEN = "it would get mdstorm's objects"
_EXAMPLE = "its schemas and datasets are Petastorm's"
_PICKLE = "a pickle names the library that wrote it"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each; a note for a package that only seems to be made for Petastorm."""
    given = list(given_away(module))
    for binding, name in companions(module):
        if name not in {root for _, root in given}:
            what = f"`{name}` seems to be built on Petastorm, and may require it"
            yield Finding(CODE, "note", *module.span(binding.node), what)
    for call, name in given:
        what = f"`{name}` is used with Petastorm here, and may import it itself"
        advice = "check that it accepts mdstorm's objects, or keep the file on Petastorm"
        yield _held(module, call.func, what, advice, name, _GIVEN)
    if OLD_ROOT not in module.imported_roots:
        return
    for binding, name in examples(module):
        what = f"`{name}` comes with Petastorm's wheel"
        advice = "copy what you need, and import from mdstorm in the copy"
        yield _held(module, binding.node, what, advice, name, _EXAMPLE)
    for call, does in pickles(module):
        what = f"this {does} a pickle of Petastorm's objects"
        advice = (
            "write it again with mdstorm; the schema of a dataset is what "
            "get_schema_from_dataset_url() returns"
        )
        yield _held(module, call, what, advice, "a pickle", _PICKLE)


def _held(
    module: PythonModule, node: ast.AST, what: str, advice: str, holds: str, because: str
) -> Finding:
    remedy = f"{what}: {advice}"
    return Finding(CODE, CLASS, *module.span(node), what, remedy, holds=holds, because=because)
