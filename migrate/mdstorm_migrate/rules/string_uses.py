"""What takes a string with a dotted name of Petastorm, such as code that imports what it names."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from typing import Literal, TypeAlias

from mdstorm_migrate.packaging.configuration import TARGETS
from mdstorm_migrate.packaging.strings import is_module_run
from mdstorm_migrate.petastorm import names
from mdstorm_migrate.python.calls import (
    IMPORTING,
    PATCHING,
    RESOLVING,
    call_with_first,
    called,
    function_of,
    is_docstring,
    is_target,
    resolved_as,
    words_before,
)
from mdstorm_migrate.python.import_actions import is_fallback
from mdstorm_migrate.python.links import finders_of, finds, is_finder, resolves
from mdstorm_migrate.python.module import PythonModule, last_name, string_value
from mdstorm_migrate.python.reads import reads_bound, reads_of_value
from mdstorm_migrate.python.scopes import Comprehension
from mdstorm_migrate.rules import loggers, versions

#: An import in a program.
IMPORT = re.compile(rf"(?:^|;)[ \t]*(?:from|import)[ \t]+{names.OLD_ROOT}\b", re.MULTILINE)
#: A prefix of a dotted name that code assembles, as in ``"petastorm." + name``.
_PART = re.compile(rf"{names.OLD_ROOT}\.(?:[\w.]*(?:\.|[%{{][\w.(){{}}]*))?")

#: Code that fills `sys.modules` with names that are given elsewhere, such as a list of mocks.
_FILLING = re.compile(
    r"""\bsys\.modules(?:\[(?!["'\s]|__name__\])[^\]\n]*\]\s*=(?!=)
    |(?:\.(?:setdefault|update)\(|["']?\s*,)\s*(?!["'\s]|\{\s*["'}]))""",
    re.VERBOSE,
)
#: Code that finds loaded modules, compares the module of an object, or replaces a part of a module,
#: by names that are assembled or given elsewhere, except by the name of the file itself or of
#: another object's module.
_FINDING = re.compile(
    r"""(?:\bsys\.modules(?:\[|\.(?:get|pop|setdefault|update)\(|["']?\s*,)
    |\b__module__(?:\s*(?:[!=]=|in\b|not\s+in\b)|\.startswith\()
    |\bpatch\(\s*(?:target\s*=)?
    |\.setattr\((?=[^,\n]*,[^,\n]+\)))\s*[({\[]*\s*
    (?:(?!["'\s\[\](){}])(?!__name__\b|[\w.]+\.(?:__module__|__name__|name)\b)
    |(["'])[^"'\n]*\1\s*(?:[+%.]|if\b))""",
    re.VERBOSE,
)
#: Methods that compare strings.
_COMPARING = frozenset({"assertEqual", "assertIn", "assertNotEqual", "assertNotIn", "startswith"})
#: How code reaches the loaded modules.
_MODULES = ("sys.modules", "'sys.modules'", "__import__('sys').modules")
#: Errors that name the module of a failed import.
_FAILED_IMPORTS = frozenset({"ImportError", "ModuleNotFoundError"})
#: Code that replaces how modules are imported, and may compare their names.
_REPLACES_IMPORT = re.compile(r"""\b(?:__import__["']?\s*[,=](?!=)|meta_path\b)""")
#: A class that restricts what a pickle may contain.
FIND_CLASS = re.compile(r"\bdef find_class\b")
#: The Sphinx setting that lists modules to mock.
_MOCKED = "autodoc_mock_imports"
#: A value of ``filterwarnings(module=…)``, itself a regular expression, that matches Petastorm's
#: modules.
_MODULE_PATTERN = re.compile(rf"{names.OLD_ROOT}(?:\W.*)?")
#: The library's name among other words, as in ``"torch petastorm".split()``.
_WORD = re.compile(rf"(?<![^\s,;]){names.OLD_ROOT}(?![^\s,;])")
#: Methods that return the items of a table.
_ITEMS = frozenset({"items", "keys", "values"})
#: Functions that find the modules of a package, and put a prefix before their names.
_WALKING = frozenset({"iter_modules", "walk_packages"})

#: What takes a string: code that resolves names, a function that finds loggers, a filter of
#: warnings, a function that finds an installed distribution, perhaps among other code, a comparison
#: with what configuration names, a function that finds the classes in a pickle, or perhaps code
#: that resolves names. Or the string is code itself.
StringUse: TypeAlias = Literal[
    "resolved", "logger", "filter", "version", "asked", "configured", "pickle", "unknown", "code"
]


def use_of(module: PythonModule, string: ast.Constant) -> StringUse | None:
    """Return what takes a string, or None if it is data."""
    value = str(string.value)
    if value == f"{names.OLD_ROOT}." and _is_prefix(module, string):
        return "resolved"
    if FIND_CLASS.search(module.text) and re.fullmatch(rf"{names.PATH.pattern}\.?", value):
        return "pickle" if resolved_as(module, string) is None else "resolved"
    if value.endswith(".") and _is_of_module(module, string):
        return "resolved"
    if _PART.fullmatch(value) and _resolves_parts(module.text):
        return "unknown"
    if _is_filter(module, string):
        return "filter"
    if _is_code(module, string):
        return "code"
    if _WORD.search(value) and value != names.OLD_ROOT and _is_given_to_finder(module, string):
        return "unknown"
    is_filling = _FILLING.search(module.text) is not None
    if not names.PATH.fullmatch(value) or (is_fallback(module, string) and not is_filling):
        return None
    if loggers.is_logger(module, string):
        return "logger"
    call = versions.lookup_of(module, string)
    if call is not None and versions.is_only_looked_up(module, string):
        return "version"
    if _is_resolved(module, string):
        return "resolved"
    if _is_configured(module, string):
        return "configured"
    if _may_be_resolved(module, string):
        return "unknown"
    return None if call is None else "asked"


def has_string(module: PythonModule, text: str) -> bool:
    """Whether code has a string with this text."""
    return any(one.value == text for one in module.scopes.nodes[ast.Constant])


def _is_resolved(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is resolved as the name of a module or of something in it.

    This is done by functions that import or patch, `sys.modules`, ``_target_``, ``python -m`` and
    Sphinx. A comparison with a caught error or with the module of an object also counts.
    """
    if resolved_as(module, string) is not None or is_module_run(module, string):
        return True
    if _is_of_module(module, string):
        return True
    parent = module.scopes.parents.get(string)
    match parent:
        case ast.List():
            of = module.scopes.parents.get(parent)
            is_named = isinstance(of, ast.Assign | ast.AnnAssign)
            reads = reads_bound(module, of, parent) if of is not None and is_named else ()
            statements = filter(None, (of, *map(module.statement, reads)))
            return any(ast.unparse(one).startswith(_MOCKED) for one in statements)
        case ast.Dict(values=values) if string in values:
            return False
        case ast.Dict():
            parent = module.scopes.parents.get(parent)
    return parent is not None and uses_sys_modules(parent)


def _is_of_module(module: PythonModule, string: ast.AST) -> bool:
    """Whether a string is compared with a caught error, or with the module of an object."""
    compared = comparison_of(module, string)
    return compared is not None and _involves_library(module, compared)


def _is_code(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a program that imports Petastorm: several statements, or after ``-c``."""
    code = str(string.value)
    if IMPORT.search(code) is None or is_docstring(module, string):
        return False
    try:
        statements = ast.parse(textwrap.dedent(code)).body
    except (SyntaxError, ValueError):
        return False
    before = words_before(module, string)
    return len(statements) > 1 or (bool(before) and string_value(before[-1]) == "-c")


def _is_prefix(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is the prefix of the modules that `pkgutil` finds in the package."""
    parent = module.scopes.parents.get(string)
    call = module.scopes.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    return isinstance(call, ast.Call) and function_of(module, call) in _WALKING


def _involves_library(module: PythonModule, comparison: ast.expr) -> bool:
    """Whether the comparison involves a caught error, or the module that defines an object."""
    read = [one for one in ast.walk(comparison) if isinstance(one, ast.Name)]
    if caught_import(module, comparison) is not None:
        return True
    values = (value for name in read for value in values_of(module, name))
    return any(map(_names_module, (comparison, *values)))


def _is_configured(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is compared with the object that configuration names."""
    value = str(string.value)
    if not any(key in module.text for key in TARGETS) or names.missing(value):
        return False
    if has_string(module, names.renamed(value)):  # it allows both
        return False
    compared = comparison_of(module, string)
    read = ast.walk(compared) if compared is not None else ()
    values = [
        value for one in read if isinstance(one, ast.Name) for value in values_of(module, one)
    ]
    return any(_names_target(one) for one in (compared, *values) if one is not None)


def _names_target(value: ast.expr) -> bool:
    text = ast.unparse(value)
    return any(re.search(rf"\b{key}\b", text) for key in TARGETS)


def caught_import(module: PythonModule, comparison: ast.expr) -> ast.ExceptHandler | None:
    """Return the handler of the failed import that a comparison involves, if it does."""
    read = {one.id for one in ast.walk(comparison) if isinstance(one, ast.Name)}
    for above in module.ancestors(comparison):
        if isinstance(above, ast.ExceptHandler) and above.name in read and above.type:
            caught = {last_name(one) for one in getattr(above.type, "elts", [above.type])}
            return None if caught.isdisjoint(_FAILED_IMPORTS) else above
    return None


def values_of(module: PythonModule, name: ast.Name) -> Iterator[ast.expr]:
    """Yield what a variable is assigned, or iterates over."""
    for binding in module.bindings(name.id, module.scope_of(name)):
        match module.scopes.parents.get(binding.node):
            case ast.Assign(value=value):
                yield value
            case ast.For(iter=value) | ast.comprehension(iter=value):
                yield value
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp() as inner:
                yield from (one.iter for one in inner.generators if one.target is binding.node)


def _names_module(value: ast.expr) -> bool:
    """Whether an expression has the name of the module of an object, or those of all modules."""
    text = ast.unparse(value)
    return ".__module__" in text or "sys.modules" in text or "getmodule(" in text


def uses_sys_modules(node: ast.AST) -> bool:
    """Whether an expression reads or changes `sys.modules`."""
    others: list[ast.expr] = []
    match node:
        case ast.Subscript(value=value):
            others = [value]
        case ast.Compare(comparators=comparators):
            others = comparators
        case ast.Call(func=ast.Attribute(value=owner), args=args):
            others = [owner, *args]
    return any(ast.unparse(one) in _MODULES for one in others)


def _is_filter(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a pattern for the modules whose warnings are filtered."""
    word = module.scopes.parents.get(string)
    if not (isinstance(word, ast.keyword) and word.arg == "module"):
        return False
    call = module.scopes.parents.get(word)
    is_pattern = _MODULE_PATTERN.fullmatch(str(string.value)) is not None
    return is_pattern and isinstance(call, ast.Call) and called(call) == "filterwarnings"


def _may_be_resolved(module: PythonModule, string: ast.Constant) -> bool:
    """Whether code in the file may resolve a name even though no call with it is visible.

    The library's name alone is usually data, unless it is assigned to a variable, or passed to a
    function or class of this file.
    """
    parent = module.scopes.parents.get(string)
    call = module.scopes.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if isinstance(call, ast.Call) and function_of(module, call) in IMPORTING:
        return True
    if names.missing(str(string.value)) is not None:
        return False
    is_listed = isinstance(parent, ast.Dict | ast.List | ast.Set | ast.Tuple)
    if is_listed and _FILLING.search(module.text):
        return True
    if _REPLACES_IMPORT.search(module.text) is not None and comparison_of(module, string):
        return True
    if any(_takes_name(module, read) for read in _reads(module, string)):
        return True
    if _is_given_to_finder(module, string):
        return True
    is_root = string.value == names.OLD_ROOT
    is_part = not is_root or _is_dotted(module, parent)
    if not (_resolves_parts if is_part else resolves)(module.text):
        # Another file may look up what a table has, as it may of YAML.
        return isinstance(parent, ast.Dict) and string in parent.values and not is_root
    is_passed = isinstance(call, ast.Call) and module.defines(call.func, module.scopes.scopes[call])
    return is_part or is_passed or isinstance(parent, ast.Assign | ast.AnnAssign)


def _is_given_to_finder(module: PythonModule, string: ast.Constant) -> bool:
    """Whether code that finds modules by their names may get a string, also in a collection.

    Names in a comparison, the choices of an option, and the keys of a table are data.
    """
    parents = module.scopes.parents
    node: ast.AST = string
    inner: ast.AST = string
    match parents[string]:
        case ast.Attribute(attr="split") as split:
            node = parents[split]
    while isinstance(owner := parents[node], ast.Dict | ast.List | ast.Set | ast.Tuple):
        inner, node = node, owner
    is_assigned = isinstance(owner, ast.Assign | ast.AnnAssign)
    if node is not string and isinstance(owner, ast.Assign) and module.given.listed:
        targets = {last_name(one) for one in owner.targets}
        if module.given.listed & {"*", *targets}:
            return True
    for use in (node, *(reads_bound(module, owner, node) if is_assigned else ())):
        method = ""
        if isinstance(above := parents[use], ast.Attribute) and above.attr in _ITEMS:
            method, use = above.attr, parents[above]
        if isinstance(above := parents[use], ast.Starred | ast.keyword):
            use = above
        taker = parents[use]
        if isinstance(taker, ast.Call) and use is not taker.func and is_finder(module, taker.func):
            return True
        if isinstance(node, ast.Dict):
            reads = _reads_of_item(module, taker, use, method, is_key=inner in node.keys)
            calls = (call_with_first(module, one) for one in reads)
            if any(finds(module, call.func) for call in calls if call is not None):
                return True
        elif node is not string and _takes_items(taker, use) and finders_of(module):
            return versions.lookup_of(module, string) is None  # which has its own finding
    return False


def _reads_of_item(
    module: PythonModule, loop: ast.AST, table: ast.AST, method: str, *, is_key: bool
) -> Iterator[ast.AST]:
    """Yield the reads of what a loop over a table binds to its keys, or to its values."""
    if method == "items":
        yield from reads_bound(module, loop, table, 0 if is_key else 1)
    elif is_key == (method != "values"):
        yield from reads_bound(module, loop, table)


def _takes_items(owner: ast.AST | None, use: ast.AST) -> bool:
    """Whether a loop, or a function other than one that defines choices, gets a collection."""
    is_choice = isinstance(use, ast.keyword) and use.arg == "choices"
    return isinstance(owner, ast.For | Comprehension | ast.Call) and not is_choice


def _resolves_parts(text: str) -> bool:
    """Whether code may resolve names of modules in a package."""
    return resolves(text) or _FINDING.search(text) is not None


def _is_dotted(module: PythonModule, words: ast.AST | None) -> bool:
    """Whether code joins words with dots, as in ``".".join(["petastorm", name])``."""
    match module.scopes.parents.get(words) if words is not None else None:
        case ast.Call(func=ast.Attribute(ast.Constant("."), "join")):
            return True
    return False


def _reads(module: PythonModule, string: ast.Constant) -> Iterator[ast.AST]:
    """Yield the reads of the variable that has a string, or what joins one of them to others.

    For the value of a table, they are what is read from the table.
    """
    table = module.scopes.parents.get(string)
    if isinstance(table, ast.Dict) and string in table.values:
        for read in reads_of_value(module, table):
            above = module.scopes.parents.get(read)
            if isinstance(above, ast.Attribute) and above.attr == "get":
                above = module.scopes.parents.get(above)
            if isinstance(above, ast.Subscript | ast.Call):
                yield above
    for read in reads_of_value(module, string):
        joined = (ast.BinOp, ast.FormattedValue, ast.JoinedStr)
        while isinstance(above := module.scopes.parents.get(read), joined):
            read = above
        yield read


def _takes_name(module: PythonModule, read: ast.AST) -> bool:
    """Whether code resolves the name that a variable has."""
    call = call_with_first(module, read)
    function, above = function_of(module, call), module.scopes.parents.get(read)
    if function in RESOLVING or function in PATCHING or is_target(module, read):
        return True
    if isinstance(above, ast.Dict) and read in above.keys:
        above = module.scopes.parents.get(above)
    return above is not None and (uses_sys_modules(above) or _is_of_module(module, read))


def comparison_of(module: PythonModule, string: ast.AST) -> ast.expr | None:
    """Return what compares a string, also as one of several or as a prefix."""
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.List | ast.Set | ast.Tuple):
        parent = module.scopes.parents.get(parent)
    if isinstance(parent, ast.Call) and called(parent) in _COMPARING:
        return parent
    return parent if isinstance(parent, ast.Compare) else None
