"""Arrow types, and conversions to the NumPy and Spark types of the same values.

Datasets store a column's Spark type in Spark's own JSON, so they can be read without Spark.
Spark passes a vector to Arrow as ``struct<type, size, indices, values>``: type 0 is sparse, with
`size` elements of which those at `indices` are given; type 1 is dense.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc

_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_DTYPES = {pa.from_numpy_dtype(np.dtype(name)): np.dtype(name) for name in _NUMBERS}


def numpy_dtype(type_: pa.DataType) -> np.dtype[Any]:
    """Return the dtype that holds values of an Arrow type.

    Before pyarrow 26, ``to_pandas_dtype`` imports pandas for every type.
    """
    found = _DTYPES.get(type_)
    return np.dtype(type_.to_pandas_dtype()) if found is None else found


def arrow_type_of(dtype: np.dtype[Any]) -> pa.DataType:
    """Return the Arrow type for a NumPy dtype with any byte order."""
    return pa.from_numpy_dtype(dtype.newbyteorder("="))


def is_number(type_: pa.DataType) -> bool:
    """Whether values are integers, floating-point numbers or booleans."""
    types = pa.types
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_))


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries, extensions, views and 64-bit offsets, at any depth.

    Dates are ``date32``; timestamps and durations are in microseconds.
    """
    types = pa.types
    if is_number(type_):
        return type_
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if types.is_dictionary(type_) or _named(type_, "run_end_encoded"):
        return plain_type(type_.value_type)
    if _named(type_, "decimal32", "decimal64"):
        return pa.decimal128(type_.precision, type_.scale)
    if _named(type_, "large_string", "string_view"):
        return pa.string()
    if types.is_fixed_size_binary(type_) or _named(type_, "large_binary", "binary_view"):
        return pa.binary()
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return pa.list_(plain_type(type_.value_type))
    if types.is_struct(type_):
        return pa.struct([(field.name, plain_type(field.type)) for field in type_])
    if types.is_map(type_):
        return pa.map_(plain_type(type_.key_type), plain_type(type_.item_type))
    if types.is_date64(type_):
        return pa.date32()
    if types.is_timestamp(type_):
        return pa.timestamp("us", tz=type_.tz and "UTC")
    return pa.duration("us") if types.is_duration(type_) else type_


def plain_values(values: pa.Array) -> pa.Array:
    """Return the values cast to their `plain_type`.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a value would be lost, such as the nanoseconds of a timestamp.
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    wanted = plain_type(values.type)
    try:
        return values if _same(values.type, wanted) else values.cast(wanted)
    except pa.ArrowIndexError:  # Arrow cannot cast empty nested dictionaries
        return pa.array(values.to_pylist(), wanted)


def cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return plain values cast to a plain type; fields of structs may be in another order.

    Raises
    ------
    OverflowError
        If a double cannot hold an integer.
    pyarrow.ArrowInvalid
        If another value would be lost.
    """
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        if "Integer value" not in str(error) or "double" not in str(type_):
            raise
        return _integers_to_doubles(values, type_, error)
    except pa.ArrowTypeError:  # old Arrow versions cannot reorder fields
        return pa.array(values.to_pylist(), type_)


def _integers_to_doubles(values: pa.Array, type_: pa.DataType, reason: Exception) -> pa.Array:
    """Return values of which some are beyond 2**53, where a double holds only some integers."""
    found = values.cast(type_, safe=False)
    with suppress(pa.ArrowInvalid):  # a double may also be beyond 64-bit integers
        if found.cast(values.type).equals(values):
            return found
    raise OverflowError(f"a double cannot hold an integer: {reason}") from reason


def stored_bytes(values: pa.Array, placeholder: bytes) -> pa.LargeBinaryArray:
    """Return binaries or strings as large binaries, with a placeholder for nulls."""
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(placeholder).cast(values.type))
    return values.cast(pa.large_binary())


