"""Collect samples and Arrow data, in any sequence, into full shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from mdstorm_backend.display import counted
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.schema import FORMAT_VERSION, Schema
from mdstorm_backend.write.arrow_plan import plan_batch
from mdstorm_backend.write.batch_shards import BatchShards
from mdstorm_backend.write.sample_shards import SampleShards
from mdstorm_backend.write.shard_format import FullShard, ShardFormat


class MixedShards:
    """Cuts what is written into shards; each holds samples, or rows of Arrow data.

    Parameters
    ----------
    columns : dict of str to str, optional
        The encodings that the user gives. Without them Arrow data come first, and choose them.
    format_ : ShardFormat
        What all shards have in common.
    emit : callable
        Called with every `FullShard`, in order.

    Attributes
    ----------
    plan : Schema or None
        The logical schema, once there were Arrow data.
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None,
        format_: ShardFormat,
        emit: Callable[[FullShard], None],
    ) -> None:
        self.plan: Schema | None = None
        self._given = None if columns is None else dict(columns)
        self._format = format_
        self._emit = emit
        self._types: dict[str, pa.DataType] = {}
        self._samples: SampleShards | None = None
        self._batches: BatchShards | None = None
        self._current: SampleShards | BatchShards | None = None

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample; one that is refused leaves no trace."""
        samples = self._samples
        if samples is None or samples is not self._current:
            samples = self._turn_to_samples()
        samples.write(sample)

    def write_batch(self, data: pa.Table) -> None:
        """Append rows; where the data are refused, some of them may have been appended."""
        if self._batches is not None:
            self._check_columns(data)
            self._append(data)
            return
        self._start_batches(data.schema)
        try:
            self._check_columns(data)
            self._append(data)
        except Exception:
            if self.num_batch_rows == 0:  # then they do not choose the types either
                if self._current is self._batches:
                    self._current = None
                self.plan = self._batches = None
            raise

    def _append(self, data: pa.Table) -> None:
        assert self._batches is not None
        if self._current is not self._batches:
            self.flush()
            self._current = self._batches
        for batch in data.select(list(self._types)).to_batches():
            self._batches.write(batch)

    @property
    def num_batch_rows(self) -> int:
        """Rows of Arrow data that were appended."""
        return 0 if self._batches is None else self._batches.num_rows

    def flush(self) -> None:
        """Emit what has been collected, if there is anything."""
        if self._current is not None:
            self._current.flush()

    def _turn_to_samples(self) -> SampleShards:
        self.flush()
        if self._samples is None:
            columns, extra, types = self._given, None, {}
            if self.plan is not None:
                columns = {column.name: column.encoding for column in self.plan}
                extra = {"version": FORMAT_VERSION, "columns": self.plan.to_json()}
                types = {c.name: c.arrow_type for c in self.plan if _is_exact(c.arrow_type)}
            if columns is None:
                raise InvalidArgumentError(
                    "columns are not known: give the encoding of every column with columns={…}, or "
                    "call write_batch first"
                )
            self._samples = SampleShards(columns, self._format, self._emit, extra, types)
        self._current = self._samples
        return self._samples

    def _start_batches(self, schema: pa.Schema) -> None:
        self.plan = plan_batch(schema, self._given)
        self._types = {name: schema.field(name).type for name in self.plan.names}
        # An encoding that the user gives is the one that is written.
        self._batches = BatchShards(
            self.plan, self._format, self._emit, frozenset(self._given or ())
        )

    def _check_columns(self, data: pa.Table) -> None:
        assert self.plan is not None
        types = {field.name: field.type for field in data.schema}
        for name, type_ in self._types.items():
            if types.get(name) != type_:
                raise InvalidArgumentError(
                    f"column {name!r} has type {types.get(name, 'nothing at all')} in this batch "
                    f"and {type_} in earlier ones: give all the same columns and types"
                )
            nulls = 0 if self.plan[name].nullable else data.column(name).null_count
            if nulls:
                raise InvalidArgumentError(
                    f"column {name!r} holds {counted(nulls, 'null')}, and the schema of the first "
                    "batch says that it has none: make the field nullable there, or fill the nulls"
                )


def _is_exact(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type_) or pa.types.is_temporal(type_))
