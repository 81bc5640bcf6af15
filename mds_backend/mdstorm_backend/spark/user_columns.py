"""Plan the columns of a DataFrame from encodings that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.type_plan import plan_types
from mdstorm_backend.format.values.spark_types import arrow_type, simple_name
from mdstorm_backend.write.arrow_plan import check_columns, fitted_column


def plan_columns(fields: list[dict[str, Any]], columns: Mapping[str, str] | None) -> Schema:
    """Plan how the columns of a DataFrame are stored.

    Parameters
    ----------
    fields : list of dict
        ``df.schema.jsonValue()["fields"]``.
    columns : dict of str to str, optional
        Encodings of the columns to store; others are left out. By default all are stored, each in
        the encoding that keeps its type.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored, or an encoding does not exist; the message names all of them.
    InvalidArgumentError
        If one of `columns` is not in the DataFrame, or cannot be stored in its encoding.
    """
    if columns is None:
        return plan_types(fields, None)
    check_columns(columns)
    unknown = sorted(set(columns) - {field["name"] for field in fields})
    if unknown:
        raise InvalidArgumentError(
            f"{unknown[0]!r} is not a column of input dataframe: it has "
            f"{[field['name'] for field in fields]}. Leave it out of columns, or add it"
        )
    chosen = [field for field in fields if field["name"] in columns]
    if len(chosen) > len(columns):
        plan_types(chosen, None)  # reports columns with the same name
    planned = [_planned(field, columns[field["name"]]) for field in chosen]
    return Schema(tuple(planned))


def _planned(field: dict[str, Any], text: str) -> Column:
    name, spark_type = field["name"], field["type"]
    nullable = bool(field.get("nullable", True))
    try:
        type_ = arrow_type(spark_type)
    except KeyError:
        plan_types([field], None)  # raises the error that says what to do
        raise
    column = fitted_column(pa.field(name, type_, nullable), text, spark_type)
    if column is None:
        raise InvalidArgumentError(
            f"Mismatched types: column name {name!r} is {simple_name(spark_type)}, which cannot be "
            f"stored as {text!r}. Convert the column first, or choose another encoding"
        )
    return column
