"""What a string is in a call: its first argument, or the name of a logger."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from mdstorm_migrate.base.edits import Class
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.scopes import Binding
from mdstorm_migrate.python.tables import uses_of_item

#: Functions that resolve names which stand elsewhere, as in a table or in a file of configuration.
RESOLVERS = (
    r"(?:import_module|__import__|import_string|locate|resolve_name|instantiate|get_class"
    r"|get_method|get_object|load_class|load_object|LightningCLI|auto_cli|CLI|dictConfig)"
)
_RESOLVER = re.compile(rf"\b{RESOLVERS}\b")
#: Functions that import what their first argument names, or look for it; the last part of the name.
IMPORTING = frozenset(
    [
        "__import__",
        "find_loader",
        "find_spec",
        "get_loader",
        "import_module",
        "importorskip",
        "locate",
    ]
)

#: Loggers that mean the same in both libraries.
_SAME_LOGGERS = (OLD_ROOT, f"{OLD_ROOT}.spark.spark_dataset_converter")
_LEVELS = frozenset({"CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "WARN", "WARNING"})
_TAKES_LOGGER = frozenset({"Filter", "getLogger", "get_logger"})

#: Loggers of libraries that people quieten beside Petastorm.
_LOGGERS = frozenset(
    [
        *("PIL", "absl", "azure", "boto3", "botocore", "fsspec", "h5py", "kafka", "matplotlib"),
        *("mlflow", "numba", "py4j", "pyarrow", "pyspark", "pytorch_lightning", "ray", "requests"),
        *("root", "s3fs", "streaming", "tensorflow", "torch", "urllib3", "wandb"),
    ]
)
_LOGGING = re.compile(r"log(?:$|_|g|s|_?level)|level|nois|quiet|silen|verbos", re.IGNORECASE)

#: Functions that count, time and trace under a name of the user's; the last part of their own.
_MEASURES = re.compile(
    r"(?:incr\w*|decr\w*|gauge|timing|timer?|histogram|distribution|count(?:er)?|meter|metric|mark"
    r"|log_(?:metric|param|scalar)s?|add_(?:scalar|event)|set_(?:tag|attribute)|emit|record_function"
    r"|(?:start_\w*|use_)?span|trace\w*|get_(?:tracer|meter)|create_(?:\w+_)?(?:counter|gauge|histogram)"
    r"|annotate|range_push|TraceAnnotation|StatsClient|Counter|Gauge|Histogram|Summary|Timer)\Z"
)


def is_measured(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is the name of a metric or of a span, which only people and dashboards read."""
    call = module.scopes.parents.get(string)
    if isinstance(call, ast.keyword):
        call = module.scopes.parents.get(call)
    return isinstance(call, ast.Call) and _MEASURES.match(called(call)) is not None


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
    return "" if call is None else last_name(call.func)


def function_of(module: PythonModule, call: ast.Call | None) -> str:
    """Return the name of the function that is called, as the module has it that offers it.

    So ``import_module`` for ``im(…)`` behind ``from importlib import import_module as im``, or
    behind ``im = importlib.import_module``.
    """
    if call is None or not isinstance(call.func, ast.Name):
        return called(call)
    names = {
        _own_name(module, one) for one in module.bindings(call.func.id, module.scopes.scopes[call])
    }
    own = names.pop() if len(names) == 1 else None
    return own or called(call)


def _own_name(module: PythonModule, binding: Binding) -> str | None:
    """Return what a function is called that a binding gives another name; None if unknown."""
    if isinstance(binding.node, ast.alias) and isinstance(binding.statement, ast.ImportFrom):
        return binding.node.name
    match module.scopes.parents.get(binding.node):
        case ast.Assign(targets=[target], value=ast.Attribute(attr=name)) if target is binding.node:
            return name
    return None


