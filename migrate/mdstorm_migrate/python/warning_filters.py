"""Filters of warnings in Python code, which name modules, and classes that Python imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import before_in_list, called
from mdstorm_migrate.python.literals import inner_span, string_value
from mdstorm_migrate.python.module import PythonModule

#: One as pytest and Python's ``-W`` have it: ``ignore:.*:FutureWarning:petastorm``.
_FILTER = re.compile(
    rf"(?:^|,)(?:-W)?\w+:[^:,]*:(?:(?P<category>{OLD_ROOT}(?:\.\w+)+)"
    rf"|[\w.]*:(?P<module>{OLD_ROOT})\b(?:\\?\.[^,]*|(?=[:,])[^,]*)?)(?=[:,]|\Z)"
)
#: The variable of the environment that holds filters.
_VARIABLE = "PYTHONWARNINGS"


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


def named_in_filters(module: PythonModule, string: ast.Constant) -> Iterator[NamedInFilter]:
    """Yield what the filters in a string name, if it is one of those that hold filters."""
    found = list(_FILTER.finditer(str(string.value)))
    if not found or not _holds_filters(module, string):
        return
    inner = inner_span(module, string)
    for one in found:
        group = one.lastgroup or ""
        start = None if inner is None else inner[0] + one.start(group)
        yield NamedInFilter(start, one[group], group == "category")


def is_module_pattern(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is the `module` of a warnings filter, such as ``petastorm.*``."""
    parent = module.scopes.parents.get(string)
    if not isinstance(parent, ast.keyword) or parent.arg != "module":
        return False
    call = module.scopes.parents.get(parent)
    is_filter = isinstance(call, ast.Call) and called(call) == "filterwarnings"
    return is_filter and re.fullmatch(rf"{OLD_ROOT}(?:\\?\..*)?", str(string.value)) is not None


def _holds_filters(module: PythonModule, string: ast.Constant) -> bool:
    if before_in_list(module, string) == "-W" or str(string.value).startswith("-W"):
        return True
    match module.scopes.parents.get(string):
        case ast.Call(func=function, args=[first, *rest]):
            name = ast.unparse(function)
            if string is first:
                return name.endswith("mark.filterwarnings")
            is_line = name.endswith("addinivalue_line") and string_value(first) == "filterwarnings"
            return string in rest and (is_line or string_value(first) == _VARIABLE)
        case ast.Assign(targets=[ast.Subscript(slice=key)]):
            return string_value(key) == _VARIABLE
        case ast.Dict(keys=keys, values=values):
            return string_value(keys[values.index(string)]) == _VARIABLE
        case ast.keyword(arg=name):
            return name == _VARIABLE
    return False
