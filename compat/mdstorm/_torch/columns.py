"""Convert, concatenate, split and shuffle the columns of PyTorch batches."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import default_collate

from mdstorm._petastorm_names import public
from mdstorm.errors import NullValueError, UnsupportedTypeError
from mdstorm_backend.base import warn_user
from mdstorm_backend.format import num_rows
from mdstorm_backend.loaders import null_error
from mdstorm_backend.loaders.torch import are_alike, to_torch

#: Columns as tensors, arrays or lists of the same length.
Columns: TypeAlias = dict[str, Any]
#: Returns the integers below its argument in random order.
Permute: TypeAlias = Callable[[int], npt.NDArray[np.int64]]

#: Petastorm's promotions of dtypes with limited support in PyTorch.
_PROMOTED = {
    np.dtype(np.bool_): np.uint8,
    np.dtype(np.uint16): np.int32,
    np.dtype(np.uint32): np.int64,
}
_DECODE = "If it holds images, pass decode={0!r}, size=224 to the reader. "
_OR_AS_FLOATS = '. If they are decimals, pass decimals="float64" to the reader, for numbers'
#: Maps column names to values, or the offsets of an n-gram to such mappings.
RowMapping: TypeAlias = dict[Any, Any]


def array_for_torch(values: Any) -> Any:
    """Promote an array or NumPy scalar as Petastorm does; return anything else unchanged.

    Booleans become uint8, uint16 becomes int32, and uint32 becomes int64.
    """
    if isinstance(values, (np.ndarray, np.generic)) and values.dtype in _PROMOTED:
        return values.astype(_PROMOTED[values.dtype])
    return values


def column_to_torch(values: Any, name: str) -> torch.Tensor | list[Any]:
    """Return a reader's column as a tensor, or as a list if PyTorch has no type for it.

    Raises
    ------
    NullValueError
        If the column contains nulls that PyTorch cannot represent, such as nulls among booleans.
    """
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.dtype != object or array.ndim > 1:
        return to_torch(array, None, name)
    first = next((value for value in array if value is not None), None)
    if isinstance(first, (bool, np.bool_)):
        raise null_error(name, sum(value is None for value in array), "PyTorch")
    return [to_torch(v, None, name) if isinstance(v, np.ndarray) else v for v in array]


def tensors_of(item: Any) -> Columns:
    """Convert the columns of a reader's batch with `column_to_torch`."""
    return {name: column_to_torch(values, name) for name, values in item._asdict().items()}


def arrays_of(item: Any) -> Columns:
    """Convert the columns of a reader's batch with `array_for_torch`."""
    return {n: array_for_torch(np.asarray(values)) for n, values in item._asdict().items()}


def only_tensor(values: torch.Tensor | list[Any], name: str) -> torch.Tensor:
    """Return a column that must be a tensor.

    Raises
    ------
    UnsupportedTypeError
        If the column is a list.
    """
    if isinstance(values, torch.Tensor):
        return values
    found = type(next((value for value in values if value is not None), None)).__name__
    raise no_tensor(name, found)


def no_tensor(name: str, type_name: object) -> UnsupportedTypeError:
    """Return the error for a column that cannot be converted to a tensor."""
    return UnsupportedTypeError(
        f"Pytorch does not support arrays of string or object classes. Found in field {name}. "
        f"{_DECODE.format(name) if type_name == 'bytes' else ''}Leave it out with "
        "schema_fields=[…], turn it into numbers or arrays of the same length in a transform_spec, "
        "or use mdstorm.pytorch.DataLoader, which returns such columns as "
        f"lists{_OR_AS_FLOATS if type_name == 'Decimal' else ''}",
        columns={name: str(type_name)},
    )