@lru_cache(maxsize=1)
def resolving(module: PythonModule) -> list[ast.AST]:
    """Return the calls, and the definitions, of functions that resolve names."""
    if _RESOLVER.search(module.text) is None:
        return []
    nodes: list[ast.AST] = [
        one
        for one in module.scopes.parents
        if isinstance(one, ast.FunctionDef) and _RESOLVER.fullmatch(one.name)
    ]
    calls = module.scopes.calls
    return [*nodes, *(one for one in calls if _RESOLVER.fullmatch(function_of(module, one)))]


def before_in_list(module: PythonModule, string: ast.Constant) -> str | None:
    """Return the string before one in a list, as ``-m`` in ``[sys.executable, "-m", name]``.

    Functions such as Nox's ``session.run`` take such words as arguments.
    """
    parent = module.scopes.parents.get(string)
    words = parent.args if isinstance(parent, ast.Call) else getattr(parent, "elts", [])
    if string not in words[1:]:
        return None
    return string_value(words[words.index(string) - 1])


def is_docstring(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a statement of its own."""
    return isinstance(module.scopes.parents.get(string), ast.Expr)


def logger_class(module: PythonModule, string: ast.Constant) -> Class | None:
    """Return the class of an edit, if the string is the name of a logger.

    All that mdstorm logs reaches the logger ``mdstorm``, and the converter logs under the same name
    below it; the rest has other names, and other messages than those that a test waits for.
    """
    name = called(call_with_first(module, string))
    if name == "Filter":
        return "review"
    items = uses_of_item(module, string)
    is_item = items is not None and bool(items.functions & _TAKES_LOGGER)
    if name in _TAKES_LOGGER or is_item or _is_of_dict(module, string):
        is_same = string.value in _SAME_LOGGERS and module.around.stays is None
        return "exact" if is_same and (items is None or items.are_only(_TAKES_LOGGER)) else "review"
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.Dict) and string in parent.keys and _has_levels(module, parent):
        return "review"  # what reads the dictionary stands elsewhere
    is_keyword = isinstance(parent, ast.keyword) and parent.arg == "logger"
    return "review" if is_keyword or name in ("assertLogs", "assertNoLogs") else None


def _has_levels(module: PythonModule, table: ast.Dict) -> bool:
    """Whether a dictionary has levels of loggers: its other keys, or what is around it, say so."""
    if not all(map(_is_level, table.values)):
        return False
    names = [name for name in map(string_value, table.keys) if name is not None]
    is_said = any("." in name or name in _LOGGERS for name in names)
    is_said = is_said or any(isinstance(one, ast.Attribute) for one in table.values)
    match module.scopes.parents.get(table):
        case (
            ast.Assign(targets=[target])
            | ast.AnnAssign(target=target)
            | ast.NamedExpr(target=target)
        ):
            is_said = is_said or _LOGGING.search(last_name(target)) is not None
        case ast.keyword(arg=str(word)):
            is_said = is_said or _LOGGING.search(word) is not None
    return is_said or "logging" in module.imported_roots


def _is_level(node: ast.expr) -> bool:
    """Whether it is a level of logging, as ``"WARNING"`` or ``logging.WARNING``."""
    if isinstance(node, ast.Attribute):
        return node.attr in _LEVELS
    return (string_value(node) or "").upper() in _LEVELS


def _is_of_dict(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is a key of the loggers that `logging.config.dictConfig` is given."""
    match module.scopes.parents.get(string):
        case ast.Subscript(value=ast.Subscript(slice=key), slice=inner) if inner is string:
            return string_value(key) == "loggers"  # LOGGING["loggers"]["petastorm"] = …
        case ast.Dict(keys=keys) as loggers if string in keys:
            match module.scopes.parents.get(loggers):
                case ast.Dict(keys=names, values=values):
                    return string_value(names[values.index(loggers)]) == "loggers"
                case ast.keyword(arg="loggers"):
                    return True
                case ast.Assign(targets=[ast.Subscript(slice=key)]):
                    return string_value(key) == "loggers"
    return False
