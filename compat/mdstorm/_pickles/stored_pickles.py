"""Write pickled schemas and indexes as Petastorm does, and read them without executing anything."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm import codecs
from mdstorm._pickles import restricted_unpickler as unpickler
from mdstorm._schema import NamedSparkType, UnischemaField, class_name, is_simple, spark_type_json
from mdstorm.errors import InvalidArgumentError
from mdstorm.unischema import Unischema

_UNISCHEMA = "petastorm.unischema"
_CODECS = "petastorm.codecs"
_SPARK = "pyspark.sql.types"
_FIELD_KINDS = ("CompressedImageCodec", "CompressedNdarrayCodec", "NdarrayCodec", "ScalarCodec")
_PLAIN_CODECS = (codecs.CompressedNdarrayCodec, codecs.NdarrayCodec)
#: Maximum number of dimensions of a NumPy array.
_MOST_DIMENSIONS = 64
_INDEXERS = "petastorm.etl.rowgroup_indexers"
_KINDS = (f"{_INDEXERS}.SingleFieldIndexer", f"{_INDEXERS}.FieldNotNullIndexer")


def load_unischema(data: bytes) -> Unischema:
    """Return the schema in a pickle, without executing anything in it.

    All pickle protocols and the formats of all Petastorm versions are supported, including those
    from when Petastorm was called dataset_toolkit.

    Parameters
    ----------
    data : bytes
        Value of the metadata key ``dataset-toolkit.unischema.v1``.

    Raises
    ------
    UnsafePickleError
        If `data` is not a pickled Unischema with Petastorm's codecs. The error is also a
        `pickle.UnpicklingError`.
    """
    with unpickler.damage_refused():
        made = unpickler.expect(unpickler.read_pickle(data), "schema", f"{_UNISCHEMA}.Unischema")
        state = unpickler.attributes(made)
        fields = [_stored_field(node) for _, node in unpickler.entries(state["_fields"])]
        return Unischema(unpickler.text_of(state["_name"]), fields)


def _stored_field(node: Any) -> UnischemaField:
    made = unpickler.expect(node, "field", f"{_UNISCHEMA}.UnischemaField")
    name, dtype, shape, codec, nullable = made.arguments
    if len(shape) > _MOST_DIMENSIONS or not all(
        size is None or (type(size) is int and size >= 0) for size in shape
    ):
        raise unpickler.refused("a field has no valid shape")
    return UnischemaField(
        unpickler.text_of(name),
        unpickler.numpy_type(dtype),
        tuple(shape),
        None if codec is None else _stored_codec(codec),
        bool(nullable),
    )


def _stored_codec(node: Any) -> codecs.DataframeColumnCodec:
    made = unpickler.expect(node, "codec", *(f"{_CODECS}.{kind}" for kind in _FIELD_KINDS))
    state = unpickler.attributes(made)
    if made.name.endswith(".ScalarCodec"):
        return codecs.ScalarCodec(unpickler.spark_type(state["_spark_type"]))
    if made.name.endswith(".CompressedImageCodec"):
        quality = state.get("_quality", 80)
        if type(quality) is not int:
            raise unpickler.refused("the quality of an image codec is not an integer")
        return codecs.stored_image_codec(unpickler.text_of(state["_image_codec"]), quality)
    return codecs.CompressedNdarrayCodec() if "Compressed" in made.name else codecs.NdarrayCodec()


def dump_unischema(unischema: Unischema) -> bytes:
    """Return the value of the metadata key ``dataset-toolkit.unischema.v1``.

    Raises
    ------
    InvalidArgumentError
        If a field has a codec or type that Petastorm does not have.
    """
    fields = list(unischema.fields.values())
    encoded = [(field.name, dump_field(field)) for field in fields]
    # As in Petastorm, each field is also an attribute of the schema.
    by_name = called(imported("collections", "OrderedDict")) + entries(encoded)
    state = [("_name", text(unischema._name)), ("_fields", by_name), *encoded]
    return b"\x80\x02" + instance(_UNISCHEMA, "Unischema", state) + b"."


def dump_field(field: UnischemaField) -> bytes:
    """Return the part of the pickle for one field; equal fields give equal bytes."""
    shape = tuple_of(map(integer, field.shape))
    parts = [text(field.name), _type(field), shape, _codec(field), boolean(field.nullable)]
    return imported(_UNISCHEMA, "UnischemaField") + tuple_of(parts) + b"\x81"


def _type(field: UnischemaField) -> bytes:
    dtype = field.numpy_dtype
    if dtype is Decimal:
        return imported("decimal", "Decimal")
    if isinstance(dtype, type) and dtype in (bool, bytes, float, int, str):
        # Use Python 2's module name, because the pickle uses a Python 2 protocol.
        return imported("__builtin__", "str" if dtype is bytes else dtype.__name__)
    name = np.dtype(np.dtype(dtype).type).name
    return imported("numpy", f"{name}_" if name in ("bool", "bytes", "object", "str") else name)


def _codec(field: UnischemaField) -> bytes:
    codec = field.codec
    if codec is None:
        return b"N"
    if type(codec) in _PLAIN_CODECS:
        return instance(_CODECS, type(codec).__name__, [])
    if type(codec) is codecs.CompressedImageCodec:
        format_, quality = text(f".{codec.image_codec}"), integer(codec.quality)
        state = [("_image_codec", format_), ("_quality", quality)]
        return instance(_CODECS, "CompressedImageCodec", state)
    if type(codec) is codecs.ScalarCodec:
        return instance(_CODECS, "ScalarCodec", [("_spark_type", _spark_type(codec._spark_type))])
    raise InvalidArgumentError(
        f"field {field.name!r} has the codec {type(codec).__name__}, which is not one of "
        "Petastorm's, so readers could not restore it from the metadata: use a Petastorm codec"
    )


def _spark_type(spark_type: Any) -> bytes:
    json = spark_type_json(spark_type)
    if isinstance(json, dict) and json["type"] == "array" and isinstance(json["elementType"], str):
        element, has_nulls = _simple_type(json["elementType"]), boolean(json["containsNull"])
        state = [("elementType", element), ("containsNull", has_nulls)]
        return instance(_SPARK, "ArrayType", state)
    return _simple_type(json)


def _simple_type(json: Any) -> bytes:
    name = class_name(NamedSparkType(json)) if is_simple(json) else None
    if name is None:
        raise InvalidArgumentError(
            f"a ScalarCodec of Spark's type {json} cannot be stored in metadata: use one of "
            "a number, a string, binary, a date or a timestamp"
        )
    if name != "DecimalType":
        return instance(_SPARK, name, [])
    precision, scale = json[len("decimal(") : -1].split(",")
    state = [("precision", integer(int(precision))), ("scale", integer(int(scale)))]
    return instance(_SPARK, name, [*state, ("hasPrecisionInfo", boolean(True))])


def imported(module: str, name: str) -> bytes:
    """Return opcodes that push the object ``module.name``."""
    return b"c" + f"{module}\n{name}\n".encode("ascii")


def called(function: bytes, *arguments: bytes) -> bytes:
    """Return opcodes that push the result of a function call."""
    return function + tuple_of(arguments) + b"R"


def instance(module: str, name: str, state: list[tuple[str, bytes]]) -> bytes:
    """Return opcodes that push an instance of a class with the given attributes."""
    made = imported(module, name) + b")\x81"
    return made + b"}" + entries(state) + b"b" if state else made


def entries(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """Return opcodes that set values by name in the dict on top of the stack."""
    return items((text(name), value) for name, value in pairs)


def items(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return opcodes that set keys and values in the dict on top of the stack."""
    return b"(" + b"".join(key + value for key, value in pairs) + b"u"


