"""An MDS shard: decodes columns and samples from its bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import cached_property
from mdstorm_backend.errors import ArgumentTypeError, CorruptDatasetError, MDStormError
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values.batch import Batch, Positions, Values, as_arrow, gather_fixed
from mdstorm_backend.format.values.nested_lists import elements_of, with_elements
from mdstorm_backend.read.decode_sample import SampleDecoder, sample_decoder
from mdstorm_backend.read.logical import to_logical
from mdstorm_backend.read.mds_file import MDSFile
from mdstorm_backend.read.shard import Rows, contiguous
from mdstorm_backend.storage import Buffer


class MDSShard(MDSFile):
    """One shard of a dataset; the parameters are those of `MDSFile`."""

    def __init__(self, buffer: Buffer, info: ShardInfo, schema: Schema, *, url: str) -> None:
        super().__init__(buffer, info, schema, url=url)
        #: The validity of the elements of ragged arrays, as lists of the same lengths.
        self._element_masks: dict[str, pa.ListArray] = {}
        self._samplers: dict[tuple[str, ...] | None, SampleDecoder] = {}

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Decode columns of the samples `rows` (ascending, without repetition) into new arrays.

        Raises
        ------
        UnsupportedEncodingError
            If this version cannot decode one of the columns.
        CorruptDatasetError
            If values cannot be decoded by their encoding.
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
        CorruptDatasetError
            If a value cannot be decoded by its encoding.
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
        """Raise for columns that the dataset lacks, or that only its other shards have."""
        lacking = set(columns).difference(self.layout.names)  # there may be thousands of columns
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
        """Convert the stored values of `rows` to the logical type of the column, with nulls."""
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
        """Raise for samples whose column sizes do not add up: they would decode to garbage."""
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
        """Array columns with a bitmap of elements; arrays stored as JSON mark nulls in the text."""
        encodings = zip(self.layout.names, self.layout.encodings, strict=True)
        arrays = {name for name, encoding in encodings if encoding.is_array}
        return arrays.intersection(self.validity.elements)

    def _element_validity(self, name: str, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return the validity of the elements of the arrays in `rows`, flattened."""
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
