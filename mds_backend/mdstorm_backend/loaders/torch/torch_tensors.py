"""Convert blocks (`tensor_batches`) and columns (`to_torch`) to PyTorch tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.base.work_ahead import WorkAhead
from mdstorm_backend.format import Column, Values, depth_of, shapes_of
from mdstorm_backend.format.values import nested_lists
from mdstorm_backend.format.values.python_objects import date_objects, python_objects
from mdstorm_backend.loaders import NumberedBatches, ReaderOptions
from mdstorm_backend.loaders.nulls import check_exact, check_nulls, null_error
from mdstorm_backend.loaders.times import nanoseconds
from mdstorm_backend.loaders.torch.collation import collate_objects
from mdstorm_backend.read import Block, decode_late, scalars_to_numpy

#: A batch column: a tensor, or a list if PyTorch has no type for it.
TorchValues: TypeAlias = torch.Tensor | list[Any]
#: Result of PyTorch's default collation of Python objects: nested, with tensors for numbers.
Collated: TypeAlias = TorchValues | Mapping[str, Any]
#: Converts a block's column to a tensor or list, given its schema entry, if any, and its name.
ConvertColumn: TypeAlias = Callable[[Values, Column | None, str], TorchValues]

#: Types that PyTorch cannot compute with, and the types that Petastorm promotes them to.
_PROMOTED = {np.dtype(np.uint16): np.int32, np.dtype(np.uint32): np.int64}
#: Views are made for as many batches at once as need at most this many tensors. Python collects
#: garbage after 700 new objects: thousands of views took longer to walk through than to make.
_VIEWS = 2048
#: Whether PyTorch has tensors of these unsigned types, as versions 2.3 and later do.
HAS_UNSIGNED = hasattr(torch, "uint16")


def check_columns(options: ReaderOptions) -> None:
    """Raise NullValueError before the first batch if a column has nulls that no tensor can hold.

    A warning is logged about nulls that become NaN.
    """
    check_nulls(options.null_checked, "PyTorch", needs_value)


def needs_value(column: Column) -> bool:
    """Whether nulls in the column would become an arbitrary number.

    Null floats and integers become NaN, and nulls in lists become None.
    """
    type_ = column.element_type if column.is_array else column.arrow_type
    if not _has_tensor(type_):
        return False
    return not _has_nan(type_) or (column.is_array and column.null_count > 0)


def to_torch(
    values: Values, column: Column | None, name: str, *, promotes: bool = True
) -> TorchValues:
    """Return a block's column as a tensor or a list.

    Booleans become uint8, timestamps int64 nanoseconds since 1970 UTC, day-time intervals int64
    microseconds, integers with nulls float64 with NaN, ragged arrays a list of tensors, and nested
    arrays a list of lists of tensors if the column's inner arrays have several lengths. Strings,
    binaries, decimals, dates and nested values become lists of Python objects. Images become one
    uint8 tensor ``(rows, height, width[, channels])`` if all have the same shape, and otherwise a
    list of tensors. The same applies to arrays without a Spark type, as in PyTorch's default
    collation, and to Parquet arrays, as in Petastorm. Tensors share the memory of `values` if the
    types allow it.

    Parameters
    ----------
    values : numpy.ndarray or pyarrow.Array
        The column's values; NumPy arrays have to be writable.
    column : Column or None
        The column in the schema; None for a column that a transform has made.
    name : str
        Name of the column, for error messages.
    promotes : bool
        Whether uint16 becomes int32, and uint32 becomes int64.

    Raises
    ------
    NullValueError
        If the column holds nulls that no tensor can represent.
    OverflowError
        If a timestamp does not fit into nanoseconds.
    UnsafeTypeError
        If the column holds pickles that the caller did not allow.
    CorruptDatasetError
        If an image, or another stored object, cannot be decoded.
    """
    if isinstance(values, np.ndarray):
        found = _array_to_torch(values, name, promotes)
        if isinstance(found, list) and column and column.is_array and not column.spark_type:
            return _JoinedLater(found, _stacked)
        return found
    if column is not None and column.is_late:
        decoded = _array_to_torch(decode_late(values, column), name, promotes)
        is_alike = column.is_image or (
            column.parsed_encoding.joins_arrays
            and all(isinstance(value, torch.Tensor) for value in decoded)
        )
        if is_alike and isinstance(decoded, list):
            return _JoinedLater(decoded, _stacked)
        return decoded
    type_ = values.type
    is_array = column is None or column.is_array or depth_of(type_) == 1
    if is_array and pa.types.is_list(type_) and _has_tensor(nested_lists.element_type(type_)):
        return _lists_to_torch(values, column, name, promotes)
    if not _has_tensor(type_):
        with python_objects(name, values):
            return _to_list(values)
    if not _has_nan(type_):
        if values.null_count:
            raise null_error(name, values.null_count, "PyTorch")
        return _array_to_torch(scalars_to_numpy(values, has_nulls=False), name, promotes)
    has_nulls = values.null_count > 0 or (column is not None and column.null_count > 0)
    if has_nulls:
        check_exact(values, name)
    return _array_to_torch(scalars_to_numpy(values, has_nulls), name, promotes)


def to_collated(
    values: Values, column: Column | None, name: str, *, promotes: bool = False
) -> TorchValues:
    """Return a column like `to_torch`, but with the types of PyTorch's default collation.

    This affects JSON, pickles, values with user-defined encodings and, unless `promotes` is true,
    unsigned integers, which then match MosaicML Streaming's batches. `split_values` collates each
    batch separately. Objects that differ or cannot be collated remain a list, and so do columns
    with a Spark type.
    """
    if column is None or column.spark_type is not None:
        return to_torch(values, column, name)
    found = to_torch(values, column, name, promotes=promotes or not HAS_UNSIGNED)
    if type(found) is not list:
        return found
    return _JoinedLater(found, collate_objects) if column.parsed_encoding.is_collated else found


def _collate_scalars(
    batch: list[np.generic], *, collate_fn_map: Mapping[Any, Any] | None = None
) -> TorchValues:
    """Return the scalars in PyTorch's samples as in whole batches: times are nanoseconds."""
    return to_torch(np.array(batch), None, "of samples", promotes=not HAS_UNSIGNED)


