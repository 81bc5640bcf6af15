"""Store a Unischema as JSON in the index of an MDS dataset."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm._schema import NamedSparkType, UnischemaField, spark_type_json
from mdstorm.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    DataframeColumnCodec,
    NdarrayCodec,
    ScalarCodec,
)
from mdstorm.errors import CorruptDatasetError
from mdstorm.unischema import Unischema

#: Types of fields that are not NumPy's.
_PYTHON_TYPES: dict[str, Any] = {
    "Decimal": Decimal,
    "python bool": bool,
    "python bytes": bytes,
    "python float": float,
    "python int": int,
    "python str": str,
}
#: Types of NumPy whose names differ between its versions, or are no names of dtypes.
_NUMPY_TYPES: dict[str, Any] = {
    "bool": np.bool_,
    "bytes": np.bytes_,
    "datetime64": np.datetime64,
    "object": np.object_,
    "str": np.str_,
    "timedelta64": np.timedelta64,
}
_PLAIN_CODECS: dict[str, type[DataframeColumnCodec]] = {
    "CompressedNdarrayCodec": CompressedNdarrayCodec,
    "NdarrayCodec": NdarrayCodec,
}


def unischema_to_json(unischema: Unischema) -> dict[str, Any]:
    """Return the schema as a JSON object; user-defined codecs are left out."""
    return {
        "name": unischema._name,
        "fields": [
            {
                "name": field.name,
                "numpy_dtype": _type_name(field.numpy_dtype),
                "shape": list(field.shape),
                "codec": _codec_to_json(field.codec),
                "nullable": bool(field.nullable),
            }
            for field in unischema.fields.values()
        ],
    }


def unischema_from_json(value: Any, *, url: str = "") -> Unischema:
    """Read what `unischema_to_json` returned.

    Raises
    ------
    CorruptDatasetError
        If it is something else; `url` says where it came from.
    """
    try:
        return Unischema(str(value["name"]), [_field(field) for field in value["fields"]])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptDatasetError(
            f"{url} holds a Unischema that cannot be read ({type(error).__name__}: {error}). "
            "Write the dataset again, or restore its index from the source of the copy",
            url=url,
        ) from error


def _field(value: dict[str, Any]) -> UnischemaField:
    shape = tuple(value["shape"])
    if not all(size is None or (type(size) is int and size >= 0) for size in shape):
        raise ValueError(f"the shape {shape}")
    name, codec = value["name"], value.get("codec")
    if type(name) is not str:
        raise TypeError(f"a field of the name {name!r}")
    return UnischemaField(
        name, _type_of(value["numpy_dtype"]), shape, _codec(codec), value["nullable"] is True
    )


def _type_name(numpy_dtype: Any) -> str:
    for name, type_ in _PYTHON_TYPES.items():
        if numpy_dtype is type_:
            return name
    dtype = np.dtype(numpy_dtype)
    for name, type_ in _NUMPY_TYPES.items():
        if dtype.type is type_:
            return name
    return str(dtype.name)


def _type_of(name: str) -> Any:
    found = _PYTHON_TYPES.get(name) or _NUMPY_TYPES.get(name)
    if found is None:
        dtype = np.dtype(name)
        if dtype.kind not in "iufc":
            raise ValueError(f"the type {name!r}")
        found = dtype.type
    return found


def _codec_to_json(codec: Any) -> dict[str, Any] | None:
    if type(codec) is ScalarCodec:
        return {"type": "ScalarCodec", "spark_type": spark_type_json(codec._spark_type)}
    if type(codec) is CompressedImageCodec:
        return {
            "type": "CompressedImageCodec",
            "image_codec": codec.image_codec,
            "quality": codec.quality,
        }
    for name, class_ in _PLAIN_CODECS.items():
        if type(codec) is class_:
            return {"type": name}
    return None


def _codec(value: dict[str, Any] | None) -> DataframeColumnCodec | None:
    if value is None:
        return None
    kind = value["type"]
    if kind == "ScalarCodec":
        return ScalarCodec(NamedSparkType(value["spark_type"]))
    if kind == "CompressedImageCodec":
        return CompressedImageCodec(value["image_codec"], value["quality"])
    return _PLAIN_CODECS[kind]()