def tuple_of(values: Iterable[bytes]) -> bytes:
    """Return opcodes that push a tuple."""
    return b"(" + b"".join(values) + b"t"


def text(value: str) -> bytes:
    """Return opcodes that push a string."""
    content = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(content)) + content


def binary(value: bytes) -> bytes:
    """Return opcodes that push bytes, which require protocol 3."""
    return b"B" + struct.pack("<I", len(value)) + value


def integer(value: int | None) -> bytes:
    """Return opcodes that push an integer of any size, or None."""
    return b"N" if value is None else b"I" + str(int(value)).encode("ascii") + b"\n"


def number(value: float) -> bytes:
    """Return opcodes that push a float."""
    return b"G" + struct.pack(">d", value)


def boolean(value: bool) -> bytes:
    """Return opcodes that push True or False."""
    return b"\x88" if value else b"\x89"


_SET = imported("builtins", "set")
#: The import path that works with both NumPy 1 and 2.
_SCALAR = imported("numpy.core.multiarray", "scalar")
_DTYPE = imported("numpy", "dtype")


@dataclass(frozen=True)
class StoredIndex:
    """A row group index.

    Attributes
    ----------
    kind : str
        ``"SingleFieldIndexer"`` or ``"FieldNotNullIndexer"``.
    index_name, column_name : str
        Name of the index, and of the field it covers.
    row_groups : dict of (object to set of int), or set of int
        Numbers of the row groups that contain each value, or that contain any non-null value.
    """

    kind: str
    index_name: str
    column_name: str
    row_groups: dict[Any, set[int]] | set[int]


