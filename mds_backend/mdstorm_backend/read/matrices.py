"""Matrices: columns of numbers as one array ``(rows, columns)``.

Columns of one dtype are a `Matrix`, whose rows are copied from the bytes of records without
transposing. Columns of several dtypes are read one by one, and then cast. Columns of a record
that are copied together are a `Strip`. Copying one column out of records is one NumPy call, and so
is copying many adjacent columns with values of one size: the records are then a matrix, and the
columns its transpose. One call has less overhead and keeps the GIL released for longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.checks import did_you_mean
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, NullValueError
from mdstorm_backend.format import Batch, Column
from mdstorm_backend.read.batch_formats import scalars_to_numpy
from mdstorm_backend.read.logical import view_dtype

#: Copying one run of bytes takes as long as gathering this many values by index.
_VALUES_PER_RUN = 4

Mask: TypeAlias = npt.NDArray[np.bool_]
#: Whether to stack columns, or the NumPy dtype to which they are cast.
StackOption: TypeAlias = bool | npt.DTypeLike
#: Dtypes to suggest, in this order, if a value does not fit.
_SUGGESTED = ("float32", "float64", "int64", "uint64")


@dataclass(frozen=True)
class Stack:
    """Columns that are one matrix in a batch.

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
        """Return the stack of some columns for a true result of `checked_stack`."""
        return cls(tuple(columns), stack if isinstance(stack, str) else None)

    def casts(self, dtype: np.dtype[Any]) -> bool:
        """Whether columns of one dtype are not copied as they are."""
        return dtype.kind not in "buif" or self.dtype not in (None, dtype.name)

    def dtype_of(self, dtypes: Sequence[npt.DTypeLike]) -> np.dtype[Any]:
        """Return the dtype of the matrix, given those of its columns."""
        return np.dtype(self.dtype) if self.dtype is not None else np.result_type(*dtypes)


#: An entry of a batch: a column, or the columns of a matrix.
Output: TypeAlias = str | Stack


def checked_stack(stack: StackOption) -> bool | str:
    """Return the argument ``stack`` as a boolean, or as the name of a NumPy dtype.

    Raises
    ------
    ArgumentTypeError
        If it is neither a boolean nor a dtype.
    InvalidArgumentError
        If it is a string that names no dtype of real numbers of at most 64 bits.
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
        "stack must be True, False or the name of a NumPy dtype of numbers, such as "
        f'"float32", found {stack!r}{nearest}'
    )


@lru_cache(maxsize=64)  # called for each batch
def output_name(output: Output) -> str:
    """Return the name of a column or a matrix in a batch."""
    return output if isinstance(output, str) else str(list(output.columns))


def arranged(batch: Batch, outputs: Sequence[Output]) -> Batch:
    """Return the batch as `outputs`; columns are stacked unless the batch has their matrix already.

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
    """Raise for matrices that cannot be made, if that is known from the stored columns.

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
        If integers or booleans among them hold nulls.
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
        The dtype of each column, or its type if its values are not scalars of NumPy.

    Raises
    ------
    InvalidArgumentError
        If they are not.
    """
    for name, kind in kinds.items():
        if _is_number(kind):
            continue
        remedy = "leave it out, or pass it as an input of its own"
        if "decimal" in kind:
            remedy = (
                'pass decimals="float64" or "float32" to make_spark_converter, or to the function '
                f"that creates the loader, or {remedy}"
            )
        raise InvalidArgumentError(
            f"stack makes a matrix of columns of numbers, but column {name!r} has {kind} values: "
            f"{remedy}"
        )


def _stacked(batch: Batch, stack: Stack) -> npt.NDArray[Any]:
    columns = {name: batch[name] for name in stack.columns}
    stored = {name: v for name, v in columns.items() if not isinstance(v, np.ndarray)}
    _check_nulls({name: v.null_count for name, v in stored.items() if v.null_count})
    converted = {name: scalars_to_numpy(v, has_nulls=False) for name, v in stored.items()}
    arrays: dict[str, npt.NDArray[Any]] = columns | converted
    check_numbers({name: f"{v.dtype}{list(v.shape[1:]) or ''}" for name, v in arrays.items()})
    dtype = stack.dtype_of([values.dtype for values in arrays.values()])
    for name, values in arrays.items():
        lost = _lost(values, dtype)
        if len(lost):
            raise _does_not_fit(name, lost[0], dtype, arrays)
    matrix = np.empty((len(next(iter(arrays.values()))), len(arrays)), dtype)
    for number, values in enumerate(arrays.values()):
        matrix[:, number] = values
    return matrix


