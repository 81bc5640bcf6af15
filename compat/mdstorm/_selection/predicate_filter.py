"""Apply predicates to rows, with one call per distinct value where possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm import predicates as petastorm_predicates
from mdstorm._rows import cells
from mdstorm._transforms import batch_to_frame, is_missing
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.base import cached_property, naming, require
from mdstorm_backend.format import Batch, Column, Schema, Values, num_rows, take_values

if TYPE_CHECKING:
    import pandas as pd


#: The index of each row's value among the distinct values.
Codes: TypeAlias = "npt.NDArray[np.integer[Any]] | slice"
Mask = npt.NDArray[np.bool_]
_BOOLEANS = (bool, np.bool_)
#: Errors that a function written for scalars may raise when it is called with Series.
_NEEDS_SCALARS = (AttributeError, TypeError, ValueError)


class PredicateFilter:
    """A `Transform` that keeps only the rows that a predicate includes.

    Column types and row order do not change. It can be pickled if the predicate can.

    Parameters
    ----------
    predicate : PredicateBase
        The user's predicate.
    schema : Schema
        The columns that are read, before any other transform.
    batched : bool
        Whether user-defined functions take whole columns, as in the batch reader, rather than
        the values in one row.

    Attributes
    ----------
    columns : tuple of str
        All columns that are read.
    fields : frozenset of str
        The columns that the predicate uses.

    Raises
    ------
    InvalidArgumentError
        If the predicate uses no columns, or columns that are not read.
    """

    def __init__(
        self, predicate: petastorm_predicates.PredicateBase, schema: Schema, batched: bool
    ) -> None:
        self.columns = schema.names
        self.fields = frozenset(predicate.get_fields())
        if not self.fields:
            raise InvalidArgumentError(
                "At least one field name must be returned by the predicate's get_fields(), found "
                "none: return the fields that the predicate uses"
            )
        unknown = sorted(str(name) for name in self.fields if name not in schema)
        if unknown:
            raise InvalidArgumentError(
                f"At least some column names requested by the predicate ({', '.join(unknown)}) "
                f"are not valid schema names: ({', '.join(schema.names)}), which are the columns "
                "that are read. Check the names, and that schema_fields includes them"
            )
        self._predicate = predicate
        self._schema = schema
        self._batched = batched

    def __call__(self, batch: Batch) -> Batch:
        """Return the rows that the predicate includes; the same batch if it includes all rows."""
        return keep_rows(batch, self.mask(batch))

    def mask(self, batch: Batch) -> Mask:
        """Return a mask of the rows in a batch that the predicate includes."""
        fields = {name: batch[name] for name in self.columns if name in self.fields}
        return predicate_mask(self._predicate, FieldRows(fields, self._schema, self._batched))


def keep_rows(batch: Batch, mask: Mask) -> Batch:
    """Return the rows of a batch where `mask` is true; the same batch if it is true everywhere."""
    if mask.all():
        return batch
    rows = np.flatnonzero(mask)
    return {name: take_values(values, rows) for name, values in batch.items()}


def distinct_cells(values: Values, column: Column | None = None) -> tuple[list[Any], Codes]:
    """Return the distinct values of a column, and the index of each row's value among them.

    Values are converted as in the row reader. Values that cannot be compared quickly, such as
    arrays and objects, are not deduplicated.
    """
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind != "O":
            unique, codes = np.unique(values, return_inverse=True)
            return cells(unique, column), codes
    elif not pa.types.is_nested(values.type) and not (column is not None and column.is_late):
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        return cells(encoded.dictionary, column), np.asarray(encoded.indices)
    return cells(values, column), slice(None)


class FieldRows:
    """Fields of some rows, in the forms that predicates accept."""

    def __init__(self, batch: Batch, schema: Schema, batched: bool = False) -> None:
        self.batch = batch
        self.schema = schema
        self.batched = batched
        self._cells: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return num_rows(self.batch)

    def cells(self, name: str) -> list[Any]:
        """Return a list of a field's values."""
        if name not in self._cells:
            self._cells[name] = cells(self.batch[name], self.schema.get(name))
        return self._cells[name]

    def dicts(self) -> Iterator[dict[str, Any]]:
        """Return an iterator over the rows, as dicts of all fields."""
        names = list(self.batch)
        columns = [self.cells(name) for name in names]
        return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All fields as a DataFrame, a copy that is shared by all predicates, as in Petastorm."""
        return batch_to_frame(self.batch, self.schema)


def predicate_mask(predicate: petastorm_predicates.PredicateBase, rows: FieldRows) -> Mask:
    """Return a mask of the rows that a predicate includes."""
    if not len(rows):
        return np.empty(0, np.bool_)
    with naming("predicate", getattr(predicate, "_predicate_func", predicate)):
        for class_, vectorised in _VECTORISED.items():
            # A subclass may override do_include.
            if isinstance(predicate, class_) and type(predicate).do_include is class_.do_include:
                return vectorised(predicate, rows)
        return _mask_by_calling(predicate, rows)


def _mask_by_calling(
    predicate: petastorm_predicates.PredicateBase,
    rows: FieldRows,
    for_all: Callable[[], Any] | None = None,
) -> Mask:
    """Call the predicate with a DataFrame in the batch reader if it accepts one, else row by row.

    If given, `for_all` is called in place of the predicate with a DataFrame.
    """
    if not rows.batched:
        return _truths(map(predicate.do_include, rows.dicts()), len(rows))
    refusal: Exception
    try:
        result = predicate.do_include(rows.frame) if for_all is None else for_all()
        mask = _boolean(result, len(rows))
        if mask is not None:
            return mask
        refusal = TypeError(
            f"the predicate returned {_shown(result)} for a DataFrame of {len(rows)} rows, which "
            "is not a boolean Series of that length"
        )
    except _NEEDS_SCALARS as error:
        refusal = error
    try:
        return _truths(map(predicate.do_include, rows.dicts()), len(rows))
    except Exception as error:
        raise error from refusal


def _shown(result: Any) -> str:
    """Describe the type of a function's result."""
    shape, dtype = getattr(result, "shape", ()), getattr(result, "dtype", None)
    of = "" if dtype is None else f" of {dtype}"
    return f"{type(result).__name__}{of}{f' with shape {shape}' if shape else ''}"


