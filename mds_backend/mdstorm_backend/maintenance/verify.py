"""Verify every file, hash and value of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdstorm_backend import errors
from mdstorm_backend.base.pools import each, map_files
from mdstorm_backend.cache import download
from mdstorm_backend.datasets import Dataset, SampleDataset
from mdstorm_backend.display import Progress, progress
from mdstorm_backend.format import Column, Schema, as_arrow, layout
from mdstorm_backend.format.compression import HASH_NAMES
from mdstorm_backend.format.index import INDEX_NAME, FileInfo, ShardInfo
from mdstorm_backend.kinds import open_stored
from mdstorm_backend.read import late, mds_shard
from mdstorm_backend.storage import Buffer, Location

#: Values are decoded from about this many bytes at a time.
_CHUNK_BYTES = 16 << 20
#: Keys of a shard's index entry that its header repeats.
_REPEATED = ("column_names", "column_encodings", "column_sizes", "format", "version")


@dataclass(frozen=True, order=True)
class Problem:
    """A problem with a file, or a note about one, such as that it is not in the index.

    Attributes
    ----------
    file : str
        Name of the file in the directory of the dataset.
    problem : str
        Description.
    """

    file: str
    problem: str


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
    source: Any,
    *,
    quick: bool = False,
    storage_options: dict[str, Any] | None = None,
    threads: int | None = None,
    on_progress: Progress = None,
) -> VerifyReport:
    """Check a dataset of any kind and report every problem.

    The files of an MDS dataset themselves are read, not their copies in the shard cache. Each
    thread holds one uncompressed shard in memory.

    Parameters
    ----------
    source : SampleDataset, str, or anything else that `open_stored` opens
        The dataset.
    quick : bool
        Whether to check only that the files exist with the right sizes. By default, every file is
        read, and every value except pickles is decoded. An MDS shard's hashes, offsets and header
        are also compared with the index.
    storage_options : dict, optional
        Options of the fsspec file system.
    threads : int, optional
        Number of shards to check at a time; by default one per CPU core, at most 8.
    on_progress : callable or bool, optional
        Function that is called with the number of shards read and the total. By default,
        progress is shown in a terminal or a notebook. False turns it off.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    StorageError
        If its storage cannot be read.
    """
    try:
        dataset = open_stored(source, storage_options=storage_options)
        if isinstance(stored := dataset.stored, Dataset):
            return _verify_mds(stored, _schema(stored), quick, threads, on_progress)
    except errors.CorruptDatasetError as error:
        directory, _, name = error.url.rpartition("/")
        problem = str(error).removeprefix(f"{error.url} ")
        return VerifyReport(directory, quick, 0, 0, 0, (Problem(name, problem),))
    return _verify_rows(dataset, quick, threads, on_progress)


def _verify_rows(
    dataset: SampleDataset, quick: bool, threads: int | None, on_progress: Progress
) -> VerifyReport:
    """Check a dataset without an index: that its files are there, and that all rows can be read."""
    stored, sizes = dataset.stored, dataset.storage().files
    names = [_name_in(stored, url) for url in stored.file_urls]
    found = map_files(stored.location.size, names)
    problems = [
        problem
        for name, size, now in zip(names, sizes, found, strict=True)
        if (problem := _of_size(name, now, size, "it was opened with")) is not None
    ]
    if not quick and not problems:
        numbers = range(len(dataset.shard_sizes))
        with progress("Checking shards", "shards", on_progress) as shown:
            of_shards = each(lambda n: list(_unreadable(dataset, n)), numbers, threads, shown)
        problems += [problem for one in of_shards for problem in one]
    shards, rows = len(dataset.shard_sizes), len(dataset)
    report = VerifyReport(dataset.url, quick, shards, rows, sum(sizes))
    return replace(report, problems=tuple(dict.fromkeys(problems)))


def _unreadable(dataset: SampleDataset, number: int) -> Iterator[Problem]:
    """Yield a problem for each column of a shard that cannot be read."""
    shard, samples = dataset.shard(number), dataset.shard_sizes[number]
    size = max(1, samples * _CHUNK_BYTES // max(dataset.shard_bytes[number], 1))
    for column in dataset.schema:
        encoding, url = column.parsed_encoding, dataset.url
        decode = late.object_decoder(encoding, column, url, "array") if column.is_late else None
        try:
            for start in range(0, samples, size):
                rows = np.arange(start, min(start + size, samples))
                values = shard.read(rows, [column.name], exact_nulls=True)[column.name]
                for value in as_arrow(values).to_pylist() if decode is not None else ():
                    if decode is not None and value is not None:
                        decode(value)
        except (errors.CredentialsError, errors.StorageError):
            raise
        except errors.MDStormError as error:
            url = getattr(error, "url", "") or url
            yield Problem(_name_in(dataset.stored, url), str(error).removeprefix(f"{url} "))


def _name_in(dataset: SampleDataset, url: str) -> str:
    return url.removeprefix(dataset.location.file_url(""))


def _of_size(name: str, found: int | None, size: int, stated_by: str) -> Problem | None:
    """Return the problem with a file that is missing or has another size, if any."""
    if found is None:
        return Problem(name, "is missing")
    return None if found == size else Problem(name, f"holds {found} bytes, but {stated_by} {size}")


def _verify_mds(
    dataset: Dataset, schema: Schema, quick: bool, threads: int | None, on_progress: Progress
) -> VerifyReport:
    """Check an MDS dataset against its index."""
    location, shards = dataset.location, dataset.index.shards
    problems, notes = _check_files(location, shards)
    is_whole = dataset.whole == dataset.fingerprint  # not only some of the shards
    notes = notes if is_whole else []
    checks: list[_ShardCheck] = []
    if not quick:
        damaged = {problem.file for problem in problems}
        left = [shard for shard in shards if shard.stored.basename not in damaged]
        with progress("Checking shards", "shards", on_progress) as shown:
            checks += each(lambda s: _ShardCheck(location, schema, s), left, threads, shown)
        problems += [Problem(check.name, text) for check in checks for text in check.problems]
        noted = {text: Problem(check.name, text) for check in checks[::-1] for text in check.notes}
        notes += reversed(noted.values())
        if not problems and is_whole:
            problems += [Problem(INDEX_NAME, text) for text in _wrong_counts(dataset, checks)]
    return VerifyReport(
        url=location.url,
        quick=quick,
        shards=len(shards),
        rows=len(dataset),
        bytes=sum(shard.stored.bytes for shard in shards),
        problems=tuple(dict.fromkeys(problems)),
        notes=tuple(notes),
        has_hashes=all(shard.stored.hashes for shard in shards),
    )


def _schema(dataset: Dataset) -> Schema:
    """Return the schema; derive it from the encodings if neither index nor header holds it."""
    try:
        return dataset.schema
    except errors.MDStormError:
        if dataset.index.extra.get("columns"):
            raise
        return Schema.from_shards(dataset.index.shards).opened(dataset.url)


def _check_files(
    location: Location, shards: Sequence[ShardInfo]
) -> tuple[list[Problem], list[Problem]]:
    """Check that every file exists with its recorded size, and find shards not in the index."""
    stated = {shard.stored.basename: shard.stored.bytes for shard in shards}
    sizes: dict[str, int | None] = {}
    with suppress(NotImplementedError, OSError):  # for example, HTTP servers cannot list files
        sizes.update(location.list_sizes())
    known = {file.basename for s in shards for file in (s.raw_data, s.zip_data) if file}
    stray = [name for name in sizes if ".mds" in (name[-4:], name.rpartition(".")[0][-4:])]
    notes = [Problem(name, "is not in the index") for name in stray if name not in known]
    sizes = sizes or dict(zip(stated, map_files(location.size, list(stated)), strict=True))
    problems = []
    for name, size in stated.items():
        found = sizes.get(name)
        if (problem := _of_size(name, found, size, "the index records")) is not None:
            problems.append(problem)
    return problems, notes


def _wrong_counts(dataset: Dataset, checks: Sequence[_ShardCheck]) -> Iterator[str]:
    """Yield a description of each count in the index that is missing or contradicts the shards."""
    nulls, null_elements = Counter[str](), Counter[str]()
    for check in checks:
        nulls.update(check.null_counts)
        null_elements.update(check.element_null_counts)
    extra = dataset.index.extra
    if not extra.get("columns"):
        if hidden := sorted({*nulls, *null_elements}):
            yield (
                f"does not record the nulls in {hidden}: another program has rewritten it. "
                "Restore it with 'mdstorm reindex --force'"
            )
        return
    counts = [("rows", extra.get("num_rows", len(dataset)), len(dataset))]
    for column in dataset.schema:
        what = f"in column {column.name!r}"
        counts.append((f"nulls {what}", column.null_count, nulls[column.name]))
        elements = column.element_null_count, null_elements[column.name]
        counts.append((f"null elements {what}", *elements))
    for what, stated, found in counts:
        if stated != found:
            yield f"counts {stated} {what}, but its shards hold {found}"


@dataclass
class _ShardCheck:
    """The findings about one shard, which is read whole and checked against the index.

    Attributes
    ----------
    location : Location
        Directory of the dataset.
    schema : Schema
        Schema of the dataset.
    info : ShardInfo
        Index entry of the shard.
    problems, notes : list of str
        As in `VerifyReport`; some may be listed twice.
    null_counts, element_null_counts : dict of str to int
        Nulls according to the bitmaps in the header.
    """

    location: Location
    schema: Schema
    info: ShardInfo
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with self._collected():
            self._check()

    @property
    def name(self) -> str:
        """Name of the stored file."""
        return self.info.stored.basename

    @property
    def _url(self) -> str:
        return self.location.file_url(self.name)

    @contextmanager
    def _collected(self, what: str = "") -> Iterator[None]:
        """Collect the error of a block: a note if it could not be checked, otherwise a problem."""
        try:
            yield
        except errors.MissingDependencyError as error:
            self.notes.append(f"{what}was not checked: {error}")
        except (errors.CredentialsError, errors.StorageError):
            raise
        except errors.MDStormError as error:
            text = str(error).removeprefix(f"{self._url} ")
            self.problems.append(text.replace(f" of {self._url} ", " "))

    def _check(self) -> None:
        info = self.info
        raw = data = self.location.read(self.name)
        self._check_content(info.stored, data)
        if info.zip_data is not None:
            raw = download.decompressed(info, data, self._url)
            self._check_content(info.raw_data, raw)
        shard = mds_shard.MDSShard(raw, info, self.schema, url=self._url)
        stated, (_, header) = info.to_json(), layout.read_header(raw, url=self._url)
        for key in _REPEATED:
            if key in header and (header[key] or None) != (stated[key] or None):
                ours, theirs = layout.shown_json(header[key]), layout.shown_json(stated[key])
                self.problems.append(f"has {key} {ours} in its header, and {theirs} in the index")
        self.null_counts = shard.validity.null_counts
        self.element_null_counts = shard.validity.element_null_counts
        columns = [column for column in self.schema if self._is_safe(column)]
        try:
            self._decode(shard, columns)
        except errors.MDStormError:
            # One column at a time, so that a damaged one does not hide problems in the others.
            for column in columns:
                with self._collected(f"column {column.name!r} "):
                    self._decode(shard, [column])

    def _check_content(self, file: FileInfo, data: Buffer) -> None:
        """Compare the size and every recorded hash of a file with its content."""
        for name in sorted(file.hashes.keys() - HASH_NAMES):
            self.notes.append(f"its hash {name!r} is unknown and was not checked")
        for known in (None, *sorted(file.hashes.keys() & HASH_NAMES)):
            with self._collected(f"its hash {known!r} "):
                download.check_content(file, data, known, self._url)

    def _is_safe(self, column: Column) -> bool:
        if column.parsed_encoding.is_unsafe:
            self.notes.append(
                f"column {column.name!r} was not decoded: {column.encoding!r} is only safe to load "
                "if you trust it"
            )
        return not column.parsed_encoding.is_unsafe

    def _decode(self, shard: mds_shard.MDSShard, columns: Sequence[Column]) -> None:
        """Decode every value of some columns, one chunk of rows at a time."""
        names = [column.name for column in columns]
        own = dict(zip(shard.layout.names, shard.layout.encodings, strict=True))
        size = max(1, self.info.samples * _CHUNK_BYTES // max(self.info.raw_data.bytes, 1))
        for start in range(0, self.info.samples, size):
            rows = np.arange(start, min(start + size, self.info.samples))
            batch = shard.read(rows, names, exact_nulls=True)
            for column in columns:
                if column.is_late:
                    decode = late.object_decoder(own[column.name], column, self._url, "array")
                    for value in as_arrow(batch[column.name]).to_pylist():
                        if value is not None:
                            decode(value)
