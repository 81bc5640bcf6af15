"""Read Parquet row groups as record batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.errors import CorruptDatasetError, MDStormError
from mdstorm_backend.format.values.arrow_types import plain_type
from mdstorm_backend.parquet import ParquetDataset, PartitionValue, RowGroup
from mdstorm_backend.parquet.stored_columns import filtered

#: Converts a record batch of the source to one with the columns of the plan.
Recode: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

#: Approximate bytes of a batch, and the largest number of rows.
_BATCH_BYTES = 8 << 20
_MOST_ROWS = 1 << 16


def rows_of_a_batch(row_bytes: float, most: int) -> int:
    """Return the number of rows per batch for rows of `row_bytes` bytes, at most `most`."""
    return int(min(max(_BATCH_BYTES / max(row_bytes, 1), 1), most))


class RowBatches:
    """Reads row groups of a Parquet dataset batch by batch, from any number of threads.

    Parameters
    ----------
    source : ParquetDataset
        The dataset.
    fields : pyarrow.Schema
        Columns to read, in this order; may include Hive partition columns.
    row_bytes : float
        Approximate bytes per row.
    most : int
        Largest number of rows per batch.
    """

    def __init__(
        self,
        source: ParquetDataset,
        fields: pa.Schema,
        row_bytes: float,
        most: int = _MOST_ROWS,
    ) -> None:
        self._source = source
        self._fields = fields
        self._rows = rows_of_a_batch(row_bytes, most)
        partitions = set(source.partition_columns)
        self._stored = [name for name in fields.names if name not in partitions]

    def count(self, row_groups: Sequence[int]) -> int:
        """Return the total number of rows of the given row groups."""
        return sum(self._source.row_groups[number].num_rows for number in row_groups)

    def batches(
        self, row_groups: Sequence[int], *, use_threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the given row groups, in order.

        Parameters
        ----------
        row_groups : sequence of int
            Indices of the row groups in the dataset.
        use_threads : bool
            Whether to decode several columns at a time.

        Raises
        ------
        CorruptDatasetError
            If a file is damaged, or does not have the recorded rows or columns.
        """
        groups = [self._source.row_groups[number] for number in row_groups]
        for _, of_file in groupby(groups, key=lambda group: group.file_url):
            yield from self._of_file(list(of_file), use_threads)

    def _of_file(self, groups: list[RowGroup], use_threads: bool) -> Iterator[pa.RecordBatch]:
        partition, url = groups[0].partition, groups[0].file_url
        if not self._stored:
            yield self._completed({}, partition, sum(group.num_rows for group in groups), url)
            return
        expected = sum(group.stored_rows for group in groups)
        found = 0
        try:
            for rows, live, columns in self._stored_columns(groups, use_threads):
                found += rows
                if live:
                    yield self._completed(columns, partition, live, url)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, MDStormError):
                raise
            raise CorruptDatasetError.of_file(url, f"cannot be read ({error})") from error
        if found != expected:
            raise CorruptDatasetError.of_file(
                url, f"holds {found} rows, but {expected} are recorded"
            )

    def _stored_columns(
        self, groups: list[RowGroup], use_threads: bool
    ) -> Iterator[tuple[int, int, dict[str, pa.Array]]]:
        """Yield the numbers of stored and live (not deleted) rows, and the live rows' columns."""
        stored, url = self._source.stored_columns, groups[0].file_url
        alive = _alive(groups)
        with self._source.open_file(groups[0]) as file:
            ordinals = _ordinals(groups, file.metadata)
            names = stored.names_in(file.schema_arrow, self._stored, url)
            if not names:
                rows = sum(file.metadata.row_group(ordinal).num_rows for ordinal in ordinals)
                live = sum(group.num_rows for group in groups)
                yield rows, live, stored.completed({}, self._stored, live, url)
                return
            start = 0
            # Arrow cannot join dictionaries inside nested types across row groups.
            types = [str(type_) for type_ in file.schema_arrow.types if pa.types.is_nested(type_)]
            is_joined = not any("dictionary<" in text for text in types)
            runs = [ordinals] if is_joined else [[ordinal] for ordinal in ordinals]
            read = partial(file.iter_batches, self._rows, columns=list(names.values()))
            for batch in chain.from_iterable(
                read(row_groups=run, use_threads=use_threads) for run in runs
            ):
                stop = start + batch.num_rows
                arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
                live = batch.num_rows
                if alive is not None:
                    mask = alive[start:stop]
                    live = int(mask.sum())
                    arrays = {name: filtered(values, mask) for name, values in arrays.items()}
                renamed = {name: arrays[place] for name, place in names.items() if place in arrays}
                columns = stored.completed(renamed, self._stored, live, url)
                yield batch.num_rows, live, columns
                start = stop

    def _completed(
        self,
        stored: Mapping[str, pa.Array],
        partition: Mapping[str, PartitionValue],
        rows: int,
        url: str,
    ) -> pa.RecordBatch:
        """Return a batch of all columns, including partition columns, in the dataset's types."""
        columns = []
        for field in self._fields:
            if field.name in stored:
                columns.append(_in_type(stored[field.name], field, url))
            elif field.name not in partition:
                raise CorruptDatasetError.of_file(
                    url, f"has no column {field.name!r}, which other files have"
                )
            else:
                columns.append(pa.repeat(pa.scalar(partition[field.name], field.type), rows))
        return pa.RecordBatch.from_arrays(columns, names=self._fields.names)


def _ordinals(groups: Sequence[RowGroup], metadata: pq.FileMetaData) -> list[int]:
    """Return the indices of row groups in their file."""
    found = [group.ordinal for group in groups if group.ordinal is not None]
    return found or list(range(metadata.num_row_groups))


def _alive(groups: Sequence[RowGroup]) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the live (not deleted) rows of row groups; None if all rows are live."""
    masks = [group.alive() for group in groups]
    if all(mask is None for mask in masks):
        return None
    return np.concatenate(
        [
            np.ones(group.stored_rows, np.bool_) if mask is None else mask
            for group, mask in zip(groups, masks, strict=True)
        ]
    )


def _in_type(values: pa.Array, field: pa.Field, url: str) -> pa.Array:
    """Return values of one file, cast to the column's type in the dataset."""
    wanted = plain_type(field.type)
    if plain_type(values.type) == wanted:
        return values
    try:
        return values.cast(wanted)
    except pa.ArrowException as error:
        raise CorruptDatasetError.of_file(
            url, f"holds column {field.name!r} as {values.type}, not {field.type} ({error})"
        ) from error
