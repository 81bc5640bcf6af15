"""An MDS shard: columns decoded from its bytes."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.errors import ArgumentTypeError, CorruptDatasetError, MDStormError
from mdstorm_backend.format.encodings.encoding import Positions, gather_fixed
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.format.layout import ShardLayout, Validity, parse_header, unpack_validity
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values.batch import Batch, Values, as_arrow
from mdstorm_backend.format.values.nested_lists import elements_of, with_elements
from mdstorm_backend.read.decode_sample import SampleDecoder, sample_decoder
from mdstorm_backend.read.logical import to_logical
from mdstorm_backend.read.shard import Rows, Shard, contiguous
from mdstorm_backend.storage import Buffer


class MDSShard(Shard):
    """One shard of a dataset: where its samples lie, and their columns decoded from its bytes.

    Parameters
    ----------
    buffer : bytes-like
        The uncompressed file, usually a memory map. It is kept, not copied.
    info : ShardInfo
        Its entry in the index.
    schema : Schema
        The schema of the dataset.
    url : str
        Where the file came from, for error messages.

    Attributes
    ----------
    schema, url
        As above.
    layout : ShardLayout
        Where the values of a sample lie.
    stored : numpy.ndarray
        The file, uint8.
    data : memoryview
        The same, of format ``B``.
    is_fixed : bool
        Whether all samples have one size.
    offsets : numpy.ndarray
        Where each sample begins in the file, uint32 of shape ``(samples + 1,)``.

    Raises
    ------
    CorruptDatasetError
        If the file is cut off or contradicts the index.
    """

    def __init__(self, buffer: Buffer, info: ShardInfo, schema: Schema, *, url: str) -> None:
        self._buffer = buffer
        #: The validity of the elements of ragged arrays, as lists of the same lengths.
        self._element_masks: dict[str, pa.ListArray] = {}
        self._samplers: dict[tuple[str, ...] | None, SampleDecoder] = {}
        self.stored = np.frombuffer(buffer, np.uint8)
        self.data = self.stored.data
        self.schema = schema
        self.layout = ShardLayout.of(info)
        self.url = url
        self.offsets, self._extra = parse_header(self.stored, info, url=url)
        self.num_samples = info.samples
        self.is_fixed = self.layout.is_fixed
        if self.is_fixed:
            size = self.record_dtype.itemsize * info.samples
            if int(self.offsets[-1]) - int(self.offsets[0]) != size:
                raise self.corrupt(
                    f"holds {info.samples} samples of {self.record_dtype.itemsize} bytes each by "
                    f"its index, but {self.offsets[-1] - self.offsets[0]} bytes of samples"
                )

    def wait_for(self, stop: int) -> None:
        """Wait until the samples before `stop` are there.

        Raises
        ------
        MDStormError
            If they cannot be downloaded, see `ShardFiles.open`.
        """
        arrival = self.arrival
        if arrival is not None:
            with work(Cause.DOWNLOADS):
                arrival.wait_for(int(self.offsets[stop]))
            self.arrival = None if arrival.is_over else arrival

    def will_need(self) -> None:
        """Ask the operating system to read the file ahead, if it is mapped."""
        if self.arrival is not None:
            return
        if isinstance(self._buffer, memoryview) and isinstance(self._buffer.obj, mmap.mmap):
            self._buffer.obj.madvise(mmap.MADV_WILLNEED)

    @property
    def memory(self) -> int:
        """Bytes that it keeps in memory; 0 if it is mapped."""
        mapped = isinstance(self._buffer, memoryview) and isinstance(self._buffer.obj, mmap.mmap)
        return 0 if mapped else len(self._buffer)

    @cached_property
    def record_dtype(self) -> np.dtype[np.void]:
        """Packed dtype of a sample; only where every column has a fixed size."""
        return self.layout.record_dtype

    @cached_property
    def records(self) -> npt.NDArray[np.void] | None:
        """All samples as opaque records, a view; None where sizes vary."""
        if not self.is_fixed:
            return None
        dtype = np.dtype(f"V{self.record_dtype.itemsize}")
        start = int(self.offsets[0])
        if dtype.itemsize == 0 or self.num_samples == 0:
            return np.empty(self.num_samples, dtype)
        return np.frombuffer(self.data, dtype, self.num_samples, start)

    @cached_property
    def validity(self) -> Validity:
        """Which rows and elements are not null."""
        try:
            validity = unpack_validity(self._extra.get("nulls", {}))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self.corrupt(f"has unreadable null bitmaps ({error})") from error
        if not self._fits(validity):
            raise self.corrupt(f"has null bitmaps that are not of its {self.num_samples} samples")
        return validity

    def _fits(self, validity: Validity) -> bool:
        """Whether bitmaps are as long as their columns, where that is known beforehand."""
        shapes = {
            name: encoding.shape
            for name, encoding in zip(self.layout.names, self.layout.encodings, strict=True)
        }
        return all(len(mask) == self.num_samples for mask in validity.rows.values()) and all(
            shape is None or len(mask) == self.num_samples * prod(shape)
            for name, mask in validity.elements.items()
            for shape in [shapes.get(name)]
        )

    def corrupt(self, what: str) -> CorruptDatasetError:
        """Return the error for a file that contradicts itself or the index."""
        return CorruptDatasetError.of_file(self.url, what)

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Copy the samples `rows` (ascending, without repetition) of some columns.

        Raises
        ------
        UnsupportedEncodingError
            If this version cannot decode one of them.
        CorruptDatasetError
            If values are not what their encoding says.
        """
        self._check_columns(columns)
        for name, encoding in zip(self.layout.names, self.layout.encodings, strict=True):
            if encoding.is_opaque and name in columns:
                encoding.check_decodable(name)
        try:
            return self._read(rows, columns, exact_nulls=exact_nulls)
        except (IndexError, OverflowError, ValueError) as error:
            if isinstance(error, MDStormError):
                raise
            raise self.corrupt(f"holds values that cannot be decoded ({error})") from error

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Decode one sample, in a few microseconds.

        Parameters
        ----------
        row : int
            Its number in the shard.
        columns : sequence of str, optional
            Which columns, in which order; by default all of the dataset.

        Returns
        -------
        dict
            Columns without a Spark type as MosaicML Streaming decodes them: a Python integer for
            ``int``, NumPy scalars and (owned, writable) arrays, Pillow images that are not decoded
            yet, what JSON and pickles stand for. Columns with one as rows of `read`, but arrays
            that have no null elements as NumPy arrays. None for null.

        Raises
        ------
        IndexError
            If there is no such sample.
        TypeError
            If the number is not an integer.
        ArgumentTypeError
            If the dataset has no such column.
        UnsupportedEncodingError
            If a column cannot be decoded.
        UnsafeTypeError
            If a column holds pickles, and the dataset was opened without `allow_unsafe_types`.
        CorruptDatasetError
            If a value is not what its encoding says.
        """
        row = index(row)  # NumPy's narrow integers would wrap around in what follows
        if not 0 <= row < self.num_samples:
            raise IndexError(f"sample {row} of {self.num_samples} in {self.url}")
        try:
            key = None if columns is None else tuple(columns)
            decode = self._samplers.get(key)
            if decode is None:
                self._check_columns(self.schema.names if key is None else key)
                decode = sample_decoder(self, self.schema.names if key is None else key)
                self._samplers[key] = decode
            return decode(row)
        except (IndexError, OverflowError, ValueError, struct.error) as error:
            if isinstance(error, MDStormError):
                raise
            raise self.corrupt(f"holds values that cannot be decoded ({error})") from error

    def _check_columns(self, columns: Sequence[str]) -> None:
        """Refuse columns that the dataset has not, or only other shards of it have."""
        lacking = set(columns).difference(self.layout.names)  # of which there may be thousands
        missing = [name for name in columns if name in lacking]
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

    def _read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool) -> Batch:
        if self.records is not None:
            span = contiguous(rows)
            chosen = (self.records[span] if span else self.records[rows]).view(self.record_dtype)
            stored: Batch = {name: chosen[name].copy() for name in columns}
        else:
            stored = self._read_variable(rows, columns)
        return {
            name: self.finish(self.schema[name], stored[name], rows, exact_nulls=exact_nulls)
            for name in columns
        }

    def finish(self, column: Column, stored: Values, rows: Rows, *, exact_nulls: bool) -> Values:
        """Give the stored values of `rows` their logical type and their nulls."""
        valid = elements = None
        if column.null_count and column.name in self.validity.rows:
            valid = self.validity.rows[column.name][rows]
        if column.element_null_count and column.name in self._element_bitmaps:
            elements = self._element_validity(column.name, rows)
        return to_logical(column, stored, valid, elements, exact_nulls=exact_nulls)

    def _read_variable(self, rows: Rows, columns: Sequence[str]) -> dict[str, Values]:
        starts = self.offsets[rows].astype(np.int64)
        words = gather_fixed(self.stored, starts, np.dtype("<u4"), self.layout.num_variable)
        lengths: Positions = words.reshape(len(rows), self.layout.num_variable).astype(np.int64)
        self._check_extent(rows, starts, lengths)
        positions = starts + self.layout.size_words
        variable = iter(range(self.layout.num_variable))
        wanted, values = set(columns), {}
        for name, encoding in zip(self.layout.names, self.layout.encodings, strict=True):
            sizes = encoding.size if encoding.size is not None else lengths[:, next(variable)]
            if name in wanted:
                values[name] = encoding.decode_column(self.stored, positions, sizes)
            positions = positions + sizes
        return values

    def _check_extent(self, rows: Rows, starts: Positions, lengths: Positions) -> None:
        """Refuse samples whose column sizes do not add up: they would decode to garbage."""
        fixed = sum(encoding.size or 0 for encoding in self.layout.encodings)
        ends = starts + self.layout.size_words + fixed + lengths.sum(axis=1)
        wrong = np.flatnonzero(ends != self.offsets[rows + 1])
        if len(wrong):
            raise self.corrupt(
                f"holds sample {int(rows[wrong[0]])} with column sizes that do not add up to its "
                "length"
            )

    @cached_property
    def _element_bitmaps(self) -> set[str]:
        """Columns with a bit for every element, as those have that are not stored as JSON."""
        encodings = zip(self.layout.names, self.layout.encodings, strict=True)
        arrays = {name for name, encoding in encodings if encoding.is_array}
        return arrays.intersection(self.validity.elements)

    def _element_validity(self, name: str, rows: Rows) -> npt.NDArray[np.bool_]:
        """Validity of the elements of the arrays in `rows`, flattened."""
        bits = self.validity.elements[name]
        encoding = self.layout.encodings[self.layout.names.index(name)]
        if encoding.shape is not None:
            return bits.reshape(self.num_samples, -1)[rows].reshape(-1)
        if name not in self._element_masks:
            everything = np.arange(self.num_samples)
            lists = as_arrow(self._read_variable(everything, [name])[name])
            if len(bits) != len(elements_of(lists)):
                raise ValueError(f"a null bitmap of {len(bits)} elements for column {name!r}")
            masks = with_elements(lists, pa.array(bits.view(np.uint8)))
            self._element_masks[name] = masks
        chosen = elements_of(self._element_masks[name].take(pa.array(rows)))
        return np.asarray(chosen).view(np.bool_)
