"""Stack columns of a batch into one array, after checking that its dtype can hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base.checks import did_you_mean
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, NullValueError
from mdstorm_backend.format import Batch, Column, depth_of, shapes_of
from mdstorm_backend.format.values.nested_lists import elements_of
from mdstorm_backend.read.batch_formats import scalars_to_numpy
from mdstorm_backend.read.logical import view_dtype

Mask: TypeAlias = npt.NDArray[np.bool_]
#: Whether to stack columns, or the NumPy dtype to cast them to.
StackOption: TypeAlias = bool | npt.DTypeLike
#: Dtypes to suggest, in this order, if a value does not fit.
_SUGGESTED = ("float32", "float64", "int64", "uint64")


@dataclass(frozen=True)
class Stack:
    """Columns that are returned as one matrix in a batch; a vector takes as many columns of it.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns, in the order of the matrix.
    dtype : str or None
        Name of the dtype to which they are cast; None for NumPy's promotion of their dtypes.
    """

    columns: tuple[str, ...]
    dtype: str | None = None

    @classmethod
    def of(cls, columns: Sequence[str], stack: StackOption) -> Stack:
        """Return a stack of `columns`; `stack` comes from `checked_stack` and is not False."""
        return cls(tuple(columns), stack if isinstance(stack, str) else None)

    def casts(self, dtype: np.dtype[Any]) -> bool:
        """Whether columns of this dtype cannot be copied to the matrix unchanged."""
        return dtype.kind not in "buif" or self.dtype not in (None, dtype.name)

    def dtype_of(self, dtypes: Sequence[npt.DTypeLike]) -> np.dtype[Any]:
        """Return the dtype of the matrix, given its columns' dtypes."""
        return np.dtype(self.dtype) if self.dtype is not None else np.result_type(*dtypes)


#: An entry of a batch: a column, or the columns of a matrix.
Output: TypeAlias = str | Stack


def checked_stack(stack: StackOption) -> bool | str:
    """Return the ``stack`` argument as a boolean or as the name of a NumPy dtype.

    Raises
    ------
    ArgumentTypeError
        If it is neither a boolean nor a dtype.
    InvalidArgumentError
        If it is a string that is not the name of a real-number dtype with at most 64 bits.
    """
    if isinstance(stack, (bool, np.bool_)):
        return bool(stack)
    try:
        dtype = None if stack is None else np.dtype(stack)
    except (TypeError, ValueError):
        dtype = None
    if dtype is not None and dtype.kind in "buif" and dtype.itemsize <= 8:
        return str(dtype.name)
    error = InvalidArgumentError if isinstance(stack, str) else ArgumentTypeError
    nearest = did_you_mean(stack, _SUGGESTED) if isinstance(stack, str) else ""
    raise error(
        "stack must be True, False or the name of a numeric NumPy dtype, such as "
        f'"float32", found {stack!r}{nearest}'
    )


@lru_cache(maxsize=64)  # called for each batch
def output_name(output: Output) -> str:
    """Return the name of a column or a matrix in a batch."""
    return output if isinstance(output, str) else str(list(output.columns))


def arranged(batch: Batch, outputs: Sequence[Output]) -> Batch:
    """Return a batch with the `outputs`; stack columns unless the batch already has their matrix.

    Raises
    ------
    InvalidArgumentError
        If columns of a matrix are not numbers, or the matrix cannot hold a value.
    NullValueError
        If the columns hold nulls.
    """
    made: Batch = {}
    for output in outputs:
        name = output_name(output)
        if isinstance(output, str) or name in batch:
            made[name] = batch[name]
        else:
            made[name] = _stacked(batch, output)
    return made


def check_outputs(
    outputs: Sequence[Output],
    column_of: Callable[[str], Column | None],
    *,
    all_rows: bool = True,
) -> None:
    """Raise an error for matrices that the stored columns already rule out.

    Parameters
    ----------
    outputs : sequence of Output
        The entries of a batch.
    column_of : callable
        Returns a stored column by its name; None if its type is not known before it has values.
    all_rows : bool
        Whether all rows are read, including those with nulls.

    Raises
    ------
    InvalidArgumentError
        If columns of a matrix are not numbers.
    NullValueError
        If integer or boolean columns among them contain nulls.
    """
    for stack in [output for output in outputs if not isinstance(output, str)]:
        columns = [column for name in stack.columns if (column := column_of(name)) is not None]
        check_numbers({column.name: _kind(column) for column in columns})
        if all_rows:
            integers = [column for column in columns if not column.is_floating]
            _check_nulls({c.name: c.null_count for c in integers if c.null_count})


def check_numbers(kinds: Mapping[str, str]) -> None:
    """Check that the columns of a matrix are numbers.

    Parameters
    ----------
    kinds : mapping of str to str
        The dtype of each column, or its type if its values are not NumPy numbers or vectors.

    Raises
    ------
    InvalidArgumentError
        If they are not.
    """
    for name, kind in kinds.items():
        if _is_number(kind):
            continue
        remedy = "leave it out, or pass it as a separate input"
        if "decimal" in kind:
            remedy = (
                'pass decimals="float64" or "float32" to make_spark_converter, or to the function '
                f"that creates the loader, or {remedy}"
            )
        raise InvalidArgumentError(
            "stack makes a matrix of numbers and arrays of the same length, but column "
            f"{name!r} has {kind} values: "
            f"{remedy}"
        )


