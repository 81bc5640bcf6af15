"""Strings that name modules and parts of them, and the functions that resolve them."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.petastorm.names import ENTRIES, OLD_ROOT, VERSION, missing
from mdstorm_migrate.python.calls import IMPORTING, call_with_first, called, function_of
from mdstorm_migrate.python.imports import imported_names, lacking
from mdstorm_migrate.python.module import PythonModule, string_value

#: Functions that replace what a dotted path names, and methods that replace a part of an object.
PATCHES = frozenset({"delattr", "multiple", "patch", "setattr"})
_REPLACING = frozenset({"object", "setattr", "delattr", "spy", "stub"})
#: The setting of Sphinx that lists modules to replace.
_MOCKED = "autodoc_mock_imports"
_BY_NAME = re.compile(rf"\b(?:patch|monkeypatch|mocker|sys\.modules|setitem|{_MOCKED})\b")
#: Calls and definitions of functions that resolve names, but for calls with a literal: the names
#: stand elsewhere, as in a table or in a file of configuration, or are put together.
RESOLVES = re.compile(
    r"\b(?:import_module|__import__|import_string|locate|resolve_name|instantiate|get_class"
    r"|get_method|get_object|load_class|load_object|LightningCLI|auto_cli|CLI)"
    r"\(\s*(?:(?![\s\"'])|([\"'])[^\"'\n]*\1\s*[+%.])"
)
#: Functions that find an installed distribution by its name.
_DISTRIBUTIONS = frozenset({"distribution", "get_distribution"})
#: A regular expression for the library's modules.
_OF_MODULES = re.compile(rf"{OLD_ROOT}(?:\W.*)?")
_LOGGERS = frozenset({"getLogger", "get_logger"})
#: Functions that return the module that their first argument names.
_RETURNING = frozenset({"import_module", "importorskip"})
#: Methods of the same name in both libraries that programs call.
_METHOD = re.compile(
    r"petastorm\.(?:pytorch\.\w*DataLoader\.__(?:enter|exit|init|iter)__|reader\.Reader\.(?:join|stop)"
    r"|spark(?:\.spark_dataset_converter)?\.SparkDatasetConverter"
    r"\.(?:delete|make_tf_dataset|make_torch_dataloader))"
)


def is_resolved(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string names a module, or a part of one, for what gets it.

    That is a function that resolves it, `sys.modules`, ``_target_``, ``python -m``, Sphinx, or a
    comparison with what an error says that was caught.
    """
    if function_of(module, call_with_first(module, string)) in IMPORTING | PATCHES:
        return True
    parent = module.scopes.parents.get(string)
    match parent:
        case ast.keyword(arg="_target_") | ast.AnnAssign(target=ast.Name("_target_")):
            return True
        case ast.Compare() if _is_of_error(module, parent):
            return True
        case ast.List(elts=words):
            of = module.scopes.parents.get(parent)
            is_mocked = isinstance(of, ast.stmt) and ast.unparse(of).startswith(_MOCKED)
            return is_mocked or string_value(words[words.index(string) - 1]) == "-m"
        case ast.Dict(keys=keys, values=values) if string in values:
            return string_value(keys[values.index(string)]) == "_target_"
        case ast.Dict():
            parent = module.scopes.parents.get(parent)
    return parent is not None and _has_modules(parent)


def _is_of_error(module: PythonModule, comparison: ast.Compare) -> bool:
    """Whether something is compared with an error, in the block that has caught it."""
    above = [one for one in module.ancestors(comparison) if isinstance(one, ast.ExceptHandler)]
    names = [one.id for one in ast.walk(comparison) if isinstance(one, ast.Name)]
    return any(one.name in names for one in above)


def _has_modules(node: ast.AST) -> bool:
    """Whether `sys.modules` is what an expression asks, changes or reads."""
    others: list[ast.expr] = []
    match node:
        case ast.Subscript(value=value):
            others = [value]
        case ast.Compare(comparators=comparators):
            others = comparators
        case ast.Call(func=ast.Attribute(value=owner), args=args):
            others = [owner, *args]
    return any(ast.unparse(one) in ("sys.modules", "'sys.modules'") for one in others)


