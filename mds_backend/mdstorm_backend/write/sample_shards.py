"""Collect single samples into full shards, byte for byte as the format's own writer does.

With one exception. Where the first sample alone is larger than a shard, that writer puts an empty
shard before it; here there is none.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdstorm_backend.errors import EncodingError
from mdstorm_backend.format.layout import preamble_size
from mdstorm_backend.format.shard_info import MAX_SHARD_BYTES
from mdstorm_backend.write.sample_encoder import SampleEncoder
from mdstorm_backend.write.shard_format import FullShard, ShardFormat

#: Every sample adds a word to the offsets.
_OFFSET_WORD = 4


class SampleShards:
    """Cuts samples into shards of at most the size limit of their format.

    A single sample larger than that gets a shard of its own. Memory: one shard.

    Parameters
    ----------
    columns : dict of str to str
        The encoding of every column.
    format_ : ShardFormat
        What all shards have in common. Without a limit, a shard takes up to 4 GiB.
    emit : callable
        Called with every `FullShard`, in order.
    extra : dict, optional
        What the header says beyond the format.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        format_: ShardFormat,
        emit: Callable[[FullShard], None],
        extra: dict[str, Any] | None = None,
    ) -> None:
        self._encoder = SampleEncoder(columns)
        self._header = format_.header(self._encoder.names, self._encoder.encodings, extra)
        self._limit = format_.size_limit or MAX_SHARD_BYTES
        self._emit = emit
        self._empty = preamble_size(0, self._header)
        self._start()

    def _start(self) -> None:
        self._data = bytearray()
        self._lengths = array("Q")
        self._used = self._empty

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample; one that is refused leaves no trace.

        Raises
        ------
        MissingColumnError, EncodingError
            If it lacks a column, or a value does not fit.
        """
        data = self._encoder.encode(sample)
        need = len(data) + _OFFSET_WORD
        if self._used + need > self._limit:
            self.flush()
            if self._empty + need > MAX_SHARD_BYTES:
                raise EncodingError(
                    f"a sample takes {len(data)} bytes, and a shard of the MDS format less than "
                    "4 GiB: store smaller values"
                )
        self._data += data
        self._lengths.append(len(data))
        self._used += need

    def flush(self) -> None:
        """Emit what has been collected, if there is anything."""
        if not self._lengths:
            return
        samples = len(self._lengths)
        offsets = np.zeros(samples + 1, np.int64)
        np.cumsum(np.array(self._lengths, np.int64), out=offsets[1:])
        offsets += preamble_size(samples, self._header)
        start = np.uint32(samples).tobytes() + offsets.astype("<u4").tobytes()
        content = [start, self._header, memoryview(self._data)]
        self._start()
        self._emit(FullShard(self._encoder.names, self._encoder.encodings, samples, [*content]))
