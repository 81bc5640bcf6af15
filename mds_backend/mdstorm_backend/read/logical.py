"""Convert stored values to logical values: booleans, dates, decimals, nested types, nulls.

`to_logical` converts a column; a `ValueDecoder` decodes one value at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.format import Column, Values, as_arrow, is_number
from mdstorm_backend.format.encodings.encoding import DecodeSpan, DecodeValue, Encoding
from mdstorm_backend.format.encodings.json_text import decode_lists
from mdstorm_backend.format.encodings.numbers import PythonInteger
from mdstorm_backend.format.values import nested_lists
from mdstorm_backend.read.late import object_decoder

Mask = npt.NDArray[np.bool_]

#: Python's ordinal of 1970-01-01.
_EPOCH = date(1970, 1, 1).toordinal()
_DAYS = np.dtype("datetime64[D]")


def to_logical(
    column: Column, stored: Values, valid: Mask | None, elements: Mask | None, *, exact_nulls: bool
) -> Values:
    """Convert the stored values of a column to its logical type, with nulls.

    Parameters
    ----------
    column : Column
        The column, with the null counts of the whole dataset.
    stored : numpy.ndarray or pyarrow.Array
        Values as decoded from the shard's bytes. Views of them may be returned.
    valid, elements : numpy.ndarray or None
        Which rows, and which elements of their arrays, are not null; None for all.
    exact_nulls : bool
        Return nulls of floating-point columns as nulls, not as NaN.
    """
    if column.is_array and isinstance(stored, pa.StringArray):
        values = decode_lists(stored, column.arrow_type)  # including null elements
        if column.is_floating and not exact_nulls:
            values = nested_lists.with_nan_elements(values)
        return _with_nulls(values, valid)
    if column.spark_type is None:
        values = _in_general_form(column, stored)
        if isinstance(values, np.ndarray) and values.dtype == object:
            if valid is not None:
                values = values.copy()
                values[~valid] = None
            return values
    else:
        values = _typed(column, stored)
    if column.is_numpy(exact_nulls=exact_nulls):
        return values
    values = as_lists(column, values)
    states_dtype = column.is_array and column.parsed_encoding.dtype is None
    is_converted = column.is_array or isinstance(stored, np.ndarray)
    if is_converted and not states_dtype and values.type != column.arrow_type:
        values = values.cast(column.arrow_type)
    if elements is not None and (exact_nulls or not column.is_floating):
        flat = _with_nulls(nested_lists.elements_of(values), elements)
        values = nested_lists.with_elements(values, flat)
    values = _with_nulls(values, valid)
    if column.spark_type is None:
        return values
    # Values stored as text are parsed only now, because placeholders for nulls might not parse.
    return column.parsed_encoding.to_logical(values, column.arrow_type)


def _with_nulls(values: pa.Array, valid: Mask | None) -> pa.Array:
    if valid is None:
        return values
    return pc.if_else(pa.array(valid), values, pa.scalar(None, values.type))


def as_lists(column: Column, values: Values) -> pa.Array:
    """Convert values to Arrow; arrays become nested lists if the type is nested, else flat."""
    if not isinstance(values, np.ndarray):
        return values
    if values.ndim > 2 and nested_lists.depth_of(column.arrow_type) == values.ndim - 1:
        return nested_lists.lists_of_array(values)
    return as_arrow(values)


def no_values(column: Column, *, exact_nulls: bool) -> Values:
    """Return the column's values in an empty batch."""
    if not column.is_numpy(exact_nulls=exact_nulls):
        return pa.array([], column.arrow_type)
    stored = np.empty((0, *(column.value_shape or ())), column.parsed_encoding.dtype)
    return to_logical(column, stored, None, None, exact_nulls=exact_nulls)


def view_dtype(column: Column) -> np.dtype[Any] | None:
    """Return the NumPy dtype that views stored bytes as logical values or array elements.

    None if values have to be converted, such as days to ``datetime64[D]``.
    """
    type_ = column.element_type if column.is_array else column.arrow_type
    if pa.types.is_date(type_):
        return None
    if pa.types.is_boolean(type_):
        return np.dtype(np.bool_)
    if pa.types.is_timestamp(type_):
        return np.dtype("datetime64[us]")
    stored = column.parsed_encoding.dtype
    return None if stored is None else stored.newbyteorder("=")


def _in_general_form(column: Column, stored: Values) -> Values:
    """Convert values to the dataset's form, if the shard's encoding differs from the dataset's."""
    dtype = column.parsed_encoding.dtype
    if isinstance(stored, np.ndarray):
        if stored.dtype == object:
            return stored
        if column.is_array and stored.ndim > 2 and column.value_shape is None:
            return np.fromiter(stored, object, len(stored))
        return stored if dtype is None or stored.dtype == dtype else stored.astype(dtype)
    if nested_lists.depth_of(stored.type) > 1:
        rows = nested_lists.rows_of(
            stored, np.array(nested_lists.elements_of(stored)), nested_lists.split_array
        )
        return np.fromiter((row.copy() for row in rows), object, len(rows))
    if pa.types.is_list(stored.type) or stored.type == column.arrow_type:
        return stored
    return stored.cast(column.arrow_type)


def _typed(column: Column, stored: Values) -> Values:
    """Convert values of a column with a Spark type to NumPy or Arrow values of that type."""
    if isinstance(stored, np.ndarray):
        if stored.dtype == object:  # arrays that differ in dimensions, or are empty
            return nested_lists.lists_of_arrays(list(stored), column.arrow_type)
        return _numpy_typed(column, stored)
    if column.is_array:
        found, wanted = nested_lists.depth_of(stored.type), nested_lists.depth_of(column.arrow_type)
        if found != wanted:
            raise ValueError(f"arrays have {found} dimensions, but the column's have {wanted}")
        flat = pa.array(_numpy_typed(column, np.asarray(nested_lists.elements_of(stored))))
        return nested_lists.with_elements(stored, flat.cast(column.element_type))
    return stored


