"""Record what a program reads through Petastorm or mdstorm, to compare it with another run.

    python record.py train.py --epochs 1         # writes train.recording.json
    python record.py -m pytest tests/test_data.py

This file needs only Python 3.7 and NumPy, so that it can run wherever Petastorm does. It patches
Petastorm's public entry points, runs the program as Python would, and writes counts and digests of
what the loaders yield. The only data in the recording are minima, maxima and sums of numbers,
unless ``--examples`` asks for rows. Program arguments and error messages are not recorded.
Petastorm's readers run without threads or processes, because its thread pool may end before it has
read all rows.

The parts, in order:

1. digests: canonical values, and hashes of rows that can be summed in any order
2. statistics of one pass over a loader
3. loaders: where each was created, with which arguments, and what was read from it
4. the methods of loaders that record what the program does with them
5. entry points: the functions and classes that are patched when their module is imported
6. the program, and the file that is written
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import decimal
import functools
import hashlib
import inspect
import json
import math
import operator
import os
import random
import runpy
import subprocess
import sys
import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

#: Version of the recording format.
FORMAT = 1
#: Maximum number of distinct shapes to list for a column.
LISTED = 8
#: Recorded in place of the shapes if a column has more than `LISTED` shapes.
SEVERAL = "several"
#: Number of rows from a row reader that are hashed together.
ROWS_TOGETHER = 512
#: Maximum size, in bytes, of the words that are hashed at once.
BYTES_TOGETHER = 1 << 23
#: Number of projections of each row of floats.
PROJECTIONS = 3

# --- 1. Digests ----------------------------------------------------------------------------------
#
# A digest is the sum of one hash per row, modulo 2**128. Sums, unlike XOR, detect repeated
# rows, and do not depend on the order. The hashes are computed from the bytes of canonical values:
#
#   number, bool              float64; the 64 bits of integers beyond 2**53; the digits of decimals
#   time, date, duration      nanoseconds (since 1970 UTC), as a number
#   str, bytes                its bytes; for a string, those of its UTF-8 encoding
#   None, NaN, NaT            the same null
#   array, list, tensor       the numbers in it, and its shape
#
# So the digest of a column does not depend on its dtype, which is compared separately.
#
# Computed floats may differ by rounding, which changes every digest. Rows of floats are therefore
# also projected: a projection is the sum of a row's elements, each multiplied by a pseudo-random
# weight from -1 to 1 for its position. Rounding changes a projection p at most as much as the
# row's magnitudes, but elements that move within a row change it. The sum of all projections shows
# only whether the mean row has changed. If all rows are cyclic shifts of one row, for example, the
# mean row is constant, and mirroring does not change it. So the sum of |x| sin(2 p / |x| + 1) is
# recorded as well, with the row's norm |x|.

_U64 = np.uint64
_NULL = _U64(0x7FF8_0000_0000_DEAD)  # the bits of one NaN
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_EXACT = 2**53
_NUMERIC = "biufcmM"


def _mixed(words: Any) -> Any:
    """Mix the bits within each 64-bit word, using the MurmurHash finalizer."""
    words = words ^ (words >> _U64(33))
    words = words * _U64(0xFF51AFD7ED558CCD)
    words = words ^ (words >> _U64(33))
    words = words * _U64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> _U64(33))


@functools.lru_cache(maxsize=64)
def _keys(count: int, lane: int) -> Any:
    """Return a pseudo-random key for each position in a row."""
    numbers = np.arange(1, count + 1, dtype=np.uint64)
    return _mixed(numbers * _U64(0x9E3779B97F4A7C15) + _U64(0xD1B54A32D192ED03 + lane))


def _hashed(words: Any, shape: tuple[int, ...]) -> Any:
    """Return row hashes, of shape ``(rows, 2)``, from the rows' words and shape.

    Each half is a sum of words, each mixed with the key for its position.
    """
    rows, width = words.shape
    hashes = np.empty((rows, 2), np.uint64)
    step = max(1, BYTES_TOGETHER // max(8 * width, 1))
    ends = np.array([*shape, len(shape)], np.uint64)
    for lane in (0, 1):
        tail = _mixed(ends ^ _keys(len(ends), lane + 2)).sum(dtype=np.uint64)
        keys = _keys(width, lane)
        for start in range(0, rows, step):
            part = _mixed(words[start : start + step] ^ keys)
            hashes[start : start + step, lane] = part.sum(axis=1, dtype=np.uint64) + tail
    return _mixed(hashes)


def _total(hashes: Any, start: int = 0) -> int:
    """Return the sum of a digest and the hashes of further rows, modulo 2**128."""
    high, low = (
        (int((lane >> _U64(32)).sum()) << 32) + int((lane & _U64(0xFFFFFFFF)).sum())
        for lane in (hashes[:, 0], hashes[:, 1])
    )
    return (start + (high << 64) + low) % 2**128


def digest_of(values: list[Any]) -> int:
    """Return the digest of a column with these values."""
    return _total(rows_of(values).hashes)


def _is_null(array: Any) -> Any:
    """Whether each number or time is NaN or NaT."""
    return (np.isnat if array.dtype.kind in "mM" else np.isnan)(array)


def _words_of(array: Any, is_null: Any) -> Any:
    """Return the canonical words of numbers or times."""
    kind = array.dtype.kind
    if kind in "mM":
        unit = "datetime64[ns]" if kind == "M" else "timedelta64[ns]"
        array = array.astype(unit).astype(np.int64)
    words = np.ascontiguousarray(array, np.float64).view(np.uint64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        is_exact = (array <= _EXACT) & ((array >= -_EXACT) if array.dtype.kind == "i" else True)
        words = np.where(is_exact, words, array.astype(np.uint64))
    return np.where(is_null, _NULL, words) if is_null.any() else words


@functools.lru_cache(maxsize=8)
def _weights(count: int) -> Any:
    """Return a weight for each position in a row and each projection."""
    keys = [_keys(count, lane) >> _U64(11) for lane in range(PROJECTIONS)]
    return np.stack(keys, axis=1).astype(np.float64) / 2.0**52 - 1.0


def _projected(values: Any) -> Any:
    """Return the projections of rows of numbers, and the squares of their norms, in columns."""
    with np.errstate(all="ignore"):
        squares = np.square(values).sum(axis=1, keepdims=True)
        return np.concatenate([values @ _weights(values.shape[1]), squares], axis=1)


def _projections_of_parts(parts: Any) -> Any:
    """Return the projections of a row, given those of its parts."""
    # Each projection of the row uses another projection of the parts. Otherwise a matrix and its
    # transpose would have the same weights.
    turned = np.roll(parts[:, :-1], 1, axis=1) * _weights(len(parts))
    return np.concatenate([turned, parts[:, -1:]], axis=1).sum(axis=0)[None]


def _sums_of(projected: Any) -> list[float]:
    """Return the sums of rows' projections, and of a function of each that is not linear."""
    projections, norms = projected[:, :-1], np.sqrt(projected[:, -1:])
    angles = 2 * projections / np.maximum(norms, np.finfo(float).tiny) + 1
    return [*projections.sum(axis=0), *(norms * np.sin(angles)).sum(axis=0)]


