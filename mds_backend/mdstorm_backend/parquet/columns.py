"""The columns that Parquet data would have in MDS."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from mdstorm_backend.errors import UnsupportedTypeError
from mdstorm_backend.format import Column, Schema, depth_of
from mdstorm_backend.format.schema import Origin
from mdstorm_backend.format.type_plan import plan_batch
from mdstorm_backend.parquet.footers import Footer, RowGroup
from mdstorm_backend.tables.snapshot import UnsupportedType


def columns_of(
    fields: pa.Schema,
    partitions: Collection[str],
    footers: Sequence[Footer],
    row_groups: Sequence[RowGroup],
    url: str,
    differing: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Schema, dict[str, pa.DataType]]:
    """Return the columns that the data would have in MDS, and the types of unsupported columns.

    Parameters
    ----------
    fields : pyarrow.Schema
        The Arrow schema of the files.
    partitions : collection of str
        The names of the partition columns.
    footers : sequence of Footer
        The footers of all files, with null counts and array lengths.
    row_groups : sequence of RowGroup
        All row groups, with their partition values.
    url : str
        The dataset, for error messages.
    differing : mapping of str to str
        How the files differ in some columns.

    Raises
    ------
    InvalidArgumentError
        If two columns have the same name, or one has no name.
    """
    planned, left_out = _planned(fields)
    nulls: Counter[str] = Counter()
    uncounted: set[str] = set()
    lengths: dict[str, set[int]] = defaultdict(set)
    for footer in footers:
        nulls.update({name: count or 0 for name, count in footer.nulls.items()})
        uncounted.update(name for name, count in footer.nulls.items() if count is None)
        for name, found in footer.lengths.items():
            lengths[name] |= found
    for group in row_groups:
        nulls.update({name: group.num_rows for name, v in group.partition.items() if v is None})

    def described(column: Column) -> Column:
        name, type_, length = column.name, fields.field(column.name).type, column.length
        is_flat = column.is_array and depth_of(column.arrow_type) == 1
        if is_flat and pa.types.is_fixed_size_list(type_):
            length = type_.list_size
        is_counted = name not in uncounted
        origin = Origin(
            url,
            lengths="differ" if len(lengths[name]) > 1 else "unknown",
            counts_nulls=is_counted,
            is_partition=name in partitions,
            differing="" if name in partitions else differing.get(name, ""),
        )
        count = nulls[name] if is_counted else 0
        return replace(column, null_count=count, length=length, origin=origin)

    return Schema(tuple(map(described, planned))), left_out


def _planned(fields: pa.Schema) -> tuple[list[Column], dict[str, pa.DataType]]:
    """Return the supported columns, without counts, and the types of unsupported columns."""
    left_out: dict[str, pa.DataType] = {}
    try:
        planned = plan_batch(fields, None)
    except UnsupportedTypeError as error:
        left_out = {name: fields.field(name).type for name in error.columns}
        kept = [field for field in fields if field.name not in left_out]
        planned = plan_batch(pa.schema(kept), None) if kept else Schema(())
    return [*planned], left_out


def without_unsupported(schema: pa.Schema, footers: Sequence[Footer]) -> pa.Schema:
    """Return a schema with an `UnsupportedType` for columns that are unsupported in some file."""
    found = {name: kind for footer in footers for name, kind in footer.unsupported.items()}
    if not found:
        return schema
    fields = [
        field.with_type(UnsupportedType(found[field.name])) if field.name in found else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)
