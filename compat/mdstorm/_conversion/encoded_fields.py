"""`mds_plan`: how the fields of a Petastorm dataset are decoded, and stored in MDS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm import errors
from mdstorm._datasets import (
    UNISCHEMA_EXTRA,
    DecodedField,
    check_stored,
    decoded_field,
    is_untyped,
    unischema_to_json,
)
from mdstorm.unischema import Unischema
from mdstorm_backend import format as mds
from mdstorm_backend.parquet import ParquetDataset


def mds_plan(
    unischema: Unischema, source: ParquetDataset, names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Plan how to store a Unischema's fields in MDS with their dtypes and shapes.

    Parameters
    ----------
    unischema : Unischema
        The schema. Values encoded by user-defined codecs are stored decoded.
    source : ParquetDataset
        The encoded rows.
    names : sequence of str, optional
        Columns to store, in this order; all of them by default.

    Returns
    -------
    dict
        Keyword arguments for ``convert_parquet(source, url, …)``: ``plan``, the columns of the MDS
        dataset (by default the fields in order, followed by the other columns in the files);
        ``recode``, which converts a record batch from the files to these columns; and ``extra``,
        the schema.

    Raises
    ------
    MissingColumnError
        If the files have no column for a field.
    """
    check_stored(
        unischema, source.url, source.schema.names, "Write the rows with schema.as_spark_schema()"
    )
    decoded = {
        name: decoded_field(field, source.schema[name]) for name, field in unischema.fields.items()
    }
    others = [name for name in source.schema.names if name not in decoded]
    # Decoded arrays of strings or times have no MDS type, so these columns stay encoded.
    columns = {
        name: decoded[name]
        if name in decoded and not is_untyped(decoded[name].column)
        else DecodedField(source.schema[name], None)
        for name in ([*decoded, *others] if names is None else names)
    }

    def recode(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [_recoded(batch.column(name), field) for name, field in columns.items()]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    plan = tuple(mds.without_form(field.column) for field in columns.values())
    # If no fields were selected, no schema is stored, and readers infer one.
    stored = unischema_to_json(unischema) if unischema.fields else None
    return {
        "plan": mds.Schema(plan),
        "recode": recode,
        "extra": {UNISCHEMA_EXTRA: stored} if stored else {},
    }


def _recoded(values: pa.Array, field: DecodedField) -> pa.Array:
    if field.decode is None:
        return values
    try:
        return _storable(field.decode(values), field.column)
    except Exception as error:  # user-defined codecs may raise any error
        name = field.column.name
        raise errors.DecodeFieldError(
            f'Decoding field "{name}" failed: {error}. Encode its values with '
            "dict_to_spark_row(schema, row); a custom codec must return values that fit the field"
        ) from error


def _storable(values: mds.Values, column: mds.Column) -> pa.Array:
    """Convert decoded values to Arrow data for the MDS writer."""
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype == object:
        encoding = column.parsed_encoding
        if not column.is_array:  # zero-dimensional arrays, some of them null
            rows = [None if array is None else array[()] for array in values]
            return pa.array(rows, column.arrow_type)
        if encoding.shape:  # some rows are null
            rows = [None if array is None else numbers(array).reshape(-1) for array in values]
            return pa.array(rows, pa.list_(column.arrow_type.value_type))
        encode = encoding.encoder()
        found = (None if array is None else encode(numbers(array)) for array in values)
        return pa.array(list(found), pa.binary())
    # One-dimensional boolean arrays have a Spark type, and the writer converts them to numbers.
    return mds.as_arrow(numbers(values) if column.spark_type is None else values)


def numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array with booleans as numbers."""
    return array.view(np.uint8) if array.dtype == np.bool_ else array