def rows_of_columns(columns: Columns) -> list[dict[str, Any]]:
    """Convert columns to a list of rows, as dicts."""
    names = tuple(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def shuffled(parts: Iterable[Columns], capacity: int, permutation: Permute) -> Iterator[Columns]:
    """Yield the rows in random order, drawn from a pool of `capacity` rows.

    The pool is shuffled whenever it exceeds its capacity by half, so each row is copied about three
    times, however small the parts are.
    """
    pool: list[Columns] = []
    rows = 0
    for part in parts:
        pool.append(part)
        rows += num_rows(part)
        if rows > capacity + capacity // 2:
            mixed = _take_rows(_concatenate_columns(pool), permutation(rows))
            yield _slice_rows(mixed, 0, rows - capacity)
            pool, rows = [_slice_rows(mixed, rows - capacity, rows)], capacity
    if rows:
        yield _take_rows(_concatenate_columns(pool), permutation(rows))


def cut(parts: Iterable[Columns], batch_size: int) -> Iterator[Columns]:
    """Split the rows into batches; the last batch may be shorter.

    A batch that lies within a single part is a view of that part.
    """
    batch: list[Columns] = []
    missing = batch_size
    for part in parts:
        start, rows = 0, num_rows(part)
        while start < rows:
            stop = min(start + missing, rows)
            batch.append(_slice_rows(part, start, stop))
            missing -= stop - start
            start = stop
            if missing == 0:
                yield _concatenate_columns(batch)
                batch, missing = [], batch_size
    if batch:
        yield _concatenate_columns(batch)


def _slice_rows(columns: Columns, start: int, stop: int) -> Columns:
    return {name: values[start:stop] for name, values in columns.items()}


def _take_rows(columns: Columns, rows: npt.NDArray[np.int64]) -> Columns:
    return {name: _take_values(values, rows) for name, values in columns.items()}


def _take_values(values: Any, rows: npt.NDArray[np.int64]) -> Any:
    if isinstance(values, torch.Tensor):
        return values.index_select(0, torch.from_numpy(rows).to(values.device))
    if isinstance(values, np.ndarray):
        return values[rows]
    return [values[row] for row in rows.tolist()]


def _concatenate_columns(parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    return {name: _concatenate_values([part[name] for part in parts]) for name in parts[0]}


def _concatenate_values(parts: list[Any]) -> Any:
    """Concatenate pieces of a column; pieces with different shapes become a list of rows."""
    shapes = {getattr(part, "shape", (0, None))[1:] for part in parts}
    if len(shapes) == 1 and all(isinstance(part, torch.Tensor) for part in parts):
        return torch.cat(parts)
    if len(shapes) == 1 and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [row for part in parts for row in part]


def first_rows(
    batches: Iterable[Columns], capacity: int, *, is_endless: bool
) -> dict[str, torch.Tensor]:
    """Return the first `capacity` rows; warn if there are more, unless the loader is infinite."""
    parts: list[Columns] = []
    missing = capacity
    for batch in batches:
        rows = num_rows(batch)
        if missing:
            parts.append({name: values[:missing] for name, values in batch.items()})
        left_out = rows > missing
        missing = max(missing - rows, 0)
        if is_endless and not missing:
            break
        if left_out:
            warn_user(
                f"InMemBatchedDataLoader keeps the first {capacity} rows of the reader and drops "
                "the rest: increase rows_capacity, or open the reader with fewer rows"
            )
            break
    names = parts[0] if parts else {}
    return {name: torch.cat([part[name] for part in parts]) for name in names}


def row_for_torch(item: Any) -> RowMapping:
    """Convert a reader's row, which is a namedtuple or an n-gram of namedtuples, to a dict.

    Raises
    ------
    NullValueError
        If any value is None.
    """
    if isinstance(item, Mapping):
        return {offset: row_for_torch(row) for offset, row in item.items()}
    row: RowMapping = item._asdict()
    refuse_nulls_in_rows({name: 1 for name, value in row.items() if value is None})
    return {name: array_for_torch(value) for name, value in row.items()}


def refuse_nulls_in_rows(counts: Mapping[str, int]) -> None:
    """Raise NullValueError if rows contain nulls.

    Parameters
    ----------
    counts : mapping of str to int
        The number of nulls in each field that contains nulls.

    Raises
    ------
    NullValueError
        If `counts` is not empty.
    """
    if counts:
        raise NullValueError(
            f"Pytorch does not support nullable fields. Found None in {', '.join(counts)}. Leave "
            "such rows out with a predicate, or give them a value in a transform_spec or with "
            "fill_nulls",
            columns=counts,
        )


def sanitize_pytorch_types(row_as_dict: dict[str, Any]) -> None:
    """Promote arrays and booleans in a row or batch to types that PyTorch supports, in place.

    Booleans become uint8, uint16 arrays become int32, and uint32 arrays become int64.

    Raises
    ------
    UnsupportedTypeError
        If there is an array of strings, bytes or objects; also a TypeError.
    NullValueError
        If any value is None; also a TypeError.
    """
    refuse_nulls_in_rows({name: 1 for name, value in row_as_dict.items() if value is None})
    for name, value in row_as_dict.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "SUO":
            raise no_tensor(name, value.dtype)
        if isinstance(value, (np.ndarray, np.bool_)):
            row_as_dict[name] = array_for_torch(value)


def collate_rows(rows: Sequence[RowMapping]) -> dict[Any, Any]:
    """Collate rows into tensors, or into lists for values that PyTorch has no type for."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        # The offsets of an n-gram are integers, and their values are rows.
        name: collate_rows(values) if isinstance(name, int) else _collated(values, name)
        for name, values in columns.items()
    }


def _collated(values: list[Any], name: str) -> Any:
    first = values[0]
    if isinstance(first, np.ndarray):
        if len({value.shape for value in values}) == 1:
            return column_to_torch(np.stack(values), name)
        return [column_to_torch(value, name) for value in values]
    if isinstance(first, np.generic) and not isinstance(first, (str, bytes)):
        return column_to_torch(np.array(values), name)
    if isinstance(first, datetime.date):
        return values
    return _collate_objects(values)


@public("mdstorm.pytorch")
def decimal_friendly_collate(batch: Sequence[Any]) -> Any:
    """Collate like PyTorch's ``default_collate``, but leave decimals and text in lists.

    Parameters
    ----------
    batch : sequence
        The samples. The type of the first sample determines the result: mappings are collated by
        key, sequences by position, and decimals, strings and bytes are returned as they are.
        Mappings and sequences in the samples are also returned as they are if they differ in keys,
        lengths, types or shapes.

    Returns
    -------
    object
        A tensor, a list, or a dict or list of them.

    Raises
    ------
    IndexError
        If there are no samples.
    TypeError
        If PyTorch cannot convert the values to a tensor.
    """
    first = batch[0]
    if isinstance(first, (decimal.Decimal, str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: _collate_objects([sample[key] for sample in batch]) for key in first}
    if isinstance(first, Sequence):
        return [_collate_objects(samples) for samples in zip(*batch, strict=False)]
    return default_collate(list(batch))


def _collate_objects(values: Sequence[Any]) -> Any:
    """Collate one value of each sample, or return them as a list if they are unlike objects."""
    is_object = isinstance(values[0], (Mapping, list, tuple))
    return list(values) if is_object and not are_alike(values) else decimal_friendly_collate(values)
