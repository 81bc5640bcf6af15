"""Names of Petastorm's loggers in code and in configuration, for PM103."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from mdstorm_migrate.petastorm import names
from mdstorm_migrate.python.calls import call_with_first, function_of
from mdstorm_migrate.python.module import PythonModule, string_value

#: Loggers with the same messages in both libraries.
_SAME = (names.OLD_ROOT, f"{names.OLD_ROOT}.spark.spark_dataset_converter")
#: Functions that find a logger by name, or check what is logged.
_FUNCTIONS = frozenset(
    {"assertLogs", "assertNoLogs", "at_level", "getLogger", "get_logger", "set_level"}
)
#: A test of what is logged.
_CHECKS_LOGS = re.compile(r"\bcaplog\b|\bassert(?:No)?Logs\b")
#: The key of a logger's name in an INI file.
KEY_IN_INI = "qualname"
#: The table of loggers in YAML with a key on each line, and in JSON or YAML with braces.
_TABLE = "loggers"
_BLOCK = re.compile(
    r"""^(?P<indent>[ ]*)loggers:[ \t]*(?:\#[^\n]*)?\r?\n
    (?P<rows>(?:(?P=indent)[ ]+[^\n]*(?:\n|\Z)|[ \t]*\r?\n)+)""",
    re.MULTILINE | re.VERBOSE,
)
_MAPPING = re.compile(r"""\bloggers["']?[ \t]*:\s*\{""")
_KEY = re.compile(rf"""(?<![\w.-])(?P<path>{names.OLD_ROOT}(?:\.\w+)*)["']?[ \t]*:(?=\s|["'\{{])""")
_NEW = re.compile(rf"""(?<![\w.-]){names.NEW_ROOT}(?:\.\w+)*["']?[ \t]*:(?!\S)""")
_TOKEN = re.compile(rf"[{{}}]|{_KEY.pattern}")


def why_in_review(path: str) -> str | None:
    """Return why renaming a logger needs review, or None if it is exact."""
    return None if path in _SAME else "mdstorm logs different messages under that name"


def names_new(text: str) -> bool:
    """Whether configuration names a logger of mdstorm."""
    return _NEW.search(text) is not None


def keys_of_tables(text: str) -> Iterator[tuple[str, int]]:
    """Yield the keys of tables `loggers` in YAML and JSON that are paths in Petastorm."""
    if _TABLE not in text:
        return
    for table in _BLOCK.finditer(text):
        indent = re.match(r"\s*?([ ]*)(?=\S)", table["rows"])
        for key in _KEY.finditer(text, *table.span("rows")):
            line = text.rfind("\n", 0, key.start()) + 1
            before = text[line : key.start("path")].rstrip("\"'")
            if indent is not None and before == indent[1]:
                yield key["path"], key.start("path")
    for table in _MAPPING.finditer(text):
        depth = 1
        for token in _TOKEN.finditer(text, table.end()):
            depth += {"{": 1, "}": -1}.get(token[0], 0)
            if depth == 0:
                break
            if depth == 1 and token["path"]:
                yield token["path"], token.start("path")


def is_logger(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a logger's name, as also in the table ``loggers`` of a ``dictConfig``."""
    if function_of(module, call_with_first(module, string)) in _FUNCTIONS:
        return True
    table = module.scopes.parents.get(string)
    if not isinstance(table, ast.Dict) or string not in table.keys:
        return False
    match module.scopes.parents.get(table):
        case ast.Dict(keys=keys, values=values):
            return string_value(keys[values.index(table)]) == _TABLE
    return False


@lru_cache(maxsize=1)
def checked_loggers(module: PythonModule) -> Sequence[ast.Constant]:
    """Return what may be names of loggers in a test of what is logged.

    These are names that are compared with records, and loggers that need review in any case.
    """
    if not _CHECKS_LOGS.search(module.text):
        return ()
    found = (one for one in module.scopes.strings if names.PATH.fullmatch(str(one.value)))
    return [
        one
        for one in found
        if _is_of_record(module, one) or (is_logger(module, one) and one.value not in _SAME)
    ]


def _is_of_record(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string, also in tuples or lists, is compared with what was logged."""
    for above in module.ancestors(string):
        if not isinstance(above, ast.Tuple | ast.List | ast.Set):
            return isinstance(above, ast.Compare) and "record" in ast.unparse(above)
    return False
