"""A batch: some rows as whole columns, never as one Python object per row.

A column of fixed-size values is a NumPy array of shape ``(rows, *shape)``: ``bool``, integers,
floats, ``datetime64[D]`` for dates and ``datetime64[us]`` for timestamps. Any other column is an
Arrow array, and so is a column that has nulls anywhere in its dataset, unless it is floating-point,
where nulls are NaN. Only values that Arrow cannot put into one array, such as arrays with different
numbers of dimensions, are NumPy arrays of dtype object.

A shard is one buffer with values at known positions. Fixed-size values are gathered through a view
with one element at every byte. Variable-size values are gathered by Arrow: the buffer is wrapped as
a binary array in which values and the gaps between them alternate, and every second item is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.errors import InvalidArgumentError, TransformError
from mdstorm_backend.format.values.arrow_types import is_number, numpy_dtype
from mdstorm_backend.format.values.nested_lists import depth_of, element_type, lists_of_array

Values: TypeAlias = npt.NDArray[np.generic] | pa.Array
Batch = dict[str, Values]
#: Offsets of values in a shard, or their sizes in bytes.
Positions = npt.NDArray[np.int64]

INT32_MAX = np.iinfo(np.int32).max

#: Suffix of the name of a boolean column that marks the nulls in another column.
MASK_SUFFIX = "_is_null"


def num_rows(batch: Batch) -> int:
    """Return the number of rows in a batch; 0 if it has no columns."""
    return len(next(iter(batch.values()))) if batch else 0


def slice_batch(batch: Batch, start: int, stop: int) -> Batch:
    """Return the rows `start` to `stop` of a batch as views, without copying."""
    return {
        name: values[start:stop]
        if isinstance(values, np.ndarray)
        else values.slice(start, stop - start)
        for name, values in batch.items()
    }


def copy_values(values: Values, start: int, stop: int) -> Values:
    """Return a copy of the rows `start` to `stop` of a column."""
    if isinstance(values, np.ndarray):
        return values[start:stop].copy()
    return pa.concat_arrays([values.slice(start, stop - start)])


def take_values(values: Values, rows: npt.NDArray[np.integer]) -> Values:
    """Return a copy of the rows `rows` of a column, in that order."""
    if isinstance(values, np.ndarray):
        return np.take(values, rows, axis=0)
    return values.take(pa.array(rows))


def concat_values(parts: Sequence[Values], name: str = "") -> Values:
    """Concatenate pieces of one column, cast to a common type if necessary.

    Pieces read from shards have the same type. The results of a transform may differ between
    shards: nulls take the type of the other values, numbers and decimals the wider type, and arrays
    of different lengths become lists.

    Parameters
    ----------
    parts : sequence of numpy.ndarray or pyarrow.Array
        The pieces, at least one.
    name : str
        Name of the column, for the message.

    Raises
    ------
    TransformError
        If no type holds the values of all pieces.
    InvalidArgumentError
        If the values are too large for one Arrow array.
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if isinstance(first, np.ndarray):
        kind = (first.dtype, first.shape[1:])
        if all(isinstance(p, np.ndarray) and (p.dtype, p.shape[1:]) == kind for p in parts):
            return np.concatenate(parts)
    elif all(not isinstance(p, np.ndarray) and p.type == first.type for p in parts):
        try:
            return pa.concat_arrays(parts)
        except pa.ArrowInvalid as error:
            raise too_large(f"column {name!r}") from error
    filled = [part for part in parts if len(part)] or list(parts[:1])
    try:
        return _concat_different(filled)
    except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        kinds = list(dict.fromkeys(_type_name(part) for part in filled))
        raise TransformError(
            f"column {name!r} is {' in some shards and '.join(kinds)} in others, which have no "
            "common type: return the same type from every call of the transform function, even "
            f"if all values are null ({error})"
        ) from error


