"""Run a conversion: the tasks in threads, then the commit or the cleanup.

A task is a run of consecutive row groups. The split depends only on the data and the shard size,
and each shard holds rows of one task, so the result does not depend on how many tasks run at a
time.

An interrupted conversion resumes from records of finished tasks. A record is written after the
shards of its task, in the same directory, and holds their entries for the index. Its name has the
same prefix as the shards' names.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.base.threads import OnProgress, map_files
from mdstorm_backend.convert.row_batches import Recode, RowBatches
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write.commit import (
    clean_up,
    commit,
    index_to_replace,
    mark_directory,
    remove_unfinished,
    shards_of,
)
from mdstorm_backend.write.directories import Claim
from mdstorm_backend.write.shard_buffer import Packed, ShardFormat, ShardReport
from mdstorm_backend.write.shard_writer import write_shards

#: Errors that may not recur when the conversion is run again; our other errors are due to the data.
_PASSING = (errors.WriteError, errors.StorageError, errors.CredentialsError)

_logger = logging.getLogger(__name__)


#: Names of the records of finished tasks, which the commit removes.
_NAME = re.compile(r"part-(?P<task>\d{5,})-(?P<job>[0-9a-f]{8})-\d+\.done")


class ConversionId:
    """The identity of a conversion's input and options: equal ids mean equal results.

    Parameters
    ----------
    *parts
        The parts of the identity, as JSON values.

    Attributes
    ----------
    identity : str
        Hexadecimal digest of the parts.
    job : str
        The beginning of the digest, used in file names.
    """

    def __init__(self, *parts: Any) -> None:
        text = json.dumps(parts, sort_keys=True)
        self.identity = hashlib.sha256(text.encode("ascii")).hexdigest()
        self.job = self.identity[:8]

    def prefix(self, task: int, attempt: str) -> str:
        """Return the prefix of the file names of a task in one attempt at the conversion."""
        return f"part-{task:05}-{self.job}-{attempt}"


def note_finished(
    location: Location, conversion: ConversionId, prefix: str, reports: Sequence[ShardReport]
) -> None:
    """Write the record of a finished task, whose shards' names begin with `prefix`."""
    note = {
        "identity": conversion.identity,
        "shards": [report.to_json() for report in reports],
    }
    location.write(f"{prefix}.done", [json.dumps(note).encode("ascii")])


def find_finished(location: Location, conversion: ConversionId) -> dict[int, list[ShardReport]]:
    """Return the reports of the tasks that earlier runs finished, by task number.

    A task is finished if its record is complete and every shard exists with the recorded size.
    """
    sizes = dict(location.list_sizes())
    matches = [match for match in map(_NAME.fullmatch, sizes) if match is not None]
    tasks = {m.string: int(m["task"]) for m in matches if m["job"] == conversion.job}

    def read(name: str) -> list[ShardReport] | None:
        try:
            note = parse_json(location.read(name))
            if note["identity"] != conversion.identity:
                return None
            reports = [ShardReport.from_json(value) for value in note["shards"]]
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return None
        files = [report.info.stored for report in reports]
        return reports if all(sizes.get(f.basename) == f.bytes for f in files) else None

    found = zip(tasks.values(), map_files(read, tasks), strict=True)
    return {task: reports for task, reports in found if reports is not None}


def other_jobs(location: Location, conversion: ConversionId) -> list[str]:
    """Return the jobs of other interrupted conversions in the directory."""
    matches = filter(None, map(_NAME.fullmatch, location.list_names()))
    return sorted({match["job"] for match in matches} - {conversion.job})


def check_no_other(location: Location, conversion: ConversionId) -> None:
    """Raise DatasetExistsError if the directory holds part of another conversion."""
    if other_jobs(location, conversion):
        raise errors.DatasetExistsError(
            f"{location.url} holds part of an interrupted conversion of another source, of a "
            "source that has changed since, or with other options. Run that conversion again to "
            "finish it, choose another directory, or start over with resume=False (--no-resume)"
        )


def cut_tasks(row_counts: Sequence[int], rows_per_task: float) -> Iterator[range]:
    """Yield consecutive row groups of at most `rows_per_task` rows in total.

    A larger row group is a task of its own; with a limit of 0, every row group is.
    """
    start = rows = 0
    for i, count in enumerate(row_counts):
        if rows and rows + count > rows_per_task:
            yield range(start, i)
            start, rows = i, 0
        rows += count
    if start < len(row_counts):
        yield range(start, len(row_counts))


def tasks_by_file(files: Sequence[str]) -> Iterator[range]:
    """Yield the row groups of each file; `files` holds the file of each row group, in order."""
    for _, run in groupby(range(len(files)), key=lambda i: files[i]):
        first, *others = run
        yield range(first, first + 1 + len(others))


