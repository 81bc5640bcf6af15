"""A base class for objects that end with a ``with`` block."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class OwnContext:
    """A context manager that ``with … as`` gets itself, and that calls `_mdstorm_leave` at the end.

    Subclasses are what users make subclasses of: the method's name leaves all others to them.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._mdstorm_leave(kind)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        """End what is under way; `kind` is that of the error that ends the block, if one does."""
        raise NotImplementedError(f"{type(self).__name__} has to define _mdstorm_leave")
