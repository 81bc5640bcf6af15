"""Filters of warnings in Python code, which name modules, and classes that Python imports."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import before_in_list, called
from mdstorm_migrate.python.literals import inner_span, string_value
from mdstorm_migrate.python.module import PythonModule

#: One as pytest and Python's ``-W`` have it: ``ignore:.*:FutureWarning:petastorm``.
_FILTER = re.compile(
    rf"(?:-W)?\w+:[^:]*:(?:(?P<category>{OLD_ROOT}(?:\.\w+)+)"
    rf"|[\w.]*:(?P<module>{OLD_ROOT})\b(?:\\?\.[^:]*)?)(?::.*)?"
)


class NamedInFilter(NamedTuple):
    """What a filter names.

    Attributes
    ----------
    start : int or None
        Where it stands in the file; None if the string is written otherwise than it means.
    path : str
    is_class : bool
        Whether it is the class of the warnings, which is imported; else it is a module.
    """

    start: int | None
    path: str
    is_class: bool


def named_in_filter(module: PythonModule, string: ast.Constant) -> NamedInFilter | None:
    """Return what the filter in a string names; None if it is none, or names something else."""
    found = _FILTER.fullmatch(str(string.value))
    if found is None or not _is_filter(module, string):
        return None
    group = "category" if found["category"] else "module"
    inner = inner_span(module, string)
    start = None if inner is None else inner[0] + found.start(group)
    return NamedInFilter(start, found[group], group == "category")


def is_module_pattern(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is the `module` of a warnings filter, such as ``petastorm.*``."""
    parent = module.scopes.parents.get(string)
    if not isinstance(parent, ast.keyword) or parent.arg != "module":
        return False
    call = module.scopes.parents.get(parent)
    is_filter = isinstance(call, ast.Call) and called(call) == "filterwarnings"
    return is_filter and re.fullmatch(rf"{OLD_ROOT}(?:\\?\..*)?", str(string.value)) is not None


def _is_filter(module: PythonModule, string: ast.Constant) -> bool:
    if before_in_list(module, string) == "-W" or str(string.value).startswith("-W"):
        return True
    match module.scopes.parents.get(string):
        case ast.Call(func=function, args=[first, *rest]):
            name = ast.unparse(function)
            if string is first:
                return name.endswith("mark.filterwarnings")
            is_line = name.endswith("addinivalue_line") and string_value(first) == "filterwarnings"
            return string in rest and is_line
    return False
