"""`TransformSpec`: a user's function on the rows, and what it does to the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mdstorm.errors import InvalidArgumentError

__all__ = ["EditedField", "TransformSpec", "edit_field"]

#: Name, NumPy type, shape (None for a free dimension), nullable.
EditedField = tuple[str, Any, tuple[int | None, ...], bool]


def edit_field(
    name: str, numpy_dtype: Any, shape: tuple[int | None, ...], nullable: bool = False
) -> EditedField:
    """Describe a column that a transform adds or changes, for ``edit_fields``."""
    return (name, numpy_dtype, shape, nullable)


class TransformSpec:
    """A function on rows and the columns that come out of it.

    Parameters
    ----------
    func : callable, optional
        Takes a pandas DataFrame with one shard's share of the rows and returns one. Array columns
        hold one `numpy.ndarray` per cell, strings are Python objects, dates `datetime.date`,
        timestamps ``datetime64[ns]``. It may return any number of rows.
    edit_fields : sequence of tuple, optional
        Columns that `func` adds or changes, each ``(name, numpy_dtype, shape, nullable)``.
    removed_fields : sequence of str, optional
        Columns that are dropped.
    selected_fields : sequence of str, optional
        Columns that are kept, in this order. Not together with `removed_fields`.

    Raises
    ------
    InvalidArgumentError
        If both `removed_fields` and `selected_fields` are given.

    Notes
    -----
    The signature, the attributes and the order of the columns are those of
    ``petastorm.transform.TransformSpec``.
    """

    def __init__(
        self,
        func: Callable[[Any], Any] | None = None,
        edit_fields: Sequence[EditedField] | None = None,
        removed_fields: Sequence[str] | None = None,
        selected_fields: Sequence[str] | None = None,
    ) -> None:
        if removed_fields is not None and selected_fields is not None:
            raise InvalidArgumentError(
                "User can only specify one of removed_fields and selected_fields: name the columns "
                "to drop or the columns to keep, not both"
            )
        self.func = func
        self.edit_fields = list(edit_fields or [])
        self.removed_fields = list(removed_fields or [])
        self.selected_fields = None if selected_fields is None else list(selected_fields)

    def columns_of(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Names of the columns after the transform of `columns`: edited ones come last."""
        edited = [str(field[0]) for field in self.edit_fields]
        gone = {*self.removed_fields, *edited}
        result = [name for name in columns if name not in gone]
        result += [name for name in dict.fromkeys(edited) if name not in self.removed_fields]
        if self.selected_fields is None:
            return tuple(result)
        return tuple(name for name in self.selected_fields if name in result)
