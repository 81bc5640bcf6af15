"""A shard before it is stored: settings, samples assembled without a loop over rows, bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.errors import WriteError
from mdstorm_backend.format.compression import check_compression, compress, digests, extension
from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.encodings.encoding import EncodedColumn
from mdstorm_backend.format.index import parse_shard
from mdstorm_backend.format.layout import Validity, pack_validity, preamble, preamble_size
from mdstorm_backend.format.schema import FORMAT_VERSION, Schema
from mdstorm_backend.format.shard_info import INDEX_VERSION, MAX_SHARD_BYTES, FileInfo, ShardInfo
from mdstorm_backend.storage import Buffer


@dataclass(frozen=True)
class ShardFormat:
    """The settings that all shards of a writer share.

    Attributes
    ----------
    size_limit : int or None
        Largest size of an uncompressed shard in bytes; None puts everything into one shard.
    compression : str or None
        Codec of the format, such as ``"zstd:1"``.
    hashes : tuple of str
        Names of the hashes that the index records for every file.
    """

    size_limit: int | None
    compression: str | None = None
    hashes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_compression(self.compression)

    def file_name(self, basename: str) -> str:
        """Return the name of the stored file for the shard `basename`, with its compression."""
        return f"{basename}.{extension(self.compression)}" if self.compression else basename

    def header(
        self,
        names: tuple[str, ...],
        encodings: tuple[str, ...],
        extra: dict[str, Any] | None = None,
    ) -> bytes:
        """Return the header of a shard, with `extra` under the key ``"mdstorm"``."""
        value: dict[str, Any] = {
            "column_encodings": encodings,
            "column_names": names,
            "column_sizes": _sizes(encodings),
            "compression": self.compression,
            "format": "mds",
            "hashes": self.hashes,
            "size_limit": self.size_limit,
            "version": INDEX_VERSION,
        }
        if extra is not None:
            value["mdstorm"] = extra
        return json.dumps(value, sort_keys=True).encode("ascii")


@dataclass(frozen=True)
class ShardReport:
    """A written shard and its null counts, reported by the writer for the commit.

    Attributes
    ----------
    info : ShardInfo
        The shard's entry for the index.
    null_counts, element_null_counts : dict of str to int
        Null rows, and null array elements, of the columns that have any.
    """

    info: ShardInfo
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, to send from an executor to the driver."""
        return {
            "info": self.info.to_json(),
            "null_counts": self.null_counts,
            "element_null_counts": self.element_null_counts,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ShardReport:
        """Return the report for an output of `to_json`."""
        info = parse_shard(value["info"])
        return cls(info, value["null_counts"], value["element_null_counts"])


#: The report of a shard, the name of its file, and the content.
Packed: TypeAlias = tuple[ShardReport, str, list[Buffer]]


@dataclass(frozen=True)
class FullShard:
    """A complete shard in memory.

    Attributes
    ----------
    names, encodings : tuple of str
        Names and encodings of the columns, in stored order.
    samples : int
        Number of samples.
    content : list of buffers
        Content of the uncompressed file.
    null_counts, element_null_counts : dict of str to int
        As in `ShardReport`.
    """

    names: tuple[str, ...]
    encodings: tuple[str, ...]
    samples: int
    content: list[Buffer]
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)

    def pack(self, basename: str, format_: ShardFormat) -> Packed:
        """Compress and hash the shard.

        Parameters
        ----------
        basename : str
            Name of the uncompressed file.

        Returns
        -------
        report : ShardReport
            The shard's entry for the index.
        name : str
            Name of the file to store.
        content : list of buffers
            Content of that file.

        Raises
        ------
        WriteError
            If the uncompressed file would take 4 GiB or more.
        """
        size = sum(map(len, self.content))
        if size > MAX_SHARD_BYTES:
            raise WriteError(
                f"the shard {basename} would take {size} bytes, but an MDS shard must be smaller "
                "than 4 GiB: set a size limit, or store smaller values"
            )
        raw = FileInfo(basename, size, digests(format_.hashes, self.content))
        name, content, packed = basename, self.content, None
        if format_.compression:
            name = format_.file_name(basename)
            content = [compress(format_.compression, self.content)]
            packed = FileInfo(name, len(content[0]), digests(format_.hashes, content))
        info = ShardInfo(
            column_names=self.names,
            column_encodings=self.encodings,
            column_sizes=tuple(_sizes(self.encodings)),
            samples=self.samples,
            raw_data=raw,
            zip_data=packed,
            compression=format_.compression,
            hashes=format_.hashes,
            size_limit=format_.size_limit,
        )
        return ShardReport(info, self.null_counts, self.element_null_counts), name, content


