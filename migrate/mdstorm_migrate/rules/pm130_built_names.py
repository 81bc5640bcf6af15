"""PM130: modules, code and commands that a program puts together or holds in strings."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.packaging.installed_files import installed_files
from mdstorm_migrate.petastorm.configuration import (
    NAMED_ENTRY_POINT,
    OVERRIDE,
    VALUE,
    is_called,
    is_image,
)
from mdstorm_migrate.petastorm.names import OLD_ROOT, is_module, missing
from mdstorm_migrate.python.call_strings import (
    IMPORTING,
    before_in_list,
    function_of,
    is_docstring,
)
from mdstorm_migrate.python.formed import formed_text
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.tables import keys_of_sys_modules

CODE = "PM130"
TITLE = "Names, code and commands in strings are for you to change"
CLASS: Class = "manual"
KIND = "python"

#: Functions that run code.
_RUNS = frozenset({"compile", "eval", "exec", "run_cell"})
_BEGINS = re.compile(rf"{OLD_ROOT}(?:\.|\Z)")
_IMPORTED = re.compile(rf"^[ \t]*(?:from|import)[ \t]+{OLD_ROOT}\b(?!-)", re.MULTILINE)
#: Functions that add an option to a command line: of argparse, Click, Typer and absl.
_OPTION = re.compile(r"^(?:add_argument|argument|option|add_option|DEFINE_(?:enum|string))$")
#: What lists the distributions that are installed.
_INSTALLED = re.compile(r"pip|freeze|distribution|installed|working_set")
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
_USES = "this string is code that uses Petastorm"
_IMPORTS = "this string is code that imports Petastorm"
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
#: A place in a text that ``%`` or ``format`` fills.
_PLACE = re.compile(r"%(?:\(\w+\))?[rsdf]|\{\w*(?:![rsa])?\}")
#: Arguments of parsers of command lines that people read.
_TELLS = frozenset({"description", "epilog", "help", "usage"})


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each import by a name that is put together, and each string of code."""
    if any(_BEGINS.match(str(string.value)) for string in module.scopes.strings):
        yield from _built(module)
    for string in module.scopes.strings:
        what = _what(module, string)
        if what is not None:
            holds = OLD_ROOT if what in _IN_PROCESS and _is_run(module, string) else None
            remedy = f"{what}: name mdstorm in it"
            yield Finding(CODE, CLASS, *module.span(string), what, remedy, holds=holds)


def _built(module: PythonModule) -> Iterator[Finding]:
    """Yield imports whose name is no string, but made of one that begins with the library."""
    named = _named_constants(module.tree)
    for name, user in _names(module):
        if string_value(name) is not None:
            continue
        parts = [one.id for one in ast.walk(name) if isinstance(one, ast.Name)]
        parts += [one.attr for one in ast.walk(name) if isinstance(one, ast.Attribute)]
        if _begins(name) or any(part in named for part in parts):
            what = f"{user} Petastorm by a name that is put together"
            remedy = f"{what}: see that it becomes mdstorm's"
            yield Finding(CODE, CLASS, *module.span(name), what, remedy, holds=OLD_ROOT)


def _imports(module: PythonModule, call: ast.Call, code: ast.expr) -> bool:
    """Whether a call runs code that is put together, and has an import in it."""
    if function_of(module, call) not in _RUNS:
        return False
    given = ast.unparse(code)
    if isinstance(code, ast.Name):
        assigned = (
            node.value
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Assign)
            and any(isinstance(one, ast.Name) and one.id == code.id for one in node.targets)
        )
        given = " ".join(map(ast.unparse, assigned))
    return re.search(r"\b(?:from|import)\b", given) is not None


