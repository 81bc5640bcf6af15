"""The names that occur in Petastorm's pickles."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm._schema.spark_types import ATOMIC_TYPES

_NUMPY = (
    *("bool_", "bytes_", "datetime64", "object_", "str_", "timedelta64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "double", "half", "single"),
    *("int_", "intc", "longlong", "ulonglong"),
)
#: NumPy's names of types in other versions than this one.
_NUMPY_OTHERS = {
    "bool": "bool_",
    "bool8": "bool_",
    "bytes0": "bytes_",
    "float_": "float64",
    "str0": "str_",
    "string_": "bytes_",
    "unicode_": "str_",
}
#: What the type of a field may be, by its name.
TYPES: dict[str, Any] = {
    "decimal.Decimal": Decimal,
    **{f"builtins.{type_.__name__}": type_ for type_ in (bool, bytes, float, int, str)},
    **{"builtins.long": int, "builtins.unicode": str},
    **{f"numpy.{name}": getattr(np, name) for name in _NUMPY},
    **{f"numpy.{name}": getattr(np, found) for name, found in _NUMPY_OTHERS.items()},
}
SPARK_TYPES = {f"pyspark.sql.types.{name}": json for name, json in ATOMIC_TYPES.items()}

#: All names that a pickle may use.
KNOWN = frozenset(
    {
        *TYPES,
        *SPARK_TYPES,
        "builtins.object",
        "builtins.set",
        "builtins.tuple",
        "collections.OrderedDict",
        "collections.defaultdict",
        "copyreg._reconstructor",
        "numpy.core.multiarray.scalar",
        "numpy.dtype",
        "petastorm.codecs.CompressedImageCodec",
        "petastorm.codecs.CompressedNdarrayCodec",
        "petastorm.codecs.NdarrayCodec",
        "petastorm.codecs.ScalarCodec",
        "petastorm.etl.rowgroup_indexers.FieldNotNullIndexer",
        "petastorm.etl.rowgroup_indexers.SingleFieldIndexer",
        "petastorm.unischema.Unischema",
        "petastorm.unischema.UnischemaField",
        "pyspark.serializers._restore",
        "pyspark.sql.types.ArrayType",
        "pyspark.sql.types.DecimalType",
    }
)

#: Packages and modules under other names, and what they are called in `KNOWN`.
_RENAMED = {
    "__builtin__.": "builtins.",
    "av.experimental.deepdrive.dataset_toolkit.": "petastorm.",
    "av.ml.dataset_toolkit.": "petastorm.",
    "copy_reg.": "copyreg.",
    "mdstorm.": "petastorm.",
    "numpy._core.": "numpy.core.",
}


def current_name(name: str) -> str:
    """Return a name as current Petastorm, Python 3 and NumPy 1 spell it."""
    for other, current in _RENAMED.items():
        if name.startswith(other):
            return current + name[len(other) :]
    return name
