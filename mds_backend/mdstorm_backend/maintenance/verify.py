"""Verify every file, hash and value of a dataset."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mdstorm_backend.base.threads import each, map_files
from mdstorm_backend.datasets.dataset import Dataset, open_dataset
from mdstorm_backend.display import Progress, progress
from mdstorm_backend.errors import CorruptDatasetError, MDStormError
from mdstorm_backend.format.index import INDEX_NAME, ShardInfo
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.maintenance.check_shard import Problem, ShardCheck, check_shard
from mdstorm_backend.storage import Location

_SHARD = re.compile(r".*\.mds(\.[a-z0-9]+)?")


@dataclass(frozen=True)
class VerifyReport:
    """The findings of `verify`.

    Attributes
    ----------
    url : str
        URL of the dataset.
    quick : bool
        Whether only the sizes of the files were checked.
    shards, rows, bytes : int
        Shards, samples and bytes of stored files that were checked, according to the index.
    problems : tuple of Problem
        The problems found.
    notes : tuple of Problem
        Checks that were not possible, each listed once even if it concerns many shards, and files
        that do not belong to the dataset.
    has_hashes : bool
        Whether the index holds hashes of every file. Without them changed values cannot be
        detected.
    """

    url: str
    quick: bool
    shards: int
    rows: int
    bytes: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    has_hashes: bool = False

    @property
    def is_good(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            **vars(self),
            "is_good": self.is_good,
            "problems": list(map(vars, self.problems)),
            "notes": list(map(vars, self.notes)),
        }


def verify(
    url: str,
    *,
    quick: bool = False,
    storage_options: dict[str, Any] | None = None,
    threads: int | None = None,
    on_progress: Progress = None,
) -> VerifyReport:
    """Check the dataset at `url` and report every problem.

    The files themselves are read, not their copies in the shard cache. Each thread holds one
    uncompressed shard in memory.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    quick : bool
        Whether to check only that the files exist with the right sizes. By default, every file is
        read: its hashes, offsets and header are compared with the index, and every value except
        pickles is decoded.
    storage_options : dict, optional
        Options of the fsspec file system.
    threads : int, optional
        Number of shards to check at a time; by default one per CPU core, at most 8.
    on_progress : callable or bool, optional
        Function that is called with the number of checked shards and the total. By default,
        progress is shown in a terminal or a notebook. False turns it off.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    StorageError
        If its storage cannot be read.
    """
    try:
        dataset = open_dataset(url, storage_options=storage_options)
        schema = _schema(dataset)
    except CorruptDatasetError as error:
        location = Location.of(url, storage_options)
        problem = str(error).removeprefix(f"{location.file_url(INDEX_NAME)} ")
        return VerifyReport(location.url, quick, 0, 0, 0, (Problem(INDEX_NAME, problem),))
    location, shards = dataset.location, dataset.index.shards
    problems, notes = _check_files(location, shards)
    with progress("Checking shards", "shards", on_progress) as shown:
        if quick:
            if shown is not None:
                shown(len(shards), len(shards))
        else:
            failed = {problem.file for problem in problems}
            tally = _Tally()
            for check in each(
                lambda shard: check_shard(location, shard, schema),
                [shard for shard in shards if shard.stored.basename not in failed],
                threads,
                shown,
            ):
                tally.add(check)
            problems += tally.problems
            notes += tally.notes
            if not problems:
                problems += _check_counts(dataset, tally)
    return VerifyReport(
        url=location.url,
        quick=quick,
        shards=len(shards),
        rows=len(dataset),
        bytes=sum(shard.stored.bytes for shard in shards),
        problems=tuple(problems),
        notes=tuple(notes),
        has_hashes=all(shard.stored.hashes for shard in shards),
    )


def _schema(dataset: Dataset) -> Schema:
    """Return the schema; derive it from the encodings if neither index nor header holds it."""
    try:
        return dataset.schema
    except MDStormError:
        if dataset.index.extra.get("columns"):
            raise
        return Schema.from_shards(dataset.index.shards).opened(dataset.url)


def _check_files(
    location: Location, shards: Iterable[ShardInfo]
) -> tuple[list[Problem], list[Problem]]:
    """Check that every file exists with its size, and find shards that are not in the index."""
    expected = {shard.stored.basename: shard.stored.bytes for shard in shards}
    try:
        listed = dict(location.list_sizes())
    except (NotImplementedError, OSError):  # for example HTTP servers, which list nothing
        listed = {}
    unlisted = [name for name in expected if name not in listed]
    sizes = dict(zip(unlisted, map_files(location.size, unlisted), strict=True))
    problems = []
    for name, size in expected.items():
        actual = listed.get(name, sizes.get(name))
        if actual is None:
            problems.append(Problem(name, "is missing"))
        elif actual != size:
            problems.append(Problem(name, f"holds {actual} bytes, and the index says {size}"))
    known = {file.basename for s in shards for file in (s.raw_data, s.zip_data) if file}
    notes = [
        Problem(name, "is not in the index")
        for name in listed
        if name not in known and _SHARD.fullmatch(name)
    ]
    return problems, notes


class _Tally:
    """The combined results of the shards' checks, since there may be very many shards."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.nulls: Counter[str] = Counter()
        self.null_elements: Counter[str] = Counter()
        self._noted_in: dict[str, str] = {}

    def add(self, check: ShardCheck) -> None:
        self.problems += check.problems
        self.nulls.update(check.null_counts)
        self.null_elements.update(check.element_null_counts)
        for note in check.notes:
            self._noted_in.setdefault(note.problem, note.file)

    @property
    def notes(self) -> list[Problem]:
        """Return one note for all shards that share it, of the first of them."""
        return [Problem(file, text) for text, file in self._noted_in.items()]


def _check_counts(dataset: Dataset, tally: _Tally) -> list[Problem]:
    """Compare the counts in the index with those of the shards."""
    problems = []
    extra = dataset.index.extra
    if not extra.get("columns"):
        return _check_no_nulls(tally)
    stated = extra.get("num_rows", len(dataset))
    if stated != len(dataset):
        problems.append(f"counts {stated} rows, but its shards hold {len(dataset)}")
    for column in dataset.schema:
        for what, count, found in (
            ("nulls", column.null_count, tally.nulls[column.name]),
            ("null elements", column.element_null_count, tally.null_elements[column.name]),
        ):
            if count != found:
                problems.append(
                    f"counts {count} {what} in column {column.name!r}, but its shards hold {found}"
                )
    return [Problem(INDEX_NAME, problem) for problem in problems]


def _check_no_nulls(tally: _Tally) -> list[Problem]:
    """Look for nulls that an index without a schema does not count."""
    hidden = {*tally.nulls, *tally.null_elements}
    if not hidden:
        return []
    return [
        Problem(
            INDEX_NAME,
            f"does not record the nulls in {sorted(hidden)}: another program has rewritten it. "
            "Restore it with 'mdstorm reindex --force'",
        )
    ]
