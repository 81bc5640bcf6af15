"""Describe filters, predicates and functions as text, which states compare when they are loaded.

Equal selections have the same text in every process. Functions are identified by their names only:
an edited comment must not make a state unusable.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from mdstorm import predicates
from mdstorm._selection.filters import Filters

#: Longer texts are cut off, and a hash of the whole text is appended.
_LONGEST = 200


def described_filters(filters: Filters) -> str:
    """Return the text of filters, independent of the order of their conditions."""
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
    """Return the text of a predicate; for a user-defined one, the name of its class."""
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
    # The default repr holds an address, which differs in the next process.
    text = repr(value)
    return type(value).__qualname__ if text == object.__repr__(value) else text


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"
