"""PM306: what MosaicML Streaming has nothing for stays with Petastorm."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.edits import Class, Edit, Finding
from mdstorm_migrate.imports import imported_names, shadowed
from mdstorm_migrate.literals import string_value
from mdstorm_migrate.module import PythonModule
from mdstorm_migrate.names import CONF_KEY, OLD_ROOT
from mdstorm_migrate.streaming.plan import found_by, plan_of

CODE = "PM306"
TITLE = "MosaicML Streaming has nothing for it: this use stays with Petastorm"
CLASS: Class = "manual"
KIND = "python"
TARGETS = ("streaming",)

_CONVERT = (
    "write the dataset as MDS once, with `mdstorm convert` or streaming.MDSWriter, and read it "
    "with StreamingDataset"
)
#: By how a dotted path begins, the first that fits: what to do.
_ADVICE = {
    "petastorm.tf_utils": "MosaicML Streaming has nothing for TensorFlow; --target compat has",
    "petastorm.make_reader": _CONVERT,
    "petastorm.make_batch_reader": _CONVERT,
    "petastorm.reader": _CONVERT,
    "petastorm.etl": "write samples with streaming.MDSWriter, whose `columns` are the schema",
    "petastorm.unischema": "write samples with streaming.MDSWriter, whose `columns` are the schema",
    "petastorm.codecs": "encodings such as `ndarray`, `png` and `jpeg` of MDSWriter do this",
    "petastorm.pytorch": "use StreamingDataLoader over a StreamingDataset",
    "petastorm.spark": "the files that make converters and use them are to be migrated together",
    "petastorm.predicates": "filter rows before they are written",
}
#: Of which the plans for converters speak.
_PLANNED = ("petastorm.TransformSpec", "petastorm.transform", "petastorm.spark")
_DOTTED = re.compile(rf"{OLD_ROOT}(\.[A-Za-z]\w*)+")


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield why converters stay, and what else is used of Petastorm."""
    yield from found_by(module, CODE)
    plan = plan_of(module)
    is_spoken_of = bool(plan.edits or plan.findings)
    for node, path in _uses(module):
        if not path.startswith(_PLANNED) or (path.startswith(_PLANNED[-1]) and not is_spoken_of):
            yield _finding(module, node, path)
    for string in module.scopes.strings:
        value = string_value(string) or ""
        if _DOTTED.fullmatch(value) and value != CONF_KEY:
            what = f"this names `{value}` of Petastorm"
            yield Finding(CODE, "note", *module.span(string), what)


def _uses(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """Yield imports with the dotted paths that they bind; for ``petastorm`` itself, its uses."""
    for name in imported_names(module):
        if any(shadowed(module, binding) for binding in name.imports):
            continue  # PM115 speaks of it
        if name.is_root:
            yield from ((use.node, use.path) for use in name.uses if use.path != OLD_ROOT)
            continue
        for binding in name.imports:
            yield binding.node, binding.target or ""


def _finding(module: PythonModule, node: ast.AST, path: str) -> Finding:
    advice = next((text for start, text in _ADVICE.items() if path.startswith(start)), None)
    what = f"`{path}` is not in MosaicML Streaming"
    remedy = f"{what}; {advice or 'this use stays with Petastorm'}"
    return Finding(CODE, CLASS, *module.span(node), what, remedy)
