"""Plan the columns that a Parquet dataset delivers, with one schema even if files differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from mdstorm_backend.errors import CorruptDatasetError, UnsupportedTypeError
from mdstorm_backend.format.schema import Column, Origin, Schema
from mdstorm_backend.format.type_plan import plan_batch
from mdstorm_backend.format.values.arrow_types import numpy_dtype, plain_type
from mdstorm_backend.format.values.nested_lists import depth_of
from mdstorm_backend.parquet.footers import Footer, RowGroup


def plan_columns(fields: pa.Schema) -> tuple[Schema, dict[str, pa.DataType]]:
    """Return the columns that the data would have in MDS, and the unsupported ones.

    Parameters
    ----------
    fields : pyarrow.Schema
        The Arrow schema of the files.

    Returns
    -------
    schema : Schema
        The columns in stored order, with no null counts.
    left_out : dict of str to pyarrow.DataType
        Columns of unsupported types.

    Raises
    ------
    InvalidArgumentError
        If two columns have the same name, or one has no name.
    """
    left_out: dict[str, pa.DataType] = {}
    try:
        planned = plan_batch(fields, None)
    except UnsupportedTypeError as error:
        left_out = {name: fields.field(name).type for name in error.columns}
        kept = [field for field in fields if field.name not in left_out]
        planned = plan_batch(pa.schema(kept), None) if kept else Schema(())
    types = {column.name: fields.field(column.name).type for column in planned}
    # Unsigned numbers have no Spark type, which would record the depth of nested lists.
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


def common_schema(schemas: Sequence[pa.Schema], urls: Sequence[str]) -> pa.Schema:
    """Return the schema of the first file, with columns widened to fit all files.

    Files may differ in the order of columns and the width of numbers; a column without values may
    have type null. A column of several types gets a plain type, see `plain_type`.

    Parameters
    ----------
    schemas : sequence of pyarrow.Schema
        One per file, at least one.
    urls : sequence of str
        The files, for error messages.

    Raises
    ------
    CorruptDatasetError
        If a file has other columns than the first one, or a column of an incompatible type.
    """
    first = schemas[0]
    types = {field.name: field.type for field in first}
    known = [first]
    for schema, url in zip(schemas, urls, strict=True):
        if any(schema.equals(other) for other in known):
            continue
        known.append(schema)
        found = {field.name: field.type for field in schema}
        for has, lacks, of_first in ((types, found, True), (found, types, False)):
            missing = next((name for name in has if name not in lacks), None)
            if missing is not None:
                there, here = (urls[0], url) if of_first else (url, urls[0])
                raise _mixed(
                    f"{here} has no column {missing!r}, which {there} has, of type {has[missing]}",
                    url,
                )
        for name, type_ in found.items():
            wider = _wider(types[name], type_)
            if wider is None:
                raise _mixed(
                    f"column {name!r} is {type_} in {url} and {types[name]} in {urls[0]}", url
                )
            types[name] = wider
    fields = [field.with_type(types[field.name]) for field in first]
    return pa.schema(fields, first.metadata)


def _mixed(what: str, url: str) -> CorruptDatasetError:
    return CorruptDatasetError(
        f"{what}: all files of a dataset need the same columns. Pass the matching files as a "
        "list, or write the others again",
        url=url,
    )


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the plain type that holds the values of both exactly, None if neither does.

    Fixed-size lists become lists, as lengths may differ. Tensors of differing shapes have no such
    type.
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if any(isinstance(type_, pa.FixedShapeTensorType) for type_ in (one, other)):
        return None
    plain, plain_other = plain_type(one), plain_type(other)
    if _holds(plain, plain_other):
        return plain
    return plain_other if _holds(plain_other, plain) else None


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    types = pa.types
    if wide == narrow or types.is_null(narrow):
        return True
    if types.is_list(wide) and types.is_list(narrow):
        return _holds(wide.value_type, narrow.value_type)
    if types.is_decimal128(wide) and types.is_decimal128(narrow):
        return bool(wide.scale == narrow.scale and wide.precision >= narrow.precision)
    if not all(types.is_integer(type_) or types.is_floating(type_) for type_ in (wide, narrow)):
        return False
    if types.is_floating(wide) and types.is_integer(narrow) and narrow.bit_width == 64:
        return False  # NumPy considers the cast to float64 safe
    return bool(np.can_cast(numpy_dtype(narrow), numpy_dtype(wide), "safe"))
