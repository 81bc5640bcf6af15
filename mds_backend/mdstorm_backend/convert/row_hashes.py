"""Hashes of rows, and order-independent sums of them.

The hash of a value depends only on the value and its type, not on how Arrow stores it.
Floating-point numbers are hashed by their bits, but all NaNs are equal; a null equals only a null.
The hash of a row combines one hash per column, and sums modulo 2 ** 64 count every row, including
repeated ones. Besides the total there is a sum per bucket of rows, to find rows that differ without
keeping all of them.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NUM_BUCKETS = 1 << 16


class HashedRows:
    """The hashes of some rows.

    Parameters
    ----------
    names : sequence of str
        The columns.
    arrays : sequence of pyarrow.Array
        Their values.

    Attributes
    ----------
    columns : dict of str to numpy.ndarray
        What each column adds to the hash of its row, ``(2, rows)``.
    rows : numpy.ndarray
        Hashes of the rows.
    buckets : numpy.ndarray
        Bucket of each row.
    """

    def __init__(self, names: Sequence[str], arrays: Sequence[pa.Array]) -> None:
        self.columns = {
            name: mixed(hash_values(values) + _seed(name))
            for name, values in zip(names, arrays, strict=True)
        }
        self.rows = self.keys(())
        self.buckets = (self.rows[0] % np.uint64(NUM_BUCKETS)).astype(np.int64)

    def keys(self, without: Sequence[str]) -> Hashes:
        """Hash the rows without some of their columns."""
        kept = [hashes for name, hashes in self.columns.items() if name not in without]
        return mixed(np.sum(kept, axis=0, dtype=np.uint64)) if kept else np.zeros_like(self.rows)


class RowSums:
    """Sums of the rows of one side; several threads may add to them.

    Attributes
    ----------
    count : int
        Number of rows.
    columns : dict of str to numpy.ndarray
        Sums per column, uint64 ``(2,)``.
    buckets : numpy.ndarray
        Sums and number of the rows of each bucket, uint64 ``(3, NUM_BUCKETS)``.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.count = 0
        self.columns = {name: np.zeros(2, np.uint64) for name in names}
        self.buckets = np.zeros((3, NUM_BUCKETS), np.uint64)
        self._lock = threading.Lock()

    def add(self, hashed: HashedRows) -> None:
        """Add some rows."""
        order = np.argsort(hashed.buckets, kind="stable")
        found, starts = np.unique(hashed.buckets[order], return_index=True)
        ones = np.ones((1, len(order)), np.uint64)
        by_bucket = np.add.reduceat(np.concatenate([hashed.rows[:, order], ones]), starts, axis=1)
        by_column = {
            name: hashes.sum(axis=1, dtype=np.uint64) for name, hashes in hashed.columns.items()
        }
        with self._lock:
            self.count += len(order)
            self.buckets[:, found] += by_bucket
            for name, sums in by_column.items():
                self.columns[name] += sums

    def differing_columns(self, other: RowSums) -> list[str]:
        """Columns whose values differ, each taken by itself."""
        return [n for n, sums in self.columns.items() if (sums != other.columns[n]).any()]

    def differing_buckets(self, other: RowSums) -> npt.NDArray[np.int64]:
        """Buckets whose rows differ."""
        return np.flatnonzero((self.buckets != other.buckets).any(axis=0))


def _seed(name: str) -> Hashes:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.frombuffer(digest, "<u8").reshape(2, 1)


#: uint64 ``(2, values)``: two independent hashes of 64 bits.
Hashes: TypeAlias = npt.NDArray[np.uint64]

_SEEDS = np.array([[0x9E3779B97F4A7C15], [0xD1B54A32D192ED03]], np.uint64)
_NULL = np.array([[0x2545F4914F6CDD1D], [0x94D049BB133111EB]], np.uint64)
#: Values from this many bytes on are hashed one by one, which is faster for them.
_SHORT = 256
#: Items of short values that are looked at together, to bound memory.
_SLICE_ITEMS = 1 << 18
_NAN_BITS = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}


def mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread every bit of 64-bit words over the whole word; distinct words stay distinct."""
    words = words ^ (words >> np.uint64(30))
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def hash_values(values: pa.Array) -> Hashes:
    """Hash every value of an array, nulls included.

    Raises
    ------
    NotImplementedError
        If MDS does not store the type.
    """
    hashes = _present(values)
    if values.null_count and not pa.types.is_null(values.type):
        hashes[:, ~np.asarray(values.is_valid())] = _NULL
    return hashes


def _present(values: pa.Array) -> Hashes:
    """Hash the values that are not null; hashes of the others are arbitrary."""
    types, type_ = pa.types, values.type
    if types.is_null(type_):
        return np.repeat(_NULL, len(values), axis=1)
    if types.is_string(type_) or types.is_binary(type_):
        offsets = _offsets(values)
        data = _buffer(values.buffers()[2], np.uint8)
        return _of_items(data.reshape(-1, 1), offsets)
    if types.is_struct(type_):
        fields = [hash_values(field) for field in values.flatten()]
        return _joined(fields, len(values))
    if types.is_map(type_):
        pairs = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
        return _of_lists(pairs, _offsets(values))
    if types.is_list(type_):
        elements = values.values
        if _width(elements.type) is not None:
            return _of_numbers(elements, _offsets(values))
        return _of_lists(elements, _offsets(values))
    return mixed(_words(_stored(values)) + _SEEDS)


def _joined(fields: Sequence[Hashes], count: int) -> Hashes:
    """Hash tuples, given the hashes of each of their fields."""
    joined = np.repeat(_SEEDS, count, axis=1)
    for hashes in fields:
        joined = mixed(joined * np.uint64(3) + hashes)
    return joined


def _of_numbers(elements: pa.Array, offsets: npt.NDArray[np.int64]) -> Hashes:
    """Hash lists of fixed-size elements by their bytes."""
    elements = elements.slice(offsets[0], offsets[-1] - offsets[0])
    offsets = offsets - offsets[0]
    stored = _stored(elements)
    if not elements.null_count:
        return _of_items(stored, offsets)
    valid = np.asarray(elements.is_valid())
    stored[~valid] = 0
    present = _of_items(valid.view(np.uint8).reshape(-1, 1), offsets)
    hashes = _of_items(stored, offsets)
    # Lists without nulls must hash the same whether or not other lists have nulls.
    nulls = np.zeros(len(valid) + 1, np.int64)
    np.cumsum(~valid, out=nulls[1:])
    with_null = nulls[offsets[1:]] > nulls[offsets[:-1]]
    hashes[:, with_null] = mixed(hashes + present)[:, with_null]
    return hashes


def _of_lists(elements: pa.Array, offsets: npt.NDArray[np.int64]) -> Hashes:
    """Hash lists of any elements, which are ordered."""
    hashes = hash_values(elements.slice(offsets[0], offsets[-1] - offsets[0]))
    offsets = offsets - offsets[0]
    places = _places(offsets).astype(np.uint64)
    weights = mixed(places + _SEEDS) | np.uint64(1)
    return _finished(_sums(hashes * weights, offsets), offsets)


def _of_items(items: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    """Hash the runs ``items[offsets[i]:offsets[i + 1]]`` of items of a few bytes each."""
    hashes = np.empty((2, len(offsets) - 1), np.uint64)
    data, ends = items.reshape(-1).data, offsets * items.shape[1]
    start = 0
    for stop in (*np.flatnonzero(np.diff(ends) >= _SHORT).tolist(), len(ends) - 1):
        _fill_short(hashes, items, offsets, start, stop)
        if stop < len(ends) - 1:
            digest = hashlib.blake2b(data[ends[stop] : ends[stop + 1]], digest_size=16).digest()
            hashes[:, stop] = np.frombuffer(digest, "<u8")
        start = stop + 1
    return hashes


def _fill_short(
    hashes: Hashes,
    items: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    """Hash the runs from `start` to `stop`, all of them short."""
    while start < stop:
        end = int(np.searchsorted(offsets, offsets[start] + _SLICE_ITEMS, side="right")) - 1
        end = min(max(end, start + 1), stop)
        some = offsets[start : end + 1]
        words = _words(items[some[0] : some[-1]])
        # Short strings have few enough bytes for their weights alone to distinguish them.
        words = words + np.uint64(1) if items.shape[1] == 1 else mixed(words)
        ends = some - some[0]
        hashes[:, start:end] = _finished(_sums(words * _WEIGHTS[:, _places(ends)], ends), ends)
        start = end


def _places(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the position of each element within its list."""
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def _sums(words: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    """Sum the words of each list, modulo 2 ** 64."""
    sums = np.zeros((2, len(offsets) - 1), np.uint64)
    filled = np.flatnonzero(np.diff(offsets))
    if len(filled):
        sums[:, filled] = np.add.reduceat(words, offsets[filled], axis=1)
    return sums


def _finished(sums: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    lengths = np.diff(offsets).astype(np.uint64)
    return mixed(sums + mixed(lengths + _SEEDS))


def _width(type_: pa.DataType) -> int | None:
    """Bytes of a fixed-size value; None if the size varies or the type is nested."""
    if pa.types.is_boolean(type_):
        return 1
    if pa.types.is_decimal(type_) or pa.types.is_primitive(type_):
        return int(type_.bit_width) // 8
    return None


def _stored(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of fixed-size values: uint8 ``(values, width)``, a copy."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    width = _width(values.type)
    if width is None:
        raise NotImplementedError(f"values of type {values.type} cannot be compared")
    data = _buffer(values.buffers()[1], np.uint8)
    stored: npt.NDArray[np.uint8] = data[
        values.offset * width : (values.offset + len(values)) * width
    ].copy()
    if pa.types.is_floating(values.type):
        numbers = stored.view(f"<f{width}")
        stored.view(f"<u{width}")[np.isnan(numbers)] = _NAN_BITS[width]
    return stored.reshape(-1, width)


def _words(stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return one word for each fixed-size value; different ones up to 8 bytes."""
    width = stored.shape[1]
    words = stored.view(f"<u{min(width, 8)}").astype(np.uint64)
    while words.shape[1] > 1:
        words = np.column_stack([words[:, :-2], mixed(words[:, -2]) + words[:, -1]])
    return words[:, 0]


def _offsets(values: pa.Array) -> npt.NDArray[np.int64]:
    """Offsets of the values of strings, lists or maps in their child data."""
    offsets = _buffer(values.buffers()[1], np.int32)
    return offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)


def _buffer(buffer: pa.Buffer | None, dtype: Any) -> npt.NDArray[Any]:
    return np.zeros(1, dtype) if buffer is None else np.frombuffer(buffer, dtype)


_WEIGHTS = mixed(np.arange(_SHORT, dtype=np.uint64) + _SEEDS) | np.uint64(1)