def concat_stored(parts: Sequence[Values], name: str = "") -> Values:
    """Concatenate pieces of one stored column without changing any values.

    Like `concat_values`, except that arrays of different dtypes or numbers of dimensions become
    objects.
    """
    filled = [part for part in parts if len(part)] or list(parts[:1])
    types = [None if isinstance(part, np.ndarray) else part.type for part in filled]
    lists = [type_ is not None and pa.types.is_list(type_) for type_ in types]
    arrow = next((type_ for type_ in types if type_ is not None), None)
    if arrow is not None and not any(lists):
        # Only the shards that have nulls which were not recorded return Arrow arrays.
        filled = [
            as_arrow(part).cast(arrow)
            if isinstance(part, np.ndarray) and part.dtype.kind != "O"
            else part
            for part in filled
        ]
    # Types with other names for the elements are equal, but have different hashes.
    if not any(lists) or all(type_ == types[0] for type_ in types):
        return concat_values(filled, name)
    rows = [
        row
        for part, is_list in zip(filled, lists, strict=True)
        for row in (_arrays(part) if is_list else part)
    ]
    return np.fromiter(rows, object, len(rows))


def too_large(what: str) -> InvalidArgumentError:
    """Return the error for values that do not fit into one Arrow array, whose offsets are int32."""
    return InvalidArgumentError(
        f"{what} takes more than 2 GiB in one batch, which one Arrow array cannot hold: use a "
        "smaller batch_size or, in make_batch_reader, whose batches are row groups, "
        "shuffle_row_drop_partitions=2 or more, which splits them. Or read other columns"
    )


def _arrays(lists: pa.ListArray) -> list[Any]:
    """Return each row of an array of lists of numbers as its own NumPy array, and nulls as None."""
    flat = np.asarray(lists.values)
    bounds = np.asarray(lists.offsets).tolist()
    spans = zip(bounds[:-1], bounds[1:], lists.is_valid().to_pylist(), strict=True)
    return [flat[start:stop].copy() if valid else None for start, stop, valid in spans]


