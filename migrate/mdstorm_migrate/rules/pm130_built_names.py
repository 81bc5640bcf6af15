"""PM130: modules, code and commands that a program puts together or holds in strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.packaging.asked_pip import asks_pip
from mdstorm_migrate.packaging.installed_files import is_file, needs_files
from mdstorm_migrate.packaging.installing import SHOWN
from mdstorm_migrate.petastorm.configuration import (
    NAMED_ENTRY_POINT,
    OVERRIDE,
    VALUE,
    is_called,
    is_image,
)
from mdstorm_migrate.petastorm.names import OLD_ROOT, is_module, missing
from mdstorm_migrate.python.built_names import RUNS, built_names
from mdstorm_migrate.python.call_strings import function_of, is_docstring
from mdstorm_migrate.python.code_strings import is_code, is_given_to_python, is_run_by_name
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.module_tests import tables_of

CODE = "PM130"
TITLE = "Names, code and commands in strings are for you to change"
CLASS: Class = "manual"
KIND = "python"

_IMPORTED = re.compile(rf"^[ \t]*(?:from|import)[ \t]+{OLD_ROOT}\b(?!-)", re.MULTILINE)
#: What lists the distributions that are installed.
_INSTALLED = re.compile(r"pip|freeze|distribution|installed|working_set")
#: What lists those that are to be installed.
_REQUIRED = re.compile(r"\b(?:pip|\w*requirements?|\w*dependencies|install_requires)\b")
#: A class or a function as entry points have it.
_ENTRY = re.compile(rf"{OLD_ROOT}(?:\.\w+)*:[^\W\d]\w*")
#: A logger in the configuration that `logging.config.fileConfig` reads.
_LOGGER = re.compile(rf"^[ \t]*qualname[ \t]*[=:][ \t]*{OLD_ROOT}\b", re.MULTILINE)
#: Scripts that come with Petastorm, and its modules run as programs.
_COMMAND = re.compile(
    rf"(?<![\w.-]){OLD_ROOT}-[a-z-]+\.py\b|\bpython[\d.]*[ \t]+-m[ \t]+{OLD_ROOT}(?![\w-])"
    r"|(?:\bpython[\d.]*|^)[ \t]+(?:-\w+[ \t]+)*-c[ \t]*[\"'][^\n]*?"
    rf"\b(?:from|import)[ \t]+{OLD_ROOT}\b"
)
_ASKS = "this command asks for the distribution of Petastorm"
_USES = "this string is code that uses Petastorm"
_IMPORTS = "this string is code that imports Petastorm"
_TELLS = "this text tells of a command of Petastorm"
_WRITES = "this text with a command of Petastorm is written to a file"
_RUN_HERE = "the code that this file runs imports Petastorm"
_IN_PROCESS = frozenset({_USES, _IMPORTS})
#: Functions that say something, and those that look for a text in another one.
_SAYS = frozenset(
    [
        *("critical", "debug", "echo", "error", "exception", "info", "log", "print", "secho"),
        *("warn", "warning", "write"),
    ]
)
_LOOKS_FOR = frozenset(
    ["assertIn", "assertRaisesRegex", "endswith", "find", "match", "search", "startswith"]
)
#: What Python says when the library is not there.
_MISSING = re.compile(rf"No module named\W*{OLD_ROOT}\b")
#: Arguments of parsers of command lines that people read.
_HELPS = frozenset({"description", "epilog", "help", "usage"})


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each import by a name that is put together, and each string of code."""
    for name, user in built_names(module):
        message = f"{user} Petastorm by a name that is put together"
        remedy = f"{message}: see that it becomes mdstorm's"
        yield Finding(CODE, CLASS, *module.span(name), message, remedy, holds=OLD_ROOT)
    for string in module.scopes.strings:
        asks = asks_pip(module, string)
        if asks is False:
            yield Finding(CODE, "note", *module.span(string), SHOWN)
            continue
        what = _ASKS if asks and not is_docstring(module, string) else _what(module, string)
        if what is not None and what.startswith(_TELLS):
            yield Finding(CODE, "note", *module.span(string), what)
        elif what is not None:
            remedy = f"{what}: name mdstorm in it"
            found = Finding(CODE, CLASS, *module.span(string), what, remedy)
            yield _held(module, string, found) if what in _IN_PROCESS else found


