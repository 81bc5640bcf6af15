"""Describe selections as strings, which are saved in states.

A state describes its selection by strings that are compared when the state is loaded, so equal
selections must have equal strings in every process. A function's string contains no addresses or
bytecode, only the function's name and the plain values that it uses: constants, defaults, closure
variables and global variables.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
from collections.abc import Iterator
from decimal import Decimal
from types import CodeType
from typing import Any

import numpy as np

from mdstorm import predicates as petastorm_predicates

#: Longer strings are truncated, and a hash of the whole string is appended.
_LONGEST = 200
_SCALARS = (int, float, complex, str, bytes, Decimal, datetime.date, datetime.time)
_PLAIN = (*_SCALARS, datetime.timedelta, np.generic, type(None))
#: Set in `CodeType.co_flags` if a function's first constant is a docstring (Python 3.14 and later).
_HAS_DOCSTRING = 0x4000000


def described_predicate(predicate: petastorm_predicates.PredicateBase) -> str:
    """Return the string that describes a predicate."""
    return shortened(text_of(predicate))


def text_of(value: Any) -> str:
    """Return a value as a string; equal numbers and equal sets give equal strings."""
    if isinstance(value, petastorm_predicates.PredicateBase):
        name = type(value).__qualname__
        if type(value).__module__ == petastorm_predicates.__name__:
            return f"{name}({', '.join(map(text_of, vars(value).values()))})"
        return _with_parts(name, [*_attributes(value), *_values_in(type(value).do_include)])
    if callable(value):
        return _text_of_function(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return f"{value.dtype}{list(value.shape)} {digest[:16]}"
    if isinstance(value, (set, frozenset, list, tuple)):
        texts = map(text_of, value)
        return f"[{', '.join(texts if isinstance(value, (list, tuple)) else sorted(texts))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{text_of(key)}: {text_of(v)}' for key, v in value.items())}}}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # The default repr contains a memory address, which differs between processes.
    text = repr(value)
    return type(value).__qualname__ if text == object.__repr__(value) else text


def name_of(function: Any) -> str:
    """Return the name of a function, or the class name of any other callable.

    The function's code is ignored, because editing it must not make a state unusable.
    """
    while hasattr(function, "func"):  # a functools.partial
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def shortened(text: str) -> str:
    """Shorten a string for a state; a hash keeps different strings distinct."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _text_of_function(function: Any) -> str:
    parts: list[str] = []
    name = name_of(function)
    while hasattr(function, "func"):  # a functools.partial
        parts += _named({f"argument {n}": one for n, one in enumerate(function.args)})
        parts += _named(function.keywords)
        function = function.func
    if not hasattr(function, "__code__") and not isinstance(function, type):
        parts += _attributes(function)
        function = type(function).__call__
    return _with_parts(name, [*_values_in(function), *parts])


def _with_parts(name: str, parts: list[str]) -> str:
    return f"{name} using {', '.join(parts)}" if parts else name


def _attributes(thing: Any) -> list[str]:
    """Describe the plain attributes of an object."""
    return _named(getattr(thing, "__dict__", {}))


def _named(values: dict[str, Any]) -> list[str]:
    """Describe plain values; functions only by name, because they may refer to each other."""
    found = {
        name: name_of(value) if callable(value) else text_of(value) if _is_plain(value) else None
        for name, value in values.items()
    }
    return [f"{name}={text}" for name, text in found.items() if text is not None]


def _values_in(function: Any) -> list[str]:
    """Describe the plain values that a function uses; empty if it is not written in Python."""
    function = getattr(function, "__func__", function)  # unwrap a bound method
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    codes = list(_codes_of(code))
    constants = (text_of(constant) for one in codes for constant in _constants_of(one))
    parameters = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    named = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
    named |= function.__kwdefaults__ or {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            named[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    found = function.__globals__
    used = sorted({name for one in codes for name in one.co_names if name in found})
    variables = {name: found[name] for name in used if _is_plain(found[name])}
    return [*dict.fromkeys(constants), *_named(named), *_named(variables)]


def _codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions and comprehensions nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_of(constant)


def _constants_of(code: CodeType) -> Iterator[Any]:
    """Yield the plain constants in a code object, except its docstring."""
    constants = code.co_consts
    has_docstring = (
        bool(code.co_flags & _HAS_DOCSTRING)
        if sys.version_info >= (3, 14)
        else not code.co_name.startswith("<") and isinstance(constants[0], str)
    )
    for constant in constants[has_docstring:]:
        # Python 3.10 also stores the qualified names of inner functions as constants.
        is_name = isinstance(constant, str) and ".<locals>." in constant
        if constant is not None and _is_plain(constant) and not is_name:
            yield constant


def _is_plain(value: Any) -> bool:
    """Whether a value's string determines the value."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(one) for key, one in value.items())
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    return isinstance(value, _PLAIN)
