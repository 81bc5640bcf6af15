"""The encodings that a DataFrame is stored in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.spark.user_columns import plan_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def infer_dataframe_schema(
    dataframe: DataFrame, user_defined_cols: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """Return the encodings that `dataframe_to_mds` stores a DataFrame in, or check given ones.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame
        Only its schema is looked at.
    user_defined_cols : dict of str to str, optional
        Encodings to check.

    Returns
    -------
    dict of str to str, or None
        The encoding of each column; None if `user_defined_cols` is given and can be used.

    Raises
    ------
    InvalidArgumentError
        If a column is unknown, has a type that no encoding stores, or one that its encoding does
        not store. A `ValueError`.
    """
    fields = dataframe.schema.jsonValue()["fields"]
    try:
        schema = plan_columns(fields, user_defined_cols)
    except UnsupportedTypeError as error:
        raise InvalidArgumentError(f"not supported by dataframe_to_mds: {error}") from error
    if user_defined_cols is not None:
        return None
    return {column.name: column.encoding for column in schema}


def is_json_compatible(data_type: DataType) -> bool:
    """Whether MosaicML Streaming stores a column of this Spark type as ``json``.

    `dataframe_to_mds` of mdstorm stores more types so: dates, decimals and binaries among others.
    """
    return _is_json(data_type.jsonValue())


def _is_json(type_: Any) -> bool:
    if isinstance(type_, str):
        return type_ in ("string", "integer", "float", "boolean", "void")
    if type_["type"] == "struct":
        return all(_is_json(field["type"]) for field in type_["fields"])
    parts = [type_[name] for name in ("elementType", "keyType", "valueType") if name in type_]
    return bool(parts) and all(map(_is_json, parts))
