"""An MDS shard: columns, records and single samples, decoded from its bytes."""

from __future__ import annotations

import mmap
import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import accumulate
from math import prod
from operator import index
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.errors import ArgumentTypeError, CorruptDatasetError, MDStormError
from mdstorm_backend.format import Batch, Column, Schema, Values, as_arrow, gather_fixed
from mdstorm_backend.format.encodings.encoding import DecodeSpan
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.format.layout import ShardLayout, Validity, parse_header, unpack_validity
from mdstorm_backend.format.values.nested_lists import elements_of, with_elements
from mdstorm_backend.format.values.python_objects import check_python_objects
from mdstorm_backend.read.logical import ValueDecoder, to_logical
from mdstorm_backend.read.shard import Rows, Shard, contiguous
from mdstorm_backend.storage import Buffer, map_of, unchanged

#: Samples are requested separately only if there are at most `MOST_REQUESTED` of them and they take
#: up at most 1 / `PART_REQUESTED` of the shard's bytes, because they are downloaded again with the
#: shard.
MOST_REQUESTED, PART_REQUESTED = 64, 8

SampleDecoder: TypeAlias = Callable[[int], dict[str, Any]]


class MDSShard(Shard):
    """One shard of a dataset.

    Parameters
    ----------
    buffer : bytes-like
        The uncompressed file, usually a memory map. It is kept, not copied.
    info : ShardInfo
        The shard's entry in the index.
    schema : Schema
        The schema of the dataset.
    url : str
        Where the file came from, for error messages.

    Attributes
    ----------
    schema, url
        As above.
    layout : ShardLayout
        Order, encodings and sizes of the values in a sample.
    stored : numpy.ndarray
        The file, uint8.
    data : memoryview
        The same bytes as a memory view of format ``B``.
    offsets : numpy.ndarray
        Byte offset of each sample in the file, uint32 of shape ``(samples + 1,)``.
    record_dtype : numpy.dtype or None
        Packed dtype of a sample if all samples have the same size, else None.

    Raises
    ------
    CorruptDatasetError
        If the file is cut off or contradicts the index.
    """

    def __init__(self, buffer: Buffer, info: ShardInfo, schema: Schema, *, url: str) -> None:
        mapped = buffer.obj if isinstance(buffer, memoryview) else None
        self._map = mapped if isinstance(mapped, mmap.mmap) else None
        self.held = map_of(buffer)
        self.stored = np.frombuffer(buffer, np.uint8)
        self.data = self.stored.data
        self.schema = schema
        self.layout = ShardLayout.of(info)
        self.url = url
        self.offsets, self._extra = parse_header(self.stored, info, url=url)
        self.num_samples = info.samples
        self.record_dtype = self.layout.record_dtype if self.layout.is_fixed else None
        if self.record_dtype is not None:
            size, found = self.record_dtype.itemsize, int(self.offsets[-1] - self.offsets[0])
            if found != size * info.samples:
                raise self.corrupt(
                    f"has {info.samples} samples of {size} bytes each according to the index, but "
                    f"contains {found} bytes of samples"
                )
        #: The validity of the elements in ragged arrays, as lists of the same lengths.
        self._element_masks: dict[str, pa.ListArray] = {}
        self._samplers: dict[tuple[str, ...] | None, SampleDecoder] = {}

    def wait_for(self, stop: int) -> None:
        """Wait until the samples before `stop` have arrived.

        Raises
        ------
        MDStormError
            If the download fails; see `ShardCache.open`.
        """
        arrival = self.arrival
        if arrival is not None:
            with work(Cause.DOWNLOADS):
                arrival.wait_for(int(self.offsets[stop]))
            self.arrival = None if arrival.is_over else arrival

    def request(self, rows: Rows) -> Future[bool] | None:
        """Request the samples `rows`, if they are few enough for separate requests."""
        arrival = self.arrival
        request = None if arrival is None else arrival.request
        if request is None or self._map is None or not 0 < len(rows) <= MOST_REQUESTED:
            return None
        starts, stops = self.offsets[rows].tolist(), self.offsets[rows + 1].tolist()
        if (sum(stops) - sum(starts)) * PART_REQUESTED > len(self.stored):
            return None
        return request(list(zip(starts, stops, strict=True)))

    def will_need(self) -> None:
        """Advise the operating system to read ahead if the file is mapped."""
        if self.arrival is None and self._map is not None:
            self._map.madvise(mmap.MADV_WILLNEED)

    @property
    def memory(self) -> int:
        """Bytes held in memory; 0 for a mapped file."""
        return self.stored.nbytes if self._map is None else 0

    @cached_property
    def records(self) -> npt.NDArray[np.void]:
        """View of all samples as opaque records, if they have the same size."""
        assert self.record_dtype is not None
        dtype = np.dtype(f"V{self.record_dtype.itemsize}")
        if dtype.itemsize == 0 or self.num_samples == 0:
            return np.empty(self.num_samples, dtype)
        return np.frombuffer(self.data, dtype, self.num_samples, int(self.offsets[0]))

    @cached_property
    def validity(self) -> Validity:
        """The bitmaps of non-null rows and elements."""
        try:
            validity = unpack_validity(self._extra.get("nulls", {}))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self.corrupt(f"has unreadable null bitmaps ({error})") from error
        fits = [len(mask) == self.num_samples for mask in validity.rows.values()]
        for name, encoding in zip(self.layout.names, self.layout.encodings, strict=True):
            mask = validity.elements.get(name)
            if mask is not None and encoding.shape is not None:
                fits.append(len(mask) == self.num_samples * prod(encoding.shape))
        if not all(fits):
            raise self.corrupt(f"has null bitmaps that do not match its {self.num_samples} samples")
        return validity

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Decode columns of the samples `rows` (ascending, without duplicates) into new arrays.

        Raises
        ------
        UnsupportedEncodingError
            If this version cannot decode one of the columns.
        DatasetChangedError
            If the file was changed after the dataset was opened.
        CorruptDatasetError
            If values cannot be decoded by their encoding.
        """
        self._check_columns(columns)
        for name, encoding in zip(self.layout.names, self.layout.encodings, strict=True):
            if encoding.is_opaque and name in columns:
                encoding.check_decodable(name)
        is_fixed, finished = self.record_dtype is not None, self._finished
        try:
            with unchanged([self.held]):
                stored = (self._read_fixed if is_fixed else self._read_variable)(rows, columns)
                return {
                    name: finished(self.schema[name], stored[name], rows, exact_nulls=exact_nulls)
                    for name in columns
                }
        except (IndexError, OverflowError, ValueError) as error:
            if isinstance(error, MDStormError):
                raise
            raise self.corrupt(f"holds values that cannot be decoded ({error})") from error

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Decode one sample, in a few microseconds.

        Parameters
        ----------
        row : int
            Row number in the shard.
        columns : sequence of str, optional
            The columns to decode, in this order; by default all columns of the dataset.

        Returns
        -------
        dict
            Columns without a Spark type as MosaicML Streaming decodes them: a Python integer for
            ``int``, NumPy scalars and (owned, writable) arrays, Pillow images whose pixels are not
            decoded yet, the objects of JSON and pickles. Columns with a Spark type as rows of
            `read`, but arrays without null elements as NumPy arrays. None for null.

        Raises
        ------
        IndexError
            If there is no such sample.
        TypeError
            If `row` is not an integer.
        ArgumentTypeError
            If the dataset has no such column.
        UnsupportedEncodingError
            If a column cannot be decoded.
        UnsafeTypeError
            If a column holds pickles, and the dataset was opened without `allow_unsafe_types`.
        DatasetChangedError
            If the file was changed after the dataset was opened.
        CorruptDatasetError
            If a value cannot be decoded by its encoding.
        """
        row = index(row)  # NumPy's narrow integers would overflow below
        if not 0 <= row < self.num_samples:
            raise IndexError(f"sample {row} of {self.num_samples} in {self.url}")
        held = self.held
        if held is not None and perf_counter() > held.next_check:
            held.check_for_sample()
        key = None if columns is None else tuple(columns)
        try:
            decode = self._samplers.get(key)
            if decode is None:
                names = self.schema.names if key is None else key
                self._check_columns(names)
                decode = self._samplers[key] = _sample_decoder(self, names)
            return decode(row)
        except (IndexError, OverflowError, ValueError, struct.error) as error:
            if isinstance(error, MDStormError):
                raise
            names = self.schema.names if key is None else key
            for name, values in self.read(np.array([row]), names, exact_nulls=True).items():
                check_python_objects(name, values, row, self.url)
            raise self.corrupt(f"holds values that cannot be decoded ({error})") from error

    def corrupt(self, what: str) -> CorruptDatasetError:
        """Return the error for a file that contradicts itself or the index."""
        return CorruptDatasetError.of_file(self.url, what)

    def _check_columns(self, columns: Sequence[str]) -> None:
        """Raise an error for columns missing from the dataset, or only from this shard."""
        absent = set(columns).difference(self.layout.names)  # a set, as there may be thousands
        missing = [name for name in columns if name in absent]
        unknown = [name for name in missing if name not in self.schema]
        if unknown:
            raise ArgumentTypeError(
                f"{self.url} has no columns {unknown}; its dataset has {list(self.schema.names)}"
            )
        if missing:
            raise CorruptDatasetError(
                f"{self.url} has no columns {missing}, which other shards of the dataset have. "
                "Leave them out with columns=[…], or write the dataset again",
                url=self.url,
            )

    def _read_fixed(self, rows: Rows, columns: Sequence[str]) -> dict[str, Values]:
        assert self.record_dtype is not None
        span = contiguous(rows)
        records = (self.records[span] if span else self.records[rows]).view(self.record_dtype)
        places: Mapping[str, Any] = self.record_dtype.fields or {}
        values: dict[str, Values] = {}
        for name in columns:
            stored = records[name]
            if stored.dtype.kind != "V":
                values[name] = stored.copy()
                continue
            encoding = self.layout.encodings[self.layout.names.index(name)]
            starts = self.offsets[rows].astype(np.int64) + places[name][1]
            values[name] = encoding.decode_column(self.stored, starts, stored.dtype.itemsize)
        return values

    def _read_variable(self, rows: Rows, columns: Sequence[str]) -> dict[str, Values]:
        starts = self.offsets[rows].astype(np.int64)
        words = gather_fixed(self.stored, starts, np.dtype("<u4"), self.layout.num_variable)
        lengths = words.reshape(len(rows), self.layout.num_variable).astype(np.int64)
        positions = starts + self.layout.size_words
        fixed = sum(encoding.size or 0 for encoding in self.layout.encodings)
        wrong = np.flatnonzero(positions + fixed + lengths.sum(axis=1) != self.offsets[rows + 1])
        if len(wrong):  # decoding them would return garbage
            raise self.corrupt(
                f"holds sample {int(rows[wrong[0]])} with column sizes that do not add up to its "
                "length"
            )
        variable = iter(range(self.layout.num_variable))
        wanted, values = set(columns), {}
        for name, encoding in zip(self.layout.names, self.layout.encodings, strict=True):
            sizes = encoding.size if encoding.size is not None else lengths[:, next(variable)]
            if name in wanted:
                values[name] = encoding.decode_column(self.stored, positions, sizes)
            positions = positions + sizes
        return values

    def _finished(self, column: Column, stored: Values, rows: Rows, *, exact_nulls: bool) -> Values:
        """Convert the stored values of `rows` to the column's logical type, with nulls."""
        valid = elements = None
        if column.null_count and column.name in self.validity.rows:
            valid = self.validity.rows[column.name][rows]
        if column.element_null_count and column.name in self.validity.elements:
            elements = self._element_validity(column.name, rows)
        return to_logical(column, stored, valid, elements, exact_nulls=exact_nulls)

    def _element_validity(self, name: str, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Return the validity of the array elements in `rows`, flattened.

        Returns None for arrays stored as JSON, whose text marks null elements.
        """
        bits = self.validity.elements[name]
        encoding = self.layout.encodings[self.layout.names.index(name)]
        if not encoding.is_array:
            return None
        if encoding.shape is not None:
            return bits.reshape(self.num_samples, -1)[rows].reshape(-1)
        if name not in self._element_masks:
            everything = np.arange(self.num_samples)
            lists = as_arrow(self._read_variable(everything, [name])[name])
            if len(bits) != len(elements_of(lists)):
                raise ValueError(
                    f"the null bitmap of column {name!r} has a wrong length, {len(bits)}"
                )
            masks = with_elements(lists, pa.array(bits.view(np.uint8)))
            self._element_masks[name] = masks
        chosen = elements_of(self._element_masks[name].take(pa.array(rows)))
        return np.asarray(chosen).view(np.bool_)


def _sample_decoder(shard: MDSShard, columns: Sequence[str]) -> SampleDecoder:
    """Return a function that decodes the given columns of one row of `shard`.

    Work that does not depend on the sample is done once: each column gets a function from the
    position of a value to the value, and its position within a sample. The row must exist. The
    function raises decoding errors, see `MDSShard.sample`.
    """
    encodings = dict(zip(shard.layout.names, shard.layout.encodings, strict=True))
    decoders = {
        name: ValueDecoder(shard.schema[name], encodings[name], shard.data, shard.url)
        for name in columns
    }
    fast = {name: decoder for name, decoder in decoders.items() if not decoder.needs_read}
    slow = {name: decoder.after_read() for name, decoder in decoders.items() if name not in fast}
    is_fixed = shard.record_dtype is not None
    decode = (_of_records if is_fixed else _of_variable)(shard, fast)
    masks = {
        name: shard.validity.rows[name].data
        for name, decoder in fast.items()
        if decoder.column.null_count and name in shard.validity.rows
    }
    in_order = is_fixed or list(columns) == [name for name in encodings if name in fast]
    if in_order and not masks and not slow:
        return decode
    names = tuple(columns)
    # The shard keeps this function. A reference back would create a cycle and keep the file open.
    reference = weakref.ref(shard)

    def decode_all(row: int) -> dict[str, Any]:
        sample = decode(row)
        for name, mask in masks.items():
            if not mask[row]:
                sample[name] = None
        if slow:
            owner = reference()
            assert owner is not None
            batch = owner.read(np.array([row]), list(slow), exact_nulls=True)
            for name, values in batch.items():
                value = values[0] if isinstance(values, np.ndarray) else values[0].as_py()
                sample[name] = slow[name](value)
        return {name: sample[name] for name in names}

    return decode_all


def _of_records(shard: MDSShard, decoders: Mapping[str, ValueDecoder]) -> SampleDecoder:
    """Return a decoder for fixed-size samples, whose values are evenly spaced."""
    sizes = [encoding.size or 0 for encoding in shard.layout.encodings]
    starts = accumulate(sizes, initial=int(shard.offsets[0]))
    # `starts` has one item more than there are columns: the end of the sample.
    start_of = dict(zip(shard.layout.names, starts, strict=False))
    stride, count = sum(sizes), shard.num_samples
    views = {name: one.rows(start_of[name], stride, count) for name, one in decoders.items()}
    plain = [(name, view) for name, view in views.items() if view is not None]
    if len(plain) == len(views):  # an index is faster than a call
        return lambda row: {name: view[row] for name, view in plain}
    getters = [(name, one.of_row(start_of[name], stride, count)) for name, one in decoders.items()]
    return lambda row: {name: get(row) for name, get in getters}


def _of_variable(shard: MDSShard, decoders: Mapping[str, ValueDecoder]) -> SampleDecoder:
    """Return a decoder for variable-size samples, which begin with their column sizes."""
    layout = shard.layout
    offsets = shard.offsets.view(np.uint8).data.cast("I")
    data = shard.data
    unpack = struct.Struct(f"<{layout.num_variable}I").unpack_from
    words = layout.size_words
    fixed = sum(encoding.size or 0 for encoding in layout.encodings)
    variable = iter(range(layout.num_variable))
    plan: list[tuple[str, int | None, int, DecodeSpan | None]] = []
    for name, encoding in zip(layout.names, layout.encodings, strict=True):
        get = decoders[name].of_span() if name in decoders else None
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
