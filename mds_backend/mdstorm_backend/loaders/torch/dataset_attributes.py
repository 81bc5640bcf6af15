"""Attributes of a `StreamingDataset`, whose own state is behind one name.

Subclasses give attributes whatever names they like, so that a dataset keeps nothing of its own but
``_mdstorm``. What it tells of itself a subclass may hide; what it can be told it may say before it
calls the constructor, which decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset

    fact = property
else:

    class fact:  # noqa: N801  # used as `property` is
        """A property that an instance can have an attribute in the place of."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            return self if instance is None else self._function(instance)


def _opened(dataset: Any) -> OpenedDataset | None:
    opened: OpenedDataset | None = dataset.__dict__.get("_mdstorm")
    return opened


class Argument:
    """An argument that can be read under its name. A subclass may use the name for itself."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, dataset: Any, owner: type | None = None) -> Any:
        if dataset is None:
            return self
        opened = _opened(dataset)
        if opened is None:
            raise AttributeError(
                f"{self._name}: the constructor of StreamingDataset was not called"
            )
        return opened.shown(self._name)


class Setting(Argument):
    """An argument that can be read, and be set for the iterations that follow."""

    def __get__(self, dataset: Any, owner: type | None = None) -> Any:
        if dataset is not None and _opened(dataset) is None and self._name in dataset.__dict__:
            return dataset.__dict__[self._name]
        return super().__get__(dataset, owner)

    def __set__(self, dataset: Any, value: Any) -> None:
        opened = _opened(dataset)
        if opened is None:
            dataset.__dict__[self._name] = value  # for the subclass itself, until it is made
        else:
            opened.change(self._name, value)
