"""A base class for objects that end with a ``with`` block."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class OwnContext:
    """A context manager that ``with … as`` gets itself, and whose `_leave` is called at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        """End what is under way."""
        raise NotImplementedError(f"{type(self).__name__} has to define _leave")
