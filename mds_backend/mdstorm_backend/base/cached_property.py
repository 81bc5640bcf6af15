"""A `cached_property` without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801  # the name of the class it replaces
        """`functools.cached_property`, safe to share between threads and to fork.

        Before Python 3.12 the standard one has a lock, shared by all instances: a process that is
        forked while a thread holds it waits for it forever. Without a lock, threads may compute a
        value at the same time; all of them get the first one.
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self._function(instance)
            # Python 3.11 creates the dictionary of an instance on first use, and may collect
            # garbage meanwhile. If a finalizer then lets another thread use the instance, there are
            # two dictionaries of the same values, one of which outlives them: memory is corrupted.
            # This dictionary leaves memory for that one, so that nothing is collected in between.
            {}  # noqa: B018
            return instance.__dict__.setdefault(self._name, value)
