"""Small helpers, mirroring ``petastorm.utils``."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np

from mdstorm._datasets import add_metadata
from mdstorm.errors import DecodeFieldError
from mdstorm.unischema import Unischema, UnischemaField

__all__ = ["DecodeFieldError", "add_to_dataset_metadata", "decode_row", "run_in_subprocess"]

_Result = TypeVar("_Result")


def decode_row(row: Mapping[str, Any], schema: Unischema) -> dict[str, Any]:
    """Decode the stored values in a row from Parquet files.

    Parameters
    ----------
    row : mapping of str to object
        Stored values by field name. Values of unknown fields are ignored.
    schema : Unischema
        The schema.

    Returns
    -------
    dict
        The decoded values: NumPy scalars and arrays for fields without a codec, None for null.

    Raises
    ------
    DecodeFieldError
        If a value was not written by its field's codec; also RuntimeError.
    """
    decoded = {}
    for name, value in row.items():
        field = schema.fields.get(name)
        if field is None:
            continue
        try:
            decoded[name] = None if value is None else _decoded(field, value)
        except Exception as error:  # user-defined codecs may raise any error
            raise DecodeFieldError(
                f'Decoding field "{name}" failed ({type(error).__name__}: {error}): its value was '
                f"not written by {field.codec or field.numpy_dtype}. Pass the schema that the row "
                "was written with"
            ) from error
    return decoded


def _decoded(field: UnischemaField, value: Any) -> Any:
    if field.codec is not None:
        return field.codec.decode(field, value)
    dtype = field.numpy_dtype
    if dtype is Decimal:
        return Decimal(value)
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return np.asarray(value, dtype) if field.shape else dtype(value)
    return value


def run_in_subprocess(func: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Call a function in a new process, and return its result or raise its error.

    The function, its arguments and its result are pickled. The process is spawned, not forked.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(func, args, kwargs)


def add_to_dataset_metadata(dataset: Any, key: bytes | str, value: bytes | str) -> None:
    """Add an entry to the ``_common_metadata`` file of a Parquet dataset.

    Parameters
    ----------
    dataset : pyarrow.parquet.ParquetDataset or ParquetDataset
        The dataset.
    key, value : bytes or str
        The entry, which replaces any existing entry with the same key.

    Raises
    ------
    ArgumentTypeError
        If `dataset` is not one of these types.
    """
    add_metadata(dataset, {_bytes(key): _bytes(value)})


def _bytes(value: bytes | str) -> bytes:
    return value.encode("utf-8") if isinstance(value, str) else bytes(value)