def _sizes(encodings: tuple[str, ...]) -> list[int | None]:
    return [parse_encoding(text).size for text in encodings]


#: Most bytes of the header that a bitmap takes besides its bits.
_BITMAP_ENTRY = 64

#: Bytes that base64 takes per bit.
_BASE64_BIT = 1 / 6


@dataclass(frozen=True)
class Samples:
    """Encoded samples, stored back to back.

    Attributes
    ----------
    data : memoryview
        Bytes of the samples.
    ends : numpy.ndarray
        int64 ``(samples + 1,)``: sample i is ``data[ends[i]:ends[i + 1]]``.
    """

    data: memoryview
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends) - 1


def assemble_samples(columns: Sequence[EncodedColumn], num_rows: int) -> Samples:
    """Return the samples of encoded columns, which must be in stored order."""
    variable = [column for column in columns if column.fixed is None]
    if not variable:
        records = _records(columns, num_rows)
        ends = np.arange(num_rows + 1, dtype=np.int64) * records.itemsize
        return Samples(_bytes_of(records), ends)
    sizes = np.empty((num_rows, len(variable)), "<u4")
    for i, column in enumerate(variable):
        sizes[:, i] = sum(np.diff(_stored_ends(part)) for part in column.parts)
    pieces = [_as_binary(sizes)]
    run: list[EncodedColumn] = []
    for column in columns:
        if column.fixed is not None:
            run.append(column)
            continue
        if run:
            pieces.append(_as_binary(_records(run, num_rows)))
            run = []
        pieces += column.parts
    if run:
        pieces.append(_as_binary(_records(run, num_rows)))
    joined = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))
    ends = _stored_ends(joined)
    return Samples(memoryview(joined.buffers()[2])[ends[0] : ends[-1]], ends - ends[0])


def _records(columns: Sequence[EncodedColumn], num_rows: int) -> npt.NDArray[np.void]:
    arrays = [column.fixed for column in columns if column.fixed is not None]
    dtype = np.dtype([(f"f{i}", a.dtype, a.shape[1:]) for i, a in enumerate(arrays)])
    records = np.empty(num_rows, dtype)
    for i, array in enumerate(arrays):
        records[f"f{i}"] = array
    return records


def _as_binary(rows: npt.NDArray[np.generic]) -> pa.LargeBinaryArray:
    size = rows.dtype.itemsize * int(np.prod(rows.shape[1:]))
    ends = np.arange(len(rows) + 1, dtype=np.int64) * size
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(_bytes_of(rows))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), buffers)


