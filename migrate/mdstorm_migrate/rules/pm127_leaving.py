"""PM127: Petastorm objects that are pickled or passed to code that still uses Petastorm."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.calls import library_of
from mdstorm_migrate.python.module import PythonModule, last_name, string_value
from mdstorm_migrate.python.scopes import Binding
from mdstorm_migrate.python.shadow import is_in_project
from mdstorm_migrate.rules.rule import rule

CODE = "PM127"

_GIVEN = "it would get mdstorm's objects"
_EXAMPLE = "its schemas and datasets are Petastorm's"
_PICKLE = "a pickle names the library that wrote it"


@rule(CODE, "Objects passed to code that still uses Petastorm", "manual", "python")
def check(module: PythonModule) -> Iterable[Finding]:
    """Yield findings for objects passed on or pickled, and notes on packages that use Petastorm."""
    given = list(_passed_on(module))
    for binding, name in _companions(module):
        if name not in {root for _, root in given}:
            what = f"`{name}` seems to be built on Petastorm, and may require it"
            yield Finding(CODE, "note", *module.span(binding.node), what)
    for call, name in given:
        what = f"`{name}` is used with Petastorm here, and may import it itself"
        advice = "check that it accepts mdstorm's objects, or keep the file on Petastorm"
        yield _finding(module, call.func, what, advice, name, _GIVEN)
    if OLD_ROOT not in module.imported_roots:
        return
    for binding, name in _examples(module):
        what = f"`{name}` comes with Petastorm's wheel"
        advice = "copy what you need, and import from mdstorm in the copy"
        yield _finding(module, binding.node, what, advice, name, _EXAMPLE)
    for call, does in _pickles(module):
        what = f"this {does} a pickle of Petastorm's objects"
        advice = (
            "write it again with mdstorm; the schema of a dataset is what "
            "get_schema_from_dataset_url() returns"
        )
        yield _finding(module, call, what, advice, "a pickle", _PICKLE)


def _finding(
    module: PythonModule, node: ast.AST, what: str, advice: str, holds: str, because: str
) -> Finding:
    remedy = f"{what}: {advice}"
    return Finding(CODE, "manual", *module.span(node), what, remedy, holds=holds, because=because)


#: Names of packages that are made for Petastorm.
_COMPANION = re.compile(rf"{OLD_ROOT}[_-][A-Za-z][\w-]*")
#: Packages that import Petastorm themselves: Hopsworks' feature store, Horovod's data loaders.
_IMPORTERS = re.compile(r"(?:hops|hsfs|horovod\.spark\.data_loaders)(?:\..*)?")
#: Modules in the `examples` package, which Petastorm's wheel also installs.
_EXAMPLES = re.compile(r"examples\.(?:hello_world|imagenet|mnist|spark_dataset_converter)\b.*")
#: Arguments that another library passes on to Petastorm, and arguments that select a format.
_FOR_PETASTORM = re.compile(rf"{OLD_ROOT}_(?:kw)?args")
_FORMAT = re.compile(r"(?:\w+_)?format")

_LIBRARIES = r"(?:pickle|cloudpickle|dill|joblib|cPickle|pkl|torch)"
_LOADING = re.compile(rf"{_LIBRARIES}\.loads?")
_DUMPING = re.compile(rf"{_LIBRARIES}\.(?:dumps?|save)")
#: Usual names of the Petastorm objects that people pickle.
_OBJECT_NAMES = re.compile(r"schema|ROWGROUPS_INDEX|petastorm|converter|ngram", re.IGNORECASE)
#: Classes and functions that make the Petastorm objects that people pickle.
_PICKLED = frozenset(
    [
        *("CompressedImageCodec", "CompressedNdarrayCodec", "NdarrayCodec", "ScalarCodec"),
        *("NGram", "TransformSpec", "Unischema", "UnischemaField", "get_schema"),
        *("get_schema_from_dataset_url", "infer_or_load_unischema", "make_spark_converter"),
        "transform_schema",
    ]
)


def _companions(module: PythonModule) -> Iterator[tuple[Binding, str]]:
    """Yield the first import of each package made for Petastorm, and the package's name."""
    seen: set[str] = set()
    for binding in module.scopes.bindings:
        root = binding.imported_module.partition(".")[0]
        if _COMPANION.fullmatch(root) and root not in seen:
            seen.add(root)
            if not is_in_project(module.document.path, root):
                yield binding, root


def _examples(module: PythonModule) -> Iterator[tuple[Binding, str]]:
    """Yield imports from the `examples` package in Petastorm's wheel, and the imported names."""
    for binding in module.scopes.bindings:
        name = binding.imported_module
        if _EXAMPLES.fullmatch(name) and not is_in_project(
            module.document.path, *name.split(".")[:2]
        ):
            yield binding, name


def _passed_on(module: PythonModule) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls that pass a Petastorm object to another package, and the package's name."""
    ours = {call for call, _ in module.calls}
    for call in module.scopes.calls:
        name = None if call in ours else library_of(module, call.func)
        root = (name or OLD_ROOT).partition(".")[0]
        if name is None or root == OLD_ROOT:
            continue
        is_theirs = _IMPORTERS.fullmatch(name) or _COMPANION.fullmatch(root) or _asks_for(call)
        is_own = not is_theirs or is_in_project(module.document.path, root)
        if not is_own and _gets_object(module, call):
            yield call, root


def _asks_for(call: ast.Call) -> bool:
    """Whether an argument in a call is meant for Petastorm, or selects Petastorm."""
    return any(
        _FOR_PETASTORM.fullmatch(one.arg or "")
        or (_FORMAT.fullmatch(one.arg or "") and string_value(one.value) == OLD_ROOT)
        for one in call.keywords
    )


def _gets_object(module: PythonModule, call: ast.Call) -> bool:
    """Whether an argument in a call is or contains a part of Petastorm, or one of its objects."""
    given = [*call.args, *(one.value for one in call.keywords)]
    for node in (node for one in given for node in ast.walk(one)):
        if isinstance(node, ast.Name) and module.resolve(node, module.scope_of(node)):
            return True
        if module.makers(node):
            return True
    return False


def _pickles(module: PythonModule) -> Iterator[tuple[ast.Call, str]]:
    """Yield calls that load or write pickles of Petastorm's objects, each with a verb for messages.

    Objects dumped to memory and loaded in the same file do not count. The names around a load
    determine whether it returns such an object.
    """
    calls = [call for call in module.scopes.calls if call.args]
    loading = [call for call in calls if _LOADING.fullmatch(ast.unparse(call.func))]
    for call in loading:
        if any(_OBJECT_NAMES.search(ast.unparse(one)) for one in _context(module, call)):
            yield call, "loads"
    is_of_memory = any(last_name(call.func) == "loads" for call in loading)
    for call in calls:
        if _DUMPING.fullmatch(ast.unparse(call.func)):
            is_own = last_name(call.func) == "dumps" and is_of_memory
            if not is_own and module.makers(call.args[0]) & _PICKLED:
                yield call, "writes"


def _context(module: PythonModule, call: ast.Call) -> Iterator[ast.AST]:
    """Yield the call, or the statement that uses it, and an ``isinstance`` test around the call."""
    statement = module.statement(call)
    is_whole = isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return)
    yield statement if is_whole and "load_state_dict" not in ast.unparse(statement) else call
    parent = module.scopes.parents.get(call)
    if isinstance(parent, ast.Call) and ast.unparse(parent.func) == "isinstance":
        yield parent
