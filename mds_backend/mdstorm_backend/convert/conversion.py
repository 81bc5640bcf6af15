"""Run a conversion's tasks in threads, then commit the dataset or clean up.

A task is a run of consecutive row groups. The split depends only on the data and the shard size,
and each shard holds rows from one task, so the result does not depend on how many tasks run at a
time.

An interrupted conversion resumes from records of finished tasks. A record is written after the
shards of its task, in the same directory, and holds their index entries. Its name has the same
prefix as the shards' names.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import parse_json, threads
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write import batch_shards, commit, directories, full_shard

_logger = logging.getLogger(__name__)

#: Matches the file names of finished tasks' records, which the commit removes.
_NAME = re.compile(r"part-(?P<task>\d{5,})-(?P<job>[0-9a-f]{8})-\d+\.done")


@dataclass(frozen=True)
class Conversion:
    """The input and settings of a conversion, which `run` executes.

    Attributes
    ----------
    identity : str
        Hexadecimal digest of the input and the options: equal identities mean equal results.
    location : Location
        Directory of the dataset.
    schema, format_
        How the dataset is written, see `write_shards`.
    tasks : sequence of sequence of int
        Row groups of the source that are converted together.
    row_counts : sequence of int
        Number of rows in each task.
    read : callable
        Yields the rows of a task as record batches with the columns of `schema`. With
        ``use_threads=True``, several columns are decoded at a time.
    extra : dict
        Additional entries for the index.
    """

    identity: str
    location: Location
    schema: Schema
    format_: full_shard.ShardFormat
    tasks: Sequence[Sequence[int]]
    row_counts: Sequence[int]
    read: Callable[..., Iterator[pa.RecordBatch]]
    extra: Mapping[str, Any]

    @property
    def job(self) -> str:
        """The part of the file names that identifies the conversion."""
        return self.identity[:8]

    def run(
        self,
        workers: int | None,
        progress: threads.OnProgress | None,
        *,
        resume: bool,
        overwrite: bool,
    ) -> Dataset:
        """Run the unfinished tasks and publish the dataset.

        With `overwrite`, an existing dataset stays until the new one is complete.

        Raises
        ------
        DatasetExistsError
            If the directory holds a dataset or part of a different conversion, or another writer is
            using it.
        EncodingError, WriteError
            If a task fails.
        """
        location = self.location
        commit.index_to_replace(location, overwrite=overwrite)
        claim = commit.claim_directory(location, resumed=self.job if resume else None)
        # On storage without locks, another attempt may be active: touch only this attempt's files.
        own = None if claim.is_exclusive else f"{secrets.randbelow(10**9) + 1}"
        try:
            # Check again, because another writer may have held the claim until now.
            replaced = commit.index_to_replace(location, overwrite=overwrite)
            finished: dict[int, list[full_shard.ShardReport]] = {}
            if resume:
                finished = self._find_finished()
            # Without a lock, an attempt that does not resume leaves no records: another attempt
            # could resume from them, although this one removes its shards if it fails.
            notes = resume or own is None
            reports = self._convert(workers, progress, finished, own or "0", notes=notes)
            index = commit.publish(
                location, self.schema, reports, self.job, self.extra, own, replaced
            )
        except BaseException as error:
            if not (resume and _may_pass(error)):
                commit.clean_up(location, claim, self.job, own)
            raise
        finally:
            claim.release()
        return Dataset(location, index)

    def _find_finished(self) -> dict[int, list[full_shard.ShardReport]]:
        """Return the reports of the tasks that earlier runs finished, by task number.

        A task is finished if its record is complete and every shard exists with the recorded size.

        Raises
        ------
        DatasetExistsError
            If the directory holds part of a different conversion.
        """
        sizes = dict(self.location.list_sizes())
        matches = [match for match in map(_NAME.fullmatch, sizes) if match]
        if any(match["job"] != self.job for match in matches):
            raise errors.DatasetExistsError(
                f"{self.location.url} holds part of an interrupted conversion, but its source or "
                "its options were different, or the source has changed since. Run that conversion "
                "again to finish it, choose another directory, or start over with resume=False "
                "(--no-resume)"
            )
        tasks = {match.string: int(match["task"]) for match in matches}

        def read(name: str) -> list[full_shard.ShardReport] | None:
            try:
                note = parse_json(self.location.read(name))
                if note["identity"] != self.identity:
                    return None
                reports = [full_shard.ShardReport.from_json(value) for value in note["shards"]]
            except (FileNotFoundError, KeyError, TypeError, ValueError):
                return None
            files = [report.info.stored for report in reports]
            return reports if all(sizes.get(f.basename) == f.bytes for f in files) else None

        found = zip(tasks.values(), threads.map_files(read, tasks), strict=True)
        return {task: reports for task, reports in found if reports is not None}

    def _convert(
        self,
        workers: int | None,
        progress: threads.OnProgress | None,
        finished: dict[int, list[full_shard.ShardReport]],
        attempt: str,
        *,
        notes: bool,
    ) -> list[full_shard.ShardReport]:
        """Run the unfinished tasks; return the reports of all tasks, in order."""
        workers = threads.num_threads(workers)
        rows = _Rows(sum(self.row_counts), progress)
        rows.add(sum(self.row_counts[number] for number in finished))
        left = [number for number in range(len(self.tasks)) if number not in finished]
        reports = dict(finished)

        def convert(number: int) -> None:
            # With fewer tasks than threads, each task decodes several columns at a time.
            batches = self.read(self.tasks[number], use_threads=len(left) < workers)
            prefix = f"part-{number:05}-{self.job}-{attempt}"
            first = sum(self.row_counts[:number])
            reports[number] = self._write(rows.counted(batches), prefix, first, notes=notes)

        _call_for_each(convert, left, workers, rows.stop)
        return [report for number in range(len(self.tasks)) for report in reports[number]]

    def _write(
        self, batches: Iterator[pa.RecordBatch], prefix: str, first_row: int, *, notes: bool
    ) -> list[full_shard.ShardReport]:
        """Write a task's shards and, if `notes`, the record that marks the task as finished."""
        reports = batch_shards.write_shards(
            batches, self.location, self.schema, self.format_, prefix, first_row
        )
        if notes:
            shards = [report.to_json() for report in reports]
            note = {"identity": self.identity, "shards": shards}
            name = f"{prefix}.done"
            with directories.file_errors(self.location, name):
                self.location.write(name, [json.dumps(note).encode("ascii")])
        return reports