def validity(values: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return which values are not null, as a mask; None if no value is null."""
    return np.asarray(values.is_valid()) if values.null_count else None


def _same(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are equal except for nullability and the names of list and map items."""
    if pa.types.is_list(actual) and pa.types.is_list(wanted):
        return _same(actual.value_type, wanted.value_type)
    if pa.types.is_map(actual) and pa.types.is_map(wanted):
        return _same(actual.key_type, wanted.key_type) and _same(actual.item_type, wanted.item_type)
    if pa.types.is_struct(actual) and pa.types.is_struct(wanted):
        pairs = zip(actual, wanted, strict=True)
        return all(a.name == b.name and _same(a.type, b.type) for a, b in pairs)
    return bool(actual == wanted)


def _named(type_: pa.DataType, *names: str) -> bool:
    """Whether a type has one of these names: the only test for some types in old Arrow versions."""
    return str(type_).startswith(names)


#: A Spark type as JSON: ``"long"``, ``"decimal(10,2)"``, ``{"type": "array", "elementType": …}``, …
#: Inside other types, it may also be one of `_INNER`.
SparkType: TypeAlias = str | dict[str, Any]

_ATOMIC = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
#: Numbers that Spark does not have. Alone, and in flat lists, the encoding states them.
_NUMBERS_BEYOND_SPARK = {
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
}
#: Types without a Spark type of their own that may be inside others. Spark's ``void`` is not one of
#: them, because Spark cannot write it to Parquet.
_INNER = {**_NUMBERS_BEYOND_SPARK, "null": pa.null()}
_INNER_NAMES = {type_: name for name, type_ in _INNER.items()}
_SPARK_NAMES = {
    **{type_: name for name, type_ in _ATOMIC.items()},
    pa.duration("us"): "interval day to second",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT = re.compile(r"(var)?char\(\d+\)|string collate \S+")
_DAY_TIME_INTERVAL = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")


def is_vector(spark_type: SparkType) -> bool:
    """Whether the type is an ``ml`` or ``mllib`` vector."""
    return (
        isinstance(spark_type, dict)
        and spark_type["type"] == "udt"
        and str(spark_type.get("pyClass", spark_type.get("class"))).endswith("VectorUDT")
    )


def simple_name(spark_type: SparkType) -> str:
    """Return the name of the type for messages, in Spark's short form."""
    if isinstance(spark_type, str):
        return spark_type
    kind = str(spark_type["type"])
    if kind == "array":
        return f"array<{simple_name(spark_type['elementType'])}>"
    if kind == "map":
        return f"map<{simple_name(spark_type['keyType'])},{simple_name(spark_type['valueType'])}>"
    if kind == "struct":
        fields = (f"{f['name']}:{simple_name(f['type'])}" for f in spark_type["fields"])
        return f"struct<{','.join(fields)}>"
    return "vector" if is_vector(spark_type) else str(spark_type.get("class") or kind)


def holds_variants(spark_type: SparkType) -> bool:
    """Whether the type is a variant, or has one at any depth."""
    if isinstance(spark_type, str):
        return spark_type == "variant"
    parts = [
        spark_type[key] for key in ("elementType", "keyType", "valueType") if key in spark_type
    ]
    return any(map(holds_variants, (*parts, *(f["type"] for f in spark_type.get("fields", ())))))


def arrow_type(spark_type: SparkType) -> pa.DataType:
    """Return the Arrow type that holds the values of a Spark type.

    Vectors become lists of float64, and day-time intervals become durations in microseconds.

    Raises
    ------
    KeyError
        If the type has no counterpart, such as ``void``, ``variant``, year-month intervals, and
        types that hold vectors.
    """
    if is_vector(spark_type):
        return pa.list_(pa.float64())
    if isinstance(spark_type, str):
        if decimal := _DECIMAL.fullmatch(spark_type):
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if _TEXT.fullmatch(spark_type):
            return pa.string()
        if _DAY_TIME_INTERVAL.fullmatch(spark_type):
            return pa.duration("us")
        return _ATOMIC[spark_type]
    kind = spark_type["type"]
    if kind == "array":
        return pa.list_(_inner_type(spark_type["elementType"]))
    if kind == "map":
        return pa.map_(_inner_type(spark_type["keyType"]), _inner_type(spark_type["valueType"]))
    if kind == "struct":
        return pa.struct([(f["name"], _inner_type(f["type"])) for f in spark_type["fields"]])
    raise KeyError(simple_name(spark_type))


def _inner_type(spark_type: SparkType) -> pa.DataType:
    if is_vector(spark_type):
        raise KeyError("vector")
    if isinstance(spark_type, str) and spark_type in _INNER:
        return _INNER[spark_type]
    return arrow_type(spark_type)


def repeats_field(type_: pa.DataType) -> bool:
    """Whether a struct, at any depth, has two fields with the same name."""
    fields = [type_.field(i) for i in range(type_.num_fields)]
    is_repeated = pa.types.is_struct(type_) and len({f.name for f in fields}) < len(fields)
    return is_repeated or any(repeats_field(field.type) for field in fields)


def spark_type_of(type_: pa.DataType) -> SparkType | None:
    """Return the Spark type for the values of an Arrow type.

    None if there is none, which includes numbers that Spark does not have, and flat lists of them.
    """
    if isinstance(type_, pa.FixedShapeTensorType):
        return None
    type_ = plain_type(type_)
    flat = type_.value_type if pa.types.is_list(type_) else type_
    if pa.types.is_null(type_) or flat in _NUMBERS_BEYOND_SPARK.values():
        return None
    return _inner_spark_type(type_)


def _inner_spark_type(type_: pa.DataType) -> SparkType | None:
    """Return the Spark type for a plain type inside another one; None if there is none."""
    found = _SPARK_NAMES.get(type_) or _INNER_NAMES.get(type_)
    if found is not None:
        return found
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        element = _inner_spark_type(type_.value_type)
        return element and {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_map(type_):
        key, value = _inner_spark_type(type_.key_type), _inner_spark_type(type_.item_type)
        if key is None or value is None:
            return None
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_struct(type_):
        fields = [
            {"name": field.name, "type": _inner_spark_type(field.type), "nullable": True}
            for field in type_
        ]
        return (
            {"type": "struct", "fields": fields}
            if all(field["type"] is not None for field in fields)
            else None
        )
    return None


def holds_vectors(type_: pa.DataType) -> bool:
    """Whether an Arrow type is the struct in which Spark passes vectors."""
    names = ["type", "size", "indices", "values"]
    return bool(pa.types.is_struct(type_)) and [field.name for field in type_] == names


def vectors_to_lists(vectors: pa.StructArray) -> pa.ListArray:
    """Return the vectors as ``list<double>``; a null vector stays null."""
    kind, size, indices, values = vectors.flatten()
    sparse = np.asarray(pc.fill_null(pc.equal(kind, 0), False))
    if not sparse.any():
        return values
    given = np.asarray(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)
    lengths = np.where(sparse, np.asarray(pc.fill_null(size, 0)), given).astype(np.int64)
    offsets = np.zeros(len(vectors) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])

    # The position of each given value in its row: its index if sparse, its ordinal if dense.
    row = np.repeat(np.arange(len(vectors)), given)
    first = np.cumsum(given) - given
    place = np.arange(len(row)) - np.repeat(first, given)
    place[sparse[row]] = np.asarray(pc.filter(indices, pa.array(sparse)).flatten())
    dense = np.zeros(offsets[-1], np.float64)
    dense[offsets[row] + place] = np.asarray(values.flatten())

    mask = pc.invert(vectors.is_valid()) if vectors.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(dense), mask=mask)


def holds_decimals(type_: pa.DataType) -> bool:
    """Whether values are decimals, or arrays of decimals."""
    element = type_.value_type if pa.types.is_list(type_) else type_
    return bool(pa.types.is_decimal(element))


def decimals_to_floats(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return decimals, or arrays of them, as the nearest float64, then cast to `type_`.

    Converts through text, because Arrow's own cast is off by one unit in the last place for many
    values.

    Raises
    ------
    OverflowError
        If a value is out of the range of `type_`.
    """
    is_list = pa.types.is_list(type_)
    digits, exact = pa.large_string(), pa.float64()
    if is_list:
        digits, exact = pa.list_(digits), pa.list_(exact)
    floats = values.cast(digits).cast(exact).cast(type_)
    flat = floats.flatten() if is_list else floats
    if pc.any(pc.is_inf(flat)).as_py():
        raise OverflowError(f"the value is out of the range of {flat.type}")
    return floats
