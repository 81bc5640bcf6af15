"""The types and scalars that occur in Petastorm's pickles, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from mdstorm._pickles.nodes import Call, Global, Mapping
from mdstorm._schema.spark_type_names import ATOMIC_TYPES, NamedSparkType
from mdstorm.errors import UnsafePickleError

#: NumPy's names for types, those among them that NumPy 2 no longer has.
_NUMPY_TYPES: dict[str, Any] = {
    "bool": np.bool_,
    "bool8": np.bool_,
    "bool_": np.bool_,
    "bytes0": np.bytes_,
    "bytes_": np.bytes_,
    "datetime64": np.datetime64,
    "double": np.float64,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "float_": np.float64,
    "half": np.float16,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "int8": np.int8,
    "int_": np.int_,
    "intc": np.intc,
    "longlong": np.longlong,
    "object_": np.object_,
    "single": np.float32,
    "str0": np.str_,
    "str_": np.str_,
    "string_": np.bytes_,
    "timedelta64": np.timedelta64,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "uint8": np.uint8,
    "ulonglong": np.ulonglong,
    "unicode_": np.str_,
}
_BUILTIN_TYPES: dict[str, Any] = {
    "bool": bool,
    "bytes": bytes,
    "float": float,
    "int": int,
    "long": int,
    "str": str,
    "unicode": str,
}
_SPARK_MODULE = "pyspark.sql.types"

#: The names that a pickle may import, by module (after `renamed`).
ALLOWED: dict[str, frozenset[str]] = {
    "builtins": frozenset({"object", "set", "tuple", *_BUILTIN_TYPES}),
    "collections": frozenset({"OrderedDict", "defaultdict"}),
    "copyreg": frozenset({"_reconstructor"}),
    "decimal": frozenset({"Decimal"}),
    "numpy": frozenset({"dtype", *_NUMPY_TYPES}),
    "numpy.core.multiarray": frozenset({"scalar"}),
    "petastorm.codecs": frozenset(
        {"CompressedImageCodec", "CompressedNdarrayCodec", "NdarrayCodec", "ScalarCodec"}
    ),
    "petastorm.etl.rowgroup_indexers": frozenset({"FieldNotNullIndexer", "SingleFieldIndexer"}),
    "petastorm.unischema": frozenset({"Unischema", "UnischemaField"}),
    "pyspark.serializers": frozenset({"_restore"}),
    _SPARK_MODULE: frozenset({"ArrayType", "DecimalType", *ATOMIC_TYPES}),
}
#: Petastorm's modules under its former name, and where they are now.
_ROOTS = ("av.experimental.deepdrive.dataset_toolkit", "av.ml.dataset_toolkit", "mdstorm")
_MODULES = {
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "numpy._core.multiarray": "numpy.core.multiarray",
}

#: dtypes of scalars: kind and size; the byte order is stored separately.
_DTYPE = re.compile(r"b1|[iu][1248]|f[248]|[SU]\d{1,6}|M8")
_UNITS = frozenset({"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"})


def renamed(found: Global) -> Global:
    """Return the name as current Petastorm and Python 3 spell it."""
    module = _MODULES.get(found.module, found.module)
    for root in _ROOTS:
        if module.startswith(f"{root}."):
            module = "petastorm" + module[len(root) :]
    return Global(module, found.name)


def refused(what: str) -> UnsafePickleError:
    """Return the error for allowed parts that are combined in a way Petastorm never does."""
    return UnsafePickleError(
        f"Petastorm would not write this metadata: {what}. It is damaged, or was written by "
        "something else"
    )


def class_and_values(node: Any) -> tuple[Global, tuple[Any, ...]]:
    """Return the class of an object and the values that it is made of.

    An object is described as a call of its class, of ``copyreg._reconstructor`` (protocols 0 and
    1), or of ``pyspark.serializers._restore`` (namedtuples that were pickled by old Sparks).
    """
    if not isinstance(node, Call) or not isinstance(node.function, Global):
        raise refused("a value in place of an object")
    called, values = renamed(node.function), node.arguments
    if not isinstance(values, tuple):
        raise refused(f"{called} is called with no arguments")
    if called.module == "copyreg":
        if len(values) != 3 or not isinstance(values[0], Global):
            raise refused("an object without a class")
        base = values[2]
        return renamed(values[0]), base if isinstance(base, tuple) else ()
    if called.module == "pyspark.serializers":
        if len(values) != 3 or not isinstance(values[0], str) or not isinstance(values[2], tuple):
            raise refused("a namedtuple without a name")
        return Global("petastorm.unischema", values[0]), values[2]
    return called, values


def attributes(node: Any) -> dict[str, Any]:
    """Return the attributes that the state of an object sets."""
    state = node.state if isinstance(node, Call) else None
    if state is None:
        return {}
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key, _ in state.items):
        raise refused("an object whose state has no names")
    return dict(state.items)


def numpy_type(node: Any) -> Any:
    """Return the type that a field's ``numpy_dtype`` names."""
    if isinstance(node, Global):
        name = renamed(node)
        if name.module == "numpy" and name.name in _NUMPY_TYPES:
            return _NUMPY_TYPES[name.name]
        if name.module == "builtins" and name.name in _BUILTIN_TYPES:
            return _BUILTIN_TYPES[name.name]
        if name == Global("decimal", "Decimal"):
            return Decimal
        raise refused(f"{name} is the type of a field")
    return _dtype(node)


