"""`open_compared`: open two datasets, so that their rows can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._conversion.encoded_fields import numbers
from mdstorm._datasets import decoded, stored_unischema, value_cells
from mdstorm.unischema import Unischema
from mdstorm_backend import convert as engine
from mdstorm_backend import format as mds
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.kinds import open_stored
from mdstorm_backend.tables import AsOf

_ARRAY = pa.struct([("array", pa.string()), ("data", pa.binary())])


def open_compared(
    first: str,
    second: str,
    *,
    storage_options: dict[str, Any] | None = None,
    as_of: AsOf | None = None,
) -> tuple[engine.ComparedRows, engine.ComparedRows]:
    """Open two datasets (MDS, Parquet files or tables) to compare their rows.

    If either dataset has a Unischema, the fields of both are decoded for the comparison. `as_of` is
    the version of the first dataset if that is a table.

    Raises
    ------
    DatasetNotFoundError, CorruptDatasetError
        If a dataset does not exist or is damaged.
    """
    how: dict[str, Any] = {"storage_options": storage_options, "keep_row_groups": True}
    left, right = open_stored(first, as_of=as_of, **how), open_stored(second, **how)
    schemas = stored_unischema(left), stored_unischema(right)
    return _rows(left, *schemas), _rows(right, *reversed(schemas))


def _rows(
    source: SampleDataset, own: Unischema | None, other: Unischema | None
) -> engine.ComparedRows:
    """Return rows decoded with the dataset's own schema or, if it has none, the other dataset's."""
    if own is not None:
        return _decoded_rows(source, own)
    known = {} if other is None else other.fields
    fields = [known[name] for name in source.schema.names if name in known]
    if other is None or not fields:
        return engine.compared_rows(source)
    rows = _decoded_rows(source, other.create_schema_view(fields))
    more = (column for column in source.schema if column.name not in known)
    types = {column.name: mds.plain_type(column.arrow_type) for column in more}
    return replace(rows, types={**rows.types, **types})


def _decoded_rows(source: SampleDataset, unischema: Unischema) -> engine.ComparedRows:
    """Return rows decoded with a Unischema, representing arrays by dtype, shape and bytes."""
    dataset = decoded(source, unischema)
    types = {
        column.name: _ARRAY
        if unischema.fields[column.name].shape and not column.is_image
        else mds.plain_type(column.arrow_type)
        for column in dataset.schema
    }

    def arrow(batch: mds.Batch, names: Sequence[str]) -> list[pa.Array]:
        return [
            pa.array(map(_described, value_cells(batch[name])), _ARRAY)
            if types[name] == _ARRAY
            else mds.plain_values(mds.as_arrow(batch[name])).cast(types[name])
            for name in names
        ]

    return engine.ComparedRows(dataset, types, arrow)


def _described(array: npt.NDArray[Any] | None) -> dict[str, Any] | None:
    """Return an array's dtype, shape and bytes, or None for null."""
    if array is None:
        return None
    array = np.ascontiguousarray(numbers(array))
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    data = repr(array.tolist()).encode() if array.dtype.hasobject else little.tobytes()
    return {"array": f"{little.dtype.name} {array.shape}", "data": data}