def _names(module: PythonModule) -> Iterator[tuple[ast.expr, str]]:
    """Yield the names of modules, or the code, that something imports or keeps, and what does."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and node.args:
            name = function_of(module, node)
            if name in IMPORTING or _imports(module, node, node.args[0]):
                yield node.args[0], f"{name}() imports"
        if isinstance(node, ast.Call | ast.Compare | ast.Subscript):
            for key in keys_of_sys_modules(node):
                if key is not None:
                    yield key, "`sys.modules` has"


def _named_constants(tree: ast.AST) -> set[str]:
    """Return the names that are given a string of the library somewhere, or have it by default."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _OPTION.search(last_name(node.func)):
            found.update(_of_option(node))
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and _begins(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(one.id for one in targets if isinstance(one, ast.Name))
        elif isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            defaults = [*zip(plain[len(plain) - len(node.defaults) :], node.defaults, strict=True)]
            defaults += [
                (a, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d
            ]
            found.update(argument.arg for argument, default in defaults if _begins(default))
    return found


def _of_option(call: ast.Call) -> Iterator[str]:
    """Yield the names of an option of a command line whose value may be the library's name."""
    given = {one.arg: one.value for one in call.keywords if one.arg}
    values = [given[key] for key in ("choices", "default", "type") if key in given]
    if not any(_spells(value) for value in values):
        return
    for value in [*call.args, *filter(None, [given.get("dest")])]:
        if (name := string_value(value)) is not None:
            yield name.lstrip("-").replace("-", "_")


def _spells(node: ast.expr) -> bool:
    """Whether a string of an expression begins with the library's name."""
    return any(isinstance(one, ast.Constant) and _begins(one) for one in ast.walk(node))


def _begins(node: ast.AST) -> bool:
    """Whether an expression without calls has a string that begins with the library's name."""
    if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
        return False
    if isinstance(node, ast.Dict):
        return any(map(_begins, node.values))
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _BEGINS.match(node.value) is not None
    return any(map(_begins, ast.iter_child_nodes(node)))


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
    if any(installed_files(value)):
        return "this names Petastorm's installed files"
    if match := _COMMAND.search(value):
        told = isinstance(parent, ast.keyword) and parent.arg in _TELLS
        told = told or _call_around(module, string) in _SAYS
        what = (
            "this text tells of a command of Petastorm" if told else "this command runs Petastorm"
        )
        return f"{what} (`{match[0]}`)"
    if _MISSING.search(value) and _is_compared(module, string):
        return "this looks for a message that names Petastorm"
    is_run = _is_run(module, string)
    if is_run and value.startswith(f"{OLD_ROOT}.") and not _binds(module):
        return _USES
    if (
        _IMPORTED.search(value)
        and (is_run or "\n" in value or _is_given_to_python(module, string))
        and _parses(_whole(module, string))
    ):
        return _IMPORTS
    return None


def _is_run(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is code that this program runs itself."""
    parent = module.scopes.parents.get(string)
    return isinstance(parent, ast.Call) and function_of(module, parent) in _RUNS


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
    if _is_missing_module(module, string):
        return "this asks whether Petastorm is the module that is missing"
    return None


def _is_missing_module(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is compared where an import failed, with what the error says."""
    is_compared = False
    for parent in module.ancestors(string):
        is_compared = is_compared or isinstance(parent, ast.Compare)
        if isinstance(parent, ast.ExceptHandler):
            caught = ast.unparse(parent.type) if parent.type else ""
            return is_compared and ("ImportError" in caught or "ModuleNotFoundError" in caught)
    return False


def _is_given_to_python(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string stands behind ``-c``, or is an argument of a command that ends with it."""
    if before_in_list(module, string) == "-c":
        return True
    parent = module.scopes.parents.get(string)
    if not (isinstance(parent, ast.List | ast.Tuple) and parent.elts[0] is string):
        return False
    match module.scopes.parents.get(parent):
        case ast.keyword() as word:
            call = module.scopes.parents.get(word)
            around = [one.value for one in call.keywords] if isinstance(call, ast.Call) else []
        case ast.Dict(values=around):
            pass
        case _:
            return False
    lists = (one.elts for one in around if isinstance(one, ast.List | ast.Tuple) and one.elts)
    return any(string_value(one[-1]) == "-c" for one in lists)


def _whole(module: PythonModule, string: ast.Constant) -> str:
    """Return the text that a string is put together with, with a number for what is filled in."""
    formed = formed_text(string, module.scopes.parents)
    return str(string.value) if formed is None else formed[1]


def _parses(text: str) -> bool:
    """Whether a text is code, perhaps with an indent, or with places that ``%`` fills."""
    for one in (text, _PLACE.sub("0", text)):
        try:
            ast.parse(textwrap.dedent(one))
        except (SyntaxError, ValueError):
            continue
        return True
    return False


def _call_around(module: PythonModule, string: ast.Constant) -> str:
    """Return what the text is given to that a string is put together in."""
    child: ast.AST = string
    for parent in module.ancestors(string):
        if isinstance(parent, ast.Call) and child in parent.args:
            return function_of(module, parent)
        if not isinstance(parent, ast.JoinedStr | ast.BinOp | ast.FormattedValue):
            break
        child = parent
    return ""


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
