"""Batches as PyTorch tensors."""

from __future__ import annotations

from typing import Any, Union

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch

from mdstorm_backend.batch import Values
from mdstorm_backend.frameworks.formats import column_to_numpy
from mdstorm_backend.frameworks.nulls import null_error
from mdstorm_backend.schema import Column

__all__ = ["TorchValues", "check_nulls", "split_values", "to_torch"]

#: A column of a batch: a tensor, or a list where PyTorch has no type for it.
TorchValues = Union[torch.Tensor, list[Any]]

#: Petastorm's promotions of what PyTorch does not compute with.
_PROMOTED = {"uint16": np.int32, "uint32": np.int64}
_NS_PER_US = 1000
_LARGEST_US = np.iinfo(np.int64).max // _NS_PER_US


def check_nulls(column: Column, count: int) -> None:
    """Refuse nulls that would become an arbitrary number.

    Floats and integers have NaN for them, and what is delivered as a list has None.

    Raises
    ------
    NullValueError
        If `count` nulls of the column have no value.
    """
    if count and _needs_value(column):
        raise null_error(column.name, count, "PyTorch")


def _needs_value(column: Column) -> bool:
    if column.is_array:
        element = column.arrow_type.value_type
        return bool(column.null_count) or not (
            pa.types.is_integer(element) or pa.types.is_floating(element)
        )
    return pa.types.is_boolean(column.arrow_type) or pa.types.is_timestamp(column.arrow_type)


def to_torch(values: Values, column: Column | None, name: str) -> TorchValues:
    """Return one column of a block as a tensor, or as a list.

    Booleans become uint8, timestamps int64 nanoseconds since 1970 UTC, integers with nulls float64
    with NaN, ragged arrays a list of tensors; strings, binaries, decimals, dates and nested values
    lists of Python objects. Tensors share the memory of `values` where the types allow.

    Parameters
    ----------
    values : numpy.ndarray or pyarrow.Array
        The column; NumPy arrays have to be writable.
    column : Column or None
        Its place in the schema; None for a column that a transform has made.
    name : str
        Its name, for error messages.

    Raises
    ------
    NullValueError
        If it holds nulls that no tensor can express.
    OverflowError
        If a timestamp does not fit into nanoseconds.
    """
    if isinstance(values, np.ndarray):
        return _array_to_torch(values, name)
    if pa.types.is_list(values.type) and _is_number(values.type.value_type):
        return _lists_to_torch(values, column, name)
    if pa.types.is_timestamp(values.type) or pa.types.is_boolean(values.type):
        if values.null_count:
            raise null_error(name, values.null_count, "PyTorch")
        plain = Column(name, "") if column is None else column
        return _array_to_torch(column_to_numpy(values.fill_null(0), _without_nulls(plain)), name)
    if _is_number(values.type):
        array = values if column is None or not column.null_count else values.cast(
            pa.float64(), safe=False
        )
        return _array_to_torch(np.array(pc.fill_null(array, float("nan"))), name)
    return list(values.to_pylist())


def split_values(values: TorchValues, sizes: list[int]) -> list[TorchValues]:
    """Cut a column of a block into batches; tensors are views."""
    if isinstance(values, torch.Tensor):
        return list(values.split(sizes))
    ends = np.cumsum(sizes)
    return [values[end - size : end] for end, size in zip(ends, sizes)]


def _without_nulls(column: Column) -> Column:
    return Column(column.name, column.encoding, column.spark_type, length=column.length)


def _is_number(type_: pa.DataType) -> bool:
    return (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_timestamp(type_)
    )


def _array_to_torch(array: npt.NDArray[Any], name: str) -> TorchValues:
    if array.dtype.kind in "OSU":
        return list(array.tolist()) if array.ndim == 1 else list(array)
    if array.dtype == "datetime64[D]":
        return list(array.tolist())
    if array.dtype.kind == "M":
        array = nanoseconds(array, name, "PyTorch")
    elif array.dtype == np.bool_:
        array = array.view(np.uint8)
    elif array.dtype.name in _PROMOTED:
        array = array.astype(_PROMOTED[array.dtype.name])
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array)


def _lists_to_torch(lists: pa.Array, column: Column | None, name: str) -> list[Any]:
    if lists.null_count:
        raise null_error(name, lists.null_count, "PyTorch")
    elements = lists.flatten()
    flat = to_torch(elements, _elements_of(column), name)
    lengths = np.asarray(pc.list_value_length(lists)).tolist()
    assert isinstance(flat, torch.Tensor)
    return list(flat.split(lengths)) if lengths else []


def _elements_of(column: Column | None) -> Column | None:
    return None if column is None else Column(column.name, "", null_count=column.element_null_count)


def nanoseconds(array: npt.NDArray[Any], name: str, framework: str) -> npt.NDArray[np.int64]:
    """Return timestamps as int64 nanoseconds since 1970 UTC.

    Raises
    ------
    OverflowError
        If one lies before 1677 or after 2262.
    NullValueError
        If one is NaT.
    """
    missing = int(np.isnat(array).sum())
    if missing:
        raise null_error(name, missing, framework)
    if array.dtype == "datetime64[ns]":
        return array.view(np.int64)
    numbers = array.astype("datetime64[us]").view(np.int64)
    if len(numbers) and max(int(numbers.max()), -int(numbers.min())) > _LARGEST_US:
        worst = array.reshape(-1)[np.abs(numbers.reshape(-1)).argmax()]
        raise OverflowError(
            f"column {name!r} holds the timestamp {worst}, which does not fit into nanoseconds "
            "(1677 to 2262). Read it as a number with CAST(… AS LONG), or leave such rows out"
        )
    return numbers * _NS_PER_US
