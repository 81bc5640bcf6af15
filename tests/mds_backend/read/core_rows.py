"""Rows of the reading core, as samples have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdstorm_backend.read.batch_formats import column_to_numpy
from mdstorm_backend.read.mds_shard import MDSShard


def by_core(shard: MDSShard, row: int, columns: Sequence[str]) -> dict[str, Any]:
    """One row of some columns."""
    batch = shard.read(np.array([row]), columns, exact_nulls=True)
    sample = {}
    for name, values in batch.items():
        column = shard.schema[name]
        if isinstance(values, np.ndarray):
            sample[name] = values[0]
        elif column.is_array and not column.element_null_count:
            sample[name] = column_to_numpy(values, column)[0]
        else:
            sample[name] = values[0].as_py()
    return sample


def identity(value: Any) -> Any:
    """What equal values have in common, whatever they are."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes(), value.flags.writeable
    return type(value), repr(value)
