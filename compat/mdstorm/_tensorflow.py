"""Implementation of the datasets in `mdstorm.tf_utils`."""

from __future__ import annotations

import calendar
import datetime
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from mdstorm_backend.base import require, warn_user

try:
    import tensorflow as tf
except ModuleNotFoundError:
    require("tensorflow")  # says what to install
    raise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._readers.options import draws_seed
from mdstorm._readers.reader import Reader, ReaderPasses, can_pass_over
from mdstorm._transforms.row_transform import declared_dtype
from mdstorm.errors import (
    InvalidArgumentError,
    NullInRowError,
    StateMismatchError,
    UnequalLengthsError,
)
from mdstorm.unischema import Unischema
from mdstorm_backend.format import Batch, Column, Values, num_rows, shapes_of, slice_batch
from mdstorm_backend.loaders import NOTHING, Delivered, null_error
from mdstorm_backend.loaders import tf as tf_loaders
from mdstorm_backend.loaders.tf import ColumnSpec
from mdstorm_backend.read import Block, LateDecoder

#: Bytes of stored rows in a block that is passed to TensorFlow.
_BYTES_AT_A_TIME = 4 << 20
_MOST_ROWS = 1 << 16
_TENSORFLOW = "TensorFlow"
#: NumPy types that are delivered as another TensorFlow type.
_DTYPES = {
    np.str_: "string",
    np.bytes_: "string",
    Decimal: "string",
    np.datetime64: "int64",
    datetime.date: "int64",
    np.timedelta64: "int64",
    np.uint16: "int32",
    np.uint32: "int64",
    np.bool_: "bool",
}
#: Kinds of NumPy types that have the same name in TensorFlow.
_SAME_KINDS = "iuf"


def dataset_of_rows(reader: Any) -> Any:
    """Return a TensorFlow dataset of a reader's rows or batches."""
    specs = specs_of_schema(reader.schema)
    warn_of_decimals_in(reader)
    if can_pass_over(reader) and reader.batched_output:
        tf_loaders.check_nulls_of(reader._mdstorm_options())

    def dataset(*, by_shard: bool) -> Parts:
        elements = Elements(reader, specs, by_shard)
        row = reader.schema.make_namedtuple_tf(*(spec.signature for spec in specs))

        def make() -> Any:
            dataset = tf.data.Dataset.from_generator(elements, output_signature=row)
            return _with_options(dataset, reader)

        return Parts(elements, make)

    by_shard = dataset(by_shard=True)
    # If the user does not see row-group boundaries, elements may have any number of rows. But a
    # column of arrays of any length must have one length per element, which only row groups ensure.
    is_fixed = all(spec.is_fixed for spec in specs)
    anyhow = dataset(by_shard=False) if is_fixed or not reader.batched_output else by_shard
    _, rows, batches = _adapters()
    return batches(by_shard, anyhow) if reader.batched_output else rows(anyhow)


def dataset_of_ngrams(reader: Any) -> Any:
    """Return a TensorFlow dataset of a reader's n-grams: dicts from offset to namedtuple."""
    specs = specs_of_ngram(reader)
    warn_of_decimals_in(reader)
    signature = {
        offset: _schema_at(reader, offset).make_namedtuple_tf(
            *(tf.TensorSpec(spec.shape, spec.dtype) for spec in columns)
        )
        for offset, columns in specs.items()
    }
    elements = NGrams(reader, specs)
    dataset = tf.data.Dataset.from_generator(elements, output_signature=signature)
    plain, _, _ = _adapters()
    return plain(_with_options(dataset, reader))


def warn_of_decimals_in(reader: Any) -> None:
    """Warn if a reader delivers decimals and the user did not choose their type."""
    if isinstance(reader, Reader):
        reader._mdstorm_warn_of_decimals("TensorFlow")


def specs_of_ngram(reader: Any) -> dict[int, list[ColumnSpec]]:
    """Return the specs of an n-gram's fields by offset."""
    offsets = range(min(reader.ngram.fields), max(reader.ngram.fields) + 1)
    return {offset: specs_of_schema(_schema_at(reader, offset)) for offset in offsets}


def _schema_at(reader: Any, offset: int) -> Unischema:
    schema: Unischema = reader.ngram.get_schema_at_timestep(reader.schema, offset)
    return schema


