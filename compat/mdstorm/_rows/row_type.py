"""What type checkers are told of the namedtuples that readers deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class Row(tuple[Any, ...]):
        """A row, a batch of rows, or an n-gram: fields by name, or by number.

        Its real class is made from the schema. An n-gram is a dict from offset to row.
        """

        def __getattr__(self, field: str) -> Any: ...

else:
    Row = tuple
