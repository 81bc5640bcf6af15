"""Tasks that write a partition of a DataFrame as shards, or one small file as a probe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from mdstorm_backend.errors import ArgumentTypeError
from mdstorm_backend.format import Schema
from mdstorm_backend.format.encodings.registry import user_classes
from mdstorm_backend.storage import Location
from mdstorm_backend.write import batch_shards, directories, full_shard, sample_shards

if TYPE_CHECKING:
    import pandas as pd

    from mdstorm_backend.write.file_columns import FileColumns


#: Spark schema of a task's result: one JSON string per shard.
REPORT_SCHEMA = "report string"

#: Small record batches are joined up to this many rows or bytes before they are encoded.
_JOIN_ROWS = 8192
_JOIN_BYTES = 8 << 20

Batches: TypeAlias = Iterator[pa.RecordBatch]
Frames: TypeAlias = "Iterator[pd.DataFrame]"
ToSamples: TypeAlias = Callable[..., Iterable[dict[str, Any]]]


def make_task(
    function: Callable[..., Iterator[Any]], arguments: dict[str, Any]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for ``df.mapInArrow`` or ``df.mapInPandas`` that calls `function`.

    It is a closure, pickled by value, so that an executor without mdstorm can run it far enough to
    report what is missing.

    Parameters
    ----------
    function : callable
        A function of this package, which takes the batches of a partition first.
    arguments : dict
        The other arguments of `function`.
    """
    from pyspark import cloudpickle

    module, name = function.__module__, function.__name__
    # Pickled separately: unpickling needs mdstorm, which the executor may not have.
    foreign, sent = map(cloudpickle.dumps, (user_classes(), arguments))

    def write_shards(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib
        import pickle
        import socket

        try:
            write = getattr(importlib.import_module(module), name)
            registry = importlib.import_module("mdstorm_backend.format.encodings.registry")
        except ImportError as error:
            raise ImportError(
                f"mdstorm cannot be imported on the Spark worker {socket.gethostname()} ({error}). "
                "Install it on the workers: add the library 'mdstorm' to the cluster, run "
                "'%pip install mdstorm' in a notebook, or set PYSPARK_PYTHON to a Python that "
                "has it"
            ) from error
        registry.receive(pickle.loads(foreign), replaces=True)  # noqa: S301  # what `make_task` pickled
        yield from write(batches, **pickle.loads(sent))  # noqa: S301

    return write_shards


def directory_name(partition: int) -> str:
    """Return the name of a partition's directory; up to 100,000 such names sort by number."""
    return f"{partition:05}"


@dataclass(frozen=True)
class PartitionJob:
    """The settings shared by all tasks of a job. Sent to the executors.

    Attributes
    ----------
    name : str
        Identifier of the job, part of every shard's name.
    locations : tuple of Location
        Directories to which every file is written.
    format_ : ShardFormat
        Size limit, compression and hashes of the shards.
    by_partition : bool
        Whether each partition has its own subdirectory; see `directory_name`.
    max_workers, retry : int
        Threads per task, and retries when writing a file.
    rows : pyspark.Accumulator, optional
        Counts the rows of finished tasks.
    """

    name: str
    locations: tuple[Location, ...]
    format_: full_shard.ShardFormat
    by_partition: bool = False
    max_workers: int = 1
    retry: int = directories.DEFAULT_RETRY
    rows: Any = None

    def write(
        self, make: Callable[[full_shard.Emit], full_shard.Shards], rows: Iterable[Any]
    ) -> list[str]:
        """Store this task's rows as `ShardStore.store_rows` does.

        Shards are named after the partition and the attempt, so that an attempt that Spark abandons
        cannot interfere with the successful one.

        Returns
        -------
        list of str
            A JSON string for each shard: partition, sequence and `ShardReport`.
        """
        from pyspark import TaskContext

        context: Any = TaskContext.get()  # not None in a task
        partition = context.partitionId()
        prefix = f"part-{partition:05}-{self.name}-{context.taskAttemptId()}"
        locations = self.locations
        if self.by_partition:
            locations = tuple(each.child(directory_name(partition)) for each in locations)
        store = full_shard.ShardStore(
            locations,
            self.format_,
            prefix,
            self.max_workers,
            self.retry,
            # The driver has created the dataset's directory: if a task does not see it, the task
            # must not create another one on its own disk.
            makes_directories=self.by_partition,
        )
        reports = store.store_rows(make, rows)
        if self.rows is not None:
            self.rows.add(sum(report.info.samples for report in reports))
        return [
            json.dumps({"partition": partition, "sequence": sequence, **report.to_json()})
            for sequence, report in enumerate(reports)
        ]


def write_batches(
    batches: Batches,
    *,
    job: PartitionJob,
    schema: Schema,
    names: Sequence[str] = (),
    recode: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
    files: FileColumns | None = None,
) -> Batches:
    """Write the record batches of a partition.

    The batches have the columns of `schema` in order, except those of `files`, under any names.
    With `recode`, which converts batches to `schema`, they have the columns `names` instead.

    Yields
    ------
    pyarrow.RecordBatch
        One text column `report`, see `PartitionJob.write`.
    """
    names = list(names or schema.names)
    named = (pa.RecordBatch.from_arrays(b.columns, names=names) for b in join_small(batches))
    rows: Batches = map(recode, named) if recode else named
    if files is not None:
        rows = files.added(rows, "this partition")
    reports = job.write(partial(batch_shards.BatchShards, schema, job.format_), rows)
    yield pa.RecordBatch.from_arrays([pa.array(reports, pa.string())], names=["report"])


def write_frames(
    frames: Frames,
    *,
    job: PartitionJob,
    names: list[str],
    columns: dict[str, str],
    to_samples: ToSamples,
    arguments: dict[str, Any],
) -> Frames:
    """Write the samples that a user's function makes from a partition's DataFrames.

    Parameters
    ----------
    frames : iterator of pandas.DataFrame
        The rows, with any column names.
    job : PartitionJob
        The settings that all tasks share.
    names : list of str
        Names that the columns of the frames are given.
    columns : dict of str to str
        Encodings of the samples' columns.
    to_samples : callable
        Called with a DataFrame and `arguments`; returns an iterable of samples.

    Yields
    ------
    pandas.DataFrame
        One text column `report`, see `PartitionJob.write`.
    """
    import pandas as pd

    def samples() -> Iterator[dict[str, Any]]:
        for frame in frames:
            made = to_samples(frame.set_axis(names, axis=1), **arguments)
            if not isinstance(made, Iterable) or isinstance(made, (str, bytes, Mapping)):
                raise ArgumentTypeError(
                    f"udf_iterable returned a {type(made).__name__}: it must return an "
                    "iterable of samples, each a dict from column to value"
                )
            yield from made

    reports = job.write(partial(sample_shards.SampleShards, columns, job.format_), samples())
    yield pd.DataFrame({"report": reports}, dtype=object)


def reports_by_partition(texts: Sequence[str]) -> dict[int, list[full_shard.ShardReport]]:
    """Parse the results of a job's tasks into reports; partitions and their shards are in order."""
    partitions: dict[int, list[full_shard.ShardReport]] = {}
    for value in sorted(map(json.loads, texts), key=lambda v: (v["partition"], v["sequence"])):
        report = full_shard.ShardReport.from_json(value)
        partitions.setdefault(value["partition"], []).append(report)
    return partitions


def join_small(batches: Batches) -> Batches:
    """Join consecutive record batches until they are large enough to encode."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        pending.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _JOIN_ROWS or size >= _JOIN_BYTES:
            yield _joined(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


PROBE_NAME = "probe"


def write_probe(batches: Batches, *, url: str, storage_options: dict[str, Any]) -> Batches:
    """Write one small file, to test whether executors can write to `url`.

    Yields
    ------
    pyarrow.RecordBatch
        One string: the error, or empty.
    """
    for _ in batches:
        pass
    location = Location(url, storage_options)
    refused = ""
    try:
        location.write(PROBE_NAME, [b"Executors can write here.\n"])
    except FileNotFoundError as error:
        refused = f"executors do not see the directory that the driver created: {error}"
    except Exception as error:  # each store has its own errors
        refused = f"{type(error).__name__}: {error}"
    yield pa.RecordBatch.from_arrays([pa.array([refused], pa.string())], names=["report"])
