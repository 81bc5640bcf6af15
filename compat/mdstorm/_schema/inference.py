"""Infer fields from the columns of a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm._schema.fields import UnischemaField
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import warn_user
from mdstorm_backend.format import Column, depth_of, is_number, numpy_dtype


def is_left_out(column: Column) -> bool:
    """Whether readers leave out a column unless `schema_fields` includes it.

    This applies to structs, maps, lists of structs or maps and, as in Petastorm, nested lists in
    Parquet files.
    """
    is_parquet = column.origin.lengths != "stated"
    return column.is_nested or (is_parquet and depth_of(column.arrow_type) > 1)


def fields_of_columns(columns: Iterable[Column]) -> list[UnischemaField]:
    """Infer fields from a dataset's columns, as Petastorm infers them from Parquet files.

    Parameters
    ----------
    columns : iterable of Column
        Columns of any kind of dataset. Columns with nested values do not get a field.

    Returns
    -------
    list of UnischemaField
        Fields without codecs. Arrays have the dimensions of their encoding or Spark type, each of
        any size unless all values in the dataset have the same shape. Arrays in Parquet files have
        one dimension.
    """
    fields = map(_field_of_column, columns)
    return [field for field in fields if field is not None]


def fields_of_arrow(dataset: Any, *, omit_unsupported_fields: bool) -> list[UnischemaField]:
    """Infer fields from an Arrow schema, or from a dataset that has one.

    See `Unischema.from_arrow_schema`.
    """
    schema = _arrow_schema_of(dataset)
    partitions = _partition_names(dataset)
    fields = []
    # Petastorm puts Hive partition columns before the columns in the files.
    for column in sorted(schema, key=lambda column: column.name not in partitions):
        found = _field(column.name, column.type, column.nullable)
        if found is not None and column.name in partitions and found.numpy_dtype is not np.str_:
            found = found._replace(numpy_dtype=np.int64)
        if found is not None:
            fields.append(found)
        elif not omit_unsupported_fields:
            raise InvalidArgumentError(
                f"Cannot auto-create unischema due to unsupported column type {column.type} of "
                f"{column.name!r}: omit_unsupported_fields=True leaves such columns out"
            )
        else:
            warn_user(f"Column {column.name!r} has an unsupported field {column.type}. Ignoring...")
    return fields


def numpy_type_of(arrow_type: pa.DataType) -> Any:
    """Return the NumPy type of a column's values or list elements.

    Raises
    ------
    InvalidArgumentError
        If the Arrow type has no NumPy type in a Unischema; also a ValueError.
    """
    while pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        arrow_type = arrow_type.value_type
    found = _field("", arrow_type, nullable=True)
    if found is None:
        raise InvalidArgumentError(
            f"Cannot auto-create unischema due to unsupported column type {arrow_type}. Leave such "
            "columns out, or store them with a codec"
        )
    return found.numpy_dtype


def _arrow_schema_of(dataset: Any) -> pa.Schema:
    for candidate in (
        dataset,
        getattr(dataset, "arrow_schema", None),
        getattr(dataset, "schema", None),
    ):
        if isinstance(candidate, pa.Schema):
            return candidate
    raise InvalidArgumentError(
        f"{dataset!r} is not a Parquet dataset: it has no Arrow schema. Pass a "
        "pyarrow.parquet.ParquetDataset or a pyarrow.Schema"
    )


def _partition_names(dataset: Any) -> set[str]:
    """Return the names of a dataset's partition columns."""
    ours = getattr(dataset, "partition_columns", None)
    if ours is not None:
        return {str(name) for name in ours}
    from pyarrow.dataset import get_partition_keys

    # Not from `partitioning.schema`, which contains all columns if there are no partitions.
    expressions = [file.partition_expression for file in getattr(dataset, "fragments", ())]
    return {name for found in expressions for name in get_partition_keys(found)}


def _field_of_column(column: Column) -> UnischemaField | None:
    encoding = column.parsed_encoding
    if encoding.is_opaque:
        return None
    if column.is_image:
        # The image size and the number of channels are stored only in the image file.
        return UnischemaField(column.name, np.uint8, (None, None, None), None, column.nullable)
    if column.is_array and encoding.shape is not None and encoding.dtype is not None:
        dtype = encoding.dtype.newbyteorder("=").type
        return UnischemaField(column.name, dtype, encoding.shape, None, column.nullable)
    depth = depth_of(column.arrow_type)
    if depth < 2:
        return _field(column.name, column.arrow_type, column.nullable)
    found = None if is_left_out(column) else _scalar_dtype(column.element_type)
    shape = column.value_shape or (None,) * depth
    return found and UnischemaField(column.name, found, shape, None, column.nullable)


def _field(name: str, type_: pa.DataType, nullable: bool) -> UnischemaField | None:
    shape: tuple[int | None, ...] = ()
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        type_, shape = type_.value_type, (None,)
    elif pa.types.is_fixed_size_list(type_):
        type_, shape = type_.value_type, (type_.list_size,)
    dtype = _scalar_dtype(type_)
    return None if dtype is None else UnischemaField(name, dtype, shape, None, nullable)


def _scalar_dtype(type_: pa.DataType) -> Any:
    types = pa.types
    if is_number(type_):
        return numpy_dtype(type_).type
    if types.is_string(type_) or types.is_large_string(type_):
        return np.str_
    if types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return np.bytes_
    if types.is_timestamp(type_) or types.is_date(type_):
        return np.datetime64
    if types.is_decimal(type_):
        return Decimal
    if types.is_duration(type_):
        return np.int64  # microseconds, as Spark writes intervals to Parquet files
    return None
