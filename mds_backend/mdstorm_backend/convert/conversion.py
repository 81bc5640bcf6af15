"""Run a conversion's parts in threads, then commit the dataset or clean up.

A part is a range of rows, those of consecutive shards of the source. The ranges depend only on the
data and the shard size, and each stored shard holds rows from one part, so the result does not
depend on how many parts run at a time.

A part is done once its part of the index is written, to a file next to its shards that has the same
prefix. An interrupted conversion resumes from the parts that are done.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import parse_json, pools
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write import commit, directories, full_shard, job_files
from mdstorm_backend.write.batch_shards import BatchShards

_logger = logging.getLogger(__name__)

#: Matches the file names of the index parts, which the commit removes.
_NAME = re.compile(r"part-(?P<part>\d{5,})-(?P<job>[0-9a-f]{8})-\d+\.done")


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
        How the dataset is written, see `BatchShards`.
    parts : sequence of range
        The rows of each part.
    read : callable
        Yields the rows of a part as record batches with the columns of `schema`. With
        ``use_threads=True``, several columns are decoded at a time.
    extra : dict
        Additional entries for the index.
    """

    identity: str
    location: Location
    schema: Schema
    format_: full_shard.ShardFormat
    parts: Sequence[range]
    read: Callable[..., Iterator[pa.RecordBatch]]
    extra: Mapping[str, Any]

    @property
    def job(self) -> str:
        """The part of the file names that identifies the conversion."""
        return self.identity[:8]

    def run(
        self,
        workers: int | None,
        progress: pools.OnProgress | None,
        *,
        resume: bool,
        overwrite: bool,
    ) -> Dataset:
        """Convert the parts that are not done, and publish the dataset.

        With `overwrite`, an existing dataset stays until the new one is complete.

        Raises
        ------
        DatasetExistsError
            If the directory holds a dataset or part of a different conversion, or another writer is
            using it.
        EncodingError, WriteError
            If a part cannot be converted.
        """
        location = self.location
        commit.index_to_replace(location, overwrite=overwrite)
        claim = job_files.claim_directory(location, resumed=self.job if resume else None)
        # On storage without locks, another attempt may be active: touch only this attempt's files.
        own = None if claim.is_exclusive else f"{secrets.randbelow(10**9) + 1}"
        try:
            # Check again, because another writer may have held the claim until now.
            replaced = commit.index_to_replace(location, overwrite=overwrite)
            done = self._find_done(removes=own is None) if resume else {}
            # Without a lock, an attempt that does not resume leaves no parts that are done: another
            # attempt could resume from them, although this one removes its shards if it fails.
            keeps = resume or own is None
            # New shards never have the names of the published ones, which stay until the commit.
            unused = (n for n in count() if f"-{self.job}-{n}.".encode() not in replaced)
            attempt = own or str(next(unused))
            reports = self._convert(workers, progress, done, attempt, keeps=keeps)
            index = commit.publish(
                location, self.schema, reports, self.job, self.extra, own, replaced
            )
        except BaseException as error:
            if not (resume and _may_pass(error)):
                job_files.clean_up(location, claim, self.job, own)
            raise
        finally:
            claim.release()
        return Dataset(location, index)

    def _find_done(self, *, removes: bool) -> dict[int, list[full_shard.ShardReport]]:
        """Return the reports of the parts that earlier runs have done, by the part's number.

        A part is done if its part of the index is complete and every shard exists with the recorded
        size. With `removes`, files of other parts are removed, except published ones: a run that
        was killed after publishing leaves only some parts done.

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

        def read(name: str) -> list[full_shard.ShardReport] | None:
            try:
                value = parse_json(self.location.read(name))
                if value["identity"] != self.identity:
                    return None
                reports = [full_shard.ShardReport.from_json(shard) for shard in value["shards"]]
            except (FileNotFoundError, KeyError, TypeError, ValueError):
                return None
            files = [report.info.stored for report in reports]
            return reports if all(sizes.get(f.basename) == f.bytes for f in files) else None

        found = pools.map_files(read, [match.string for match in matches])
        done = {match: one for match, one in zip(matches, found, strict=True) if one is not None}
        if removes:
            prefixes = {_prefix_of(match.string) for match in done}
            of_others = [
                name
                for name in job_files.shards_of(self.job, sizes)
                if _prefix_of(name) not in prefixes
            ]
            for name in job_files.unlisted(self.location, of_others):
                self.location.remove(name)
        return {int(match["part"]): reports for match, reports in done.items()}

    def _convert(
        self,
        workers: int | None,
        progress: pools.OnProgress | None,
        done: Mapping[int, list[full_shard.ShardReport]],
        attempt: str,
        *,
        keeps: bool,
    ) -> list[full_shard.ShardReport]:
        """Convert the parts that are not done; return the reports of all parts, in order.

        With `keeps`, each part of the index is written.
        """
        rows = _Rows(sum(map(len, self.parts)), progress)
        rows.add(sum(len(self.parts[number]) for number in done))
        left = [number for number in range(len(self.parts)) if number not in done]
        # With fewer parts than threads, each part decodes several columns at a time.
        read = partial(self.read, use_threads=len(left) < pools.num_threads(workers))

        def convert(number: int) -> list[full_shard.ShardReport]:
            part = self.parts[number]
            prefix = f"part-{number:05}-{self.job}-{attempt}"
            store = full_shard.ShardStore(
                (self.location,), self.format_, prefix, max_workers=0, makes_directories=False
            )
            shards = partial(BatchShards, self.schema, self.format_, first_row=part.start)
            try:
                reports = store.store_rows(shards, rows.counted(read(part)))
            except _StoppedError:
                return []
            if keeps:
                self._write_part_of_index(f"{prefix}.done", reports)
            return reports

        converted = zip(left, pools.each(convert, left, workers, stop=rows.stop), strict=True)
        reports = {**done, **dict(converted)}
        return [report for number in range(len(self.parts)) for report in reports[number]]

    def _write_part_of_index(self, name: str, reports: Iterable[full_shard.ShardReport]) -> None:
        value = {"identity": self.identity, "shards": [report.to_json() for report in reports]}
        with directories.file_errors(self.location, name):
            self.location.write(name, [json.dumps(value).encode("ascii")])


def _prefix_of(name: str) -> str:
    return name.partition(".")[0]


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

    def __init__(self, total: int, progress: pools.OnProgress | None) -> None:
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

    def stop(self, error: BaseException) -> None:
        """Stop every thread after its current batch, because of an error."""
        self._stopped = True
        if isinstance(error, KeyboardInterrupt):
            _logger.warning(
                "The conversion was interrupted, and waits until its threads have written their "
                "current rows. Interrupt again (Ctrl-C) to stop at once"
            )


class _StoppedError(Exception):
    """Raised to end a thread whose work is no longer needed."""