def spark_type(node: Any) -> NamedSparkType:
    """Return the Spark type of a codec."""
    class_ = renamed(node) if isinstance(node, Global) else class_and_values(node)[0]
    if class_ != Global(_SPARK_MODULE, "ArrayType"):
        return _simple_spark_type(class_, node)
    state = attributes(node)
    element = state.get("elementType")
    simple = _simple_spark_type(class_and_values(element)[0], element)
    has_nulls = state.get("containsNull") is not False
    return NamedSparkType({"type": "array", "elementType": simple.json, "containsNull": has_nulls})


def _simple_spark_type(class_: Global, node: Any) -> NamedSparkType:
    if class_.module == _SPARK_MODULE and class_.name in ATOMIC_TYPES:
        return NamedSparkType(ATOMIC_TYPES[class_.name])
    if class_ != Global(_SPARK_MODULE, "DecimalType"):
        raise refused(f"{class_} is a Spark type")
    state = attributes(node)
    precision, scale = state.get("precision", 10), state.get("scale", 0)
    if not all(type(number) is int and 0 <= number <= 38 for number in (precision, scale)):
        raise refused("a decimal of an impossible size")
    return NamedSparkType(f"decimal({precision},{scale})")


def scalar(node: Any) -> Any:
    """Return a value of an index: a scalar of NumPy or Python, a Decimal, or None."""
    if node is None or isinstance(node, (bool, int, float, str, bytes)):
        return node
    class_, values = class_and_values(node)
    make = _SCALARS.get(class_)
    if make is None:
        raise refused(f"{class_} is a value of an index")
    return make(values)


def _numpy_scalar(values: tuple[Any, ...]) -> Any:
    if len(values) != 2:
        raise refused("a number without a value")
    dtype = _dtype(values[0])
    # Python 2 had no bytes apart from strings.
    content = values[1].encode("latin-1") if isinstance(values[1], str) else values[1]
    if not isinstance(content, bytes) or len(content) != dtype.itemsize:
        raise refused(f"a value of another size than its type {dtype}")
    return np.frombuffer(content, dtype)[0] if content else dtype.type()


def _decimal(values: tuple[Any, ...]) -> Decimal:
    if len(values) != 1 or not isinstance(values[0], str):
        raise refused("a decimal without its digits")
    try:
        return Decimal(values[0])
    except InvalidOperation as error:
        raise refused("a decimal of no digits") from error


_SCALARS: dict[Global, Callable[[tuple[Any, ...]], Any]] = {
    Global("numpy.core.multiarray", "scalar"): _numpy_scalar,
    Global("decimal", "Decimal"): _decimal,
}


def _dtype(node: Any) -> np.dtype[Any]:
    """Return the dtype of numbers, strings or times that a call of ``numpy.dtype`` describes."""
    class_, values = class_and_values(node)
    name = values[0] if values else None
    if class_ != Global("numpy", "dtype") or not isinstance(name, str):
        raise refused(f"{class_} is a dtype")
    if not _DTYPE.fullmatch(name):
        raise refused(f"a dtype {name[:20]!r}, which may hold anything")
    state = node.state if isinstance(node.state, tuple) else ()
    order = state[1] if len(state) > 1 else "="
    unit = _unit(state) if name == "M8" else ""
    if order not in ("<", ">", "=", "|"):
        raise refused("a dtype of another order of bytes")
    return np.dtype(f"{order}{name}{unit}")


def _unit(state: tuple[Any, ...]) -> str:
    """Return the unit of times, which a dtype keeps as the last thing in its state."""
    try:
        unit = state[8][1][0]
        text = unit.decode("ascii") if isinstance(unit, bytes) else unit
    except (IndexError, TypeError, UnicodeDecodeError) as error:
        raise refused("times without a unit") from error
    if not isinstance(text, str) or text not in _UNITS:
        raise refused("times of another unit")
    return f"[{text}]"