def _by_row(array: Any) -> Any:
    """Return an array with all values of a row in one dimension."""
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


@dataclass
class HashedRows:
    """The hashes and properties of one column's values in several rows."""

    hashes: Any
    dtypes: set[str]
    shapes: set[str]
    nulls: int
    numbers: Any
    #: The projections and squared norm of each row; zeros if it contains no floats.
    projected: Any


def rows_of(values: Any) -> HashedRows:
    """Return the rows of a column, given as an array, a tensor, or a list with a value per row."""
    values = _plain(values)
    if isinstance(values, np.ndarray):
        if values.dtype.kind in _NUMERIC:
            return _rows_of_numbers(values)
        values = [*values] if values.dtype.kind == "O" else values.tolist()
    if {type(value) for value in values} <= {str, bytes, np.str_, type(None)}:
        return _rows_of_texts(values)
    together = _stacked(values)
    return _joined([_row_of(v) for v in values]) if together is None else _rows_of_numbers(together)


def _plain(values: Any) -> Any:
    """Return a framework's tensor or a pandas column as an array."""
    if isinstance(values, (np.ndarray, list, tuple)):
        return values
    if hasattr(values, "detach"):  # a torch tensor
        values = values.detach().cpu()
        return (values.float() if "bfloat16" in str(values.dtype) else values).numpy()
    if hasattr(values, "to_list") and hasattr(values, "nested_row_splits"):  # a RaggedTensor
        return [np.asarray(value) for value in values.to_list()]
    return values.numpy() if hasattr(values, "numpy") else np.asarray(values)


def _stacked(values: list[Any]) -> Any:
    """Stack rows of numbers that share a dtype and shape; return None if they do not."""
    if len(values) < 2 or not all(isinstance(value, (np.generic, np.ndarray)) for value in values):
        return None
    if len({(value.dtype, value.shape) for value in values}) > 1:
        return None
    return np.stack(values) if values[0].dtype.kind in _NUMERIC else None


def _joined(parts: list[HashedRows]) -> HashedRows:
    """Return the rows of all parts in one object; `parts` may be empty."""
    return HashedRows(
        np.concatenate([np.empty((0, 2), np.uint64), *(part.hashes for part in parts)]),
        {name for part in parts for name in part.dtypes},
        {shape for part in parts for shape in part.shapes},
        sum(part.nulls for part in parts),
        np.concatenate([np.empty(0), *(part.numbers for part in parts)]),
        np.concatenate([_not_projected(0), *(part.projected for part in parts)]),
    )


def _not_projected(rows: int) -> Any:
    return np.zeros((rows, PROJECTIONS + 1))


def _rows_of_numbers(array: Any) -> HashedRows:
    dtype = array.dtype.name
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    shape = array.shape[1:]
    is_null = _is_null(array)
    words = _words_of(array, is_null)
    hashes = _hashed(_by_row(words), shape)
    numbers = (array.astype(np.int64) if array.dtype.kind in "mM" else array).astype(np.float64)
    nulls = int(is_null.sum())
    projected = _not_projected(len(array))
    if array.dtype.kind == "f":
        projected = _projected(_by_row(np.where(is_null, 0.0, numbers) if nulls else numbers))
    numbers = numbers[~is_null] if nulls else numbers.ravel()
    return HashedRows(hashes, {dtype}, {str([*shape])}, nulls, numbers, projected)


def _rows_of_texts(values: list[Any]) -> HashedRows:
    """Return rows of strings, bytes, decimals and nulls."""
    null = _row_of(None).hashes.tobytes() if None in values else b""
    each = [
        null if value is None else hashlib.blake2b(_bytes_of(value), digest_size=16).digest()
        for value in values
    ]
    hashes = np.frombuffer(b"".join(each), "<u8").astype(np.uint64).reshape(-1, 2)
    dtypes = {_name_of_type(value) for value in values if value is not None}
    shapes = {"[]"} if values else set()
    decimals = [value for value in values if isinstance(value, decimal.Decimal)]
    numbers = np.array([float(value) for value in decimals if not value.is_nan()], np.float64)
    projected = _not_projected(len(values))
    return HashedRows(hashes, dtypes, shapes, values.count(None), numbers, projected)


