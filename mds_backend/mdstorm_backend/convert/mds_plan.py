"""Plan how Parquet columns are stored in MDS."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mdstorm_backend.base.checks import check_list
from mdstorm_backend.errors import MissingColumnError
from mdstorm_backend.format.encodings.vectors import holds_vectors
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.write.arrow_plan import plan_batch

#: Every value has an entry in the shard's table of offsets.
_OFFSET_BYTES = 4


def chosen_fields(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the fields `columns` of a schema in that order, all of them for None.

    Raises
    ------
    ArgumentTypeError, MissingColumnError
        If it is no list, or one of them is not there.
    """
    check_list("columns", columns)
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names:
            raise MissingColumnError(
                f"there is no column {name!r}: choose among {schema.names}",
                column=name,
            )
    return pa.schema([schema.field(name) for name in columns])


def plan_parquet(
    schema: pa.Schema, dtype: str | None = None, decimals: str | None = None
) -> Schema:
    """Plan how data of an Arrow schema is stored so that it reads back unchanged.

    Spark's vectors become arrays, as when Spark writes the dataset.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the Parquet files, including partition columns.
    dtype : {"float32", "float64", None}
        What floating-point scalars and the elements of arrays become; None keeps them.
    decimals : {"float64", "float32", "decimal", None}
        What decimals become, see `plan_types`.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored; the message names all of them.
    InvalidArgumentError
        If there is no column, or two have one name.
    """
    fields = [f.with_type(pa.list_(pa.float64())) if holds_vectors(f.type) else f for f in schema]
    return plan_batch(pa.schema(fields), None, dtype, decimals)


def row_bytes(schema: Schema, source_row_bytes: float) -> float:
    """Estimate the bytes of a row in a shard, exactly where every column has a fixed size.

    Parameters
    ----------
    schema : Schema
        Plan of the columns.
    source_row_bytes : float
        Uncompressed bytes that a row takes in Parquet.
    """
    sizes = [column.parsed_encoding.size for column in schema]
    known = float(sum(size or 0 for size in sizes) + _OFFSET_BYTES)
    return known if None not in sizes else max(known, source_row_bytes)
