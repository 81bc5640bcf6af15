"""`FileColumns`: store the content of files that columns name."""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from mdstorm_backend.base.work_ahead import WorkAhead
from mdstorm_backend.cache import FetchedFiles
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.format import Schema
from mdstorm_backend.format.values.batch import INT32_MAX
from mdstorm_backend.read import FileReader, file_columns
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.made_columns import check_new
from mdstorm_backend.storage import NamedFiles, identity_of

#: Requests of each task or converting thread, and the most rows of each batch that it writes.
_REQUESTS = 32
_ROWS = 16

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileColumns:
    """Columns with the content of files, which are read while rows are written.

    Can be pickled, unless the options of a prefix contain secrets.

    Attributes
    ----------
    columns : mapping of str to str
        For each column to add, the column of paths. A null path gives a null.
    files : NamedFiles
        Which files are allowed, and how they are read.
    """

    columns: Mapping[str, str]
    files: NamedFiles

    def planned(self, schema: Schema, url: str) -> Schema:
        """Return a plan that also has these columns; `url` describes the rows in messages.

        Raises
        ------
        InvalidArgumentError
            If a column of paths does not exist or is not text, or a column exists already.
        """
        found = file_columns(schema, self.columns, url)
        check_new("files", self.columns, schema, url)
        return Schema((*schema, *(replace(column, null_count=0) for column in found)))

    def added(
        self, batches: Iterable[pa.RecordBatch], url: str, first_row: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in smaller batches with these columns, in the same order.

        Several files are requested at a time, and few are held in memory.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            The rows, with the columns of paths.
        url : str
            Describes the rows in messages.
        first_row : int
            The number of the first row, for messages.

        Raises
        ------
        MDStormError
            If a file cannot be read; see `NamedFiles.read`.
        """
        parts: deque[pa.RecordBatch] = deque()
        # An Arrow array, whose offsets are int32, must hold the files of a batch.
        most = max(1, min(_ROWS, INT32_MAX // self.files.max_bytes))

        def blocks() -> Iterator[Block]:
            for batch in batches:
                for start in range(0, batch.num_rows, most):
                    part = batch.slice(start, most)
                    parts.append(part)
                    paths = {
                        name: part.column(path).cast(pa.string())
                        for name, path in self.columns.items()
                    }
                    yield Block([part.num_rows], batch=paths)

        fetched = FetchedFiles(self.files)
        reader = FileReader(self.columns, fetched.read, url, at_once=fetched.at_once)
        with WorkAhead(_REQUESTS, name="mdstorm-files") as requests:
            for block in reader.ahead(blocks(), requests, _REQUESTS):
                part = parts.popleft()
                block.numbered = range(first_row, first_row + part.num_rows)
                reader.complete(block)
                names = [*part.schema.names, *self.columns]
                contents = [block.batch[name] for name in self.columns]
                yield pa.RecordBatch.from_arrays([*part.columns, *contents], names=names)
                first_row += part.num_rows

    def identity(self) -> str | None:
        """Return a digest of the columns, and of the sizes and versions of all allowed files.

        The allowed directories are listed. The result is None if one of them cannot be listed, or
        its listing has no times or entity tags.
        """
        digest = hashlib.sha256(repr(sorted(self.columns.items())).encode())
        for location in self.files.locations:
            try:
                listed = location.list_files()
            except (MDStormError, OSError) as error:
                _logger.warning(
                    "%s cannot be listed, so it is not known whether its files have changed: %s",
                    location.url,
                    error,
                )
                return None
            for name, info in listed:
                version = identity_of(info)
                if not version:
                    return None
                digest.update(f"{location.file_url(name)} {version}\n".encode())
        return digest.hexdigest()