def load_indexes(data: bytes) -> dict[str, StoredIndex]:
    """Return the row group indexes in a pickle, by name, without executing anything in it.

    Parameters
    ----------
    data : bytes
        Value of the metadata key ``dataset-toolkit.rowgroups_index.v1``.

    Raises
    ------
    UnsafePickleError
        If `data` is anything else. The error is also a `pickle.UnpicklingError`.
    """
    with unpickler.damage_refused():
        allowance = _Allowance(len(data))
        found = unpickler.entries(unpickler.read_pickle(data))
        return {unpickler.text_of(name): _stored_index(node, allowance) for name, node in found}


class _Allowance:
    """Limits how many values are copied from a pickle, which may refer to one object many times."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise unpickler.refused("its row group index has more entries than its size allows")


def _stored_index(node: Any, allowance: _Allowance) -> StoredIndex:
    made = unpickler.expect(node, "index", *_KINDS)
    state = unpickler.attributes(made)
    content = state["_index_data"]
    row_groups: dict[Any, set[int]] | set[int]
    if made.name.endswith("SingleFieldIndexer"):
        row_groups = {}
        for key, numbers in unpickler.entries(content):
            # A scalar's last argument is its content.
            allowance.take(
                1 + (len(key.arguments[-1]) if isinstance(key, unpickler.Placeholder) else 0)
            )
            row_groups[unpickler.scalar(key)] = _row_groups(numbers, allowance)
    else:
        row_groups = _row_groups(content, allowance)
    name, column = unpickler.text_of(state["_index_name"]), unpickler.text_of(state["_column_name"])
    return StoredIndex(made.name.rpartition(".")[2], name, column, row_groups)


def _row_groups(node: Any, allowance: _Allowance) -> set[int]:
    if isinstance(node, unpickler.Placeholder):  # protocols below 4 call `set` with a list
        (node,) = unpickler.expect(node, "set", "builtins.set").arguments
    allowance.take(len(node))
    if not all(type(number) is int for number in node):
        raise unpickler.refused("a row group has no number")
    return set(node)


def dump_indexes(indexes: Mapping[str, StoredIndex]) -> bytes:
    """Return the value of the metadata key ``dataset-toolkit.rowgroups_index.v1``.

    NumPy numbers and strings are written as the Python values they are equal to.

    Parameters
    ----------
    indexes : mapping of str to StoredIndex
        The indexes by name.

    Raises
    ------
    InvalidArgumentError
        If a field has values that cannot be stored.
    """
    return b"\x80\x03}" + entries((n, _index(index)) for n, index in indexes.items()) + b"."


def _index(index: StoredIndex) -> bytes:
    groups = index.row_groups
    data = _values(groups, index.column_name) if isinstance(groups, dict) else _numbers(groups)
    names = [("_index_name", text(index.index_name)), ("_column_name", text(index.column_name))]
    return instance(_INDEXERS, index.kind, [*names, ("_index_data", data)])


def _values(groups: Mapping[Any, Iterable[int]], field: str) -> bytes:
    """Return opcodes that push a defaultdict, because Petastorm also looks up missing values."""
    empty = called(imported("collections", "defaultdict"), _SET)
    return empty + items((_value(value, field), _numbers(n)) for value, n in groups.items())


def _numbers(numbers: Iterable[int]) -> bytes:
    listed = b"](" + b"".join(map(integer, sorted(numbers))) + b"e"
    return called(_SET, listed)


def _value(value: Any, field: str) -> bytes:
    if isinstance(value, np.datetime64):
        return _time(value)
    if isinstance(value, np.generic) and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return binary(value)
    if isinstance(value, Decimal):
        return called(imported("decimal", "Decimal"), text(str(value)))
    raise InvalidArgumentError(
        f"field {field!r} holds values of type {type(value).__name__}, which cannot be indexed"
    )


def _time(value: np.datetime64) -> bytes:
    unit, count = np.datetime_data(value)
    one = integer(1)
    metadata = tuple_of([b"}", tuple_of([binary(unit.encode("ascii")), integer(count), one, one])])
    size_and_flags = [integer(-1), integer(-1), integer(0)]
    state = tuple_of([integer(4), text("<"), b"N", b"N", b"N", *size_and_flags, metadata])
    dtype = called(_DTYPE, text("M8"), boolean(False), boolean(True)) + state + b"b"
    return called(_SCALAR, dtype, binary(value.astype("<i8").tobytes()))
