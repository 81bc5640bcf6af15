"""The file of an MDS shard: its sample offsets and null bitmaps."""

from __future__ import annotations

import mmap
from math import prod

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.format.layout import ShardLayout, Validity, parse_header, unpack_validity
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.storage import Buffer


class MDSFile(Shard):
    """The file of a shard, with its sample offsets and null bitmaps.

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
    is_fixed : bool
        Whether all samples have the same size.
    offsets : numpy.ndarray
        Byte offset of each sample in the file, uint32 of shape ``(samples + 1,)``.

    Raises
    ------
    CorruptDatasetError
        If the file is cut off or contradicts the index.
    """

    def __init__(self, buffer: Buffer, info: ShardInfo, schema: Schema, *, url: str) -> None:
        self._buffer = buffer
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
        """Wait until the samples before `stop` have arrived.

        Raises
        ------
        MDStormError
            If the download fails, see `ShardCache.open`.
        """
        arrival = self.arrival
        if arrival is not None:
            with work(Cause.DOWNLOADS):
                arrival.wait_for(int(self.offsets[stop]))
            self.arrival = None if arrival.is_over else arrival

    def will_need(self) -> None:
        """Advise the operating system to read the file ahead, if it is mapped."""
        if self.arrival is not None:
            return
        if isinstance(self._buffer, memoryview) and isinstance(self._buffer.obj, mmap.mmap):
            self._buffer.obj.madvise(mmap.MADV_WILLNEED)

    @property
    def memory(self) -> int:
        """Bytes held in memory; 0 for a mapped file."""
        mapped = isinstance(self._buffer, memoryview) and isinstance(self._buffer.obj, mmap.mmap)
        return 0 if mapped else len(self._buffer)

    @cached_property
    def record_dtype(self) -> np.dtype[np.void]:
        """Packed dtype of a sample; only valid if every column has a fixed size."""
        return self.layout.record_dtype

    @cached_property
    def records(self) -> npt.NDArray[np.void] | None:
        """View of all samples as opaque records; None if sizes vary."""
        if not self.is_fixed:
            return None
        dtype = np.dtype(f"V{self.record_dtype.itemsize}")
        start = int(self.offsets[0])
        if dtype.itemsize == 0 or self.num_samples == 0:
            return np.empty(self.num_samples, dtype)
        return np.frombuffer(self.data, dtype, self.num_samples, start)

    @cached_property
    def validity(self) -> Validity:
        """The bitmaps of non-null rows and elements."""
        try:
            validity = unpack_validity(self._extra.get("nulls", {}))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self.corrupt(f"has unreadable null bitmaps ({error})") from error
        if not self._fits(validity):
            raise self.corrupt(f"has null bitmaps that are not of its {self.num_samples} samples")
        return validity

    def _fits(self, validity: Validity) -> bool:
        """Whether bitmaps have the length of their columns, where the encoding determines it."""
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
