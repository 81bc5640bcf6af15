"""The namedtuple types of batches."""

from __future__ import annotations

import collections
from functools import lru_cache
from typing import Any

from mdstorm_backend.errors import InvalidArgumentError

__all__ = ["row_type"]


@lru_cache(maxsize=256)
def row_type(type_name: str, names: tuple[str, ...]) -> Any:
    """Return the namedtuple type of some columns; equal columns share one type.

    Raises
    ------
    InvalidArgumentError
        If a column name is no valid field name, in Python's words.
    """
    try:
        return collections.namedtuple(type_name, names)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{error}: batches are namedtuples here, so columns need names that Python takes for "
            f"fields. Rename them before converting, df.toDF(…), or read others of {list(names)} "
            "with schema_fields"
        ) from error
