"""Open two datasets of any kind to compare them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._datasets.decoded_source import decoded, stored_unischema, value_cells
from mdstorm._datasets.sources import open_stored
from mdstorm.unischema import Unischema
from mdstorm_backend.convert import ComparedRows, MDSRows, ParquetRows
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import Values, as_arrow, plain_type, plain_values
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.tables import AsOf

_BATCH_ROWS = 1024
_ARRAY = pa.struct([("array", pa.string()), ("data", pa.binary())])


def open_compared(
    first: str,
    second: str,
    *,
    storage_options: dict[str, Any] | None = None,
    as_of: AsOf | None = None,
) -> tuple[ComparedRows, ComparedRows]:
    """Open two datasets: MDS, Parquet, Delta, or with a Unischema.

    Where either has a Unischema, the fields of both are compared decoded. `as_of` is the version of
    a Delta table that the first one is.

    Raises
    ------
    DatasetNotFoundError, CorruptDatasetError
        If one is not there, or damaged.
    """
    opened = partial(open_stored, storage_options=storage_options, keep_row_groups=True)
    left, right = opened(first, as_of=as_of), opened(second)
    schemas = stored_unischema(left), stored_unischema(right)
    return _rows(left, *schemas), _rows(right, *reversed(schemas))


def _rows(
    source: Dataset | ParquetDataset, own: Unischema | None, other: Unischema | None
) -> ComparedRows:
    """Return the rows of a dataset, decoded by its own schema, or what it has of the other one."""
    if own is not None:
        return _DecodedRows(source, own)
    known = {} if other is None else other.fields
    fields = [known[name] for name in source.schema.names if name in known]
    if other is not None and fields:
        rows = _DecodedRows(source, other.create_schema_view(fields))
        more = (column for column in source.schema if column.name not in known)
        rows.types |= {column.name: plain_type(column.arrow_type) for column in more}
        return rows
    return ParquetRows(source) if isinstance(source, ParquetDataset) else MDSRows(source)


class _DecodedRows(ComparedRows):
    """The fields of a Unischema; arrays are compared by dtype, shape and bytes."""

    def __init__(self, source: Dataset | ParquetDataset, unischema: Unischema) -> None:
        self._source = decoded(source, unischema)
        types = {
            column.name: _ARRAY
            if unischema.fields[column.name].shape and not column.is_image
            else plain_type(column.arrow_type)
            for column in self._source.schema
        }
        super().__init__(source.url, types, source.shard_sizes)

    def batches(self, part: int, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Read some fields of a shard or row group."""
        shard = self._source.shard(part)
        for start in range(0, shard.num_samples, _BATCH_ROWS):
            rows = np.arange(start, min(start + _BATCH_ROWS, shard.num_samples))
            batch = shard.read(rows, names, exact_nulls=True)
            yield [
                _as_arrays(batch[name])
                if self.types[name] == _ARRAY
                else plain_values(as_arrow(batch[name])).cast(self.types[name])
                for name in names
            ]


def _as_arrays(values: Values) -> pa.StructArray:
    """Return arrays as what they are (dtype and shape) and their bytes; None for null."""
    return pa.array([c if c is None else _described(c) for c in value_cells(values)], _ARRAY)


def _described(array: npt.NDArray[Any]) -> dict[str, Any]:
    array = np.ascontiguousarray(array.view(np.uint8) if array.dtype == np.bool_ else array)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    data = repr(array.tolist()).encode() if array.dtype.hasobject else little.tobytes()
    return {"array": f"{little.dtype.name} {array.shape}", "data": data}