def _concat_different(parts: Sequence[Values]) -> Values:
    """Concatenate pieces of different types or shapes."""
    if any(isinstance(part, np.ndarray) and part.dtype.kind == "O" for part in parts):
        return _objects(parts)
    if all(isinstance(part, np.ndarray) and part.dtype.kind in "biuf" for part in parts):
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) == 1:
            return np.concatenate(parts)
        if any(len(shape) > 1 for shape in shapes):
            return _objects(parts)
    depth = max(0 if isinstance(part, np.ndarray) else depth_of(part.type) for part in parts)
    arrays = [
        lists_of_array(part)
        if isinstance(part, np.ndarray) and part.ndim == depth + 1 > 2
        else as_arrow(part)
        for part in parts
    ]
    type_ = arrays[0].type
    for array in arrays[1:]:
        type_ = common_type(type_, array.type)
    joined = pa.concat_arrays([_cast(array, type_) for array in arrays])
    if pa.types.is_timestamp(type_):
        # Return a NumPy array, which states its unit: Arrow timestamps are taken to be in
        # microseconds.
        return joined.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        if joined.null_count and pa.types.is_integer(type_):
            joined = joined.cast(pa.float64(), safe=False)
        return np.array(joined.to_numpy(zero_copy_only=False))
    return joined


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the Arrow type that holds the values of both types.

    Raises
    ------
    TypeError
        If there is no such type.
    """
    types = pa.types
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_list(one) and types.is_list(other):
        return pa.list_(common_type(one.value_type, other.value_type))
    if types.is_decimal(one) and types.is_decimal(other):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale)
        if digits + scale > 38:
            raise TypeError(f"decimals with {digits} digits before and {scale} after the point")
        return pa.decimal128(digits + scale, scale)
    if is_number(one) and is_number(other):
        return pa.from_numpy_dtype(np.promote_types(numpy_dtype(one), numpy_dtype(other)))
    if types.is_timestamp(one) and types.is_timestamp(other):
        return pa.timestamp("ns" if "ns" in (one.unit, other.unit) else "us")
    raise TypeError(f"{one} and {other}")


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    # As in NumPy, large integers may lose digits when promoted to floating-point numbers.
    return array.cast(type_, safe=not is_number(element_type(type_)))


def _objects(parts: Sequence[Values]) -> npt.NDArray[np.generic]:
    rows = [row for p in parts for row in (p if isinstance(p, np.ndarray) else p.to_pylist())]
    return np.fromiter(rows, object, len(rows))


def _type_name(part: Values) -> str:
    if not isinstance(part, np.ndarray):
        return str(part.type)
    return f"{part.dtype}{list(part.shape[1:])}" if part.ndim > 1 else str(part.dtype)


def as_arrow(values: Values) -> pa.Array:
    """Return the column as an Arrow array; rows of several values become flat lists."""
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind == "V":
        data = pa.py_buffer(np.ascontiguousarray(values).view(np.uint8))
        type_ = pa.binary(values.dtype.itemsize)
        return pa.Array.from_buffers(type_, len(values), [None, data])
    if values.ndim == 1:
        return pa.array(values)
    rows, length = len(values), int(np.prod(values.shape[1:]))
    if values.size > INT32_MAX:
        raise too_large(f"an array of {rows} rows of {length} values")
    offsets = np.arange(rows + 1, dtype=np.int32) * length
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.reshape(-1)))


def are_null(values: Values) -> npt.NDArray[np.bool_]:
    """Return which values are null; NaN is not null."""
    if isinstance(values, np.ndarray) and values.dtype == object:  # arrays of several shapes
        return np.array([value is None for value in values], bool)
    return np.array(as_arrow(values).is_null(), bool)


def gather_fixed(
    data: npt.NDArray[np.uint8], starts: Positions, dtype: np.dtype[np.generic], width: int = 1
) -> npt.NDArray[np.generic]:
    """Return copies of `width` values of `dtype` at each of the byte positions `starts`.

    Returns
    -------
    numpy.ndarray
        Shape ``(len(starts),)`` for a width of 1, otherwise ``(len(starts), width)``.
    """
    size = dtype.itemsize * width
    if len(starts) == 0:
        return np.empty((0,) if width == 1 else (0, width), dtype)
    every_byte: npt.NDArray[np.void] = np.ndarray(
        (len(data) - size + 1,), f"V{size}", data, strides=(1,)
    )
    values = every_byte[starts].view(dtype)
    return values if width == 1 else values.reshape(-1, width)


def gather_binary(
    data: npt.NDArray[np.uint8], starts: Positions, lengths: Positions, type_: pa.DataType
) -> pa.Array:
    """Return a copy of the binaries or strings at the given positions in `data`.

    Parameters
    ----------
    data : numpy.ndarray
        The shard, uint8.
    starts, lengths : numpy.ndarray
        Position and size in bytes of each value; positions ascend and values do not overlap.
    type_ : pyarrow.DataType
        ``binary()`` or ``string()``.

    Raises
    ------
    InvalidArgumentError
        If the values are too large for one array.
    """
    if int(lengths.sum()) > INT32_MAX:
        raise too_large("a column")
    count = len(starts)
    large = len(data) > INT32_MAX
    bounds = np.empty(2 * count + 1, np.int64 if large else np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + lengths
    bounds[-1] = bounds[-2] if count else 0
    container = (
        (pa.large_string() if pa.types.is_string(type_) else pa.large_binary()) if large else type_
    )
    alternating = pa.Array.from_buffers(
        container, 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    every_second = pa.py_buffer(np.arange(0, 2 * count, 2))  # `pa.array` would import pandas
    return alternating.take(pa.Array.from_buffers(pa.int64(), count, [None, every_second])).cast(
        type_
    )
