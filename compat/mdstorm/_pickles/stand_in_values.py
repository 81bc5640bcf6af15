"""The types, scalars and containers that stand-ins in Petastorm's pickles describe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm._pickles.known_names import SPARK_TYPES, TYPES
from mdstorm._pickles.restricted_unpickler import StandIn, expect, refused
from mdstorm._schema.spark_types import NamedSparkType

#: dtypes of scalars: byte order, kind, size, and the unit of times.
_DTYPE = re.compile(
    r"[<>=|](b1|[iu][1248]|f[248]|[SU]\d{1,6}|M8\[\d{1,9}(Y|M|W|D|h|m|s|ms|us|ns)\])"
)


def numpy_type(node: Any) -> Any:
    """Return the type that a field's ``numpy_dtype`` names."""
    if not isinstance(node, type):
        return _dtype(node)
    name = getattr(node, "name", "")
    if name not in TYPES:
        raise refused(f"{name} is no type of a field")
    return TYPES[name]


def spark_type(node: Any) -> NamedSparkType:
    """Return the Spark type of a codec: of an object, or of a class."""
    if getattr(node, "name", None) != "pyspark.sql.types.ArrayType":
        return NamedSparkType(_simple_spark_type(node))
    state = attributes(node)
    element = _simple_spark_type(state["elementType"])
    has_nulls = state.get("containsNull") is not False
    return NamedSparkType({"type": "array", "elementType": element, "containsNull": has_nulls})


def _simple_spark_type(node: Any) -> str:
    name = getattr(node, "name", type(node).__name__)
    if name in SPARK_TYPES:
        return SPARK_TYPES[name]
    if name != "pyspark.sql.types.DecimalType":
        raise refused(f"{name} is no Spark type")
    state = attributes(node)
    precision, scale = state.get("precision", 10), state.get("scale", 0)
    if not all(type(number) is int and 0 <= number <= 38 for number in (precision, scale)):
        raise refused("a decimal of an impossible size")
    return f"decimal({precision},{scale})"


def scalar(node: Any) -> Any:
    """Return a value of an index: a scalar of NumPy or Python, a Decimal, or None."""
    if node is None or isinstance(node, (bool, int, float, str, bytes)):
        return node
    found = expect(node, "value of an index", "numpy.core.multiarray.scalar", "decimal.Decimal")
    if found.name == "decimal.Decimal":
        return Decimal(text_of(*found.arguments))
    dtype, content = found.arguments
    return _numpy_scalar(_dtype(dtype), content)


def _numpy_scalar(dtype: np.dtype[Any], content: str | bytes) -> Any:
    # Python 2 had no bytes apart from strings.
    stored = content.encode("latin-1") if isinstance(content, str) else content
    if len(stored) != dtype.itemsize:
        raise refused(f"a value of another size than its type {dtype}")
    return np.frombuffer(stored, dtype)[0] if stored else dtype.type()


def _dtype(node: Any) -> np.dtype[Any]:
    """Return the dtype of numbers, strings or times that a call of ``numpy.dtype`` describes."""
    made = expect(node, "dtype", "numpy.dtype")
    state: Any = made.state or (None, "=")
    name = text_of(state[1]) + text_of(made.arguments[0])
    if name.endswith("M8"):  # the unit is the last thing in the state
        unit, count = state[8][1][:2]
        name += f"[{count:d}{text_of(unit.decode() if isinstance(unit, bytes) else unit)}]"
    if not _DTYPE.fullmatch(name):
        raise refused(f"a dtype {name[:20]!r}, which may hold anything")
    return np.dtype(name)


def attributes(node: Any) -> dict[str, Any]:
    """Return the attributes that the state of an object sets."""
    state = node.state if isinstance(node, StandIn) else None
    return state if isinstance(state, dict) else {}


def entries(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values of a dict, an OrderedDict or a defaultdict."""
    if isinstance(node, dict):
        yield from node.items()
        return
    made = expect(node, "dict", "collections.OrderedDict", "collections.defaultdict")
    if made.name == "collections.OrderedDict" and made.arguments:  # as Python 2 writes it
        yield from made.arguments[0]
    yield from made.entries


def text_of(value: Any) -> str:
    """Return a string if `value` is one."""
    if not isinstance(value, str):
        raise refused("a name is no string")
    return value
