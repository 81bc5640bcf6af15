"""`cached_property`, for objects that threads share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: TID251
else:

    class cached_property:  # noqa: N801  # the name of the class it replaces
        """`functools.cached_property`, safe to share between threads and to fork.

        Before Python 3.12, the standard version has a lock shared by all instances, and a process
        forked while a thread holds the lock waits for it forever. Without a lock, several threads
        may compute a value at the same time; all of them get the first result.
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
            # Python 3.11 creates an instance's dictionary on first use, and may collect garbage
            # just before. If a finalizer then lets another thread use the instance, two
            # dictionaries are created that share the same values, and the one that survives points
            # to freed memory. Allocating a dictionary here first triggers any due collection, and
            # leaves memory to be reused for the instance's dictionary.
            {}  # noqa: B018
            return instance.__dict__.setdefault(self._name, value)
