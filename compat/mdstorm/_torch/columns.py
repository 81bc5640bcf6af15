"""Convert, join, cut and shuffle the columns of PyTorch batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from mdstorm.errors import UnsupportedTypeError
from mdstorm_backend.base import warn_user
from mdstorm_backend.format import num_rows
from mdstorm_backend.loaders import null_error
from mdstorm_backend.loaders.torch import to_torch

#: Some rows: tensors, arrays or lists of one length.
Columns: TypeAlias = dict[str, Any]
#: Returns the numbers below its argument in random order.
Permutation: TypeAlias = Callable[[int], npt.NDArray[np.int64]]

#: Petastorm's promotions of what PyTorch does not compute with.
_PROMOTED = {
    np.dtype(np.bool_): np.uint8,
    np.dtype(np.uint16): np.int32,
    np.dtype(np.uint32): np.int64,
}


def array_for_torch(values: Any) -> Any:
    """Return an array, or a NumPy scalar, promoted as Petastorm does; anything else as it is.

    Booleans become uint8, uint16 int32, uint32 int64.
    """
    if isinstance(values, (np.ndarray, np.generic)) and values.dtype in _PROMOTED:
        return values.astype(_PROMOTED[values.dtype])
    return values


def column_to_torch(values: Any, name: str) -> torch.Tensor | list[Any]:
    """Return a column that a reader delivered as a tensor, or as a list where there is none.

    Raises
    ------
    NullValueError
        If a null has no value in PyTorch.
    """
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.dtype != object or array.ndim > 1:
        return to_torch(array, None, name)
    first = next((value for value in array if value is not None), None)
    if isinstance(first, (bool, np.bool_)):
        raise null_error(name, sum(value is None for value in array), "PyTorch")
    return [to_torch(v, None, name) if isinstance(v, np.ndarray) else v for v in array]


def tensors_of(item: Any) -> Columns:
    """Return a batch that a reader delivered, with its columns by `column_to_torch`."""
    return {name: column_to_torch(values, name) for name, values in item._asdict().items()}


_OR_AS_FLOATS = '. If they are decimals, pass decimals="float64" to the reader, for numbers'


def arrays_of(item: Any) -> Columns:
    """Return a batch that a reader delivered, with its columns by `array_for_torch`."""
    return {n: array_for_torch(np.asarray(values)) for n, values in item._asdict().items()}


def only_tensor(values: torch.Tensor | list[Any], name: str) -> torch.Tensor:
    """Return a column that is a tensor.

    Raises
    ------
    UnsupportedTypeError
        If it is a list, since PyTorch has no tensor for it.
    """
    if isinstance(values, torch.Tensor):
        return values
    found = type(next((value for value in values if value is not None), None)).__name__
    raise no_tensor(name, found)


def no_tensor(name: str, found: object) -> UnsupportedTypeError:
    """Return the error for a column of which PyTorch has no tensor."""
    return UnsupportedTypeError(
        f"Pytorch does not support arrays of string or object classes. Found in field {name}. "
        "Leave it out with schema_fields=[…], turn it into numbers or arrays of one length in a "
        "transform_spec, or use mdstorm.pytorch.DataLoader, which delivers such columns as "
        f"lists{_OR_AS_FLOATS if found == 'Decimal' else ''}",
        columns={name: str(found)},
    )


def rows_of_columns(columns: Columns) -> list[dict[str, Any]]:
    """Return the rows of some columns as dicts."""
    names = tuple(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def shuffled(
    parts: Iterable[Columns], capacity: int, permutation: Permutation
) -> Iterator[Columns]:
    """Draw the rows at random from a pool that always holds `capacity` others, but at the end.

    The pool is mixed whenever half as many rows again have come, so that a row is copied three
    times on the way however small the parts are.
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
    """Cut the rows into batches; the last one may be shorter.

    A batch within one part is a view of it.
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
    """Join pieces of one column; what differs in more than its dtype becomes a list of rows."""
    shapes = {getattr(part, "shape", (0, None))[1:] for part in parts}
    if len(shapes) == 1 and all(isinstance(part, torch.Tensor) for part in parts):
        return torch.cat(parts)
    if len(shapes) == 1 and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [row for part in parts for row in part]


def first_rows(
    batches: Iterable[Columns], capacity: int, *, is_endless: bool
) -> dict[str, torch.Tensor]:
    """Return the first `capacity` rows, and warn if there are more, unless they never end."""
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
                f"InMemBatchedDataLoader keeps the first {capacity} rows of the reader and leaves "
                "out the others: raise rows_capacity, or open the reader with fewer rows"
            )
            break
    names = parts[0] if parts else {}
    return {name: torch.cat([part[name] for part in parts]) for name in names}
