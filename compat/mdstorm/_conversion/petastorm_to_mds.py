"""Plan how the fields of a Petastorm dataset are stored in MDS, and convert its rows.

Arrays lose the header of NumPy's file format, which other readers of MDS do not know, and are
stored as MDS arrays. Image files are kept unchanged. Arrays of types that MDS lacks, such as
strings and times, stay in NumPy's format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._datasets.decoded_source import check_stored
from mdstorm._datasets.field_decoders import DecodedField, decoded_field, is_untyped
from mdstorm.errors import DecodeFieldError
from mdstorm.unischema import Unischema
from mdstorm_backend.format import (
    Column,
    Origin,
    Schema,
    Values,
    array_encoder,
    as_arrow,
    without_form,
)
from mdstorm_backend.parquet import ParquetDataset


@dataclass(frozen=True)
class MDSPlan:
    """How a dataset is stored.

    Attributes
    ----------
    schema : Schema
        The columns of the MDS dataset: by default the fields in their order, then what else the
        files hold.
    recode : callable
        Makes of a record batch of the files one with these columns.
    """

    schema: Schema
    recode: Callable[[pa.RecordBatch], pa.RecordBatch]


def mds_plan(
    unischema: Unischema, source: ParquetDataset, names: Sequence[str] | None = None
) -> MDSPlan:
    """Plan how the fields of a Unischema are stored in MDS, with the dtypes and shapes they have.

    Parameters
    ----------
    unischema : Unischema
        The schema. Values of user-defined codecs are stored decoded.
    source : ParquetDataset
        The encoded rows.
    names : sequence of str, optional
        Columns to store, in this order; all of them by default.

    Returns
    -------
    MDSPlan
        For ``convert_parquet(source, url, plan=plan.schema, recode=plan.recode)``.

    Raises
    ------
    MissingColumnError
        If a field is not among the columns.
    """
    check_stored(
        unischema, source.url, source.schema.names, "Write the rows with schema.as_spark_schema()"
    )
    fields = {
        name: _stored_field(decoded_field(field, source.schema[name]), source.schema[name])
        for name, field in unischema.fields.items()
    }
    others = {c.name: DecodedField(c, None) for c in source.schema if c.name not in fields}
    columns = {**fields, **others}
    if names is not None:
        columns = {name: columns[name] for name in names}

    def recode(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [_recoded(batch.column(name), field) for name, field in columns.items()],
            names=list(columns),
        )

    return MDSPlan(Schema(tuple(_planned(field.column) for field in columns.values())), recode)


def _stored_field(field: DecodedField, source: Column) -> DecodedField:
    """Keep encoded what MDS cannot hold decoded: arrays of strings and times."""
    return DecodedField(source, None) if is_untyped(field.column) else field


def _planned(column: Column) -> Column:
    """Return the column of a plan; nulls are counted when it is written."""
    return replace(without_form(column), null_count=0, element_null_count=0, origin=Origin())


def _recoded(values: pa.Array, field: DecodedField) -> pa.Array:
    if field.decode is None:
        return values
    try:
        return _storable(field.decode(values), field.column)
    except Exception as error:  # codecs, a user's own among them, raise whatever they like
        name = field.column.name
        raise DecodeFieldError(
            f'Decoding field "{name}" failed: {error}. Encode its values with '
            "dict_to_spark_row(schema, row), and let a codec of your own return values of its field"
        ) from error


def _storable(values: Values, column: Column) -> pa.Array:
    """Return decoded values as Arrow data for the MDS writer."""
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype == object:
        encoding = column.parsed_encoding
        if not column.is_array:  # arrays of no dimensions, some of them null
            rows = [None if array is None else array[()] for array in values]
            return pa.array(rows, column.arrow_type)
        if encoding.shape:  # some rows are null
            rows = [None if array is None else _numbers(array).reshape(-1) for array in values]
            return pa.array(rows, pa.list_(column.arrow_type.value_type))
        encode = array_encoder(encoding.dtype, None)
        found = (None if array is None else encode(_numbers(array)) for array in values)
        return pa.array(list(found), pa.binary())
    # Booleans in one dimension have a Spark type, and become numbers when they are written.
    return as_arrow(_numbers(values) if column.spark_type is None else values)


def _numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(np.uint8) if array.dtype == np.bool_ else array
