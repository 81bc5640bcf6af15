"""`OwnContext`: context managers that return themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class OwnContext:
    """A context manager that returns itself, and calls `_mdstorm_leave` at the end of the block.

    Users derive from its subclasses and are unlikely to define a method with that name.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._mdstorm_leave(kind)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        """Clean up; `kind` is the class of the error that ended the block, if one did."""
        raise NotImplementedError(f"{type(self).__name__} has to define _mdstorm_leave")