def _row_of(value: Any) -> HashedRows:
    """Return a value of any type as one row."""
    name = _name_of_type(value)
    if value is None or name in ("NaTType", "NAType"):
        return replace(_rows_of_numbers(np.array([np.nan])), dtypes=set())  # a null has no type
    if isinstance(value, (str, bytes, bytearray, decimal.Decimal)):
        return _rows_of_texts([value])
    if isinstance(value, Mapping):
        value = [part for key in sorted(value, key=str) for part in (key, value[key])]
    elif isinstance(value, np.generic) or hasattr(value, "numpy") or _are_numbers(value):
        value = np.asarray(_plain(value))
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMERIC:
        return _rows_of_numbers(value[None])
    if isinstance(value, (list, tuple, np.ndarray)):
        return _row_of_parts([*value])
    number = _number_of(value)
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        return replace(_rows_of_texts([str(number)]), dtypes={name})
    return replace(_rows_of_numbers(np.array([number])), dtypes={name})


def _name_of_type(value: Any) -> str:
    if isinstance(value, datetime.timedelta):
        return "timedelta"  # the same name for a pandas.Timedelta
    name = type(value).__name__.rstrip("_")  # the type of NumPy strings is str_
    return "bytes" if name == "bytearray" else name


def _are_numbers(values: Any) -> bool:
    """Whether the values are a list or tuple of numbers."""
    is_list = isinstance(values, (list, tuple)) and bool(values)
    return is_list and all(isinstance(value, (int, float, np.number)) for value in values)


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, decimal.Decimal):
        value = "NaN" if value.is_nan() else "{:f}".format(value)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def _number_of(value: Any) -> Any:
    """Return a number unchanged, and a duration or time in nanoseconds."""
    if isinstance(value, datetime.timedelta):
        return value // _MICROSECOND * 1000
    if not isinstance(value, datetime.date):
        if isinstance(value, (int, float)):
            return value
        raise NotRecordedError(
            "values of type {} have no canonical form".format(type(value).__name__)
        )
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return (value - _EPOCH) // _MICROSECOND * 1000 + int(getattr(value, "nanosecond", 0))


def _row_of_parts(parts: list[Any]) -> HashedRows:
    """Return a row of nested values, hashed from the hashes of its parts."""
    inner = _joined([_row_of(part) for part in parts])
    hashes = _hashed(inner.hashes.reshape(1, -1), (len(parts),))
    with np.errstate(all="ignore"):
        projected = _projections_of_parts(inner.projected)
    return replace(inner, hashes=hashes, shapes={str([len(parts)])}, projected=projected)


class NotRecordedError(Exception):
    """The data cannot be hashed, so its rows are counted but not compared."""


# --- 2. Statistics of one pass -------------------------------------------------------------------


class ColumnTotals:
    """The properties of one column in one pass."""

    def __init__(self, name: str) -> None:
        self.key = _rows_of_texts([name]).hashes
        self.dtypes: set[str] = set()
        self.shapes: set[str] = set()
        self.nulls = self.digest = self.ordered = self.rest = 0
        self._least, self._greatest = math.inf, -math.inf
        #: Of the numbers, their magnitudes, their squares, and the projections of rows.
        self._sums = np.zeros(3 + 2 * PROJECTIONS)

    def add(self, rows: HashedRows) -> None:
        """Add rows."""
        self.digest = _total(rows.hashes, self.digest)
        self.nulls += rows.nulls
        self.dtypes |= rows.dtypes
        self.shapes |= rows.shapes
        numbers = rows.numbers
        if numbers.size:
            self._least = min(self._least, float(numbers.min()))
            self._greatest = max(self._greatest, float(numbers.max()))
            with np.errstate(all="ignore"):
                sums = numbers.sum(), np.abs(numbers).sum(), np.square(numbers).sum()
                self._sums += [*sums, *_sums_of(rows.projected)]

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values."""
        totals: dict[str, Any] = {
            "dtypes": sorted(self.dtypes),
            "shapes": sorted(self.shapes) if len(self.shapes) <= LISTED else [SEVERAL],
            "nulls": self.nulls,
        }
        for name in ("digest", "ordered", "rest"):
            totals[name] = "{:032x}".format(getattr(self, name))
        if self._least <= self._greatest:
            numbers = [
                _as_json(each) for each in (self._least, self._greatest, *self._sums.tolist())
            ]
            names = ("minimum", "maximum", "sum", "magnitude", "squares")
            totals.update(zip(names, numbers), projected=numbers[len(names) :])
        return totals


class PassTotals:
    """Counts and digests of the batches or rows that one iteration over a loader yields."""

    def __init__(self, is_batched: bool, examples: int = 0) -> None:
        self.is_batched = is_batched
        self.rows = self.digest = 0
        self.sizes: Counter[int] = Counter()
        self.columns: dict[str, ColumnTotals] = {}
        self._examples = examples
        self._kept: list[tuple[str, dict[str, str]]] = []
        self._waiting: list[dict[str, Any]] = []

    def add(self, item: Any) -> None:
        """Add a batch, or a row of a row reader."""
        columns = dict(_columns_of(item))
        if self.is_batched:
            self._add_columns({name: _with_rows(value) for name, value in columns.items()})
            return
        # The values are copied because the program may change them before they are hashed.
        self._waiting.append({name: copy.copy(value) for name, value in columns.items()})
        if len(self._waiting) == ROWS_TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Hash the rows collected so far."""
        rows, self._waiting = self._waiting, []
        names = dict.fromkeys(name for row in rows for name in row)
        if names:
            self._add_columns({name: [row.get(name) for row in rows] for name in names})

    def _add_columns(self, columns: dict[str, Any]) -> None:
        parts = {}
        for name, values in columns.items():
            try:
                parts[name] = rows_of(values)
            except NotRecordedError as reason:
                raise NotRecordedError("column {!r}: {}".format(name, reason)) from None
        sizes = {len(part.hashes) for part in parts.values()}
        if len(sizes) > 1:
            raise NotRecordedError("columns in a batch have different lengths")
        rows = max(sizes, default=0)
        if self.is_batched:
            self.sizes[rows] += 1
        for name, part in parts.items():
            self.columns.setdefault(name, ColumnTotals(name)).add(part)
        if rows:
            self._add_rows(parts, columns)
        self.rows += rows

    def _add_rows(self, parts: dict[str, HashedRows], columns: dict[str, Any]) -> None:
        """Add whole-row hashes, which show whether values in the same row stayed together.

        Each column also gets a digest of the rows without it, in case only that column differs.
        """
        rows = len(next(iter(parts.values())).hashes)
        positions = _mixed(np.arange(self.rows + 1, self.rows + rows + 1, dtype=np.uint64))[:, None]
        each = {name: _mixed(part.hashes ^ self.columns[name].key) for name, part in parts.items()}
        joined = sum(each.values())
        for name, hashes in each.items():
            column = self.columns[name]
            column.ordered = _total(_mixed(hashes ^ positions), column.ordered)
            column.rest = _total(_mixed(joined - hashes), column.rest)
        whole = _mixed(joined)
        self.digest = _total(whole, self.digest)
        if self._examples:
            self._keep(whole, columns)

    def _keep(self, hashes: Any, columns: dict[str, Any]) -> None:
        """Keep the rows with the smallest hashes as examples, whatever the order of the rows."""
        plain = {name: _plain(values) for name, values in columns.items()}
        for row in np.argsort(hashes[:, 0], kind="stable")[: self._examples]:
            shown = {name: _shown(values[row]) for name, values in plain.items()}
            self._kept.append(("{:016x}{:016x}".format(*map(int, hashes[row])), shown))
        self._kept = sorted(self._kept, key=lambda kept: kept[0])[: self._examples]

    def to_json(self) -> dict[str, Any]:
        """Return the pass as JSON values."""
        entry: dict[str, Any] = {
            "rows": self.rows,
            "sizes": self.sizes,
            "digest": "{:032x}".format(self.digest),
            "columns": {name: column.to_json() for name, column in self.columns.items()},
        }
        if self._kept:
            entry["examples"] = [{"hash": key, "row": row} for key, row in self._kept]
        return entry


