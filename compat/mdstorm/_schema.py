"""Schema fields, their Spark types, and the inference of fields from columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mdstorm._petastorm_names import public
from mdstorm.errors import EncodingTypeError, InvalidArgumentError
from mdstorm_backend.base import require, warn_user
from mdstorm_backend.format import Column, SparkType, depth_of, is_number, numpy_dtype

#: Spark types without parameters, as class name → JSON.
ATOMIC_TYPES = {
    "BinaryType": "binary",
    "BooleanType": "boolean",
    "ByteType": "byte",
    "DateType": "date",
    "DoubleType": "double",
    "FloatType": "float",
    "IntegerType": "integer",
    "LongType": "long",
    "NullType": "void",
    "ShortType": "short",
    "StringType": "string",
    "TimestampNTZType": "timestamp_ntz",
    "TimestampType": "timestamp",
}
_CLASSES = {json: name for name, json in ATOMIC_TYPES.items()}
_DECIMAL = re.compile(r"decimal\(\d+,-?\d+\)")
#: Spark types of scalars without a codec, by NumPy type.
_SPARK_TYPES: dict[Any, str] = {
    np.int8: "byte",
    np.uint8: "short",
    np.int16: "short",
    np.uint16: "integer",
    np.int32: "integer",
    np.int64: "long",
    np.float32: "float",
    np.float64: "double",
    np.str_: "string",
    np.bytes_: "string",
    np.bool_: "boolean",
}


@public("mdstorm.unischema")
class UnischemaField(NamedTuple):
    """A schema field. Fields that differ only in their codec compare equal.

    Attributes
    ----------
    name : str
        Name of the field.
    numpy_dtype : type
        Type of a value, or of the elements of an array: ``np.int64``, ``np.str_``, `Decimal`, …
    shape : tuple of (int or None)
        Shape of a value: ``()`` for a scalar, None for a dimension of any size.
    codec : DataframeColumnCodec or None
        How values are stored; None for values that Spark stores unchanged.
    nullable : bool
        Whether a value may be None.
    """

    name: str
    numpy_dtype: Any
    shape: tuple[int | None, ...]
    codec: Any = None
    nullable: bool = False

    def _mdstorm_identity(self) -> tuple[Any, ...]:
        return (self.name, self.numpy_dtype, self.shape, self.nullable)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UnischemaField)
            and self._mdstorm_identity() == other._mdstorm_identity()
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._mdstorm_identity())


def check_field(field: UnischemaField) -> None:
    """Raise InvalidArgumentError unless a field has a valid type, shape and codec."""
    try:
        np.dtype(field.numpy_dtype)
    except TypeError as error:
        raise _invalid(field, f"numpy_dtype {field.numpy_dtype!r}: pass a NumPy type") from error
    if not isinstance(field.shape, (tuple, list)):
        raise _invalid(field, f"shape {field.shape!r}: pass a tuple, () for a scalar")
    if field.codec is not None and (
        isinstance(field.codec, type) or not hasattr(field.codec, "decode")
    ):
        raise _invalid(field, f"codec {field.codec!r}: pass an object, such as NdarrayCodec()")


def _invalid(field: UnischemaField, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"field {field.name!r} has the {what}")


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


@dataclass(frozen=True)
class NamedSparkType:
    """A Spark type, kept as Spark's JSON so that pyspark is not needed.

    Attributes
    ----------
    json : str or dict
        The result of ``DataType.jsonValue()``: ``"long"``, ``"decimal(10,2)"``, …
    """

    json: SparkType

    def __str__(self) -> str:
        return f"{class_name(self)}()"

    def load(self) -> Any:
        """Return the `pyspark.sql.types.DataType`, which requires pyspark."""
        require("pyspark")
        from pyspark.sql.types import StructField

        # This is the only public pyspark function that can parse any type.
        field = {"name": "x", "type": self.json, "nullable": True, "metadata": {}}
        return StructField.fromJson(field).dataType


def is_simple(json: SparkType) -> bool:
    """Whether a type is a decimal or has no parameters, unlike arrays, structs and maps."""
    return isinstance(json, str) and (json in _CLASSES or _DECIMAL.fullmatch(json) is not None)


def class_name(spark_type: Any) -> str:
    """Return the class name of a Spark type, given an instance, a class or a `NamedSparkType`."""
    if isinstance(spark_type, NamedSparkType):
        if isinstance(spark_type.json, dict):
            return f"{str(spark_type.json['type']).capitalize()}Type"
        if _DECIMAL.fullmatch(spark_type.json):
            return "DecimalType"
        return _CLASSES[spark_type.json]
    return str((spark_type if isinstance(spark_type, type) else type(spark_type)).__name__)


def spark_type_json(spark_type: Any) -> SparkType:
    """Return Spark's JSON for a type in any form that `class_name` accepts."""
    if isinstance(spark_type, NamedSparkType):
        return spark_type.json
    name = class_name(spark_type)
    if name in ATOMIC_TYPES:
        return ATOMIC_TYPES[name]
    found: SparkType = (spark_type() if isinstance(spark_type, type) else spark_type).jsonValue()
    return found


def numpy_to_spark_mapping() -> dict[Any, Any]:
    """Return the Spark types for NumPy types of scalars without a codec; requires pyspark."""
    return {dtype: NamedSparkType(name).load() for dtype, name in _SPARK_TYPES.items()}


def spark_type(field: UnischemaField) -> Any:
    """Return a field's Spark type as a `pyspark.sql.types.DataType`.

    Raises
    ------
    InvalidArgumentError
        If the field has no codec and Spark cannot store its type directly; also a ValueError.
    """
    if field.codec is not None:
        return field.codec.spark_dtype()
    if field.shape:
        raise InvalidArgumentError(
            f"An instance of non-scalar UnischemaField {field.name!r} has codec set to None. Don't "
            "know how to guess a Spark type for it; give it NdarrayCodec() or a custom codec"
        )
    dtype = field.numpy_dtype
    name = _SPARK_TYPES.get(dtype.type if isinstance(dtype, np.dtype) else dtype)
    if name is None:
        raise InvalidArgumentError(
            f"Was not able to map type {dtype} to a spark type. Give field {field.name!r} a "
            "ScalarCodec with the Spark type to store it as"
        )
    return NamedSparkType(name).load()


def encoded(field: UnischemaField, value: Any) -> Any:
    """Encode a field's value for a Spark DataFrame.

    Raises
    ------
    EncodingError
        If the value does not fit the field; also a ValueError.
    """
    if value is None:
        if not field.nullable:
            raise EncodingTypeError(
                f'Field {field.name!r} is not "nullable", but got a None value: give it a value, '
                "or declare it nullable",
                column=field.name,
            )
        return None
    if field.codec is not None:
        return field.codec.encode(field, value)
    return value.item() if isinstance(value, np.generic) else value
