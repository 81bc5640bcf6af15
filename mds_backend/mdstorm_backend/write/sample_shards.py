"""Collect single samples into full shards, byte for byte like MosaicML Streaming's writer.

There is one exception: if the first sample is larger than a shard, that writer puts an empty
shard before it; this one does not.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from mdstorm_backend import errors
from mdstorm_backend.format import layout, shard_info
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.write.full_shard import Emit, FullShard, ShardFormat

_SHOWN = 80
_NO_NULLS = (
    "samples of MDS have no nulls. Write another value, leave out the sample, or pass Arrow data "
    "to write_batch, which also records nulls"
)

#: Bytes that every sample adds to the offset table.
_OFFSET_WORD = 4


class SampleEncoder:
    """Encodes samples with the same columns.

    Parameters
    ----------
    columns : dict of str to str
        The encoding of every column.

    Attributes
    ----------
    names, encodings : tuple of str
        Names and encodings of the columns, in stored order.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.names = tuple(sorted(columns))
        self.encodings = tuple(columns[name] for name in self.names)
        parsed = [parse_encoding(text) for text in self.encodings]
        self._variable = [i for i, encoding in enumerate(parsed) if encoding.size is None]
        self._pack_sizes = struct.Struct(f"<{len(self._variable)}I").pack
        self._careful = [encoding.encoder() for encoding in parsed]
        # `struct` is fast, but raises an error for some values. The columns' own encoders then
        # encode the whole sample.
        codes = [encoding.struct_code for encoding in parsed]
        self._fast = [
            struct.Struct(f"<{code}").pack if code else careful
            for code, careful in zip(codes, self._careful, strict=True)
        ]
        self._get: Callable[[Mapping[str, Any]], tuple[Any, ...]] = itemgetter(*self.names)
        if len(self.names) == 1:  # for one name, itemgetter returns a value, not a tuple
            (name,) = self.names
            self._get = lambda sample: (sample[name],)
        self._record = struct.Struct("<" + "".join(codes)).pack if all(codes) else None

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """Return the bytes of a sample, ignoring entries that are not columns.

        Raises
        ------
        ArgumentTypeError
            If the sample is not a mapping.
        MissingColumnError
            If a column is missing.
        EncodingError
            If a value does not fit the encoding of its column.
        """
        try:
            values = self._get(sample)
            if self._record is not None:
                return self._record(*values)
            parts = [encode(value) for encode, value in zip(self._fast, values)]  # noqa: B905
        except Exception:
            parts = self._encode_carefully(sample)
        try:
            sizes = self._pack_sizes(*[len(parts[i]) for i in self._variable])
        except struct.error:
            large = next(i for i in self._variable if len(parts[i]) >= 1 << 32)
            raise self._error(large, "it takes 4 GiB or more", errors.EncodingRangeError) from None
        return sizes + b"".join(parts)

    def _encode_carefully(self, sample: Mapping[str, Any]) -> list[bytes]:
        parts = []
        for i, name in enumerate(self.names):
            try:
                value = sample[name]
            except (IndexError, TypeError) as error:
                raise errors.ArgumentTypeError(
                    "a sample must be a dict from column to value, found "
                    f"{type(sample).__name__}: {_shown(sample)}"
                ) from error
            except KeyError:
                raise errors.MissingColumnError(
                    f"a sample has no column {name!r}: it has {sorted(map(str, sample))}. Give "
                    "every sample a value for each column",
                    column=name,
                ) from None
            try:
                parts.append(self._careful[i](value))
            except errors.MDStormError:
                raise
            except Exception as error:
                reason = f"{_shown(value)}: {_NO_NULLS if value is None else error}"
                raise self._error(i, reason, errors.EncodingError.class_for(error)) from error
        return parts

    def _error(
        self, column: int, reason: str, kind: type[errors.EncodingError]
    ) -> errors.EncodingError:
        name, encoding = self.names[column], self.encodings[column]
        return kind(
            f"column {name!r} with encoding {encoding!r} cannot hold {reason}",
            column=name,
            encoding=encoding,
        )


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python writes
        return f"a value of {type(value)}"
    if "\n" in text:  # such as the repr of an array
        text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class SampleShards:
    """Cuts samples into shards of at most the size limit of their format.

    A single sample larger than the limit gets its own shard. Memory: one shard.

    Parameters
    ----------
    columns : dict of str to str
        The encoding of every column.
    format_ : ShardFormat
        Settings of all shards. Without a limit, a shard takes up to 4 GiB.
    emit : callable
        Called with every `FullShard`, in order.
    """

    def __init__(self, columns: Mapping[str, str], format_: ShardFormat, emit: Emit) -> None:
        self._encoder = SampleEncoder(columns)
        self._header = format_.header(self._encoder.names, self._encoder.encodings)
        self._limit = format_.size_limit or shard_info.MAX_SHARD_BYTES
        self._emit = emit
        self._empty = layout.preamble_size(0, self._header)
        self._start()

    def _start(self) -> None:
        self._data = bytearray()
        self._lengths = array("Q")
        self._used = self._empty

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample; after an error, no part of the sample is written.

        Raises
        ------
        MissingColumnError, EncodingError
            If the sample does not have a column, or a value does not fit.
        """
        data = self._encoder.encode(sample)
        need = len(data) + _OFFSET_WORD
        if self._used + need > self._limit:
            self.flush()
            if self._empty + need > shard_info.MAX_SHARD_BYTES:
                raise errors.EncodingError(
                    f"a sample takes {len(data)} bytes, but an MDS shard must be smaller than 4 "
                    "GiB: store smaller values"
                )
        self._data += data
        self._lengths.append(len(data))
        self._used += need

    def flush(self) -> None:
        """Emit the collected samples as a shard, if there are any."""
        if not self._lengths:
            return
        data, lengths = self._data, np.array(self._lengths, np.int64)
        self._start()
        names, encodings = self._encoder.names, self._encoder.encodings
        start = layout.preamble(lengths, self._header)
        self._emit(FullShard(names, encodings, len(lengths), [start, memoryview(data)]))
