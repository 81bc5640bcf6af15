"""What a string is in a call: its first argument, or the name of a logger."""

from __future__ import annotations

import ast

from mdstorm_migrate.base.edits import Class
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule

#: Functions that resolve names which stand elsewhere, as in a table or in a file of configuration.
RESOLVERS = (
    r"(?:import_module|__import__|import_string|locate|resolve_name|instantiate|get_class"
    r"|get_method|get_object|load_class|load_object|LightningCLI|auto_cli|CLI|dictConfig)"
)
_TAKES_LOGGER = frozenset({"getLogger", "get_logger"})


def call_with_first(module: PythonModule, string: ast.Constant) -> ast.Call | None:
    """Return the call whose first argument `string` is."""
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.keyword) and parent.arg in ("target", "name"):
        string, parent = parent, module.scopes.parents.get(parent)  # type: ignore[assignment]
        return parent if isinstance(parent, ast.Call) else None
    is_first = isinstance(parent, ast.Call) and bool(parent.args) and parent.args[0] is string
    return parent if is_first and isinstance(parent, ast.Call) else None


def called(call: ast.Call | None) -> str:
    """Return the last part of the name of what is called."""
    return "" if call is None else ast.unparse(call.func).rpartition(".")[2]


def logger_class(module: PythonModule, string: ast.Constant) -> Class | None:
    """Return the class of an edit, if the string is the name of a logger.

    All that mdstorm logs reaches the logger ``mdstorm``, but under other names below it, and with
    other messages than those of Petastorm that a test waits for.
    """
    parent = module.scopes.parents.get(string)
    is_root = string.value == OLD_ROOT and module.around.stays is None
    is_first = called(call_with_first(module, string)) in _TAKES_LOGGER
    if is_first or _is_of_dict(module, string) or _is_of_loop(module, string):
        return "exact" if is_root else "review"
    is_keyword = isinstance(parent, ast.keyword) and parent.arg == "logger"
    is_asserted = called(call_with_first(module, string)) in ("assertLogs", "assertNoLogs")
    return "review" if is_keyword or is_asserted else None


def _is_of_loop(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is one of the names of a loop that asks for their loggers."""
    names = module.scopes.parents.get(string)
    loop = None if names is None else module.scopes.parents.get(names)
    if not isinstance(names, ast.List | ast.Tuple | ast.Set):
        return False
    if isinstance(loop, ast.comprehension):
        loop = module.scopes.parents.get(loop)
    is_loop = isinstance(loop, ast.For | ast.ListComp | ast.GeneratorExp | ast.DictComp)
    return is_loop and any(f"{name}(" in module.source_of(loop) for name in _TAKES_LOGGER)  # type: ignore[arg-type]


def _is_of_dict(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is a key of the loggers that `logging.config.dictConfig` is given."""
    loggers = module.scopes.parents.get(string)
    around = module.scopes.parents.get(loggers) if isinstance(loggers, ast.Dict) else None
    if not isinstance(loggers, ast.Dict) or string not in loggers.keys:
        return False
    if not isinstance(around, ast.Dict):
        return False
    key = around.keys[around.values.index(loggers)]
    return string_value(key) == "loggers"
