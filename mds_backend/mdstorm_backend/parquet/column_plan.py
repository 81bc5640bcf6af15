"""Plan the columns that a Parquet dataset delivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pyarrow as pa

from mdstorm_backend.errors import UnsupportedTypeError
from mdstorm_backend.format.schema import Column, Origin, Schema
from mdstorm_backend.format.values.arrow_types import plain_type
from mdstorm_backend.format.values.nested_lists import depth_of
from mdstorm_backend.parquet.footers import Footer
from mdstorm_backend.parquet.row_groups import RowGroup
from mdstorm_backend.write.arrow_plan import plan_batch


def plan_columns(fields: pa.Schema) -> tuple[Schema, dict[str, pa.DataType]]:
    """Return the columns as if the data had been written to MDS, and the unsupported ones.

    Parameters
    ----------
    fields : pyarrow.Schema
        The Arrow schema of the files.

    Returns
    -------
    schema : Schema
        The columns in stored order, with no null counts.
    left_out : dict of str to pyarrow.DataType
        Columns of types that the core does not support.

    Raises
    ------
    InvalidArgumentError
        If two columns have one name, or one has none.
    """
    left_out: dict[str, pa.DataType] = {}
    try:
        planned = plan_batch(fields, None)
    except UnsupportedTypeError as error:
        left_out = {name: fields.field(name).type for name in error.columns}
        kept = [field for field in fields if field.name not in left_out]
        planned = plan_batch(pa.schema(kept), None) if kept else Schema(())
    types = {column.name: fields.field(column.name).type for column in planned}
    # No Spark type says how deep lists of unsigned numbers are.
    flat = {c.name for c in planned if depth_of(c.arrow_type) < depth_of(plain_type(types[c.name]))}
    left_out |= {name: types[name] for name in flat}
    columns = tuple(_with_length(c, types[c.name]) for c in planned if c.name not in flat)
    return Schema(columns), left_out


def _with_length(column: Column, type_: pa.DataType) -> Column:
    if pa.types.is_fixed_size_list(type_) and column.is_array and depth_of(column.arrow_type) == 1:
        return replace(column, length=type_.list_size)
    return column


def with_statistics(
    schema: Schema, footers: Sequence[Footer], row_groups: Sequence[RowGroup], url: str
) -> Schema:
    """Add null counts and array lengths from the footers.

    Parameters
    ----------
    schema : Schema
        The columns.
    footers : sequence of Footer
        The footers of all files.
    row_groups : sequence of RowGroup
        All row groups, with their values of partition columns.
    url : str
        The dataset, for error messages.
    """
    nulls: dict[str, int | None] = {}
    lengths: dict[str, set[int | None]] = {}
    for footer in footers:
        for name, count in footer.nulls.items():
            before = nulls.get(name, 0)
            nulls[name] = None if count is None or before is None else before + count
        for name, found in footer.lengths.items():
            lengths.setdefault(name, set()).update(found)
    for group in row_groups:
        for name, value in group.partition.items():
            if value is None:
                nulls[name] = (nulls.get(name) or 0) + group.num_rows
    return Schema(
        tuple(
            replace(
                column,
                null_count=nulls.get(column.name, 0) or 0,
                origin=Origin(
                    url,
                    lengths=_lengths(lengths.get(column.name, set())),
                    counts_nulls=nulls.get(column.name, 0) is not None,
                ),
            )
            for column in schema
        )
    )


def _lengths(means: set[int | None]) -> Literal["unknown", "differ"]:
    return "differ" if len(means) > 1 or None in means else "unknown"