def _truths(results: Iterator[Any], count: int) -> Mask:
    return np.fromiter(map(bool, results), np.bool_, count)


def _boolean(result: Any, count: int) -> Mask | None:
    """Return the result of a function on whole columns as a mask; None if it is not a mask."""
    if not isinstance(result, (np.ndarray, list)) and not hasattr(result, "reindex"):
        return None
    if hasattr(result, "columns"):  # a DataFrame
        return None
    if hasattr(result, "reindex") and len(result) == count:
        index = require("pandas").RangeIndex(count)
        result = result if result.index.equals(index) else result.reindex(index)
        if str(result.dtype) == "boolean":
            return result.to_numpy(np.bool_, na_value=False)  # type: ignore[no-any-return]
    found = np.asarray(result)
    if found.shape != (count,):
        return None
    if found.dtype == object and all(is_missing(v) or isinstance(v, _BOOLEANS) for v in found):
        found = np.fromiter((not is_missing(v) and bool(v) for v in found), np.bool_, count)
    return found if found.dtype == np.bool_ else None


def _by_distinct_value(predicate: Any, rows: FieldRows) -> Mask:
    """Call a predicate that uses a single field, once for each distinct value."""
    name = predicate._predicate_field
    found, codes = distinct_cells(rows.batch[name], rows.schema.get(name))
    answers = (predicate.do_include({name: value}) for value in found)
    mask: Mask = np.fromiter(answers, np.bool_, len(found))[codes]
    return mask


def _in_set(predicate: Any, rows: FieldRows) -> Mask:
    values = rows.batch[predicate._predicate_field]
    wanted = _numbers(predicate._inclusion_values, values)
    return _by_distinct_value(predicate, rows) if wanted is None else np.isin(values, wanted)


def _in_intersection(predicate: Any, rows: FieldRows) -> Mask:
    name = predicate._predicate_field
    values = rows.batch[name]
    if isinstance(values, np.ndarray) and values.ndim > 1:
        values = values.reshape(len(values), -1)
        wanted = _numbers(predicate._inclusion_values, values)
        if wanted is not None:
            return np.asarray(np.isin(values, wanted).any(axis=1))
    elif not isinstance(values, np.ndarray) and pa.types.is_list(values.type):
        return _in_lists(predicate, values)
    return _truths((predicate.do_include({name: cell}) for cell in rows.cells(name)), len(rows))


def _in_lists(predicate: petastorm_predicates.in_intersection, lists: pa.ListArray) -> Mask:
    """Test each distinct element once, and combine the results per row."""
    found, codes = distinct_cells(lists.flatten())
    answers = np.fromiter(
        (petastorm_predicates.is_among(v, predicate._inclusion_values) for v in found),
        np.bool_,
        len(found),
    )
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    owners = np.repeat(np.arange(len(lists)), lengths)
    return np.bincount(owners[answers[codes]], minlength=len(lists)) > 0


def _numbers(wanted: Any, values: Values) -> npt.NDArray[Any] | None:
    """Return the wanted values that the column's dtype can represent.

    The result is None if the column is not numeric, or if values of other types, such as decimals,
    are wanted.
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        return None
    if not all(isinstance(value, (int, float, str, bytes, NoneType)) for value in wanted):
        return None
    numbers = [value for value in wanted if isinstance(value, (int, float))]
    return np.array([value for value in numbers if _fits(value, values.dtype)], values.dtype)


def _fits(value: float, dtype: np.dtype[Any]) -> bool:
    """Whether a dtype can represent a value exactly."""
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        return limits.min <= value <= limits.max and value == int(value)
    try:
        with np.errstate(over="ignore"):
            return float(dtype.type(value)) == value
    except OverflowError:
        return False


def _in_lambda(predicate: Any, rows: FieldRows) -> Mask:
    if rows.batched:
        return _mask_by_calling(predicate, rows)
    function, state = predicate._predicate_func, predicate._state_arg
    columns: list[Any] = [rows.cells(name) for name in predicate._predicate_fields]
    if state is not None:
        columns.append([state] * len(rows))
    return _truths(map(function, *columns), len(rows))


def _in_reduce(predicate: Any, rows: FieldRows) -> Mask:
    function, predicates = predicate._reduce_func, predicate._predicate_list
    if function is all or function is any:
        logical = np.logical_and if function is all else np.logical_or
        mask: Mask = logical.reduce([predicate_mask(each, rows) for each in predicates])
        return mask

    def of_series() -> Any:
        series = require("pandas").Series
        return function([series(predicate_mask(each, rows)) for each in predicates])

    return _mask_by_calling(predicate, rows, of_series)


_VECTORISED: dict[type[petastorm_predicates.PredicateBase], Callable[[Any, FieldRows], Mask]] = {
    petastorm_predicates.in_set: _in_set,
    petastorm_predicates.in_intersection: _in_intersection,
    petastorm_predicates.in_lambda: _in_lambda,
    petastorm_predicates.in_negate: lambda p, rows: ~predicate_mask(p._predicate, rows),
    petastorm_predicates.in_reduce: _in_reduce,
    petastorm_predicates.in_pseudorandom_split: _by_distinct_value,
}
