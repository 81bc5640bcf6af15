"""``schema_fields``: which columns a loader delivers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mdstorm.errors import InvalidArgumentError, NoMatchingFieldsError
from mdstorm_backend.schema import Schema
from mdstorm_backend.user_warnings import warn_user

__all__ = ["field_patterns", "select_fields"]


def select_fields(schema: Schema, fields: Any) -> Schema:
    """Return the columns that ``schema_fields`` asks for, in the order of the DataFrame.

    Parameters
    ----------
    schema : Schema
        All columns.
    fields : iterable of str or of objects with a name, or None
        Regular expressions that match whole names, or fields. None or nothing: all columns but
        nested ones, which are left out with a warning as Petastorm does it.

    Raises
    ------
    NoMatchingFieldsError
        If no column is left.
    InvalidArgumentError
        If `fields` is no such thing.
    """
    if fields is None or (isinstance(fields, (list, tuple, set)) and not fields):
        chosen = []
        for column in schema:
            if column.is_nested:
                warn_user(
                    f"Column {column.name!r} has an unsupported field type. Ignoring... It is kept "
                    "in the dataset; name it in schema_fields to read it"
                )
            else:
                chosen.append(column.name)
    else:
        patterns = field_patterns(fields)
        chosen = [n for n in schema.names if any(re.fullmatch(p, n) for p in patterns)]
    if not chosen:
        raise NoMatchingFieldsError(
            f"No fields matching the criteria {fields!r} were found in the dataset, whose columns "
            f"are {list(schema.names)}: name at least one of them in schema_fields"
        )
    return schema.select(chosen)


def field_patterns(fields: Any) -> list[str]:
    """Return ``schema_fields`` as regular expressions.

    Raises
    ------
    InvalidArgumentError
        If it is no iterable of them, or one is no valid expression.
    """
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise InvalidArgumentError(
            f"Fields must be either None, an iterable of regular expressions or of fields, found "
            f"{fields!r}: put it in a list"
        )
    patterns = []
    for field in fields:
        if not isinstance(field, str) and not hasattr(field, "name"):
            raise InvalidArgumentError(
                f'Elements of "fields" must be either a string or a field with a name, found '
                f"{field!r}"
            )
        patterns.append(field if isinstance(field, str) else re.escape(field.name))
        try:
            re.compile(patterns[-1])
        except re.error as error:
            raise InvalidArgumentError(
                f"schema_fields holds {field!r}, which is no regular expression ({error}): escape "
                "it with re.escape"
            ) from error
    return patterns