def _with_options(dataset: Any, reader: Any) -> Any:
    """Turn off TensorFlow's sharding if the reader shards the rows.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow would shard rows that each worker reads in another order.
    """
    if (
        tf_loaders.in_cluster()
        and isinstance(reader, Reader)
        and draws_seed(reader._mdstorm_arguments)
    ):
        raise InvalidArgumentError(
            "TensorFlow leaves out the batches of other workers, but each worker's reader has "
            "its own random order, so some rows would be lost and others come twice: create the "
            'reader with cur_shard="auto", or with the same seed=… in all workers'
        )
    is_share = can_pass_over(reader) and reader._mdstorm_options().order.is_share
    return tf_loaders.without_sharding(dataset) if is_share else dataset


@lru_cache(maxsize=1)
def _adapters() -> tuple[Any, Any, Any]:
    """Return TensorFlow's class of ``tf.compat.v1`` datasets, and those of rows and of batches."""
    adapter = type(tf.compat.v1.data.Dataset.from_tensors(0))

    class ReaderDataset(adapter):  # type: ignore[misc, valid-type]
        """A dataset over a reader, with a position of its own."""

        _elements: Elements

        def __iter__(self) -> Any:
            iterator = super().__iter__()
            self._elements.taken = 0
            kind: Any = type(iterator)
            iterator._mdstorm_elements = self._elements
            iterator.__class__ = _counting_class(kind)
            return iterator

        def state_dict(self, items: int | None = None) -> dict[str, Any]:
            """Return the state of the latest iteration, for `load_state_dict`.

            Parameters
            ----------
            items : int, optional
                Rows or batches of this dataset used since the iteration began. By default those
                that Python code has taken, ``for item in dataset``. What is made of this dataset,
                as by ``batch``, is not counted, and the number is required.

            Raises
            ------
            StateMismatchError
                If the number of items is not known, or the reader has a position of its own.
            """
            return self._elements.state_dict(items)

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            """Resume the next iteration from `state`, taken from an equal dataset.

            Raises
            ------
            StateMismatchError
                If it was taken from another dataset or another way of reading, or is not a state.
            """
            self._elements.load_state_dict(state)

    class RowsDataset(ReaderDataset):
        """A dataset of rows that are read in blocks."""

        def __init__(self, parts: Parts) -> None:
            self._parts, self._elements = parts.make, parts.elements
            # Not unbatch(): it crashes the process for arrays without elements.
            super().__init__(parts.make().flat_map(tf.data.Dataset.from_tensor_slices))

        def batch(
            self, batch_size: Any, drop_remainder: bool = False, *others: Any, **options: Any
        ) -> Any:
            """Batch rows as TensorFlow does, but without splitting the blocks first."""
            if others or options or not isinstance(drop_remainder, bool):
                return super().batch(batch_size, drop_remainder, *others, **options)
            return adapter(self._parts().rebatch(batch_size, drop_remainder))

    class BatchesDataset(ReaderDataset):
        """A dataset of batches, which can be unbatched into rows."""

        def __init__(self, batches: Parts, parts: Parts) -> None:
            self._parts, self._elements = parts, batches.elements
            super().__init__(batches.make())

        def unbatch(self, *others: Any, **options: Any) -> Any:
            """Split batches into rows."""
            return RowsDataset(self._parts)

    return adapter, RowsDataset, BatchesDataset


@lru_cache(maxsize=8)
def _counting_class(iterator_class: Any) -> Any:
    """Return a subclass of TensorFlow's iterator class that counts the items taken."""

    class CountingIterator(iterator_class):  # type: ignore[misc]
        """An iterator that reports to its `Elements` how many items were taken."""

        _mdstorm_elements: Elements

        def __next__(self) -> Any:
            item = super().__next__()
            self._mdstorm_elements.take()
            return item

    return CountingIterator


@dataclass(frozen=True)
class Parts:
    """What yields the blocks of a dataset, and what makes a dataset of TensorFlow of them."""

    elements: Elements
    make: Callable[[], Any]


#: Latest blocks whose states are kept, since TensorFlow reads ahead.
_STATES_KEPT = 1024
#: Key of a state for the rows of the next block that were taken.
_SKIP = "skip"


