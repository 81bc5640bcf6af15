"""Executor side of `dataframe_to_mds`: write one partition as a directory of shards.

Needs pyarrow and NumPy there, and neither PyTorch nor TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from mdstorm_backend.base.pass_threads import OwnContext
from mdstorm_backend.errors import ArgumentTypeError
from mdstorm_backend.executors.tasks import Batches, join_small, report_texts, this_task
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write.batch_shards import BatchShards
from mdstorm_backend.write.sample_shards import SampleShards
from mdstorm_backend.write.shard_format import FullShard, ShardFormat
from mdstorm_backend.write.shard_writer import FileSink, ShardStore

if TYPE_CHECKING:
    import pandas as pd

Frames: TypeAlias = "Iterator[pd.DataFrame]"
ToSamples: TypeAlias = Callable[..., Iterable[dict[str, Any]]]


def directory_name(partition: int) -> str:
    """Name of a partition's directory; names sort by number up to 100,000 partitions."""
    return f"{partition:05}"


@dataclass(frozen=True)
class PartitionJob:
    """What all tasks of a job have in common. Sent to the executors.

    Attributes
    ----------
    job : str
        Identity of the job, in the name of every shard.
    locations : tuple of Location
        Directories that every file is written to.
    format_ : ShardFormat
        What the shards have in common.
    max_workers, retry : int
        Threads per task, and retries when writing a file.
    """

    job: str
    locations: tuple[Location, ...]
    format_: ShardFormat
    max_workers: int
    retry: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "job": self.job,
            "locations": [[place.url, place.storage_options] for place in self.locations],
            "format_": {**vars(self.format_), "hashes": list(self.format_.hashes)},
            "max_workers": self.max_workers,
            "retry": self.retry,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PartitionJob:
        """Read what `to_json` made."""
        places = tuple(Location(url, options) for url, options in value["locations"])
        format_ = {**value["format_"], "hashes": tuple(value["format_"]["hashes"])}
        return cls(**{**value, "locations": places, "format_": ShardFormat(**format_)})


class _PartitionStore(OwnContext):
    """Stores the shards of this task's partition, or none if the block raises.

    Shards are named after the attempt, so that one that Spark abandons cannot interfere with the
    successful one.
    """

    def __init__(self, job: PartitionJob) -> None:
        self._job = job
        self.format = job.format_
        self._partition, self._prefix = this_task(job.job)
        self._sink: FileSink | None = None
        self._store: ShardStore | None = None
        self.reports: list[str] = []

    def put(self, shard: FullShard) -> None:
        """Store a shard. A partition without samples leaves no directory."""
        if self._store is None:
            name = directory_name(self._partition)
            self._sink = FileSink(
                [location.child(name) for location in self._job.locations],
                max_workers=self._job.max_workers,
                retry=self._job.retry,
            )
            self._store = ShardStore(
                self._sink, self._job.format_, lambda number: f"{self._prefix}.{number:05}.mds"
            )
        self._store.put(shard)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        if self._store is None or self._sink is None:
            return
        try:
            if kind is None:
                self.reports = report_texts(self._partition, self._store.finish())
        finally:
            if not self.reports:
                self._sink.remove_all()


def write_batches(
    batches: Batches, *, job: dict[str, Any], schema: list[dict[str, Any]]
) -> Batches:
    """Write the record batches of a partition, whose columns are those of `schema` in its order.

    Yields
    ------
    pyarrow.RecordBatch
        One text column `report`; one row per shard: partition, sequence and `ShardReport` as JSON.
    """
    columns = Schema.from_json(schema)
    with _PartitionStore(PartitionJob.from_json(job)) as store:
        shards = BatchShards(columns, store.format, store.put)
        for batch in join_small(batches):
            shards.write(pa.RecordBatch.from_arrays(batch.columns, names=list(columns.names)))
        shards.flush()
    yield pa.RecordBatch.from_arrays([pa.array(store.reports, pa.string())], names=["report"])


def write_frames(
    frames: Frames,
    *,
    job: dict[str, Any],
    names: list[str],
    columns: dict[str, str],
    to_samples: ToSamples,
    arguments: dict[str, Any],
) -> Frames:
    """Write the samples that a user's function makes from the DataFrames of a partition.

    Parameters
    ----------
    frames : iterator of pandas.DataFrame
        The rows, under any names.
    job : dict
        A `PartitionJob` as JSON.
    names : list of str
        Names of the columns of the frames.
    columns : dict of str to str
        The encodings of what comes out.
    to_samples : callable
        Makes an iterable of samples from a DataFrame, given `arguments`.

    Yields
    ------
    pandas.DataFrame
        One text column `report`, see `write_batches`.
    """
    import pandas as pd

    with _PartitionStore(PartitionJob.from_json(job)) as store:
        shards = SampleShards(columns, store.format, store.put)
        for frame in frames:
            samples = to_samples(frame.set_axis(names, axis=1), **arguments)
            for sample in _checked(samples):
                shards.write(sample)
        shards.flush()
    yield pd.DataFrame({"report": store.reports}, dtype=object)


def _checked(samples: Any) -> Iterable[dict[str, Any]]:
    if isinstance(samples, Iterable) and not isinstance(samples, (str, bytes, Mapping)):
        return samples
    raise ArgumentTypeError(
        f"udf_iterable returned a {type(samples).__name__}: it needs to return an iterable of "
        "samples, each a dict from column to value"
    )
