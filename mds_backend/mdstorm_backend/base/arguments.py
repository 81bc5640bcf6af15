"""Arguments that are declared once, as the metadata of an ``Annotated`` type.

A function, or a TypedDict of keywords, includes an argument by naming that type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from textwrap import indent
from typing import Any, get_type_hints

Check = Callable[[str, Any], object]


@dataclass(frozen=True)
class Argument:
    """The declaration of an argument that several functions accept.

    Attributes
    ----------
    default : object
        The default value.
    doc : str
        Its entry in a docstring, without the name: a line with its type, then the description.
    check : callable
        Called with the name and the value; raises an error if the value is invalid. Checks of
        several arguments together belong where all of them are known.
    """

    default: Any
    doc: str
    check: Check = lambda name, value: None

    def entry(self, name: str) -> str:
        """Return the argument's entry in a docstring."""
        header, _, text = inspect.cleandoc(self.doc).partition("\n")
        return f"{name} : {header}\n{indent(text, '    ')}"


@cache
def declared(source: type | Callable[..., Any]) -> dict[str, Argument]:
    """Return the arguments that a TypedDict or a function declares or includes."""
    return {name: one for name, one in _metadata(source) if isinstance(one, Argument)}


def checker_of(function: Callable[..., Any]) -> Callable[[Mapping[str, Any]], None]:
    """Return a function that checks some of a function's arguments, given by name.

    A parameter's type is annotated with its check, or with an `Argument`. Defaults are not checked.
    """
    checks = {n: one.check if isinstance(one, Argument) else one for n, one in _metadata(function)}
    defaults = {name: one.default for name, one in inspect.signature(function).parameters.items()}

    def check(given: Mapping[str, Any]) -> None:
        for name, check_one in checks.items():
            if name in given and given[name] is not defaults[name]:
                check_one(name, given[name])

    return check


def _metadata(source: type | Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    # Only `get_type_hints` includes inherited keys, and only `get_annotations` leaves types alone:
    # on Python 3.10, the former changes those of parameters whose default is None.
    is_class = isinstance(source, type)
    hints = (
        get_type_hints(source, include_extras=True)
        if is_class
        else inspect.get_annotations(source, eval_str=True)
    )
    for name, hint in hints.items():
        for one in getattr(hint, "__metadata__", ()):
            yield name, one