@dataclass(frozen=True)
class Conversion:
    """The input and the settings of a conversion, and the code to run it.

    Attributes
    ----------
    id : ConversionId
        Identity of the input and the options.
    rows : RowBatches
        The source rows.
    location : Location
        Directory of the dataset.
    schema, format_
        How the dataset is written, see `write_shards`.
    recode : callable or None
        Called with every batch before writing it.
    tasks : list of range
        Row groups of the source that are converted together.
    extra : dict
        Further entries for the index.
    """

    id: ConversionId
    rows: RowBatches
    location: Location
    schema: Schema
    format_: ShardFormat
    recode: Recode | None
    tasks: list[range]
    extra: Mapping[str, Any]

    def run(
        self, workers: int, progress: OnProgress | None, *, resume: bool, overwrite: bool = False
    ) -> Dataset:
        """Run the unfinished tasks and publish the dataset.

        With `overwrite`, an existing dataset stays until the new one is complete.

        Raises
        ------
        DatasetExistsError
            If the directory holds a dataset or part of another conversion, or another writer is
            using it.
        EncodingError, WriteError
            If a task fails.
        """
        location = self.location
        index_to_replace(location, overwrite=overwrite)
        mark_directory(location)
        claim = Claim(location)
        # Without locks, another attempt may be active, so each touches only its own files.
        own = None if claim.is_exclusive else f"{secrets.randbelow(10**9) + 1}"
        try:
            # Check again: another writer may have held the claim until now.
            replaced = index_to_replace(location, overwrite=overwrite)
            if not resume and own is None:
                self._start_anew(replaced)
            elif not resume:
                remove_unfinished(location)
            if resume or own is None:
                check_no_other(location, self.id)
            finished = find_finished(location, self.id) if resume else {}
            notes = resume or own is None  # only of shards that no other attempt removes
            reports = self._convert(workers, progress, finished, own or "0", notes=notes)
            index = commit(location, self.schema, reports, self.id.job, self.extra, own, replaced)
        except BaseException as error:
            if not resume or _is_in_the_data(error):
                clean_up(location, self.id.job, own)
            raise
        finally:
            claim.release()
        _logger.info("wrote %d shards to %s", len(index.shards), location.url)
        return Dataset(location, index)

    def _start_anew(self, published: bytes) -> None:
        """Remove the shards of earlier runs, including those of other conversions.

        Shards that the `published` index lists are kept.
        """
        names = [n for n in self.location.list_names() if n.encode() not in published]
        for job in (self.id.job, *other_jobs(self.location, self.id)):
            map_files(self.location.remove, shards_of(job, names))

    def _convert(
        self,
        workers: int,
        progress: OnProgress | None,
        finished: dict[int, list[ShardReport]],
        attempt: str,
        *,
        notes: bool,
    ) -> list[ShardReport]:
        """Run the unfinished tasks; return the reports of all tasks, in order."""
        counts = dict(enumerate(map(self.rows.count, self.tasks)))
        rows = _Rows(sum(counts.values()), progress)
        rows.add(sum(counts[number] for number in counts.keys() & finished))
        left = [number for number in counts if number not in finished]
        # With fewer tasks than threads, columns are decoded in parallel instead.
        use_threads = len(left) < workers
        convert = partial(self._convert_task, attempt, rows, notes=notes, use_threads=use_threads)
        with ThreadPoolExecutor(workers, thread_name_prefix="mdstorm-convert") as pool:
            try:
                futures = [pool.submit(convert, number) for number in left]
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                rows.stop()
                pool.shutdown(cancel_futures=True)
        for future in futures:
            error = None if future.cancelled() else future.exception()
            if error is not None and not isinstance(error, _StoppedError):
                raise error
        found = {number: future.result() for number, future in zip(left, futures, strict=True)}
        reports = finished | found
        return [report for number in counts for report in reports[number]]

    def _convert_task(
        self, attempt: str, rows: _Rows, number: int, *, notes: bool, use_threads: bool
    ) -> list[ShardReport]:
        prefix = self.id.prefix(number, attempt)

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in self.rows.batches(self.tasks[number], use_threads=use_threads):
                yield self.recode(batch) if self.recode else batch
                rows.add(batch.num_rows)

        reports = write_shards(
            batches(), self.location, self.schema, self.format_, prefix, rows.unless_stopped
        )
        if notes:
            note_finished(self.location, self.id, prefix, reports)
        return reports


class _Rows:
    """Counts the rows that all threads converted, and stops the threads.

    Parameters
    ----------
    total : int
        Total number of rows.
    progress : callable or None
        Called with the count and the total after every change.
    """

    def __init__(self, total: int, progress: OnProgress | None) -> None:
        self._total = total
        self._done = 0
        self._progress = progress
        self._lock = threading.Lock()
        self._stopped = False
        self._stop: Future[None] = Future()

    def add(self, rows: int) -> None:
        """Count more rows; raise _StoppedError if another thread has failed.

        Once `progress` has raised an error, no more rows are counted.
        """
        with self._lock:
            if self._stopped:
                raise _StoppedError
            self._done += rows
            if self._progress is not None:
                try:
                    self._progress(self._done, self._total)
                except BaseException:
                    self._stopped = True
                    raise

    def stop(self) -> None:
        """Make every thread end: after its current batch, or at once if it compresses a shard."""
        self._stopped = True
        self._stop.set_result(None)

    def unless_stopped(self, pack: Callable[[], Packed]) -> Packed:
        """Pack a shard in a daemon thread; raise _StoppedError as soon as the threads are stopped.

        The daemon thread is then left behind, as no codec can be interrupted.
        """
        if self._stopped:
            raise _StoppedError
        result: Future[Packed] = Future()

        def run() -> None:
            try:
                result.set_result(pack())
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=run, name="mdstorm-pack", daemon=True).start()
        waited: list[Future[Any]] = [result, self._stop]
        wait(waited, return_when=FIRST_COMPLETED)
        if not result.done():
            raise _StoppedError
        return result.result()


class _StoppedError(Exception):
    """Raised to end a thread whose work is no longer needed."""


def _is_in_the_data(error: BaseException) -> bool:
    """Whether the same conversion would fail again, so that its finished tasks are useless."""
    return isinstance(error, errors.MDStormError) and not isinstance(error, _PASSING)
