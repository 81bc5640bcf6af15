"""Decode single samples, in a few microseconds each.

Work that does not depend on the sample is done once per shard: each column gets a function from
the position of a value to the value, and its position within a sample.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.format.encodings.encoding import Decode, DecodeSpan, Encoding
from mdstorm_backend.format.encodings.numbers import PythonInteger
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.values.arrow_types import is_number
from mdstorm_backend.format.values.nested_lists import depth_of
from mdstorm_backend.read.late import object_decoder
from mdstorm_backend.read.logical import view_dtype
from mdstorm_backend.read.mds_file import MDSFile

#: From the row of a value to the value.
OfRow: TypeAlias = Callable[[int], Any]

#: Python's ordinal of 1970-01-01.
_EPOCH = date(1970, 1, 1).toordinal()
_DAYS = np.dtype("datetime64[D]")

SampleDecoder: TypeAlias = Callable[[int], dict[str, Any]]


class ValueDecoder:
    """Chooses the fastest way to decode one value of a column.

    Parameters
    ----------
    shard : MDSFile
        The shard that holds the values. The functions keep its bytes alive, but not the shard.
    name : str
        The column.
    """

    def __init__(self, shard: MDSFile, name: str) -> None:
        self.column: Column = shard.schema[name]
        self._shard = shard
        self._number = shard.layout.names.index(name)
        self._encoding: Encoding = shard.layout.encodings[self._number]
        self._encoding.check_decodable(name)
        self._is_typed = self.column.spark_type is not None and not self.column.is_late
        self._dtype = view_dtype(self.column) if self._is_typed else self._encoding.dtype
        #: Whether the value is a Python object rather than a NumPy one.
        self._to_python = isinstance(self._encoding, PythonInteger) or (
            self._is_typed
            and not self.column.is_array
            and not self.column.is_numpy(exact_nulls=True)
        )

    @property
    def needs_core(self) -> bool:
        """Whether `Shard.read` has to decode the row, as decoding the bytes is not enough."""
        if self._encoding.is_verbatim:
            return False
        if not (self._encoding.is_viewed or self._encoding.is_array):
            # The placeholder bytes of a null need not be decodable.
            is_plain = not self._is_typed or pa.types.is_decimal(self.column.arrow_type)
            return self.column.null_count > 0 or not is_plain
        if self.column.element_null_count or self.column.uneven:
            return True
        if not self._is_typed or self._is_date:
            return False
        return self._dtype is None or (self._to_python and not is_number(self.column.arrow_type))

    @property
    def _is_date(self) -> bool:
        """Whether values, or the elements of arrays, are dates."""
        if not self._is_typed:
            return False
        type_ = self.column.arrow_type
        return bool(pa.types.is_date(type_.value_type if self.column.is_array else type_))

    def of_row(self) -> OfRow:
        """Return the function from a row to its value, for samples of one size."""
        sizes = [encoding.size or 0 for encoding in self._shard.layout.encodings]
        start = int(self._shard.offsets[0]) + sum(sizes[: self._number])
        if not self._encoding.is_viewed:
            get, stride, size = self.of_span(), sum(sizes), sizes[self._number]
            return lambda row: get(start + row * stride, start + row * stride + size)
        return self._of_view(self._view(start, self._shard.num_samples, sum(sizes)))

    def of_span(self) -> DecodeSpan:
        """Return the function from a byte span to its value, for samples of varying size."""
        encoding, data = self._encoding, self._shard.data
        if encoding.is_viewed and encoding.size is not None:
            get = self._of_view(self._view(0, len(data) - encoding.size + 1, 1))
            return lambda start, stop: get(start)
        decode = encoding.span_decoder(data, self._object_decoder())
        return self._of_array(decode) if encoding.is_array else decode

    def of_core(self) -> Callable[[Any], Any]:
        """Return the function that turns a value of `Shard.read` into the delivered value."""
        if self.column.uneven and not self.column.element_null_count:
            dtype, depth = self._dtype, depth_of(self.column.arrow_type)
            return lambda value: None if value is None else _with_arrays(value, depth, dtype)
        if not self.column.is_late:
            return lambda value: value
        decode = self._object_decoder()
        return lambda value: None if value is None else decode(value)

    def _object_decoder(self) -> Decode:
        decode = object_decoder(self._encoding, self.column, self._shard.url)
        if not (self._is_typed and pa.types.is_decimal(self.column.arrow_type)):
            return decode
        scale = self.column.arrow_type.scale
        return lambda stored: _with_scale(decode(stored), scale)

    def _of_array(self, decode: DecodeSpan) -> DecodeSpan:
        if not self._is_typed:
            return decode
        if self._is_date:
            return lambda start, stop: decode(start, stop).astype(_DAYS)
        dtype = self._dtype
        return lambda start, stop: decode(start, stop).view(dtype)

    def _view(self, start: int, count: int, stride: int) -> npt.NDArray[Any]:
        """Return an array view of the bytes with a value at every `stride` bytes from `start`."""
        dtype = self._encoding.dtype if self._is_date else self._dtype
        shape = self._encoding.shape
        assert dtype is not None
        assert shape is not None
        strides = (stride, *np.empty(shape, dtype).strides)
        view: npt.NDArray[Any] = np.ndarray(
            (count, *shape), dtype, self._shard.data, start, strides
        )
        return view

    def _of_view(self, view: npt.NDArray[Any]) -> OfRow:
        if self._encoding.shape:
            if self._is_date:
                return lambda place: view[place].astype(_DAYS)
            return lambda place: view[place].copy()
        get = view.item
        if not self._is_date:
            return get if self._to_python else view.__getitem__
        if self._to_python:
            return lambda place: date.fromordinal(get(place) + _EPOCH)
        return lambda place: np.datetime64(get(place), "D")


def _with_arrays(lists: list[Any], depth: int, dtype: np.dtype[Any] | None) -> Any:
    """Replace the innermost lists of nested lists with arrays."""
    if depth == 1:
        return np.array(lists, dtype)
    return [_with_arrays(inner, depth - 1, dtype) for inner in lists]


def _with_scale(number: Decimal, scale: int) -> Decimal:
    if number.as_tuple().exponent != -scale:
        raise ValueError(f"the decimal {number} has other digits than its type says")
    return number


def sample_decoder(shard: MDSFile, columns: Sequence[str]) -> SampleDecoder:
    """Return a function that decodes the given columns of one row of `shard`.

    The row must exist. The function raises decoding errors, see `MDSShard.sample`.
    """
    decoders = {name: ValueDecoder(shard, name) for name in columns}
    fast = [name for name, decoder in decoders.items() if not decoder.needs_core]
    slow = [name for name in columns if name not in fast]
    decode = _of_records(shard, decoders, fast) if shard.is_fixed else _of_variable(shard, decoders)
    masks = {
        name: mask.data
        for name, decoder in decoders.items()
        if decoder.column.null_count and not decoder.needs_core
        for mask in [shard.validity.rows.get(name)]
        if mask is not None
    }
    if not masks and not slow and (shard.is_fixed or _in_stored_order(shard, columns)):
        return decode
    names = tuple(columns)
    finish = {name: decoders[name].of_core() for name in slow}
    # The shard keeps this function. A reference back would be a cycle, and keep the file open.
    reference = weakref.ref(shard)

    def decode_all(row: int) -> dict[str, Any]:
        sample = decode(row)
        for name, mask in masks.items():
            if not mask[row]:
                sample[name] = None
        if slow:
            owner = reference()
            assert owner is not None
            values = _by_core(owner, row, slow)
            sample.update({name: finish[name](values[name]) for name in slow})
        return {name: sample[name] for name in names}

    return decode_all


def _in_stored_order(shard: MDSFile, columns: Sequence[str]) -> bool:
    return list(columns) == [name for name in shard.layout.names if name in columns]


def _by_core(shard: MDSFile, row: int, columns: Sequence[str]) -> dict[str, Any]:
    batch = shard.read(np.array([row]), columns, exact_nulls=True)
    return {
        name: values[0] if isinstance(values, np.ndarray) else values[0].as_py()
        for name, values in batch.items()
    }


def _of_records(
    shard: MDSFile, decoders: dict[str, ValueDecoder], fast: Sequence[str]
) -> SampleDecoder:
    """Return a decoder for samples of one size, whose values are at equal distances."""
    getters = [(name, decoders[name].of_row()) for name in fast]

    def decode(row: int) -> dict[str, Any]:
        return {name: get(row) for name, get in getters}

    return decode


def _of_variable(shard: MDSFile, decoders: dict[str, ValueDecoder]) -> SampleDecoder:
    """Return a decoder for samples of varying size, which begin with their column sizes."""
    layout = shard.layout
    offsets = shard.offsets.view(np.uint8).data.cast("I")
    data = shard.data
    unpack = struct.Struct(f"<{layout.num_variable}I").unpack_from
    words = layout.size_words
    fixed = sum(encoding.size or 0 for encoding in layout.encodings)
    variable = iter(range(layout.num_variable))
    plan: list[tuple[str, int | None, int, DecodeSpan | None]] = []
    for name, encoding in zip(layout.names, layout.encodings, strict=True):
        decoder = decoders.get(name)
        get = None if decoder is None or decoder.needs_core else decoder.of_span()
        place = -1 if encoding.size is not None else next(variable)
        plan.append((name, encoding.size, place, get))
    while plan and plan[-1][-1] is None:
        plan.pop()

    def decode(row: int) -> dict[str, Any]:
        start = offsets[row]
        sizes = unpack(data, start)
        position = start + words
        if position + fixed + sum(sizes) != offsets[row + 1]:
            raise ValueError(f"sample {row} has column sizes that do not add up to its length")
        sample = {}
        for name, size, place, get in plan:
            stop = position + (sizes[place] if size is None else size)
            if get is not None:
                sample[name] = get(position, stop)
            position = stop
        return sample

    return decode