def is_logger(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is the name of a logger, also as a key of the loggers of ``dictConfig``."""
    if function_of(module, call_with_first(module, string)) in _LOGGERS:
        return True
    table = module.scopes.parents.get(string)
    if not isinstance(table, ast.Dict) or string not in table.keys:
        return False
    match module.scopes.parents.get(table):
        case ast.Dict(keys=keys, values=values):
            return string_value(keys[values.index(table)]) == "loggers"
    return False


def is_filter(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a pattern for the modules whose warnings are filtered."""
    word = module.scopes.parents.get(string)
    call = module.scopes.parents.get(word) if isinstance(word, ast.keyword) else None
    is_pattern = _OF_MODULES.fullmatch(str(string.value)) is not None
    return is_pattern and isinstance(call, ast.Call) and called(call) == "filterwarnings"


def asking_version(module: PythonModule, string: ast.Constant) -> ast.Call | None:
    """Return the call that asks for the installed distribution of a name, or for its version."""
    call = call_with_first(module, string)
    function = function_of(module, call)
    is_asking = function in _DISTRIBUTIONS or (function == "version" and "metadata" in module.text)
    return call if string.value == OLD_ROOT and is_asking else None


def lacking_of_module(module: PythonModule, string: ast.Constant, value: str) -> str | None:
    """Return what mdstorm lacks of all that is used of a module that is imported by its name."""
    call = call_with_first(module, string)
    function = function_of(module, call)
    if call is None or function not in ("__import__", *_RETURNING):
        return None
    if function == "importorskip" and len(call.args) + len(call.keywords) > 1:
        return VERSION
    if function == "__import__" and len(call.args) + len(call.keywords) < 2:
        value = OLD_ROOT  # it returns the root of what it imports
    nodes: list[ast.expr] = [call]
    match module.scopes.parents.get(call):
        case ast.Assign(targets=[ast.Name(name)]) | ast.NamedExpr(target=ast.Name(name)):
            home = module.scopes.scopes[call].home(name)
            references = module.scopes.references.get(name, ())
            nodes = [one.node for one in references if home and one.scope.may_see(name, home)]
    found = (lacking(module, *module.chain(one, value)) for one in nodes)
    return next(filter(None, found), None)


def resolves(module: PythonModule) -> bool:
    """Whether code calls, or defines, what resolves names that stand elsewhere."""
    return RESOLVES.search(module.text) is not None


def may_be_resolved(module: PythonModule, string: ast.Constant) -> bool:
    """Whether code of the file may resolve a name that it is not seen to be given.

    The name of the library alone is mostly data; where it is a default or has a name, it is not.
    """
    parent = module.scopes.parents.get(string)
    call = module.scopes.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if isinstance(call, ast.Call) and function_of(module, call) in IMPORTING:
        return True
    if not resolves(module) or missing(str(string.value)) is not None:
        return False
    return string.value != OLD_ROOT or isinstance(parent, ast.Assign | ast.AnnAssign)


def reaches_callers(path: str) -> bool:
    """Whether a mock of a name is for programs, which find it there with both libraries.

    What the package itself offers is one: Petastorm's own code takes that from its modules.
    """
    owner, _, name = path.rpartition(".")
    is_of_package = owner == OLD_ROOT and missing(path) is None
    return name in ENTRIES or is_of_package or _METHOD.fullmatch(path) is not None


def is_assigned(node: ast.expr) -> bool:
    """Whether an attribute is assigned or deleted, not read."""
    return isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)


def _is_mocked(call: ast.AST | None, target: ast.expr) -> bool:
    """Whether a call replaces a part of `target`."""
    match call:
        case ast.Call(func=ast.Attribute(attr=attr), args=[first, _, *_]):
            return attr in _REPLACING and first is target
    return False


def patches(module: PythonModule) -> bool:
    """Whether a mock or an assignment replaces a part of what is imported from Petastorm."""
    return any(
        is_assigned(use.node) or _is_mocked(module.scopes.parents.get(use.node), use.node)
        for name in imported_names(module)
        for use in name.all_uses
    )


def patches_by_name(module: PythonModule) -> bool:
    """Whether strings that name modules may do so to replace parts of them."""
    return _BY_NAME.search(module.text) is not None