def _shown(value: Any) -> str:
    text = " ".join(repr(value.tolist() if hasattr(value, "tolist") else value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _columns_of(item: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each column of a batch with its name, which is ``outer.inner`` for nested items."""
    if hasattr(item, "_fields"):
        item = {field: getattr(item, field) for field in item._fields}
    elif isinstance(item, tuple) or (isinstance(item, list) and not name):
        is_rows = isinstance(item, list) and all(isinstance(row, Mapping) for row in item)
        names = item[0] if is_rows and item else ()
        item = {key: [row.get(key) for row in item] for key in names} or dict(enumerate(item))
    if isinstance(item, Mapping):
        for key, value in item.items():
            yield from _columns_of(value, "{}.{}".format(name, key) if name else str(key))
    elif name or hasattr(item, "shape"):
        yield name or "batch", item
    else:
        raise NotRecordedError("its items are {} objects".format(type(item).__name__))


def _with_rows(values: Any) -> Any:
    """Return a column. A single value in a batch becomes a column with one row."""
    is_column = isinstance(values, (list, tuple)) or getattr(values, "shape", ()) != ()
    return values if is_column else [values]


def _length(item: Any) -> int:
    """Return the number of rows in a batch."""
    try:
        _, first = next(_columns_of(item))
        return len(_with_rows(first))
    except (NotRecordedError, StopIteration, TypeError):
        return 0


# --- 3. Loaders ----------------------------------------------------------------------------------


class Call:
    """A repeatable call to an entry point, with its arguments by name."""

    def __init__(self, make: Callable[..., Any], bound: inspect.BoundArguments) -> None:
        self._make = make
        self._parameters = bound.signature.parameters
        self.arguments = dict(bound.arguments)
        for name, parameter in self._parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                self.arguments.update(self.arguments.pop(name, {}))

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument, or the default of its parameter."""
        if name in self.arguments or name not in self._parameters:
            return self.arguments.get(name, default)
        return self._parameters[name].default

    def again(self, **changed: Any) -> Any:
        """Repeat the call with changed arguments, omitting any the function does not accept."""
        takes_any = any(one.kind is one.VAR_KEYWORD for one in self._parameters.values())
        taken = {name: changed[name] for name in changed if takes_any or name in self._parameters}
        return self._make(**dict(self.arguments, **taken))

    def to_json(self) -> dict[str, Any]:
        """Return the given arguments: numbers and most strings unchanged, others as type names."""
        given = self.arguments.items()
        return {name: _as_json(value) for name, value in given if name not in ("self", "reader")}


def _as_json(value: Any) -> Any:
    """Return a value as it is recorded: only its type name if it may contain secrets.

    URLs, collections and other objects may contain secrets.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity or NaN
    is_plain = value is None or isinstance(value, (bool, int, float, str))
    return type(value).__name__ if not is_plain or "://" in str(value) else value


@dataclass(eq=False)
class WatchedLoader:
    """One loader in the program: where it was created, and what was read from it.

    Values are hashed until one pass is complete; other passes are only counted. So are infinite
    loaders, for which `read_full_pass` reads one pass with ``num_epochs=1``.
    """

    kind: str
    call: Call
    #: The reader that the loader reads from, and the file and function that created the loader.
    reader: WatchedLoader | None
    site: tuple[str, str]
    #: The number of earlier loaders of the same kind that the same function created.
    number: int
    is_batched: bool
    is_used_by_loader: bool = False
    #: For each pass: the numbers of batches and rows, and whether the pass is complete.
    passes: list[list[Any]] = field(default_factory=list)
    data: PassTotals | None = None
    #: The number of epochs in a pass if `data` describes only one of them, otherwise 1.
    times: int = 1
    note: str = ""
    _current: PassTotals | None = None

    def begin(self) -> None:
        """Begin a pass."""
        self.passes.append([0, 0, False])
        needs_data = self.data is None and self._epochs is not None and not self.note
        self._current = PassTotals(self.is_batched, REGISTRY.examples) if needs_data else None

    def _continue(self) -> None:
        """Begin a pass unless one is in progress."""
        if not self.passes or self.passes[-1][2]:
            self.begin()

    def add(self, item: Any) -> None:
        """Count and hash an item that the program received."""
        self._continue()
        self.passes[-1][0] += 1
        self.passes[-1][1] += _length(item) if self.is_batched else 1
        if self._current is not None:
            self._guarded(functools.partial(self._current.add, item))

    def end(self) -> None:
        """End a complete pass."""
        self._continue()
        self.passes[-1][2] = True
        current, self._current = self._current, None
        if current is not None and self.passes[-1][0] and self._guarded(current.flush):
            self.data = current

    def _guarded(self, act: Callable[[], None]) -> bool:
        """Run a hashing step, recording errors so that the program does not fail."""
        try:
            act()
        except NotRecordedError as reason:
            self.note = str(reason)
        except Exception as error:  # its text is not recorded because it may quote values
            self.note = type(error).__name__
            name = "{} {} {} #{}".format(*self.site, self.kind, self.number + 1)
            _print("{}: {}: {}".format(name, self.note, error))
        if self.note:
            self._current = None
        return not self.note

    @property
    def _epochs(self) -> int | None:
        """The number of epochs in a pass; None if it is infinite."""
        calls = [self.call] if self.reader is None else [self.call, self.reader.call]
        found = [call.get("num_epochs", 1) for call in calls]
        return None if None in found else functools.reduce(operator.mul, found)

    def read_full_pass(self) -> None:
        """Read a complete pass if the program has not, because the files may be deleted later."""
        if self.data is not None or self.note or self.is_used_by_loader:
            return
        found = PassTotals(self.is_batched, REGISTRY.examples)
        with kept_random_states(), own_graph(), REGISTRY.nested():
            if self._guarded(functools.partial(self._read_again, found)):
                self.data, self.times = found, self._epochs or 1
            else:
                self.note = "a full pass could not be read: " + self.note

    def _read_again(self, epoch: PassTotals) -> None:
        """Read one epoch from a new loader created with the same arguments."""
        changed: dict[str, Any] = {"num_epochs": 1}
        reader = None if self.reader is None else self.reader.call.again(**changed)
        if reader is not None:
            changed["reader"] = reader
        made = self.call.again(**changed)
        owner: Any = made if hasattr(made, "__enter__") else reader
        with owner as entered:
            items = entered if owner is made else made
            for item in tf_elements(items) if hasattr(items, "element_spec") else items:
                epoch.add(item)
        epoch.flush()

    def to_json(self) -> dict[str, Any]:
        """Return the loader as JSON values."""
        file, function = self.site
        entry: dict[str, Any] = {
            "kind": self.kind,
            "file": file,
            "function": function,
            "call": self.number,
            "arguments": self.call.to_json(),
            "passes": self.passes,
        }
        if self.reader is not None:
            entry["reader"] = {"kind": self.reader.kind, "arguments": self.reader.call.to_json()}
        if self.data is not None:
            entry["data"] = dict(self.data.to_json(), times=self.times)
        note = self.note or (self.data is None and "no pass over it was completed")
        return dict(entry, note=note) if note else entry


@contextlib.contextmanager
def kept_random_states() -> Iterator[None]:
    """Restore random states on exit, so that the program's random numbers do not change."""
    states: list[tuple[Callable[[Any], Any], Any]] = [
        (random.setstate, random.getstate()),
        (np.random.set_state, np.random.get_state()),
    ]
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "get_rng_state"):
        states.append((torch.set_rng_state, torch.get_rng_state()))
    try:
        yield
    finally:
        for restore, state in states:
            restore(state)


@contextlib.contextmanager
def own_graph() -> Iterator[None]:
    """In TensorFlow graph mode, use a separate graph, because the program's may be finalized."""
    tf: Any = sys.modules.get("tensorflow")
    if tf is None or tf.executing_eagerly():
        yield
    else:
        with tf.Graph().as_default():
            yield


def tf_elements(dataset: Any) -> Iterator[Any]:
    """Yield the elements of a dataset, in eager or graph mode."""
    import tensorflow as tf

    if tf.executing_eagerly():
        yield from dataset
        return
    following = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
    with tf.compat.v1.Session(graph=tf.compat.v1.get_default_graph()) as session:
        while True:
            try:
                yield session.run(following)
            except tf.errors.OutOfRangeError:
                return


class LoaderRegistry:
    """Keeps track of all loaders that the program creates."""

    def __init__(self) -> None:
        self.loaders: list[WatchedLoader] = []
        self.examples = 0
        self.full_pass = True
        #: The process that writes the recording; forked children are not recorded.
        self.process = os.getpid()
        self.folder = os.getcwd()
        #: Loaders, by the ids of the objects that the entry points returned.
        self.objects: dict[int, tuple[weakref.ref[Any], WatchedLoader]] = {}
        self._thread = threading.local()
        self._numbers: dict[tuple[str, ...], int] = {}

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """Do not record the calls that an entry point itself makes in this thread."""
        before = self.is_nested
        self._thread.is_nested = True
        try:
            yield
        finally:
            self._thread.is_nested = before

    @property
    def is_nested(self) -> bool:
        """Whether an entry point is running in this thread."""
        return getattr(self._thread, "is_nested", False)

    @property
    def is_in_child(self) -> bool:
        """Whether this process was forked by the program."""
        return os.getpid() != self.process

    def loader_of(self, found: Any) -> WatchedLoader | None:
        """Return an object's loader; None if unknown, or while an entry point uses the object."""
        reference, loader = self.objects.get(id(found), (None, None))
        is_known = reference is not None and reference() is found
        return loader if is_known and not self.is_nested else None

    def started(self, kind: str, call: Call, created: Any) -> Any:
        """Record a loader, and return the object to give to the program."""
        given = call.get("reader")
        reader = self.loader_of(given)
        site = _site(self.folder)
        key = (kind, *site)
        self._numbers[key] = number = self._numbers.get(key, -1) + 1
        if reader is not None and kind == "tf_tensors":
            # `tf_tensors` takes one item from the reader for each run of the session, so the reader
            # is recorded as the loader.
            reader.kind, reader.site, reader.number = kind, site, number
            return created
        is_batched = _is_batched(kind, created if given is None else given)
        loader = WatchedLoader(kind, call, reader, site, number, is_batched)
        self.loaders.append(loader)
        if reader is not None:
            reader.is_used_by_loader = True
        elif given is not None:
            loader.note = "its reader was not created by make_reader or make_batch_reader"
        return watched(created, loader)

    def read_full_passes(self, is_chosen: Callable[[WatchedLoader], bool] = lambda _: True) -> None:
        """Read a complete pass of each chosen loader that the program did not exhaust."""
        if not self.full_pass or self.is_in_child:
            return
        for loader in self.loaders:
            if is_chosen(loader):
                loader.read_full_pass()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the loaders as JSON values, except readers that a loader uses."""
        return [loader.to_json() for loader in self.loaders if not loader.is_used_by_loader]


REGISTRY = LoaderRegistry()


def _site(folder: str) -> tuple[str, str]:
    """Return the file and function of the code that called an entry point."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("REGISTRY") is REGISTRY:
        frame = frame.f_back
    file = os.path.abspath(frame.f_code.co_filename)
    inside = file.startswith(folder + os.sep)
    file = os.path.relpath(file, folder) if inside else os.path.basename(file)
    return file.replace(os.sep, "/"), frame.f_code.co_name


def _is_batched(kind: str, reader: Any) -> bool:
    """Whether a loader's items are batches rather than rows."""
    if kind in ("make_reader", "make_batch_reader", "make_petastorm_dataset"):
        return bool(getattr(reader, "batched_output", True))
    return True


# --- 4. Methods of loaders -----------------------------------------------------------------------


def watched(created: Any, loader: WatchedLoader) -> Any:
    """Return the object to give to the program for a loader, and record its use.

    The object keeps its class, whose methods are patched to record. A tf.data dataset is replaced.
    """
    given = tf_dataset(created, loader) if hasattr(created, "element_spec") else created
    try:
        REGISTRY.objects[id(created)] = weakref.ref(created), loader
        for method in RECORDING:
            patch_method(type(created), method)
    except Exception:  # built-in classes cannot be patched
        loader.note = "it is a {}, whose methods cannot be replaced".format(type(created).__name__)
    return given


def patch_method(cls: Any, name: str) -> None:
    """Patch a method to record calls on objects that `REGISTRY` tracks."""
    original = getattr(cls, name, None)
    if original is None or hasattr(vars(cls).get(name), "records"):
        return
    record = RECORDING[name]

    @functools.wraps(original)
    def method(self: Any, *args: Any) -> Any:
        # Subclasses are patched themselves, so the base class must not record again.
        loader = REGISTRY.loader_of(self) if type(self) is cls else None
        act = functools.partial(original, self)
        return act(*args) if loader is None else record(loader, act, *args)

    method.__dict__["records"] = True
    setattr(cls, name, method)


def _next(loader: WatchedLoader, take: Callable[[], Any]) -> Any:
    """Take an item from a reader, and record it unless a loader uses the reader."""
    if loader.is_used_by_loader:
        return take()
    try:
        item = take()
    except StopIteration:
        loader.end()
        raise
    loader.add(item)
    return item


def _iterate(loader: WatchedLoader, begin: Callable[[], Any]) -> Any:
    """Begin a pass over a loader, and record its items unless they are recorded elsewhere."""
    iterator = begin()
    is_recorded = loader.is_used_by_loader or REGISTRY.loader_of(iterator) is loader
    return iterator if is_recorded else _items(loader, iterator)


def _items(loader: WatchedLoader, iterator: Iterator[Any]) -> Iterator[Any]:
    loader.begin()
    for item in iterator:
        loader.add(item)
        yield item
    loader.end()


def _enter(loader: WatchedLoader, enter: Callable[[], Any]) -> Any:
    """Enter a loader's ``with`` statement; ``__enter__`` may return a different object."""
    with REGISTRY.nested():
        entered = enter()
    return entered if REGISTRY.loader_of(entered) else watched(entered, loader)


def _exit(loader: WatchedLoader, leave: Callable[..., Any], *error: Any) -> Any:
    """Leave a ``with`` statement, and read full passes, because files may be deleted after it."""
    with REGISTRY.nested():
        found = leave(*error)
    # GeneratorExit is not a failure: closing a generator early raises it in its `with` block.
    if error[0] in (None, GeneratorExit):
        REGISTRY.read_full_passes(lambda other: loader in (other, other.reader))
    return found


RECORDING: dict[str, Callable[..., Any]] = {
    "__next__": _next,
    "__iter__": _iterate,
    "__enter__": _enter,
    "__exit__": _exit,
}


def tf_dataset(dataset: Any, loader: WatchedLoader) -> Any:
    """Return a dataset that records its elements and the ends of its passes.

    TensorFlow consumes elements in its own threads, and in graph mode no Python code sees them.
    Functions in the dataset therefore count elements as they are read, before they are used.
    """
    import tensorflow as tf

    # TensorFlow 1 datasets have additional methods, such as make_one_shot_iterator.
    v1 = tf.compat.v1.data.Dataset
    cls = v1 if isinstance(dataset, v1) else tf.data.Dataset

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def shown(number: Any, element: Any) -> Any:
        columns = dict(_columns_of(element))

        def see(number: Any, *arrays: Any) -> Any:
            if number == 0:
                loader.begin()
            parts = iter(arrays)
            loader.add({name: _values_of(column, parts) for name, column in columns.items()})
            return np.int64(0)

        flat = tf.nest.flatten([*columns.values()], expand_composites=True)
        with tf.control_dependencies([tf.numpy_function(see, [number, *flat], tf.int64)]):
            return tf.nest.map_structure(tf.identity, element, expand_composites=True)

    def end() -> Any:
        loader.end()
        return np.int64(0)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def nothing(_: Any) -> Any:
        return dataset.take(tf.reshape(tf.numpy_function(end, [], tf.int64), ()))

    numbered = cls.zip((cls.range(2**62), dataset))
    given = numbered.map(shown).concatenate(cls.range(1).flat_map(nothing))
    if hasattr(dataset, "__enter__"):
        _delegate(given, dataset)
    return given


def _delegate(given: Any, dataset: Any) -> None:
    """Delegate ``with`` statements and missing attributes of a dataset to the dataset it reads."""

    def enter(self: Any) -> Any:
        entered = dataset.__enter__()
        return self if entered is dataset else entered

    methods = {
        "__enter__": enter,
        "__exit__": lambda self, *error: dataset.__exit__(*error),
        "__getattr__": lambda self, name: getattr(dataset, name),
    }
    cls = type(given)
    given.__class__ = type(cls.__name__, (cls,), methods)


def _values_of(column: Any, arrays: Iterator[Any]) -> Any:
    """Return the values in the next array, split by the arrays after it if the tensor is ragged."""
    values = next(arrays)
    for _ in getattr(column, "nested_row_splits", ()):
        values = np.split(values, next(arrays)[1:-1])
    return values


# --- 5. Entry points -----------------------------------------------------------------------------

#: The argument that selects threads, processes, or neither for reading.
POOL = "reader_pool_type"


def _making(
    kind: str, original: Callable[..., Any], again: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function that creates and records a loader; `again` creates a similar loader."""
    signature = inspect.signature(original)
    # Petastorm's thread pool may finish before it has read all rows, so it is not used.
    is_pool = original.__module__.startswith("petastorm") and POOL in signature.parameters

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        call = Call(again or make, given)
        if is_pool:
            given.arguments[POOL] = "dummy"
        if REGISTRY.is_nested:
            return original(*given.args, **given.kwargs)
        with REGISTRY.nested():
            found = original(*given.args, **given.kwargs)
        return REGISTRY.started(kind, call, found)

    return make


def _constructing(kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return an ``__init__`` for a loader class that records each new loader."""

    @functools.wraps(original)
    def construct(self: Any, *args: Any, **kwargs: Any) -> Any:
        original(self, *args, **kwargs)
        return self

    def again(self: Any, **arguments: Any) -> Any:
        # A copy has the attributes that a subclass may have set before calling `__init__`.
        return construct(copy.copy(self), **arguments)

    make = _making(kind, construct, again)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        make(self, *args, **kwargs)

    return __init__


def _deleting(_: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a converter's ``delete`` that first reads full passes of the converter's loaders."""

    @functools.wraps(original)
    def delete(self: Any, *args: Any, **kwargs: Any) -> Any:
        REGISTRY.read_full_passes(lambda loader: loader.call.get("self") is self)
        return original(self, *args, **kwargs)

    return delete


#: The functions and methods to replace, by module, and the function that creates each replacement.
ENTRY_POINTS: dict[str, dict[str, Callable[[str, Callable[..., Any]], Callable[..., Any]]]] = {
    "reader": {"make_reader": _making, "make_batch_reader": _making},
    "pytorch": {
        "DataLoader.__init__": _constructing,
        "BatchedDataLoader.__init__": _constructing,
        "InMemBatchedDataLoader.__init__": _constructing,
    },
    "tf_utils": {"make_petastorm_dataset": _making, "tf_tensors": _making},
    "spark.spark_dataset_converter": {
        "SparkDatasetConverter.make_torch_dataloader": _making,
        "SparkDatasetConverter.make_tf_dataset": _making,
        "SparkDatasetConverter.delete": _deleting,
    },
}
MODULES = {
    "{}.{}".format(name, module) for name in ("petastorm", "mdstorm") for module in ENTRY_POINTS
}


def patch_module(module: Any) -> None:
    """Patch the entry points in a module to record their calls."""
    for name, wrap in ENTRY_POINTS[module.__name__.partition(".")[2]].items():
        owner, _, method = name.rpartition(".")
        target: Any = getattr(module, owner, None) if owner else module
        # `target` is None if this version of Petastorm does not have the class. There is then
        # nothing to replace, although None has an `__init__`.
        original = None if target is None else getattr(target, method, None)
        if original is None or hasattr(original, "records"):
            continue
        wrapper = wrap(owner if method == "__init__" else method, original)
        wrapper.__dict__["records"] = True
        setattr(target, method, wrapper)


class PatchingFinder:
    """An import finder that patches the modules of Petastorm and mdstorm when they are imported."""

    def install(self) -> None:
        """Patch modules that are already loaded, and later ones when they are imported."""
        sys.meta_path.insert(0, self)
        for name in MODULES & sys.modules.keys():
            patch_module(sys.modules[name])

    def find_spec(self, fullname: str, *where: Any) -> Any:
        """Return the spec from another finder, with a loader that also patches the module."""
        finders = sys.meta_path if fullname in MODULES else ()
        for finder in finders:
            if not isinstance(finder, PatchingFinder) and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, *where)
                if spec is not None:
                    spec.loader = PatchingLoader(spec.loader)  # type: ignore[assignment]
                    return spec
        return None


class PatchingLoader:
    """Loads a module with another loader, then patches it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        """Execute the module, then patch it."""
        self._loader.exec_module(module)
        patch_module(module)


# --- 6. The program ------------------------------------------------------------------------------

#: Environment variables in which launchers pass the rank and the number of ranks.
RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def rank_and_count() -> tuple[int, int]:
    """Return the rank of this process and the number of ranks; 0 and 1 without a launcher."""
    for rank, count in RANKS:
        if os.environ.get(rank, "").isdigit() and os.environ.get(count, "").isdigit():
            return int(os.environ[rank]), int(os.environ[count])
    return 0, 1


def main(arguments: list[str]) -> int:
    """Record a program; return its exit code."""
    options = _parser().parse_args(arguments)
    command = options.module or options.program
    if not command:
        _parser().error("specify the program to record")
    path = _path_of_rank(options.output or _default_output(command[0]))
    if options.append:
        return record_to(path, command, options)
    runs = options.runs or (1 if rank_and_count()[1] > 1 else 2)
    unfinished = _unfinished(path)
    if os.path.exists(unfinished):
        os.remove(unfinished)
    code = record_to(path, command, options) if runs == 1 else record_in_children(arguments, runs)
    if not os.path.exists(unfinished):
        _print("the program ended before anything was written")
        return code or 1
    os.replace(unfinished, path)
    run = _read_json(path)["runs"][-1]
    _print("wrote {}, number of loaders: {}".format(path, len(run["loaders"])))
    if run["ended"]:
        _print("the program ended with {}: later loaders are missing".format(run["ended"]))
    elif not run["loaders"]:
        _print("the program created no Petastorm or mdstorm loader, so nothing can be compared")
    return code


def _print(message: str) -> None:
    print("record: {}".format(message), file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="record.py", description="Record what a program reads through Petastorm or mdstorm."
    )
    add = parser.add_argument
    add("--output", metavar="FILE", help="recording to write; by default PROGRAM.recording.json")
    add(
        "--runs",
        type=int,
        metavar="N",
        help="number of runs: values that differ between runs count as random; by default 2, or 1 "
        "with several ranks",
    )
    add(
        "--examples",
        type=int,
        default=0,
        metavar="N",
        help="rows to keep from each loader",
    )
    add(
        "--no-full-pass",
        action="store_true",
        help="do not read a complete pass of loaders that the program reads only partly",
    )
    add("--append", action="store_true", help=argparse.SUPPRESS)  # record one more run
    add("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, as python -m does")
    add("program", nargs=argparse.REMAINDER, help="the program and its arguments")
    return parser


def _default_output(target: str) -> str:
    stem = os.path.basename(target)
    stem = stem[:-3] if stem.endswith(".py") else stem.rpartition(".")[2]
    return "{}.recording.json".format(stem)


def _path_of_rank(path: str) -> str:
    """Return the path of this rank's recording; with several ranks, it contains the rank."""
    rank, count = rank_and_count()
    stem, suffix = os.path.splitext(path)
    return "{}.rank-{}{}".format(stem, rank, suffix) if count > 1 else path


def _unfinished(path: str) -> str:
    """Return the file that collects the runs, so that a killed recording keeps an earlier one."""
    return path + ".unfinished"


def record_in_children(arguments: list[str], runs: int) -> int:
    """Record several runs, each in its own process; return the exit code of the last one."""
    code = 0
    for run in range(runs):
        _print("run {} of {}".format(run + 1, runs))
        code = subprocess.call([sys.executable, os.path.abspath(__file__), "--append", *arguments])
        if code:
            break
    return code


def record_to(path: str, command: list[str], options: Any) -> int:
    """Run the program in this process, append its run to the unfinished file of a recording.

    Return the exit code of the program.
    """
    code, recording = record(command, bool(options.module), options)
    path = _unfinished(path)
    before = _read_json(path)["runs"] if os.path.exists(path) else []
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(dict(recording, runs=before + recording["runs"]), file, indent=1, allow_nan=False)
    os.replace(path + ".part", path)
    return code


def _read_json(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def record(command: list[str], is_module: bool, options: Any) -> tuple[int, dict[str, Any]]:
    """Run the program in this process; return its exit code and the recording."""
    REGISTRY.examples = options.examples
    REGISTRY.full_pass = not options.no_full_pass
    if not is_module:
        REGISTRY.folder = os.path.dirname(os.path.abspath(command[0]))
    PatchingFinder().install()
    code, ended = _run(command, is_module)
    if REGISTRY.is_in_child:
        sys.exit(code)
    if code != 130:
        REGISTRY.read_full_passes()
    run = {"ended": ended, "loaders": REGISTRY.to_json()}
    rank, count = rank_and_count()
    return code, {
        "recording": FORMAT,
        "program": os.path.basename(command[0]),
        "rank": rank,
        "ranks": count,
        "libraries": _libraries(),
        "runs": [run],
    }


def _run(command: list[str], is_module: bool) -> tuple[int, str | None]:
    """Run the program as Python does; return its exit code and any failure."""
    sys.argv = command
    target = command[0]
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(target))
    try:
        if is_module:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(target, run_name="__main__")
    except SystemExit as error:
        code = error.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
        code = 0 if code is None else code if isinstance(code, int) else 1
        return code, "exit code {}".format(code) if code else None
    except BaseException as error:  # the program's error, printed as Python prints it
        traceback.print_exc()
        return 130 if isinstance(error, KeyboardInterrupt) else 1, type(error).__name__
    return 0, None


def _libraries() -> dict[str, str]:
    """Return the versions of Python and of the libraries that the program imported."""
    names = ("petastorm", "mdstorm", "numpy", "pyarrow", "pandas", "pyspark", "torch", "tensorflow")
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in names:
        version = getattr(sys.modules.get(name), "__version__", None)
        # `petastorm` may be an alias of mdstorm.
        if version is not None and not (name == "petastorm" and "mdstorm" in sys.modules):
            found[name] = str(version)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