def _stacked(batch: Batch, stack: Stack) -> npt.NDArray[Any]:
    columns = {name: batch[name] for name in stack.columns}
    stored = {name: v for name, v in columns.items() if not isinstance(v, np.ndarray)}
    _check_nulls({name: v.null_count for name, v in stored.items() if v.null_count})
    converted = {name: _to_numpy(name, v) for name, v in stored.items()}
    arrays: dict[str, npt.NDArray[Any]] = columns | converted
    check_numbers({name: f"{v.dtype}{list(v.shape[2:]) or ''}" for name, v in arrays.items()})
    dtype = stack.dtype_of([values.dtype for values in arrays.values()])
    for name, values in arrays.items():
        lost = _lost(values, dtype)
        if len(lost):
            raise _does_not_fit(name, lost[0], dtype, arrays)
    parts = [values if values.ndim == 2 else values[:, np.newaxis] for values in arrays.values()]
    return np.concatenate(parts, axis=1, dtype=dtype, casting="unsafe")


def _to_numpy(name: str, values: pa.Array) -> npt.NDArray[Any]:
    """Return numbers, or arrays of the same length, as an array of one or two dimensions."""
    if not pa.types.is_list(values.type):
        return scalars_to_numpy(values, has_nulls=False)
    shape = shapes_of(values).common()
    if shape is None:
        raise InvalidArgumentError(
            f"stack makes a matrix of numbers and arrays of the same length, but the arrays of "
            f"column {name!r} differ in length: leave it out, or pass it as a separate input"
        )
    elements = elements_of(values)
    if elements.null_count and not pa.types.is_floating(elements.type):
        _check_nulls({name: elements.null_count})
    return scalars_to_numpy(elements, has_nulls=False).reshape(len(values), *shape)


def _lost(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values that a cast to `dtype` would change, other than by rounding floats."""
    kinds = values.dtype.kind + dtype.kind
    if values.dtype == dtype or not values.size:
        return values[:0]
    if kinds == "ff":
        is_wider = dtype.itemsize > values.dtype.itemsize
        return values[:0] if is_wider else values[_overflow(values, dtype)]
    lowest, highest = _integers_of(dtype)
    if kinds[0] == "f":  # floats to integers or booleans
        exact = values.astype(np.float64)
        held: Mask = (np.trunc(exact) == exact) & (exact >= lowest) & (exact < highest + 1)
        lost: npt.NDArray[Any] = values[~held]
        return lost
    if lowest <= int(values.min()) and int(values.max()) <= highest:
        return values[:0]
    # Python integers compare by value with NumPy integers of any dtype.
    own_lowest, own_highest = _integers_of(values.dtype)
    beyond = values[(values < max(lowest, own_lowest)) | (values > min(highest, own_highest))]
    return beyond[_changed(beyond, dtype)] if kinds[1] == "f" else beyond


def _overflow(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> Mask:
    """Return a mask of the finite numbers that would overflow in a float dtype."""
    is_beyond: Mask = (np.abs(values) > float(np.finfo(dtype).max)) & np.isfinite(values)
    return is_beyond


def _changed(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> Mask:
    """Return a mask of the (nonzero) integers with too many binary digits for a float dtype."""
    signed = values if values.dtype.kind == "u" else np.abs(values.astype(np.int64))
    magnitudes = signed.astype(np.uint64)
    lowest_bits = magnitudes & (~magnitudes + np.uint64(1))
    odd_parts: npt.NDArray[np.uint64] = magnitudes // lowest_bits
    has_more: Mask = odd_parts > _integers_of(dtype)[1]
    return has_more | _overflow(magnitudes, dtype)


def _does_not_fit(
    name: str, value: Any, dtype: np.dtype[Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> InvalidArgumentError:
    """Return the error for a column with a value that a matrix of `dtype` would change."""
    has_floats = any(values.dtype.kind == "f" for values in arrays.values())
    for suggested in map(np.dtype, _SUGGESTED):
        is_exact = not len(_lost(arrays[name], suggested))
        if is_exact and (suggested.kind == "f" or not has_floats):
            remedy = f'pass stack="{suggested}"'
            break
    else:
        others = " together with floating-point columns" if has_floats else ""
        remedy = f"no dtype holds it{others}: leave the column out, or change its values in Spark"
    return InvalidArgumentError(
        f"column {name!r} has the value {value}, which a matrix of {dtype} cannot hold exactly: "
        f"{remedy}"
    )


def _integers_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the bounds of an integer range that a dtype can hold exactly."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        highest = 1 << (np.finfo(dtype).nmant + 1)
        return -highest, highest
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _check_nulls(counts: Mapping[str, int]) -> None:
    if counts:
        fills = ", ".join(f"{name!r}: …" for name in counts)
        raise NullValueError(
            f"columns {', '.join(f'{name!r} ({count})' for name, count in counts.items())} hold "
            "nulls, but only nulls in floating-point columns become NaN in a matrix. Pass a value "
            f"with fill_nulls={{{fills}}}, or leave the columns out",
            columns=dict(counts),
        )


def _kind(column: Column) -> str:
    """Return the dtype of a column's numbers, or the column's type if a matrix cannot hold them."""
    depth = depth_of(column.arrow_type)
    has_one_length = column.value_shape is not None or column.may_have_one_length
    is_stacked = not column.is_late and depth <= 1 and (has_one_length or not depth)
    dtype = view_dtype(column) if is_stacked and column.parsed_encoding.dtype else None
    return column.shown_type if dtype is None else str(dtype)


def _is_number(kind: str) -> bool:
    try:
        return np.dtype(kind).kind in "buif"
    except (TypeError, ValueError):  # ValueError for text with a comma, such as decimal(10,2)
        return False
