"""PM121: pickles that may hold objects of Petastorm's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import is_docstring
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.module_tests import in_find_class, module_test
from mdstorm_migrate.python.objects import objects_made

CODE = "PM121"
TITLE = "Pickles name the library that wrote them"
CLASS: Class = "manual"
KIND = "python"

_LIBRARIES = r"(?:pickle|cloudpickle|dill|joblib|cPickle|pkl|torch)"
_LOADING = re.compile(rf"{_LIBRARIES}\.loads?")
_DUMPING = re.compile(rf"{_LIBRARIES}\.(?:dumps?|save)")
#: What code calls a thing of Petastorm's that people pickle.
_OURS = re.compile(
    r"schema|UNISCHEMA|ROWGROUPS_INDEX|petastorm|dataset-toolkit|converter|ngram", re.IGNORECASE
)
#: What people pickle of Petastorm's, by what makes it.
_PICKLED = frozenset(
    [
        *("CompressedImageCodec", "CompressedNdarrayCodec", "NdarrayCodec", "ScalarCodec"),
        *("NGram", "TransformSpec", "Unischema", "UnischemaField", "create_schema_view"),
        *("get_schema_from_dataset_url", "make_spark_converter", "transform_schema"),
    ]
)
#: Attributes of these that hold more of them.
_PARTS = frozenset({"edit_fields", "fields"})
_NEEDS = "a pickle of Petastorm's objects needs Petastorm where it is loaded"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each pickle that is loaded, by its names: a note if they say nothing.

    And one for each object of Petastorm's that is pickled for others, and for each unpickler of the
    file's own that knows Petastorm's modules by name.
    """
    if OLD_ROOT in module.text and "find_class" in module.text:
        yield from _unpicklers(module)
    if not imported_names(module):
        return
    loaded = [
        call
        for call in module.scopes.calls
        if call.args and _is(_LOADING, call) and not _is_of_weights(module, call)
    ]
    for call in loaded:
        if not any(_OURS.search(module.source_of(one)) for one in _around(module, call)):
            yield Finding(CODE, "note", *module.span(call), _NEEDS)
            continue
        remedy = (
            f"{_NEEDS}: write it anew with mdstorm; the schema in a dataset's metadata is what "
            "get_schema_from_dataset_url() returns"
        )
        yield Finding(CODE, CLASS, *module.span(call), _NEEDS, remedy, holds="a pickle")
    if "dump" in module.text or ".save(" in module.text:
        yield from _dumped(module, any(_is_of_memory(call) for call in loaded))


def _dumped(module: PythonModule, is_loaded: bool) -> Iterator[Finding]:
    """Yield a finding for each dump, unless it stays in memory and the file itself loads it."""
    made = objects_made(module)
    ours = {id(call) for call, path in module.calls if path.rpartition(".")[2] in _PICKLED}
    for call in module.scopes.calls:
        if not (call.args and _is(_DUMPING, call)) or (_is_of_memory(call) and is_loaded):
            continue
        parts = [one for one in ast.walk(call.args[0]) if not _is_asked(module, one)]
        if any(id(one) in ours or made.get(_name_of(one), set()) & _PICKLED for one in parts):
            what = (
                "this pickle will name mdstorm's classes, and those written until now Petastorm's"
            )
            remedy = f"{what}: write them anew, and load them with mdstorm installed"
            yield Finding(CODE, CLASS, *module.span(call), what, remedy, holds="a pickle")


def _unpicklers(module: PythonModule) -> Iterator[Finding]:
    """Yield a finding for each ``find_class`` that compares the names of Petastorm's modules."""
    for string in module.scopes.strings:
        if not str(string.value).startswith(OLD_ROOT):
            continue
        test = module_test(module, string)
        is_inside = in_find_class(module, string) and not is_docstring(module, string)
        if is_inside or (test is not None and in_find_class(module, test.node)):
            what = "an unpickler knows Petastorm's modules by name"
            remedy = f"{what}: old pickles name these, and new ones mdstorm's; let it know both"
            yield Finding(CODE, CLASS, *module.span(string), what, remedy, holds="an unpickler")


def _is(pattern: re.Pattern[str], call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and bool(pattern.fullmatch(ast.unparse(call.func)))


def _is_dump(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _is(_DUMPING, node)


def _is_of_weights(module: PythonModule, call: ast.Call) -> bool:
    """Whether what is loaded goes into a network: tensors by their names."""
    parent = module.scopes.parents.get(call)
    return isinstance(parent, ast.Call) and last_name(parent.func) == "load_state_dict"


def _is_of_memory(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("dumps", "loads")


def _is_asked(module: PythonModule, node: ast.AST) -> bool:
    """Whether only something of an object is meant, such as ``len(converter)``, and not itself."""
    parent = module.scopes.parents.get(node)
    if isinstance(parent, ast.Attribute):
        is_self = isinstance(parent.value, ast.Name) and parent.value.id == "self"
        return not (is_self or parent.attr in _PARTS)
    return isinstance(parent, ast.Call) and parent.func is not node and _is_read(parent)


def _is_read(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("len", "str", "repr")


def _name_of(node: ast.AST) -> str:
    """Return what `objects_made` calls a variable or an attribute."""
    if isinstance(node, ast.Name):
        return node.id
    return f".{node.attr}" if isinstance(node, ast.Attribute) else ""


def _around(module: PythonModule, call: ast.Call) -> Iterator[ast.AST]:
    """Yield the call with what its result is bound to or compared with, and what it loads."""
    statement = module.statement(call)
    yield statement if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return) else call
    parent = module.scopes.parents.get(call)
    if isinstance(parent, ast.Call) and ast.unparse(parent.func) == "isinstance":
        yield parent
    if isinstance(name := call.args[0], ast.Name):
        for binding in module.bindings(name.id, module.scopes.scopes[call]):
            match module.scopes.parents.get(binding.node):
                case ast.Assign(value=value) if not _is_dump(value):
                    yield value
