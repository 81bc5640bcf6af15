"""Filters, predicates and functions as text, by which a state knows what it was taken of.

Equal ones have the same text in every process. Functions go by their names: a comment in one must
not cost a run, so what it does is not compared.
"""

from __future__ import annotations

import hashlib
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
                f"{_value(set(term.value) if isinstance(term.value, list) else term.value)}"
                for term in terms
            )
        )
        for terms in filters.alternatives
    ]
    return _short(" or ".join(sorted(alternatives)))


def described_predicate(predicate: predicates.PredicateBase) -> str:
    """Return the text of a predicate; the name of the class of one that is not ours."""
    return _short(_value(predicate))


def name_of(function: Any) -> str:
    """Return the name of a function, or of the class of another callable."""
    while hasattr(function, "func"):  # a partial
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _value(value: Any) -> str:
    """Return the text of a value, the same for equal numbers and for sets in any order."""
    if isinstance(value, predicates.PredicateBase):
        name = type(value).__qualname__
        is_ours = type(value).__module__ == predicates.__name__
        return f"{name}({', '.join(map(_value, vars(value).values()))})" if is_ours else name
    if callable(value):
        return name_of(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (set, frozenset, list, tuple)):
        texts = map(_value, value)
        return f"[{', '.join(texts if isinstance(value, (list, tuple)) else sorted(texts))}]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # The address of an object would be another one in the next process.
    text = repr(value)
    return type(value).__qualname__ if text == object.__repr__(value) else text


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"
