"""Namedtuple types for rows, one per schema."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mdstorm.errors import InvalidArgumentError


@lru_cache(maxsize=512)
def row_type(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """Type of the rows of a schema: a namedtuple that can be pickled by name and fields.

    Raises
    ------
    InvalidArgumentError
        If a name is not an identifier, begins with an underscore or is a keyword; also ValueError.
    """
    try:
        base = namedtuple(f"{name}_view", fields)  # type: ignore[misc]
    except ValueError as error:
        raise InvalidArgumentError(
            f"{error}. Rows are namedtuples: leave the field out with schema_fields, or rename it"
        ) from error
    members = {
        "__slots__": (),
        "__module__": "mdstorm.unischema",
        "__reduce__": _reduce_row,
        "_from_compatible_tensor_list": _made_of_tensors,
        "_schema_name": name,
    }
    return type(base.__name__, (base,), members)


def _reduce_row(row: Any) -> tuple[Any, ...]:
    return _restore_row, (row._schema_name, row._fields, tuple(row))


def _made_of_tensors(types: Any, tensors: Sequence[Any]) -> Any:
    from mdstorm_backend.loaders.tf import made_of

    return made_of(types, tensors)


def _restore_row(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return row_type(name, fields)(*values)