def _bytes_of(array: npt.NDArray[np.generic]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _stored_ends(values: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    offsets = np.frombuffer(values.buffers()[1], np.int64)
    return offsets[values.offset : values.offset + len(values) + 1]


class ShardBuffer:
    """Collects samples with the same encodings until they fill a shard.

    Parameters
    ----------
    schema : Schema
        Schema of the dataset, written into the header.
    names, encodings : tuple of str
        Names and encodings of the columns, in stored order.
    format_ : ShardFormat
        Settings of the shard; the size limit includes the header.
    """

    def __init__(
        self,
        schema: Schema,
        names: tuple[str, ...],
        encodings: tuple[str, ...],
        format_: ShardFormat,
    ) -> None:
        self.encodings = encodings
        self.samples = 0
        self._names = names
        self._schema = schema
        self._format = format_
        self._size_limit = format_.size_limit or MAX_SHARD_BYTES
        self._chunks: list[memoryview] = []
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._pieces: list[tuple[list[EncodedColumn], int, int]] = []
        self._with_nulls: set[str] = set()
        bitmaps = sum(len(json.dumps(name)) + _BITMAP_ENTRY for name in names) * 2
        self._used: float = preamble_size(0, self._header(Validity())) + bitmaps

    def append(self, columns: list[EncodedColumn], samples: Samples, start: int) -> int:
        """Append samples from `start` on until the shard is full.

        Returns
        -------
        int
            Index of the first sample that was not appended; an empty buffer takes at least one.
        """
        # A column gets a bitmap with its first null; it covers the earlier rows too.
        new = {column.name for column in columns if column.valid is not None} - self._with_nulls
        self._with_nulls |= new
        self._used += len(new) * self.samples * _BASE64_BIT
        costs = self._costs(columns, samples, start)
        count = int(np.searchsorted(costs, self._size_limit - self._used, side="right"))
        if self.samples == 0:
            count = max(count, 1)
        if count == 0:
            return start
        stop = start + count
        self._used += float(costs[count - 1])
        self.samples += count
        self._chunks.append(samples.data[samples.ends[start] : samples.ends[stop]])
        self._lengths.append(np.diff(samples.ends[start : stop + 1]))
        self._pieces.append((columns, start, stop))
        return stop

    def _costs(
        self, columns: list[EncodedColumn], samples: Samples, start: int
    ) -> npt.NDArray[np.float64]:
        """Return the cumulative bytes that the samples from `start` on add to the shard."""
        ends = samples.ends[start:] - samples.ends[start]
        count = np.arange(len(ends))
        row_cost = 4 + len(self._with_nulls) * _BASE64_BIT
        costs: npt.NDArray[np.float64] = ends + count * row_cost
        for column in columns:
            if column.element_ends is not None:
                elements = column.element_ends[start:] - column.element_ends[start]
                costs = costs + elements * _BASE64_BIT
        return costs[1:]

    def _validity(self) -> Validity:
        """Return the validity masks of the collected samples."""
        rows: dict[str, npt.NDArray[np.bool_]] = {}
        elements: dict[str, npt.NDArray[np.bool_]] = {}
        for position, name in enumerate(self._names):
            pieces = [(columns[position], start, stop) for columns, start, stop in self._pieces]
            if any(c.valid is not None and not c.valid[a:b].all() for c, a, b in pieces):
                rows[name] = np.concatenate([_row_mask(*piece) for piece in pieces])
            masks = [_element_mask(*piece) for piece in pieces]
            if not all(mask.all() for mask in masks):
                elements[name] = np.concatenate(masks)
        return Validity(rows, elements)

    def full(self) -> FullShard:
        """Return the collected samples as a shard."""
        validity = self._validity()
        start = preamble(np.concatenate(self._lengths), self._header(validity))
        return FullShard(
            self._names,
            self.encodings,
            self.samples,
            [start, *self._chunks],
            null_counts=validity.null_counts,
            element_null_counts=validity.element_null_counts,
        )

    def _header(self, validity: Validity) -> bytes:
        extra: dict[str, Any] = {"version": FORMAT_VERSION, "columns": self._schema.to_json()}
        if validity.rows or validity.elements:
            extra["nulls"] = pack_validity(validity)
        return self._format.header(self._names, self.encodings, extra)


def _row_mask(column: EncodedColumn, start: int, stop: int) -> npt.NDArray[np.bool_]:
    return np.ones(stop - start, np.bool_) if column.valid is None else column.valid[start:stop]


def _element_mask(column: EncodedColumn, start: int, stop: int) -> npt.NDArray[np.bool_]:
    """Return the validity of the array elements of rows `start` to `stop`."""
    if column.element_ends is None:
        return np.ones(0, np.bool_)
    first, last = column.element_ends[start], column.element_ends[stop]
    return (
        np.ones(last - first, np.bool_) if column.elements is None else column.elements[first:last]
    )