def _lost(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values that a cast to `dtype` would change, except by rounding of floats."""
    kinds = values.dtype.kind + dtype.kind
    if values.dtype == dtype or not len(values):
        return values[:0]
    if kinds == "ff":
        is_wider = dtype.itemsize > values.dtype.itemsize
        return values[:0] if is_wider else values[_overflow(values, dtype)]
    lowest, highest = _integers_of(dtype)
    if kinds[0] == "f":  # to integers or booleans
        exact = values.astype(np.float64)
        held: Mask = (np.trunc(exact) == exact) & (exact >= lowest) & (exact < highest + 1)
        lost: npt.NDArray[Any] = values[~held]
        return lost
    if lowest <= int(values.min()) and int(values.max()) <= highest:
        return values[:0]
    # Numbers of Python compare with integers of any dtype by value.
    own_lowest, own_highest = _integers_of(values.dtype)
    beyond = values[(values < max(lowest, own_lowest)) | (values > min(highest, own_highest))]
    return beyond[_changed(beyond, dtype)] if kinds[1] == "f" else beyond


def _overflow(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> Mask:
    """Return which numbers are finite, but not in a float dtype."""
    is_beyond: Mask = (np.abs(values) > float(np.finfo(dtype).max)) & np.isfinite(values)
    return is_beyond


def _changed(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> Mask:
    """Return which integers, none of them 0, have too many binary digits for a float dtype."""
    signed = values if values.dtype.kind == "u" else np.abs(values.astype(np.int64))
    magnitudes = signed.astype(np.uint64)
    lowest_bits = magnitudes & (~magnitudes + np.uint64(1))
    odd_parts: npt.NDArray[np.uint64] = magnitudes // lowest_bits
    has_more: Mask = odd_parts > _integers_of(dtype)[1]
    return has_more | _overflow(magnitudes, dtype)


def _does_not_fit(
    name: str, value: Any, dtype: np.dtype[Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> InvalidArgumentError:
    """Return the error for a value of a column, which a matrix of `dtype` would change."""
    has_floats = any(values.dtype.kind == "f" for values in arrays.values())
    for suggested in map(np.dtype, _SUGGESTED):
        is_exact = not len(_lost(arrays[name], suggested))
        if is_exact and (suggested.kind == "f" or not has_floats):
            remedy = f'pass stack="{suggested}"'
            break
    else:
        beside = " beside floating-point columns" if has_floats else ""
        remedy = f"no dtype holds it{beside}: leave the column out, or change its values in Spark"
    return InvalidArgumentError(
        f"column {name!r} has the value {value}, which a matrix of {dtype} cannot hold exactly: "
        f"{remedy}"
    )


def _integers_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return bounds of a range whose integers a dtype holds exactly."""
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
            "nulls, and only nulls of floating-point columns become NaN in a matrix. Pass a value "
            f"with fill_nulls={{{fills}}}, or leave the columns out",
            columns=dict(counts),
        )


def _kind(column: Column) -> str:
    """Return the dtype of a column's values, or the column's type if they are not scalars."""
    is_scalar = column.value_shape == () and not column.is_late
    dtype = view_dtype(column) if is_scalar else None
    return column.shown_type if dtype is None else str(dtype)


def _is_number(kind: str) -> bool:
    try:
        return np.dtype(kind).kind in "buif"
    except (TypeError, ValueError):  # ValueError for text with a comma, such as decimal(10,2)
        return False


