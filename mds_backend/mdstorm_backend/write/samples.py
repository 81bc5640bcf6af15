"""Join encoded columns into samples without a loop over rows.

Where every column has a fixed size the samples are one packed structured array. Otherwise each run
of fixed-size columns becomes one binary column, and Arrow joins the columns row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.format.encodings.encoding import EncodedColumn


@dataclass(frozen=True)
class Samples:
    """Samples back to back.

    Attributes
    ----------
    data : memoryview
        Their bytes.
    ends : numpy.ndarray
        int64 ``(samples + 1,)``: sample i lies in ``data[ends[i]:ends[i + 1]]``.
    """

    data: memoryview
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends) - 1


def assemble_samples(columns: Sequence[EncodedColumn], num_rows: int) -> Samples:
    """Join columns, given in stored order, to samples."""
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
