"""`MDSWriter`: write a dataset from samples or from Arrow data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from reprlib import repr as shortened
from typing import Any

import pyarrow as pa

from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.display import Described, Description, shown_place
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.hashes import check_hashes
from mdstorm_backend.format.shard_info import INDEX_VERSION
from mdstorm_backend.format.size_limit import parse_size_limit
from mdstorm_backend.write.arrow_plan import check_columns
from mdstorm_backend.write.directories import DEFAULT_RETRY
from mdstorm_backend.write.file_sink import check_counts
from mdstorm_backend.write.shard_format import ShardFormat
from mdstorm_backend.write.target import Path, clear_target, find_targets
from mdstorm_backend.write.writing import Writing, shard_name


class MDSWriter(Described, OwnContext):
    """Writes an MDS dataset, with the arguments of MosaicML Streaming's class of that name.

    Use it in a ``with`` block. The index is written at its end, after every shard, and makes the
    files a dataset; if the block raises, there is none, and the files that were written are
    removed. Samples written one at a time give the same bytes as MosaicML Streaming's writer, but
    for one thing: it puts an empty shard before a first sample that is larger than `size_limit`.

    Not to be used by several threads at a time.

    Parameters
    ----------
    columns : dict of str to str
        Column → encoding. May be left out if `write_batch` is called first; then every column gets
        the encoding that keeps its type.
    out : str or path, or pair of them
        Directory for the dataset: a local path or a URL. Of a pair ``(local, remote)`` the second
        gets the dataset, and the first a copy with `keep_local`.
    keep_local : bool
        Keep a local copy of a dataset that goes elsewhere; without a pair in a new temporary
        directory, see the attribute `local`.
    compression : str, optional
        ``"zstd"``, ``"gz"``, ``"bz2"``, ``"br"`` or ``"snappy"``, with an optional ``":level"``.
    hashes : list of str, optional
        Names of hashes, unique and in sorted order, that the index is to hold of every file.
    size_limit : int or str, optional
        Largest size of an uncompressed shard in bytes, or a text such as ``"64mb"``. None or 0 puts
        everything into one shard, up to the 4 GiB that the format allows.
    progress_bar : bool
        Show on a terminal or in a notebook how many files and bytes have been written.
    max_workers : int, optional
        Threads that compress, hash and write shards; each holds one shard in memory.
    retry : int
        How often writing a file to remote storage is tried again.
    exist_ok : bool
        Replace a dataset that is in the directory, or what a writer that was killed has left in a
        local one. Files that are no part of it are never removed: if there are any, nothing happens
        and an error says so.
    storage_options : dict, optional
        Arguments of the fsspec file system of the URL.

    Attributes
    ----------
    local, remote : str or None
        Local directory and URL of the dataset; None where there is none.
    columns, keep_local, compression, hashes, size_limit
        As given; the size limit in bytes.
    column_names, column_encodings, column_sizes : list
        Of each column in stored order; the size of its values in bytes is None where it varies.

    Raises
    ------
    InvalidArgumentError
        If an argument is outside its domain or unknown.
    UnsupportedTypeError
        If the format has no such encoding.
    DatasetExistsError
        If the directory is not empty.

    Examples
    --------
    >>> import numpy as np
    >>> from mdstorm_backend import open_dataset
    >>> columns = {"id": "int", "pixels": "ndarray:uint8:2,2"}
    >>> with MDSWriter(out="/tmp/written", columns=columns, compression="zstd") as writer:
    ...     writer.write({"id": 1, "pixels": np.zeros((2, 2), np.uint8)})
    >>> open_dataset("/tmp/written")[0]["pixels"].shape
    (2, 2)
    """

    #: The format of its shards, as an index names it.
    format = "mds"

    def __init__(
        self,
        *,
        columns: Mapping[str, str] | None = None,
        out: Path | tuple[Path, Path],
        keep_local: bool = False,
        compression: str | None = None,
        hashes: Iterable[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        progress_bar: bool = False,
        max_workers: int | None = None,
        retry: int = DEFAULT_RETRY,
        exist_ok: bool = False,
        storage_options: dict[str, Any] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise InvalidArgumentError(
                f"Invalid Writer argument(s): {sorted(unknown)}. Known are columns, out, "
                "keep_local, compression, hashes, size_limit, progress_bar, max_workers, retry, "
                "exist_ok and storage_options"
            )
        if columns is not None:
            check_columns(columns)
        check_counts(max_workers, retry)
        limit = parse_size_limit(size_limit)
        format_ = ShardFormat(limit, compression or None, check_hashes(hashes))
        targets = find_targets(out, keep_local, storage_options)
        self.local, self.remote = targets.local, targets.remote
        first = format_.file_name(shard_name(0))
        for location in targets.all:
            clear_target(location, exist_ok=exist_ok, first_shard=first)
        self.columns = None if columns is None else dict(columns)
        encodings = sorted((columns or {}).items())
        self.column_names = [name for name, _ in encodings]
        self.column_encodings = [encoding for _, encoding in encodings]
        self.column_sizes = [parse_encoding(encoding).size for _, encoding in encodings]
        self.keep_local, self.compression = keep_local, compression
        self.hashes, self.size_limit = list(format_.hashes), limit
        #: Everything else: a subclass has all other names for itself.
        self._mdstorm = Writing(
            columns,
            format_,
            targets.to_write,
            max_workers=max_workers,
            retry=retry,
            progress_bar=progress_bar,
        )

    def _mdstorm_description(self, *, full: bool) -> Description:
        place = shown_place(self.remote or self.local or "")
        return Description([repr(place), f"columns={shortened(self.columns)}"])

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample: a value for every column; further entries are ignored.

        A sample that is refused leaves no trace, and writing can go on.

        Raises
        ------
        ArgumentTypeError
            If the sample is no mapping.
        MissingColumnError
            If a column is missing.
        EncodingError
            If a value does not fit the encoding of its column: nothing is wrapped or cut off.
        WriteError
            If the writer is finished, or an earlier shard could not be stored.
        """
        self._mdstorm.write(sample)

    def write_batch(self, data: pa.Table | pa.RecordBatch) -> None:
        """Append all rows of Arrow data, a whole column at a time.

        The types that MDS has no word for (booleans, dates, timestamps, decimals, nested values,
        nulls) are kept beside it, as of a Spark DataFrame, and read back by mdstorm; other readers
        find the values described in the documentation. All batches must have the same types. Data
        that are refused leave no trace, unless a part of them was appended already: then nothing is
        published, and writing cannot go on.

        Parameters
        ----------
        data : pyarrow.Table or pyarrow.RecordBatch
            The rows. Columns that are not among `columns` are ignored.

        Raises
        ------
        UnsupportedTypeError
            If a column has no form in MDS shards, or none in its encoding.
        EncodingError
            If a value does not fit the encoding of its column.
        WriteError
            If the writer is finished, or an earlier shard could not be stored.
        """
        self._mdstorm.write_batch(data)

    def finish(self) -> None:
        """Write the last shard, wait for all, and write the index; a second call does nothing.

        Raises
        ------
        WriteError
            If a file could not be stored; then all are removed.
        """
        self._mdstorm.finish()

    def get_config(self) -> dict[str, Any]:
        """Return what the header of a shard says: the format, its settings, the columns."""
        names = ("format", "compression", "hashes", "size_limit")
        columns = ("column_names", "column_encodings", "column_sizes")
        return {"version": INDEX_VERSION, **{n: getattr(self, n) for n in (*names, *columns)}}

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            "an MDSWriter cannot be copied or sent to another process, since both would write the "
            "same files: make one in the process that writes, with a directory of its own, and "
            "merge the directories with merge_index"
        )

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        if kind is None:
            self.finish()
        else:
            self._mdstorm.leave_unfinished()
