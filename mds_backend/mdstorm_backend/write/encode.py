"""Arrow columns to the values that MDS stores, a whole column at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.encodings import parse_encoding
from mdstorm_backend.json_text import json_text
from mdstorm_backend.schema import Column
from mdstorm_backend.spark_types import is_vector
from mdstorm_backend.write.arrays import encode_arrays
from mdstorm_backend.write.encoded_column import EncodedColumn
from mdstorm_backend.write.numbers import to_numpy
from mdstorm_backend.write.vectors import vectors_to_lists

__all__ = ["encode_column"]

#: What stands in the place of a null, per encoding; scalars have 0, or NaN for floats.
PLACEHOLDERS = {"str": "", "bytes": b"", "str_decimal": "NaN"}


def encode_column(column: Column, values: pa.Array, *, ragged: bool) -> EncodedColumn:
    """Encode some rows of a column.

    Parameters
    ----------
    column : Column
        Its plan: the encoding, and for arrays the dtype of the elements.
    values : pyarrow.Array
        The rows as Spark hands them over.
    ragged : bool
        Store arrays with their lengths even if all rows here have one length.
    """
    valid = np.asarray(values.is_valid()) if values.null_count else None
    encoding = parse_encoding(column.encoding)
    if encoding.kind == "ndarray":
        assert encoding.dtype is not None
        if column.spark_type is not None and is_vector(column.spark_type):
            values = vectors_to_lists(values)
        return encode_arrays(column.name, values, encoding.dtype, valid, ragged=ragged)
    if encoding.dtype is not None:
        fixed = to_numpy(values, encoding.dtype)
        return EncodedColumn(column.name, column.encoding, fixed=fixed, valid=valid)
    texts = _texts(encoding.kind, values)
    return EncodedColumn(column.name, column.encoding, parts=[texts], valid=valid)


def _texts(kind: str, values: pa.Array) -> pa.LargeBinaryArray:
    if kind == "json":
        return json_text(values).cast(pa.large_binary())
    if kind == "str_decimal":
        values = values.cast(pa.string())
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(PLACEHOLDERS[kind], values.type))
    return values.cast(pa.large_binary())