@dataclass
class Elements:
    """Yields blocks of rows as namedtuples of arrays, for ``tf.data.Dataset.from_generator``.

    Over an unused reader of mdstorm, each call is a complete, independent pass. Over other readers,
    calls continue with the reader's own items, and reset a reader that is at its end.

    Attributes
    ----------
    reader : Reader
        The reader.
    specs : sequence of ColumnSpec
        How the columns are delivered.
    by_shard : bool
        Whether an element is one shard's share of the rows, rather than a block of any rows.
    """

    reader: Any
    specs: Sequence[ColumnSpec]
    by_shard: bool
    #: Items that a Python iterator has taken since the latest iteration began.
    taken: int = 0
    _passes: ReaderPasses | None = None
    _begun: bool = False
    #: For each block of the latest iteration: items before it, and the state there.
    _states: deque[tuple[int, dict[str, Any]]] = field(
        default_factory=lambda: deque(maxlen=_STATES_KEPT)
    )
    #: Items up to the end of the latest block, and the state there.
    _after: tuple[int, dict[str, Any]] = field(default_factory=lambda: (0, {}))
    #: Where a loaded state resumes, and the rows of the block there that were taken before it.
    _loaded: tuple[Any, int] = (None, 0)

    def __call__(self) -> Iterator[Any]:
        passes = self._own_passes()
        self._begun = True
        return self._items() if passes is None else self._of_passes(passes)

    def _own_passes(self) -> ReaderPasses | None:
        """Return what reads in blocks; None for other readers, and those with a position."""
        reader = self.reader
        begins_anew = can_pass_over(reader) and (self._begun or reader._mdstorm_is_at_a_start)
        if self._passes is None and begins_anew:
            source = reader._mdstorm_options().dataset
            per_row = max(source.nbytes // max(len(source), 1), 1)
            rows = max(1, min(_BYTES_AT_A_TIME // per_row, _MOST_ROWS))
            self._passes = ReaderPasses(
                reader,
                rows,
                by_shard=self.by_shard,
                owner="a dataset of make_petastorm_dataset",
            )
        return self._passes

    def _of_passes(self, passes: ReaderPasses) -> Iterator[Any]:
        """Yield the blocks of a pass, and keep the state before each of them."""
        begins, skipped = self._loaded
        skipped = skipped if passes.begins == begins else 0
        items = -skipped
        self._states.clear()
        for batch in passes(self._of_blocks):
            self._states.append((items, passes.state_dict(before_last=True)))
            items += 1 if self._are_batches else num_rows(batch)
            self._after = items, passes.state_dict()
            yield from self._parts(slice_batch(batch, skipped, num_rows(batch)))
            skipped = 0
        self._after = items, passes.state_dict()

    @property
    def _are_batches(self) -> bool:
        """Whether the items of the dataset are blocks, rather than their rows."""
        return self.by_shard and bool(self.reader.batched_output)

    @staticmethod
    def _of_blocks(blocks: Iterator[Block]) -> Delivered:
        for block in blocks:
            found = block.batch if num_rows(block.batch) else NOTHING
            yield found, block.offsets[-1], sum(block.sizes)

    def take(self) -> None:
        """Count an item that Python code has taken."""
        self.taken += 1
        if self.taken == 2 and self._passes is not None:
            self._passes.count()

    def state_dict(self, items: int | None) -> dict[str, Any]:
        """Return the state after some items of the latest iteration."""
        passes = self._resumable()
        if items is None:
            items = self.taken
            if self._states and not items:
                raise StateMismatchError(
                    "the items of this dataset were not counted, because TensorFlow took them "
                    "itself, as with batch() or in Keras. Pass the number that was used since the "
                    "iteration began, state_dict(items=…)"
                )
        if not self._states:
            return passes.state_dict()
        last, _ = self._after
        for first, state in reversed([*self._states, self._after]):
            if first <= items <= last:
                ours = {**state["mdstorm"], _SKIP: items - first}
                return {**state, "mdstorm": ours} if items > first else state
        raise StateMismatchError(
            f"no state after {items} items is known: {last} were read, and of long iterations "
            "only the last blocks are remembered"
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume the next iteration from a state."""
        passes = self._resumable()
        passes.load_state_dict(state)
        self._loaded, self.taken = (passes.begins, state.get("mdstorm", {}).get(_SKIP, 0)), 0
        self._states.clear()

    def _resumable(self) -> ReaderPasses:
        passes = self._own_passes()
        if passes is None:
            raise StateMismatchError(
                "this dataset takes items of a reader that was used before, or that is not one of "
                "mdstorm: call state_dict() of the reader, or make the dataset of an unused reader"
            )
        return passes

    def _parts(self, batch: Batch) -> Iterator[Any]:
        """Yield the rows of a batch together, or one by one if their arrays differ in shape."""
        try:
            yield self._columns(batch)
        except UnequalLengthsError:
            if self.reader.batched_output:
                raise
            for row in range(num_rows(batch)):
                yield self._columns(slice_batch(batch, row, row + 1))

    def _columns(self, batch: Batch) -> Any:
        assert self._passes is not None
        if not self.reader.batched_output:
            refuse_nulls_in_rows((spec.name, batch[spec.name]) for spec in self.specs)
        convert = column_for_tf if self.reader.batched_output else rows_for_tf
        column = self._passes.options.column
        return self._named(convert(batch[s.name], s, column(s.name)) for s in self.specs)

    def _items(self) -> Iterator[Any]:
        for item in _from_its_place(self.reader):
            values = item._asdict()
            if self.reader.batched_output:
                yield self._named(column_for_tf(np.asarray(values[s.name]), s) for s in self.specs)
            else:
                refuse_nulls_in_rows((spec.name, values[spec.name]) for spec in self.specs)
                cells = (value_for_tf(values[s.name], s) for s in self.specs)
                yield self._named(np.asarray(cell)[np.newaxis] for cell in cells)

    def _named(self, columns: Iterator[Any]) -> Any:
        return self.reader.schema.make_namedtuple_tf(*columns)


@dataclass
class NGrams:
    """Yields the n-grams of a reader, for ``tf.data.Dataset.from_generator``.

    Each call starts again from the beginning if the reader can; otherwise it continues.

    Attributes
    ----------
    reader : Reader
        The reader.
    specs : dict of int to sequence of ColumnSpec
        How the columns of each offset are delivered.
    """

    reader: Any
    specs: Mapping[int, Sequence[ColumnSpec]]
    _begun: bool = False

    def __call__(self) -> Iterator[Any]:
        if self._begun and isinstance(self.reader, Reader):
            self.reader._mdstorm_restart()
        self._begun = True
        for item in _from_its_place(self.reader):
            yield {offset: _row_for_tf(item[offset], specs) for offset, specs in self.specs.items()}


def _row_for_tf(row: Any, specs: Sequence[ColumnSpec]) -> Any:
    refuse_nulls_in_rows((spec.name, getattr(row, spec.name)) for spec in specs)
    return type(row)(*(value_for_tf(getattr(row, spec.name), spec) for spec in specs))


def _from_its_place(reader: Any) -> Iterator[Any]:
    """Yield the remaining items of a reader; if it is at its end, reset it and yield all."""
    if getattr(reader, "last_row_consumed", False):
        reader.reset()
    yield from reader


def date_to_nsec_from_epoch(dt: datetime.date) -> int:
    """Return a date, or a time taken as UTC, as nanoseconds since 1970.

    Fractions of a second are dropped, as in Petastorm.
    """
    return calendar.timegm(dt.timetuple()) * 1_000_000_000


def column_for_tf(values: Values, spec: ColumnSpec, column: Column | None = None) -> Any:
    """Convert a column of some rows to the type that `spec` declares.

    Dates and timestamps become int64 nanoseconds since 1970 UTC, decimals become text, and strings
    become UTF-8 bytes. Numbers are cast to the declared type.

    Parameters
    ----------
    values : numpy.ndarray or pyarrow.Array
        The column, from a block of the engine or from a reader.
    spec : ColumnSpec
        How the column is delivered.
    column : Column, optional
        The stored column.

    Raises
    ------
    NullValueError
        If a null has no value in TensorFlow.
    UnequalLengthsError
        If the arrays differ in shape.
    TransformError
        If the values have another type or shape than declared.
    """
    if column is not None and column.is_late and not isinstance(values, np.ndarray):
        values = LateDecoder(column)(values)
    if isinstance(values, pa.Array):
        if pa.types.is_list(values.type) and not values.null_count and not spec.ragged:
            sizes = np.unique(shapes_of(values).sizes, axis=0).tolist()
            _check_lengths(["x".join(map(str, shape)) for shape in sizes], spec)
    elif values.dtype == object:
        values = _of_objects(values, spec)
    return tf_loaders.to_tf(values, spec)


def rows_for_tf(values: Values, spec: ColumnSpec, column: Column | None = None) -> Any:
    """Convert a column of rows without nulls, as `column_for_tf` converts columns of batches.

    As in Petastorm, dates in rows are numbers of days, and timestamps numbers of microseconds.
    """
    if isinstance(values, pa.Array):
        if pa.types.is_decimal(values.type):
            values = np.array([str(value.normalize()) for value in values.to_pylist()], object)
        elif pa.types.is_temporal(values.type):
            values = values.to_numpy(zero_copy_only=False)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "M":
        return _days_or_microseconds(values)
    return column_for_tf(values, spec, column)


def refuse_nulls_in_rows(fields: Iterable[tuple[str, Any]]) -> None:
    """Raise NullInRowError if any field is null, naming all such fields.

    Parameters
    ----------
    fields : iterable of tuple of str and object
        Each name with the value of one row or the column of several rows.
    """
    found = dict.fromkeys(name for name, values in fields if _holds_none(values))
    if found:
        held = ", ".join(f'"{name}"=None' for name in found)
        raise NullInRowError(
            f"Encountered {held}. Tensorflow does not support None values as a tensor. Leave such "
            "rows out with a predicate, or give them a value in a transform_spec or with fill_nulls"
        )


def _holds_none(values: Any) -> bool:
    if isinstance(values, pa.Array):
        return bool(values.null_count)
    if isinstance(values, np.ndarray) and values.ndim and values.dtype == object:
        return any(value is None for value in values)
    return values is None


def value_for_tf(value: Any, spec: ColumnSpec) -> Any:
    """Convert one value of a row to the type that `spec` declares."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "OM" and spec.dtype != "string":
            return value.astype(spec.dtype, copy=False)
        return column_for_tf(value[np.newaxis], spec)[0]
    if isinstance(value, Decimal):
        return str(value.normalize())
    if isinstance(value, (str, bytes)):
        return np.array(value, object)  # NumPy strings lose a trailing NUL
    if isinstance(value, datetime.date):
        value = np.datetime64(value)
    if isinstance(value, np.datetime64):
        return _days_or_microseconds(np.asarray([value]))[0]
    return value


def _days_or_microseconds(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    is_date = np.datetime_data(values.dtype)[0] == "D"
    return values.astype("datetime64[D]" if is_date else "datetime64[us]").astype(np.int64)


def _of_objects(values: npt.NDArray[Any], spec: ColumnSpec) -> npt.NDArray[Any]:
    """Return a column of Python objects as an array that TensorFlow can convert."""
    flat = values.reshape(-1)
    nulls = sum(value is None for value in flat)
    if nulls:
        raise null_error(spec.name, nulls, _TENSORFLOW)
    first = flat[0] if len(flat) else None
    if isinstance(first, np.ndarray):
        _check_lengths(["x".join(map(str, array.shape)) for array in flat], spec)
        return np.stack(flat.tolist())
    if isinstance(first, datetime.date):
        return np.array(flat.tolist(), "datetime64").reshape(values.shape)
    if isinstance(first, Decimal):
        return np.array([str(value) for value in flat], object).reshape(values.shape)
    return values


def _check_lengths(lengths: list[Any], spec: ColumnSpec) -> None:
    if len(set(lengths)) > 1:
        found = ", ".join(str(length) for length in lengths[:20])
        raise UnequalLengthsError(
            f"Length of all values in column {spec.name!r} are expected to be the same length. Got "
            f"the following set of lengths: '{found}'. Pad them in a transform_spec, or leave the "
            "column out with schema_fields"
        )


def declared_spec(name: str, numpy_type: Any, shape: tuple[int | None, ...]) -> ColumnSpec:
    """Return the spec of a column with a declared NumPy type.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow has no such type; also ValueError.
    """
    if numpy_type in _DTYPES and declared_dtype(numpy_type).kind != "u":
        return ColumnSpec(name, _DTYPES[numpy_type], tuple(shape))
    dtype = declared_dtype(numpy_type)
    if dtype.type in _DTYPES:
        stacked = dtype.name if dtype.kind == "u" else ""
        return ColumnSpec(name, _DTYPES[dtype.type], tuple(shape), stacked=stacked)
    if dtype.kind not in _SAME_KINDS or dtype.itemsize > 8:
        raise InvalidArgumentError(
            f"Unknown mapping of numpy {numpy_type!r} to tensorflow dtype: declare column {name!r} "
            "in edit_fields with a NumPy type of numbers or text, or leave it out with "
            "schema_fields"
        )
    return ColumnSpec(name, dtype.name, tuple(shape))


def specs_of_schema(schema: Unischema) -> list[ColumnSpec]:
    """Return the specs of a schema's fields, with Petastorm's warning for strings.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow has no type for a field; also ValueError.
    """
    for column in schema.fields.values():
        if column.numpy_dtype is np.str_:
            warn_user(
                "Tensorflow will convert all unicode strings back to bytes type. You may need to "
                f"decode values: field {column.name!r}",
                UnicodeWarning,
            )
    return [declared_spec(f.name, f.numpy_dtype, f.shape) for f in schema.fields.values()]
