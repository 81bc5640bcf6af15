"""Write a Unischema as a pickle that Petastorm can read. Petastorm need not be installed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm._pickles.instructions import (
    boolean,
    imported,
    instance,
    integer,
    ordered_dict,
    text,
    tuple_of,
)
from mdstorm._schema.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    NdarrayCodec,
    ScalarCodec,
)
from mdstorm._schema.spark_type_names import (
    NamedSparkType,
    class_name,
    is_simple,
    spark_type_json,
)
from mdstorm._schema.unischema import Unischema
from mdstorm._schema.unischema_field import UnischemaField
from mdstorm.errors import InvalidArgumentError

_UNISCHEMA = "petastorm.unischema"
_CODECS = "petastorm.codecs"
_SPARK = "pyspark.sql.types"
_PLAIN_CODECS = (CompressedNdarrayCodec, NdarrayCodec)
#: Names of NumPy types that are not names of dtypes.
_NUMPY_NAMES = {
    np.bool_: "bool_",
    np.bytes_: "bytes_",
    np.datetime64: "datetime64",
    np.object_: "object_",
    np.str_: "str_",
    np.timedelta64: "timedelta64",
}


def dump_unischema(unischema: Unischema) -> bytes:
    """Return the value of the metadata key ``dataset-toolkit.unischema.v1``.

    Raises
    ------
    InvalidArgumentError
        If a field has a codec, or a type, that is not one of Petastorm's.
    """
    fields = list(unischema.fields.values())
    encoded = [(field.name, dump_field(field)) for field in fields]
    # As Petastorm keeps them: every field is an attribute, too.
    state = [("_name", text(unischema._name)), ("_fields", ordered_dict(encoded)), *encoded]
    return b"\x80\x02" + instance(_UNISCHEMA, "Unischema", state) + b"."


def dump_field(field: UnischemaField) -> bytes:
    """Return the part of the pickle for one field: equal for fields that are alike in all."""
    shape = tuple_of(map(integer, field.shape))
    parts = [text(field.name), _type(field), shape, _codec(field), boolean(field.nullable)]
    return imported(_UNISCHEMA, "UnischemaField") + tuple_of(parts) + b"\x81"


def _type(field: UnischemaField) -> bytes:
    dtype = field.numpy_dtype
    if dtype is Decimal:
        return imported("decimal", "Decimal")
    if isinstance(dtype, type) and dtype in (bool, bytes, float, int, str):
        # Under the name of Python 2, whose protocol this is.
        return imported("__builtin__", "str" if dtype is bytes else dtype.__name__)
    type_ = np.dtype(dtype).type
    return imported("numpy", _NUMPY_NAMES.get(type_, np.dtype(type_).name))


def _codec(field: UnischemaField) -> bytes:
    codec = field.codec
    if codec is None:
        return b"N"
    if type(codec) in _PLAIN_CODECS:
        return instance(_CODECS, type(codec).__name__, [])
    if type(codec) is CompressedImageCodec:
        state = [
            ("_image_codec", text(f".{codec.image_codec}")),
            ("_quality", integer(codec.quality)),
        ]
        return instance(_CODECS, "CompressedImageCodec", state)
    if type(codec) is ScalarCodec:
        return instance(_CODECS, "ScalarCodec", [("_spark_type", _spark_type(codec._spark_type))])
    raise InvalidArgumentError(
        f"field {field.name!r} has the codec {type(codec).__name__}, which is not one of "
        "Petastorm's, so readers could not restore it from the metadata: use one of those"
    )


def _spark_type(spark_type: Any) -> bytes:
    json = spark_type_json(spark_type)
    if isinstance(json, dict) and json["type"] == "array" and isinstance(json["elementType"], str):
        state = [
            ("elementType", _simple_type(json["elementType"])),
            ("containsNull", boolean(json["containsNull"])),
        ]
        return instance(_SPARK, "ArrayType", state)
    return _simple_type(json)


def _simple_type(json: Any) -> bytes:
    name = class_name(NamedSparkType(json)) if is_simple(json) else None
    if name is None:
        raise InvalidArgumentError(
            f"a ScalarCodec of Spark's type {json} cannot be kept in metadata: use one of "
            "a number, a string, binary, a date or a timestamp"
        )
    if name != "DecimalType":
        return instance(_SPARK, name, [])
    precision, scale = json[len("decimal(") : -1].split(",")
    state = [("precision", integer(int(precision))), ("scale", integer(int(scale)))]
    return instance(_SPARK, name, [*state, ("hasPrecisionInfo", boolean(True))])
