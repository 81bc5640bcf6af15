"""Nodes of a parsed pickle: containers that compare, hash and run nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Global:
    """A name that the pickle imports: ``module.name``."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module[:100]}.{self.name[:100]}"


@dataclass(slots=True, eq=False)
class Sequence:
    """A list, or a set."""

    items: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Mapping:
    """A dict, as pairs in the order in which they are set."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Call:
    """An object that a call of `function` would give.

    Attributes
    ----------
    function : object
        What is called; a `Global`, unless the pickle is not one of ours.
    arguments : object
        A tuple, unless the pickle is not one of ours.
    state : object
        What the object is to take as its state; None if there is nothing.
    items : list of tuple
        What is set in it as in a dict.
    """

    function: Any
    arguments: Any
    state: Any = None
    items: list[tuple[Any, Any]] = field(default_factory=list)
