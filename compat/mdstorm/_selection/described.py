"""Filters, predicates and functions as text, by which a state knows what it was taken of.

Equal ones have the same text in every process. Functions go by their names: a comment in one must
not cost a run, so what it does is not compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from mdstorm import predicates
from mdstorm._selection.filters import Filters

#: Longer texts are cut off, and their hash tells them apart.
_LONGEST = 200


def described_filters(filters: Filters) -> str:
    """Return the text of filters, whatever the order of their conditions."""
    alternatives = [
        " and ".join(
            sorted(
                f"{term.column} {'=' if term.operator == '==' else term.operator} "
                f"{_value(term.value)}"
                for term in terms
            )
        )
        for terms in filters.alternatives
    ]
    return _short(" or ".join(sorted(alternatives)))


def described_predicate(predicate: predicates.PredicateBase) -> str:
    """Return the text of a predicate; the name of the class of one that is not ours."""
    describe = _DESCRIBED.get(type(predicate))
    name = type(predicate).__qualname__
    return _short(f"{name}({describe(predicate)})" if describe else name)


def name_of(function: Any) -> str:
    """Return the name of a function, or of the class of another callable."""
    while hasattr(function, "func"):  # a partial
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _value(value: Any) -> str:
    """Return the text of a value, the same for equal numbers and for sets in any order."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (set, frozenset, list, tuple)):
        return f"[{', '.join(sorted(map(_value, value)))}]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # The address of an object would be another one in the next process.
    text = repr(value)
    return type(value).__qualname__ if text == object.__repr__(value) else text


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"


_DESCRIBED: dict[type, Callable[[Any], str]] = {
    predicates.in_set: lambda p: f"{_value(p._inclusion_values)}, {p._predicate_field}",
    predicates.in_intersection: lambda p: f"{_value(p._inclusion_values)}, {p._predicate_field}",
    predicates.in_lambda: lambda p: (
        f"{p._predicate_fields}, {name_of(p._predicate_func)}, {_value(p._state_arg)}"
    ),
    predicates.in_negate: lambda p: described_predicate(p._predicate),
    predicates.in_reduce: lambda p: (
        f"{', '.join(map(described_predicate, p._predicate_list))}, {name_of(p._reduce_func)}"
    ),
    predicates.in_pseudorandom_split: lambda p: (
        f"{p._bucket_low}, {p._bucket_high}, {p._predicate_field}"
    ),
}
