"""`FileReader`: reads the files that a column of paths names, ahead of use.

A column that ``files=`` adds holds paths until its files are read. That is after filters and
shuffling, so that only the files of remaining rows are requested, and before a function or decoder
that needs the content. Nobody knows how large the files are: a block with files is a single batch,
and the following blocks wait while much has been requested.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from mdstorm_backend.base.pools import Threads
from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.base.work_ahead import WorkAhead
from mdstorm_backend.errors import CorruptDatasetError, InvalidArgumentError, MDStormError
from mdstorm_backend.format import Batch, num_rows
from mdstorm_backend.format.values.batch import INT32_MAX, as_arrow, too_large
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.decoded_images import described_row

_Error = TypeVar("_Error", bound=MDStormError)

#: Threads that request files; they mostly wait for a network.
THREADS = 64
#: No further block is requested while the following ones have this many bytes.
_BYTES_AHEAD = 256 << 20
#: The expected size of a file before one has been read.
_UNKNOWN_SIZE = 8 << 20
#: How many of the latest files determine the expected size of the following ones.
_LATEST = 64
#: If none of this many first files exists, the paths are wrong rather than some files missing.
_ALL_MISSING = 32
#: The same for all files that a process needs in a pass, if it needs fewer.
_MISSING_AT_END = 8

#: The contents of some files, or the errors in their place.
_Contents: TypeAlias = list[bytes | MDStormError]
_Read: TypeAlias = Callable[[list[str]], _Contents]
#: The request for some files, or its result, and the place of a file among them.
_Begun: TypeAlias = tuple[Any, int]


@dataclass(frozen=True)
class FileReader:
    """Puts the content of files in place of their paths. Thread-safe and picklable.

    Attributes
    ----------
    columns : mapping of str to str
        For each column of contents, the stored column of paths.
    fetch : callable
        Returns the content of a file, given its path. Must be picklable.
    url : str
        URL of the dataset, for messages.
    fill : mapping of str to bytes
        For columns, the content in place of nulls.
    at_once : int
        How many files a thread reads in a row. More than one takes less processor time; it pays if
        files are on a local disk.
    """

    columns: Mapping[str, str]
    fetch: Callable[[str], bytes]
    url: str
    fill: Mapping[str, bytes] = field(default_factory=dict)
    at_once: int = 1
    #: Sizes of the latest files, and the errors of files that were missing before any was found.
    #: Copies in this process share both; other processes return theirs: see `record`.
    _sizes: deque[int] = field(
        default_factory=partial(deque, maxlen=_LATEST), compare=False, repr=False
    )
    _missing: list[str] = field(default_factory=list, compare=False, repr=False)

    def ahead(
        self, blocks: Iterable[Block], requests: WorkAhead, files_ahead: int
    ) -> Iterator[Block]:
        """Yield blocks in order, while their files and those of the following ones are requested.

        Parameters
        ----------
        blocks : iterable of Block
            Blocks with paths; `complete` puts the contents in their place.
        requests : WorkAhead
            Reads the files.
        files_ahead : int
            How many files ahead of use are requested, unless they take too much memory.
        """
        waiting: deque[tuple[int, Block]] = deque()
        files = 0
        for block in blocks:
            begun = self._begun(block.batch, requests.begin)
            block.content_of = partial(_taken, begun, requests.result)
            waiting.append((len(begun), block))
            files += len(begun)
            while waiting and (
                files - waiting[0][0] >= files_ahead
                or files * max([*self._sizes], default=_UNKNOWN_SIZE) >= _BYTES_AHEAD
            ):
                count, first = waiting.popleft()
                files -= count
                yield first
        while waiting:  # blocks are released as they are used
            yield waiting.popleft()[1]

    def complete(self, block: Block) -> None:
        """Put the contents of files in a block; request those that were not requested ahead.

        Columns that already hold contents stay.

        Raises
        ------
        MDStormError
            If a file cannot be read.
        InvalidArgumentError
            If the contents take more than 2 GiB.
        """
        contents: dict[str, pa.Array] = {}
        for name, paths in self._unread(block.batch).items():
            content_of, values = self._content_of(block), []
            for row, path in enumerate(paths):
                try:
                    values.append(self.fill.get(name) if path is None else content_of(path))
                except MDStormError as error:
                    # The error itself would repeat the message.
                    raise self._placed(error, block, name, row) from error.__cause__
            if sum(len(value) for value in values if value is not None) > INT32_MAX:
                raise too_large(f"column {name!r}")
            contents[name] = pa.array(values, pa.binary())
        block.batch, block.content_of = {**block.batch, **contents}, None

    def missing(self, block: Block) -> dict[int, CorruptDatasetError]:
        """Return the error of each row of a block whose file does not exist.

        Raises
        ------
        InvalidArgumentError
            If none of the first files exists.
        """
        missing: dict[int, CorruptDatasetError] = {}
        for name, paths in self._unread(block.batch).items():
            content_of = self._content_of(block)
            for row, path in enumerate(paths):
                try:
                    _ = path is None or content_of(path)
                except CorruptDatasetError as error:
                    missing[row] = self._placed(error, block, name, row)
        self.record((), map(str, missing.values()))
        return missing

    def record(self, sizes: Iterable[int], missing: Iterable[str]) -> None:
        """Record the sizes of files that were read, and the errors of files that are missing.

        Raises
        ------
        InvalidArgumentError
            If none of the first files exists.
        """
        self._sizes.extend(sizes)
        if not self._sizes:
            self._missing.extend(missing)
            self.check_missing(_ALL_MISSING)

    def recorded(self) -> tuple[list[int], list[str]]:
        """Return what to `record` in another process: a size, and each error once."""
        missing = [*self._missing]
        self._missing.clear()
        return [*self._sizes][-1:], missing

    def _content_of(self, block: Block) -> Callable[[str], bytes]:
        """Return the function from path to content; read the files unless they were requested."""
        if block.content_of is None:
            threads = min(THREADS, len(self._paths(block.batch))) or 1
            with Threads(threads, "mdstorm-files") as pool:
                begun = self._begun(block.batch, pool.submit)
            block.content_of = partial(_taken, begun, Future.result)
        return block.content_of

    def _placed(self, error: _Error, block: Block, name: str, row: int) -> _Error:
        """Return an error with the column and number of the row in its message."""
        placed = copy(error)  # rows with the same path share the error
        place = described_row(name, row, num_rows(block.batch), self.url, block.numbers())
        placed.args = (f"{place}, named by column {self.columns[name]!r}: {error}",)
        return placed

    def check_missing(self, most: int = _MISSING_AT_END) -> None:
        """Raise InvalidArgumentError if this many rows were left out, and no file was found.

        By default, `most` is that for the end of a pass.
        """
        if not self._sizes and len(self._missing) >= most:
            raise InvalidArgumentError(
                f"none of the first {len(self._missing)} files that are named in "
                f'{sorted(self.columns.values())} exists, so on_corrupt="skip" would leave out '
                f"all rows: {self._missing[0]}"
            )

    def _begun(self, batch: Batch, begin: Callable[[_Read, list[str]], Any]) -> dict[str, _Begun]:
        """Begin to read the files of a batch; return the request of each path, and its place."""
        paths = [*self._paths(batch)]
        groups = [paths[i : i + self.at_once] for i in range(0, len(paths), self.at_once)]
        requests = [begin(self._read_files, group) for group in groups]
        return {
            path: (request, place)
            for request, group in zip(requests, groups, strict=True)
            for place, path in enumerate(group)
        }

    def _read_files(self, paths: list[str]) -> _Contents:
        """Return the contents of files, or for each that cannot be read its error."""
        contents: _Contents = []
        with work(Cause.DOWNLOADS):
            for path in paths:
                try:
                    content = self.fetch(path)
                except MDStormError as error:
                    contents.append(error)
                else:
                    self._sizes.append(len(content))
                    contents.append(content)
        return contents

    def _paths(self, batch: Batch) -> dict[str, None]:
        """Return each path once, in the order of rows."""
        paths = (path for paths in self._unread(batch).values() for path in paths)
        return dict.fromkeys(path for path in paths if path is not None)

    def _unread(self, batch: Batch) -> dict[str, list[str | None]]:
        """Return the columns that still hold paths."""
        found = {name: as_arrow(batch[name]) for name in self.columns if name in batch}
        unread = {name: paths for name, paths in found.items() if pa.types.is_string(paths.type)}
        return {name: paths.to_pylist() for name, paths in unread.items()}


def _taken(begun: Mapping[str, _Begun], result: Callable[[Any], _Contents], path: str) -> bytes:
    """Return the content of a file from the request that was begun for it, or raise its error."""
    request, place = begun[path]
    # Without threads, the result is known already.
    content = (result(request) if isinstance(request, Future) else request)[place]
    if isinstance(content, MDStormError):
        raise content
    return content