def _call_for_each(
    convert: Callable[[int], None], tasks: Iterable[int], workers: int, stop: Callable[[], None]
) -> None:
    """Call `convert` for each task in threads; the first error stops the others, and is raised.

    The other threads are waited for, unless this is interrupted again.
    """
    waiting = deque(tasks)
    left = len(waiting)
    # Unlike `concurrent.futures.wait`, a queue holds no lock when the wait is interrupted.
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def work() -> None:
        with suppress(IndexError):
            while True:
                number = waiting.popleft()
                try:
                    convert(number)
                except BaseException as error:
                    ended.put(error)
                else:
                    ended.put(None)

    # When Python exits, it waits for the threads of an executor, but not for these.
    working: list[Future[None]] = []
    try:
        for number in range(min(workers, left)):
            working.append(threads.in_own_thread(work, f"mdstorm-convert-{number}"))
        for _ in range(left):
            error = ended.get()
            if error is not None and not isinstance(error, _StoppedError):
                raise error
    except BaseException as error:
        waiting.clear()
        stop()
        if isinstance(error, KeyboardInterrupt):
            _logger.warning(
                "The conversion was interrupted, and waits until its threads have written their "
                "current rows. Interrupt again (Ctrl-C) to stop at once"
            )
        for future in working:
            future.result()
        raise


def _may_pass(error: BaseException) -> bool:
    """Whether a failed conversion may succeed when it is run again."""
    if isinstance(error, errors.DatasetExistsError):  # another conversion has succeeded
        return False
    passing = (errors.WriteError, errors.StorageError, errors.CredentialsError)
    return isinstance(error, passing) or not isinstance(error, errors.MDStormError)


class _Rows:
    """Counts the rows that all threads have converted, and can stop the threads.

    Parameters
    ----------
    total : int
        Total number of rows.
    progress : callable or None
        Called with the count and the total after every change.
    """

    def __init__(self, total: int, progress: threads.OnProgress | None) -> None:
        self._total = total
        self._done = 0
        self._progress = progress
        self._lock = threading.Lock()
        self._stopped = False

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

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield each of `batches`, and count its rows when the next batch is requested."""
        for batch in batches:
            yield batch
            self.add(batch.num_rows)

    def stop(self) -> None:
        """Stop every thread after its current batch."""
        self._stopped = True


class _StoppedError(Exception):
    """Raised to end a thread whose work is no longer needed."""