@dataclass(frozen=True)
class Matrix:
    """Columns of one dtype that are copied as one matrix.

    Attributes
    ----------
    name : str
        Name of the matrix in a batch.
    dtype : numpy.dtype
        Dtype of the values.
    offsets : tuple of int
        Byte offset of each column in a record.
    """

    name: str
    dtype: np.dtype[Any]
    offsets: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * len(self.offsets)

    @cached_property
    def _runs(self) -> list[tuple[int, int, int]]:
        """Runs of adjacent columns: offset in a record, offset in a row, length in bytes."""
        size, offsets = self.dtype.itemsize, self.offsets
        breaks = [n for n, (a, b) in enumerate(pairwise(offsets), 1) if b != a + size]
        bounds = pairwise([0, *breaks, len(offsets)])
        return [(offsets[first], first * size, (last - first) * size) for first, last in bounds]

    @property
    def fields(self) -> Iterator[tuple[str, Any, int]]:
        """Name, format and offset of the record fields that the matrix copies."""
        for number, (offset, _, nbytes) in enumerate(self._runs):
            yield f"{self.name} {number}", f"V{nbytes}", offset

    @cached_property
    def _row(self) -> np.dtype[np.void]:
        """Structured dtype of a matrix row, with the same fields as `fields`."""
        names, formats, _ = zip(*self.fields, strict=True)
        offsets = [offset for _, offset, _ in self._runs]
        return layout(names, formats, offsets, self.nbytes)

    def is_whole(self, record: np.dtype[Any]) -> bool:
        """Whether a row has exactly the bytes of a record."""
        return self._runs == [(0, 0, record.itemsize)]

    def empty(self, rows: int) -> npt.NDArray[Any]:
        """Allocate `rows` opaque rows."""
        return np.empty(rows, f"V{self.nbytes}")

    def fill(
        self, memory: npt.NDArray[Any], positions: slice, records: npt.NDArray[np.void]
    ) -> None:
        """Copy the values of `records`, viewed as `record_view`, to `positions` of `memory`."""
        rows, size = memory[positions], self.dtype.itemsize
        is_scattered = len(self._runs) * _VALUES_PER_RUN > len(self.offsets) > 1
        if is_scattered and not any(n % size for n in (*self.offsets, records.itemsize)):
            values = records.view(self.dtype).reshape(len(records), -1)
            indices = [offset // size for offset in self.offsets]
            values.take(indices, axis=1, out=self._values(rows), mode="clip")
            return
        rows = rows.view(self._row)
        for name in self._row.names or ():
            rows[name] = records[name]

    def _values(self, memory: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return memory.view(self.dtype).reshape(len(memory), -1)

    def split(self, memory: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the name and the values, a view of `memory`."""
        yield self.name, self._values(memory)


@dataclass(frozen=True)
class Strip:
    """One column, or several with adjacent values of one size in every record.

    Attributes
    ----------
    offset : int
        Byte offset of the first value in a record.
    columns : tuple of (str, numpy.dtype)
        Name and dtype of each column, in the order of the record.
    shape : tuple of int
        Shape of a value; only columns of scalars are joined.
    """

    offset: int
    columns: tuple[tuple[str, np.dtype[Any]], ...]
    shape: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the first column, used as the field name of the strip."""
        return self.columns[0][0]

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Unsigned integer dtype of the values' size, in which they are copied."""
        return np.dtype(f"u{self.columns[0][1].itemsize}")

    @property
    def fields(self) -> Iterator[tuple[str, Any, int]]:
        """Name, format and offset of the record field that the strip copies."""
        yield self.name, (self._dtype, (len(self.columns), *self.shape)), self.offset

    def empty(self, rows: int) -> npt.NDArray[Any]:
        """Allocate `rows` values of each column."""
        return np.empty((len(self.columns), rows, *self.shape), self._dtype)

    def fill(
        self, memory: npt.NDArray[Any], positions: slice, records: npt.NDArray[np.void]
    ) -> None:
        """Copy the values of `records`, viewed as `record_view`, to `positions` of `memory`."""
        memory[:, positions] = records[self.name].swapaxes(0, 1)

    def split(self, memory: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the name and values of each column, as views of `memory`."""
        for (name, dtype), values in zip(self.columns, memory, strict=True):
            yield name, values.view(dtype)

    def joined(self, other: Strip) -> Strip | None:
        """Return this strip joined with `other`; None unless adjacent and of one size."""
        size = self._dtype.itemsize
        is_next = other.offset == self.offset + size * len(self.columns)
        if self.shape or other.shape or other._dtype.itemsize != size or not is_next:
            return None
        return Strip(self.offset, self.columns + other.columns)


def strips_of(record: np.dtype[np.void], wanted: Mapping[str, np.dtype[Any]]) -> tuple[Strip, ...]:
    """Return the wanted columns of a record in as few strips as possible.

    Parameters
    ----------
    record : numpy.dtype
        Structured dtype of a sample.
    wanted : mapping from str to numpy.dtype
        The columns to read, and the dtype of their values or elements.
    """
    strips: list[Strip] = []
    for name, (field, offset, *_) in (record.fields or {}).items():  # in the order of their bytes
        if name not in wanted:
            continue
        strip = Strip(offset, ((name, wanted[name]),), field.shape)
        joined = strips[-1].joined(strip) if strips else None
        if joined is None:
            strips.append(strip)
        else:
            strips[-1] = joined
    return tuple(strips)


def record_view(record: np.dtype[np.void], strips: Sequence[Strip | Matrix]) -> np.dtype[np.void]:
    """Return the dtype that views records as the fields of strips and matrices."""
    fields = [field for strip in strips for field in strip.fields]
    names, formats, offsets = zip(*fields, strict=True) if fields else ((), (), ())
    return layout(names, formats, offsets, record.itemsize)


def matrices_of(
    record: np.dtype[np.void],
    wanted: Mapping[str, np.dtype[Any] | None],
    outputs: Sequence[Output],
) -> tuple[list[Matrix], set[str]]:
    """Return the matrices that can be copied from records, and the columns of all other outputs.

    Parameters
    ----------
    record : numpy.dtype
        Structured dtype of a sample.
    wanted : mapping from str to numpy.dtype or None
        Dtype of the values of each column; None if they are not just a view of the stored bytes.
    outputs : sequence of Output
        The entries of a batch.
    """
    fields: Mapping[str, Any] = record.fields or {}
    matrices, left = [], set[str]()
    for output in dict.fromkeys(outputs):
        columns = (output,) if isinstance(output, str) else output.columns
        dtypes = {None if fields[column][0].shape else wanted.get(column) for column in columns}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if isinstance(output, str) or dtype is None or output.casts(dtype):
            left.update(columns)
        else:
            offsets = tuple(fields[column][1] for column in columns)
            matrices.append(Matrix(output_name(output), dtype, offsets))
    return matrices, left


def layout(
    names: Sequence[str], formats: Sequence[Any], offsets: Sequence[int], itemsize: int
) -> np.dtype[np.void]:
    """Return the dtype of a record that may have other bytes between its fields."""
    return np.dtype(
        {
            "names": list(names),
            "formats": list(formats),
            "offsets": list(offsets),
            "itemsize": itemsize,
        }
    )
