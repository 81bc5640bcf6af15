"""Write a Unischema as a pickle that Petastorm can read.

The instructions are written one by one, in protocol 2, which every Python version reads. Petastorm
need not be installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm._schema.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    NdarrayCodec,
    ScalarCodec,
)
from mdstorm._schema.spark_type_names import class_name, spark_type_json
from mdstorm._schema.unischema import Unischema, UnischemaField
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
    encoded = [(field.name, _field(field)) for field in fields]
    ordered = _global("collections", "OrderedDict") + b")R" + _items(encoded)
    # As Petastorm keeps them: every field is an attribute, too.
    state = [("_name", _text(unischema._name)), ("_fields", ordered), *encoded]
    return b"\x80\x02" + _instance(_UNISCHEMA, "Unischema", state) + b"."


def _field(field: UnischemaField) -> bytes:
    shape = b"(" + b"".join(map(_size, field.shape)) + b"t"
    parts = [_text(field.name), _type(field), shape, _codec(field), _bool(field.nullable)]
    return _global(_UNISCHEMA, "UnischemaField") + b"(" + b"".join(parts) + b"t\x81"


def _type(field: UnischemaField) -> bytes:
    dtype = field.numpy_dtype
    if dtype is Decimal:
        return _global("decimal", "Decimal")
    if dtype in (bool, bytes, float, int, str):
        # Under the name of Python 2, whose protocol this is.
        return _global("__builtin__", "str" if dtype is bytes else dtype.__name__)
    type_ = np.dtype(dtype).type
    return _global("numpy", _NUMPY_NAMES.get(type_, np.dtype(type_).name))


def _codec(field: UnischemaField) -> bytes:
    codec = field.codec
    if codec is None:
        return b"N"
    if type(codec) in _PLAIN_CODECS:
        return _instance(_CODECS, type(codec).__name__, [])
    if type(codec) is CompressedImageCodec:
        state = [
            ("_image_codec", _text(f".{codec.image_codec}")),
            ("_quality", _size(codec.quality)),
        ]
        return _instance(_CODECS, "CompressedImageCodec", state)
    if type(codec) is ScalarCodec:
        return _instance(_CODECS, "ScalarCodec", [("_spark_type", _spark_type(codec._spark_type))])
    raise InvalidArgumentError(
        f"field {field.name!r} has the codec {type(codec).__name__}, which is not one of "
        "Petastorm's, so readers could not restore it from the metadata: use one of those"
    )


def _spark_type(spark_type: Any) -> bytes:
    name, json = class_name(spark_type), spark_type_json(spark_type)
    if name != "DecimalType":
        if not isinstance(json, str):
            raise InvalidArgumentError(f"a ScalarCodec of {name} cannot be kept in metadata")
        return _instance(_SPARK, name, [])
    assert isinstance(json, str)
    precision, scale = json[len("decimal(") : -1].split(",")
    state = [("precision", _size(int(precision))), ("scale", _size(int(scale)))]
    return _instance(_SPARK, name, [*state, ("hasPrecisionInfo", _bool(True))])


def _instance(module: str, name: str, state: list[tuple[str, bytes]]) -> bytes:
    made = _global(module, name) + b")\x81"
    return made + (b"}" + _items(state) + b"b" if state else b"")


def _items(items: Iterable[tuple[str, bytes]]) -> bytes:
    return b"(" + b"".join(_text(key) + value for key, value in items) + b"u"


def _global(module: str, name: str) -> bytes:
    return b"c" + f"{module}\n{name}\n".encode("ascii")


def _text(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(content)) + content


def _size(number: int | None) -> bytes:
    return b"N" if number is None else b"I" + str(int(number)).encode("ascii") + b"\n"


def _bool(value: bool) -> bytes:
    return b"\x88" if value else b"\x89"