def _what(module: PythonModule, string: ast.Constant) -> str | None:
    """Return what a string is, if a name, code or a command in it means the library."""
    parent = module.scopes.parents.get(string)
    if is_docstring(module, string):
        return None
    value = str(string.value)
    if value == OLD_ROOT:
        return _asked(module, string)
    if _is_setup(module) and NAMED_ENTRY_POINT.search(value):
        return None  # PM414 has these
    is_entry = _ENTRY.fullmatch(value) and not is_image(value)
    is_entry = is_entry and (
        "." in value.partition(":")[0] or missing(value.replace(":", ".")) is None
    )
    if is_entry or OVERRIDE.search(value) or any(map(_is_looked_up, VALUE.finditer(value))):
        return "this string names a part of Petastorm"
    if _LOGGER.search(value):
        return "this string configures a logger of Petastorm"
    if _is_own_name(module, string):
        return None
    call = _call_around(module, string)
    is_said = call is not None and function_of(module, call) in _SAYS
    if is_file(value) or (needs_files(value) and not is_said):
        return "this names Petastorm's installed files"
    if match := _COMMAND.search(value):
        what = "this command runs Petastorm"
        if call is not None and is_said:
            what = _WRITES if _is_of_file(call) else _TELLS
        elif isinstance(parent, ast.keyword) and parent.arg in _HELPS:
            what = "this help tells of a command of Petastorm"
        return f"{what} (`{match[0]}`)"
    if _MISSING.search(value) and _is_compared(module, string):
        return "this looks for a message that names Petastorm"
    is_run = _is_run(module, string)
    if is_run and value.startswith(f"{OLD_ROOT}.") and not _binds(module):
        return _USES
    if (
        _IMPORTED.search(value)
        and ("\n" in value or is_run or _is_handed_on(module, string))
        and is_code(module, string)
    ):
        return _IMPORTS
    return None


def _held(module: PythonModule, string: ast.Constant, found: Finding) -> Finding:
    """Return a finding that holds the file if it runs that code, or has a Python run it."""
    if _is_run(module, string):
        return replace(found, holds=OLD_ROOT)
    if _is_handed_on(module, string):
        return replace(found, holds=OLD_ROOT, because=_RUN_HERE)
    return found


def _is_own_name(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is the first of ``sys.argv``, by which a program knows its own name."""
    words = module.scopes.parents.get(string)
    if not isinstance(words, ast.List) or words.elts[0] is not string:
        return False
    match module.scopes.parents.get(words):
        case ast.Assign(targets=[target]):
            return ast.unparse(target) == "sys.argv"
        case ast.Call(args=[*before, given]) if given is words:
            return any(re.search(r"\bargv\b", ast.unparse(one)) for one in before)
    return False


def _is_run(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is code that this program runs itself."""
    parent = module.scopes.parents.get(string)
    return isinstance(parent, ast.Call) and function_of(module, parent) in RUNS


def _is_handed_on(module: PythonModule, string: ast.Constant) -> bool:
    return is_given_to_python(module, string) or is_run_by_name(module, string)


def _is_setup(module: PythonModule) -> bool:
    path = module.document.path
    return path is not None and path.name == "setup.py"


def _is_looked_up(value: re.Match[str]) -> bool:
    """Whether a value of a document in a string is a class or a function."""
    path = value["path"]
    return is_called(value["key"]) or not (is_module(path) or is_image(path))


def _asked(module: PythonModule, string: ast.Constant) -> str | None:
    """Return what is asked about the library where its name is compared."""
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.Compare) and parent.left is string:
        among = [ast.unparse(one) for one in parent.comparators]
        if among[0] in ("sys.modules", "modules"):
            return None  # PM103 has these
        if any(map(_INSTALLED.search, among)):
            return "this asks whether Petastorm is installed"
    if any(map(_REQUIRED.search, chain(*(tables_of(module, one) for one in _beside(parent))))):
        return "this asks whether Petastorm is required"
    if _is_missing_module(module, string):
        return "this asks whether Petastorm is the module that is missing"
    return None


def _beside(node: ast.AST | None) -> list[ast.expr]:
    """Return what a string is compared with, in a comparison or by ``startswith``."""
    match node:
        case ast.Call(func=ast.Attribute(attr="startswith", value=value)):
            return [value]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
    return []


def _is_missing_module(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is compared where an import failed, with what the error says."""
    is_compared = False
    for parent in module.ancestors(string):
        is_compared = is_compared or isinstance(parent, ast.Compare)
        if isinstance(parent, ast.ExceptHandler):
            caught = ast.unparse(parent.type) if parent.type else ""
            return is_compared and ("ImportError" in caught or "ModuleNotFoundError" in caught)
    return False


def _is_of_file(call: ast.Call) -> bool:
    """Whether a call writes to a file, and not to what people see."""
    files = [one.value for one in call.keywords if one.arg == "file"]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "write":
        files.append(call.func.value)
    return any(re.search(r"std(?:err|out)", ast.unparse(one)) is None for one in files)


def _call_around(module: PythonModule, string: ast.Constant) -> ast.Call | None:
    """Return the call that is given the text that a string is put together in."""
    child: ast.AST = string
    for parent in module.ancestors(string):
        if isinstance(parent, ast.Call) and child in parent.args:
            return parent
        if not isinstance(parent, ast.JoinedStr | ast.BinOp | ast.FormattedValue):
            break
        child = parent
    return None


def _is_compared(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a text is looked for in another one."""
    match module.scopes.parents.get(string):
        case ast.Compare() | ast.keyword(arg="match"):
            return True
        case ast.Call() as call:
            return function_of(module, call) in _LOOKS_FOR
    return False


def _binds(module: PythonModule) -> bool:
    """Whether an import of the file binds the name of the library."""
    return any(
        (alias.asname or alias.name.partition(".")[0]) == OLD_ROOT
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    )
