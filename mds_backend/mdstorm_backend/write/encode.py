"""Arrow columns to the values that MDS stores, a whole column at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.base.errors import EncodingError, EncodingRangeError, MDStormError
from mdstorm_backend.format.encodings import IMAGE_LISTS, Encoding, parse_encoding
from mdstorm_backend.format.encodings.encode_arrays import encode_arrays
from mdstorm_backend.format.encodings.encode_json import json_text
from mdstorm_backend.format.encodings.encode_numbers import fit_numbers, to_numpy
from mdstorm_backend.format.encodings.encoded_column import EncodedColumn
from mdstorm_backend.format.encodings.vectors import holds_vectors, vectors_to_lists
from mdstorm_backend.format.plain_arrow import plain_values
from mdstorm_backend.format.schema import Column
from mdstorm_backend.write.values import value_encoder

__all__ = ["encode_column"]

#: What stands in the place of a null, per encoding; scalars have 0, or NaN for floats. Where
#: nothing is listed it is an empty value, which is no image: readers that do not know of nulls
#: refuse it.
PLACEHOLDERS: dict[str, bytes] = {
    "str_decimal": b"NaN",
    "str_float": b"nan",
    "str_int": b"0",
    "pkl": pickle.dumps(None),
    **{kind: bytes(4 if kind == "jpeg_array" else 8) for kind in IMAGE_LISTS},
}


def encode_column(column: Column, values: pa.Array, *, ragged: bool) -> EncodedColumn:
    """Encode some rows of a column.

    Parameters
    ----------
    column : Column
        Its plan: the encoding, and for arrays the dtype of the elements. Floating-point numbers of
        a Spark type are cast as Spark casts them; without one, every value must fit.
    values : pyarrow.Array
        The rows as Spark hands them over, or any other data of Arrow.
    ragged : bool
        Store arrays with their lengths even if all rows here have one length.

    Raises
    ------
    EncodingError
        If a value does not fit the encoding.
    """
    try:
        return _encode(column, values, ragged)
    except MDStormError:
        raise
    except OverflowError as error:
        raise _refused(column, error, EncodingRangeError) from error
    except (ArithmeticError, TypeError, ValueError) as error:
        raise _refused(column, error, EncodingError) from error


def _refused(column: Column, error: Exception, kind: type[EncodingError]) -> EncodingError:
    return kind(
        f"column {column.name!r} holds a value that encoding {column.encoding!r} cannot hold: "
        f"{error}. Convert the column before, or choose another encoding",
        column=column.name,
        encoding=column.encoding,
    )


def _encode(column: Column, values: pa.Array, ragged: bool) -> EncodedColumn:
    encoding = parse_encoding(column.encoding)
    if encoding.kind == "ndarray" and holds_vectors(values.type):
        valid = _validity(values)
        values = vectors_to_lists(values)
    else:
        values = plain_values(values)
        valid = _validity(values)
    if _is_stored_as_it_is(encoding, values):
        stored = _stored_bytes(encoding, values)
        return EncodedColumn(column.name, column.encoding, parts=[stored], valid=valid)
    convert = fit_numbers if column.spark_type is None else to_numpy
    if encoding.kind == "ndarray":
        return _encode_arrays(column, encoding, values, valid, ragged, convert)
    if encoding.dtype is not None:
        fixed = convert(values, encoding.dtype)
        return EncodedColumn(column.name, column.encoding, fixed=fixed, valid=valid)
    return EncodedColumn(
        column.name, column.encoding, parts=[_texts(encoding, values)], valid=valid
    )


def _validity(values: pa.Array) -> npt.NDArray[np.bool_] | None:
    return np.asarray(values.is_valid()) if values.null_count else None


def _is_stored_as_it_is(encoding: Encoding, values: pa.Array) -> bool:
    """Whether the column holds encoded values already."""
    return bool(pa.types.is_binary(values.type)) and encoding.kind != "json"


def _stored_bytes(encoding: Encoding, values: pa.Array) -> pa.LargeBinaryArray:
    return _fill(encoding, values).cast(pa.large_binary())


def _placeholder(encoding: Encoding) -> bytes:
    if encoding.kind == "ndarray":
        return value_encoder(encoding)(np.empty(0, encoding.dtype or np.uint8))
    return PLACEHOLDERS.get(encoding.kind, b"")


def _fill(encoding: Encoding, values: pa.Array) -> pa.Array:
    if not values.null_count:
        return values
    placeholder = _placeholder(encoding)
    is_text = pa.types.is_string(values.type)
    return pc.fill_null(
        values, pa.scalar(placeholder.decode() if is_text else placeholder, values.type)
    )


def _encode_arrays(
    column: Column,
    encoding: Encoding,
    lists: pa.Array,
    valid: npt.NDArray[np.bool_] | None,
    ragged: bool,
    convert: Callable[[pa.Array, np.dtype[Any]], npt.NDArray[Any]],
) -> EncodedColumn:
    dtype = encoding.dtype
    if dtype is None:
        dtype = np.dtype(lists.type.value_type.to_pandas_dtype()).newbyteorder("<")
    return encode_arrays(
        column.name,
        lists,
        dtype,
        valid,
        ragged=ragged,
        shape=encoding.shape,
        states_dtype=encoding.dtype is None,
        convert=convert,
        text=column.encoding,
    )


def _texts(encoding: Encoding, values: pa.Array) -> pa.LargeBinaryArray:
    kind = encoding.kind
    if kind == "json":
        return json_text(values).cast(pa.large_binary())
    if pa.types.is_temporal(values.type) or (kind == "str" and pa.types.is_boolean(values.type)):
        values = values.cast(pa.string())
    if kind == "str_int" and pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if kind in ("str_int", "str_decimal"):
        values = values.cast(pa.string())
    if pa.types.is_string(values.type) and kind != "pkl":
        return _fill(encoding, values).cast(pa.large_binary())
    return _one_by_one(encoding, values)


def _one_by_one(encoding: Encoding, values: pa.Array) -> pa.LargeBinaryArray:
    """Encode values that only Python can encode."""
    encode, placeholder = value_encoder(encoding), _placeholder(encoding)
    stored = [placeholder if value is None else encode(value) for value in values.to_pylist()]
    return pa.array(stored, pa.large_binary())
