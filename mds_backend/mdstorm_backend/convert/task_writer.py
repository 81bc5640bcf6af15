"""Write the record batches of one conversion task as shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from mdstorm_backend.errors import MDStormError, StorageError, WriteError
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write.batch_shards import BatchShards
from mdstorm_backend.write.directories import retried
from mdstorm_backend.write.shard_format import FullShard, ShardFormat, ShardReport

#: Converts a record batch of the source to one with the columns of the plan.
Recode: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True)
class TaskWriter:
    """Writes the rows of a conversion's tasks, any number of tasks at a time.

    Attributes
    ----------
    location : Location
        Directory of the dataset.
    schema : Schema
        Plan of the columns.
    format_ : ShardFormat
        What all shards have in common.
    as_given : frozenset of str
        Columns whose encoding is written exactly as planned, including arrays of one length.
    recode : callable or None
        Called with every batch before writing it.
    """

    location: Location
    schema: Schema
    format_: ShardFormat
    as_given: frozenset[str] = frozenset()
    recode: Recode | None = None

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        prefix: str,
        on_rows: Callable[[int], None] = lambda rows: None,
    ) -> list[ShardReport]:
        """Write the batches of a task as shards.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            The rows.
        prefix : str
            Beginning of the names of the shards: ``<prefix>.<sequence>.mds``.
        on_rows : callable
            Called with the number of rows of every batch after encoding it.

        Raises
        ------
        EncodingError
            If a value does not fit the encoding of its column.
        WriteError
            If a shard cannot be written.
        """
        reports: list[ShardReport] = []

        def emit(shard: FullShard) -> None:
            report, name, content = shard.pack(f"{prefix}.{len(reports):05}.mds", self.format_)
            try:
                retried(self.location, partial(self.location.write, name, content))
            except OSError as error:
                if isinstance(error, MDStormError) and not isinstance(error, StorageError):
                    raise
                raise WriteError(
                    f"{self.location.file_url(name)} could not be written ({error}). Check the "
                    "storage and run the conversion again"
                ) from error
            reports.append(report)

        shards = BatchShards(self.schema, self.format_, emit, self.as_given)
        for batch in batches:
            rows = batch.num_rows
            shards.write(self.recode(batch) if self.recode else batch)
            on_rows(rows)
        shards.flush()
        return reports
