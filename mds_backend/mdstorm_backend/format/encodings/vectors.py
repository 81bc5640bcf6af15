"""Convert Spark's ``ml`` and ``mllib`` vectors to plain lists.

Spark hands a vector to Arrow as ``struct<type, size, indices, values>``: type 0 is sparse, with
`size` elements of which `indices` are given; type 1 is dense.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def holds_vectors(type_: pa.DataType) -> bool:
    """Whether an Arrow type is the one in which Spark hands over vectors."""
    names = ["type", "size", "indices", "values"]
    return bool(pa.types.is_struct(type_)) and [field.name for field in type_] == names


def vectors_to_lists(vectors: pa.StructArray) -> pa.ListArray:
    """Return the vectors as ``list<double>``; a null vector stays null."""
    kind, size, indices, values = vectors.flatten()
    sparse = np.asarray(pc.fill_null(pc.equal(kind, 0), False))
    if not sparse.any():
        return values
    given = np.asarray(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)
    lengths = np.where(sparse, np.asarray(pc.fill_null(size, 0)), given).astype(np.int64)
    offsets = np.zeros(len(vectors) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])

    # Where each given value goes: its own index in a sparse row, its rank in a dense one.
    row = np.repeat(np.arange(len(vectors)), given)
    first = np.cumsum(given) - given
    place = np.arange(len(row)) - np.repeat(first, given)
    place[sparse[row]] = np.asarray(pc.filter(indices, pa.array(sparse)).flatten())
    dense = np.zeros(offsets[-1], np.float64)
    dense[offsets[row] + place] = np.asarray(values.flatten())

    mask = pc.invert(vectors.is_valid()) if vectors.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(dense), mask=mask)