def _numpy_typed(column: Column, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    dtype = view_dtype(column)
    return stored.astype("datetime64[D]") if dtype is None else stored.view(dtype)


class ValueDecoder:
    """Chooses the fastest way to decode single values of a column, in about a microsecond each.

    Parameters
    ----------
    column : Column
        The column.
    encoding : Encoding
        How the shard stores it.
    data : memoryview
        The bytes of the shard.
    url : str
        Where they come from, for error messages.
    """

    def __init__(self, column: Column, encoding: Encoding, data: memoryview, url: str) -> None:
        encoding.check_decodable(column.name)
        self.column = column
        self._encoding = encoding
        self._data = data
        self._url = url
        self._is_typed = column.spark_type is not None and not column.is_late
        self._dtype = encoding.dtype
        #: Whether values, or the elements of arrays, are dates.
        self._is_date = False
        if self._is_typed:
            type_ = column.arrow_type
            self._dtype = view_dtype(column)
            self._is_date = pa.types.is_date(type_.value_type if column.is_array else type_)
        #: Whether the value is a Python object rather than a NumPy one.
        self._to_python = isinstance(encoding, PythonInteger) or (
            self._is_typed and not column.is_array and not column.is_numpy(exact_nulls=True)
        )

    @property
    def needs_read(self) -> bool:
        """Whether `Shard.read` has to decode a value, because decoding its bytes is not enough."""
        if self._encoding.is_verbatim:
            return False
        if not (self._encoding.is_viewed or self._encoding.is_array):
            # The placeholder bytes of a null may not be decodable.
            is_plain = not self._is_typed or pa.types.is_decimal(self.column.arrow_type)
            return self.column.null_count > 0 or not is_plain
        if self.column.element_null_count or self.column.uneven:
            return True
        if not self._is_typed or self._is_date:
            return False
        return self._dtype is None or (self._to_python and not is_number(self.column.arrow_type))

    def rows(self, start: int, stride: int, count: int) -> npt.NDArray[Any] | None:
        """Return a view of fixed-size samples whose items are the values; see `of_row`.

        None if values have to be converted or copied.
        """
        if not self._encoding.is_viewed or self._encoding.shape or self._is_date or self._to_python:
            return None
        return self._view(start, stride, count)

    def of_row(self, start: int, stride: int, count: int) -> Callable[[int], Any]:
        """Return a function from a row number to its value, for fixed-size samples.

        Parameters
        ----------
        start : int
            Where the value of the first row begins.
        stride : int
            Bytes from a row to the next one.
        count : int
            Number of rows.
        """
        if self._encoding.is_viewed:
            return self._of_view(start, stride, count)
        get, size = self.of_span(), self._encoding.size or 0
        return lambda row: get(start + row * stride, start + row * stride + size)

    def of_span(self) -> DecodeSpan:
        """Return a function that decodes the value in a byte span, for variable-size samples."""
        encoding, data = self._encoding, self._data
        if encoding.is_viewed and encoding.size is not None:
            get = self._of_view(0, 1, len(data) - encoding.size + 1)
            return lambda start, stop: get(start)
        decode = encoding.span_decoder(data, self._object_decoder())
        if not (encoding.is_array and self._is_typed):
            return decode
        if self._is_date:
            return lambda start, stop: decode(start, stop).astype(_DAYS)
        dtype = self._dtype
        return lambda start, stop: decode(start, stop).view(dtype)

    def after_read(self) -> Callable[[Any], Any]:
        """Return the function that converts a value from `Shard.read` to the output value."""
        if self.column.uneven and not self.column.element_null_count:
            dtype, depth = self._dtype, nested_lists.depth_of(self.column.arrow_type)
            return lambda value: None if value is None else _with_arrays(value, depth, dtype)
        if not self.column.is_late:
            return lambda value: value
        decode = self._object_decoder()
        return lambda value: None if value is None else decode(value)

    def _object_decoder(self) -> DecodeValue:
        decode = object_decoder(self._encoding, self.column, self._url)
        if not (self._is_typed and pa.types.is_decimal(self.column.arrow_type)):
            return decode
        scale = self.column.arrow_type.scale

        def checked(stored: Any) -> Any:
            number = decode(stored)
            if number.as_tuple().exponent != -scale:
                raise ValueError(f"the decimal {number} does not have {scale} decimal places")
            return number

        return checked

    def _of_view(self, start: int, stride: int, count: int) -> Callable[[int], Any]:
        """Return a function that gets a value from an array view by row number; see `of_row`."""
        view = self._view(start, stride, count)
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

    def _view(self, start: int, stride: int, count: int) -> npt.NDArray[Any]:
        dtype = self._encoding.dtype if self._is_date else self._dtype
        shape = self._encoding.shape
        assert dtype is not None
        assert shape is not None
        strides = (stride, *np.empty(shape, dtype).strides)
        view: npt.NDArray[Any] = np.ndarray((count, *shape), dtype, self._data, start, strides)
        return view


def _with_arrays(lists: list[Any], depth: int, dtype: np.dtype[Any] | None) -> Any:
    """Replace the innermost lists of nested lists with arrays."""
    if depth == 1:
        return np.array(lists, dtype)
    return [_with_arrays(inner, depth - 1, dtype) for inner in lists]