# PyTorch has no rule for them, so that a plain DataLoader over samples with one would fail.
for _kind in (np.datetime64, np.uint64):
    default_collate_fn_map.setdefault(_kind, _collate_scalars)


def tensor_batches(
    options: ReaderOptions,
    blocks: Iterator[Block],
    convert: ConvertColumn = to_torch,
    recorder: Recorder | None = None,
) -> NumberedBatches:
    """Convert whole blocks, column by column, and split them into batches."""

    def converted(block: Block) -> tuple[Block, dict[str, Iterable[Collated]]]:
        together = max(1, _VIEWS // max(len(block.batch), 1))
        return block, {
            name: split_values(
                convert(values, options.reading.column(name), name), block.sizes, together
            )
            for name, values in block.batch.items()
        }

    # Images are decoded while earlier batches are in use. Other conversions take less time than the
    # threads would spend waiting for each other.
    ahead = 1 if options.has_images and get_worker_info() is None else 0
    with WorkAhead(ahead, recorder) as decoders:
        made = (
            decoders.map(converted, blocks, 2, first_here=True) if ahead else map(converted, blocks)
        )
        for block, columns in made:
            names = tuple(columns)
            for offset, size, *values in zip(
                block.offsets, block.sizes, *columns.values(), strict=True
            ):
                yield dict(zip(names, values, strict=True)), offset, size


def split_values(
    values: TorchValues, sizes: list[int], together: int = sys.maxsize
) -> Iterable[Collated]:
    """Split a block's column into batches; tensors are views, made for `together` batches at once.

    Images or arrays that have the same shape within a batch become one tensor, even if other
    batches in the block have different shapes.
    """
    if isinstance(values, torch.Tensor):
        return [values] if len(sizes) == 1 else _views(values, sizes, together)
    ends = np.cumsum(sizes)
    join = values.join if isinstance(values, _JoinedLater) else list
    return [join(values[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def _views(values: torch.Tensor, sizes: list[int], together: int) -> Iterator[torch.Tensor]:
    start = 0
    for first in range(0, len(sizes), together):
        chosen = sizes[first : first + together]
        rows = sum(chosen)
        # Autograd treats these views as independent tensors, which is safe because their base is
        # not used elsewhere. They are faster to create, and modifying a batch in place does not
        # count as modifying another batch.
        yield from torch.unsafe_split_with_sizes(values.narrow(0, start, rows), chosen)
        start += rows


class _JoinedLater(list[Any]):
    """A column's values, which `join` turns into the column of each batch."""

    def __init__(self, values: list[Any], join: Callable[[list[Any]], Collated]) -> None:
        super().__init__(values)
        self.join = join


def _stacked(tensors: list[Any]) -> TorchValues:
    """Stack tensors if all of them have the same shape; None stands for null."""
    first = tensors[0] if tensors else None
    if isinstance(first, torch.Tensor) and all(
        isinstance(each, torch.Tensor) and (each.shape, each.dtype) == (first.shape, first.dtype)
        for each in tensors
    ):
        return torch.stack(tensors)
    return tensors


def _to_list(values: pa.Array) -> list[Any]:
    if pa.types.is_string(values.type):  # with Arrow 14, several times as fast for short text
        return list(values.to_numpy(zero_copy_only=False).tolist())
    return list(values.to_pylist())


def _object_to_torch(value: Any, name: str, promotes: bool) -> Any:
    """Return an array or list of arrays as tensors, and any other object unchanged."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "buif":
        return _array_to_torch(value, name, promotes)
    if isinstance(value, list) and all(isinstance(item, np.ndarray) for item in value):
        return [_array_to_torch(item, name, promotes) for item in value]
    return value


def _has_tensor(type_: pa.DataType) -> bool:
    """Whether values of an Arrow type become tensors rather than lists."""
    return bool(_has_nan(type_) or pa.types.is_boolean(type_) or pa.types.is_timestamp(type_))


def _has_nan(type_: pa.DataType) -> bool:
    """Whether nulls of an Arrow type become NaN, as in floats and integers converted to float64."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_duration(type_)
    )


def _array_to_torch(array: npt.NDArray[Any], name: str, promotes: bool) -> TorchValues:
    kind = array.dtype.kind
    if kind in "OSU" and array.ndim == 1:
        return [_object_to_torch(value, name, promotes) for value in array.tolist()]
    if kind in "OSU":
        return list(array)
    if kind == "M" and array.dtype == "datetime64[D]":
        return list(date_objects(name, array))
    if kind == "M":
        array = nanoseconds(array, name, "PyTorch")
    elif kind == "b":
        array = array.view(np.uint8)
    elif promotes and array.dtype in _PROMOTED:
        array = array.astype(_PROMOTED[array.dtype])
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array)


def _lists_to_torch(
    lists: pa.Array, column: Column | None, name: str, promotes: bool
) -> TorchValues:
    inside = nested_lists.null_lists_in(lists)
    nulls = lists.null_count + inside
    if nulls:
        raise null_error(name, nulls, "PyTorch", inside=inside > 0)
    element = column and Column(name, "", null_count=column.element_null_count)
    flat = to_torch(nested_lists.elements_of(lists), element, name, promotes=promotes)
    assert isinstance(flat, torch.Tensor)
    shape = None if column is None else column.value_shape
    if shape is not None:
        return flat.reshape(-1, *shape)
    are_lists = column is None or (column.spark_type is not None and not column.may_have_one_length)
    shape = None if are_lists else shapes_of(lists).common()
    if shape is not None:
        return flat.reshape(len(lists), *shape)
    if not len(lists):
        return []
    uneven = True if column is not None and column.uneven else None
    rows = nested_lists.rows_of(lists, flat, torch.split, uneven=uneven)
    return rows if are_lists else _JoinedLater(rows, _stacked)
