"""`open_dataset`: data of any kind as rows with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mdstorm._datasets.sources import opened
from mdstorm_backend.base import suggests_instead
from mdstorm_backend.datasets import SampleDataset, with_added
from mdstorm_backend.kinds import Openable, open_stored
from mdstorm_backend.storage import MAX_FILE_BYTES, FilesBelow
from mdstorm_backend.tables import AsOf

#: Keywords of readers and loaders, and what to do instead.
_INSTEAD = {
    "batch_size": "make batches of the open dataset, with batches(batch_size)",
    "columns": "choose them when you read the open dataset: to_table([…]), batches(…, columns=[…])",
}


@suggests_instead(_INSTEAD)
def open_dataset(
    source: Any,
    *,
    version: int | str | None = None,
    timestamp: str | datetime | None = None,
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
    files: Mapping[str, str] | None = None,
    files_below: FilesBelow | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    row_numbers: str | None = None,
) -> SampleDataset:
    """Open data of any kind that readers read, as rows by number.

    Nothing is read but the index, the footers, or the log of a table. Rows have the numbers that
    loaders have for them: ``rows=`` takes them, and `Trace` returns them. Fields of a dataset that
    Petastorm wrote are decoded; images stay files until a loader decodes them.

    Parameters
    ----------
    source : str, path, list of them, table, converter or dataset
        - The URL or path of an MDS dataset, of its ``index.json`` or of one of its shards;
        - of a directory of Parquet files, whose Hive partitions become columns, of one file, or a
          pattern with ``*``, ``?`` or ``[…]``;
        - of a Delta or Iceberg table, or of an Iceberg table's metadata file;
        - the name of a table in Unity Catalog;
        - a list of Parquet files, or of shards of one MDS dataset;
        - a table of pyiceberg or deltalake;
        - a converter, a reader's ``dataset``, or an open dataset.
    version, timestamp : optional
        The version of a table, as in `make_batch_reader`; by default the newest one, or that of a
        table object or converter.
    storage_options : dict, optional
        Options for the fsspec file system.
    filesystem : object, optional
        A file system of fsspec or pyarrow for Parquet files.
    files : mapping of str to str, optional
        Columns to add, each with the content of the files that a column of strings names:
        ``{"image": "path"}``.
    files_below : list of str or mapping of str to dict, optional
        Further directories from which `files` may be read, as in `make_batch_reader`.
    max_file_bytes : int
        Maximum size of one file in bytes.
    row_numbers : str, optional
        Name of a column to add, which has the numbers of the rows.

    Returns
    -------
    SampleDataset
        ``dataset[n]`` is a row, ``dataset[2:5]`` and ``dataset[[7, 3]]`` are lists of rows.
        ``dataset.numbers(where)`` finds rows, ``dataset.to_table(rows=…, columns=…)`` reads them,
        and ``dataset.batches(n)`` iterates over batches. It can be pickled.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If an argument is invalid, or a version is requested of data without versions.
    DatasetNotFoundError
        If there are no data.
    UnsupportedTableError
        If the data are of a kind that is not read.
    CorruptDatasetError, CredentialsError, StorageError
        If the data cannot be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> pq.write_table(pa.table({"id": range(4), "x": [0.5, 1.5, 2.5, 3.5]}), "/tmp/rows.parquet")
    >>> dataset = open_dataset("/tmp/rows.parquet")
    >>> len(dataset), float(dataset[2]["x"])
    (4, 2.5)
    >>> dataset.numbers([("x", ">", 1)]).tolist()
    [1, 2, 3]
    >>> dataset.to_table(rows=[3, 0], columns=["id"]).to_pydict()
    {'id': [3, 0]}
    """
    dataset = open_stored(
        source,
        storage_options=storage_options,
        filesystem=filesystem,
        as_of=AsOf(version, timestamp),
    )
    return with_added(
        opened(dataset, missing_fields=isinstance(source, Openable)).source,
        files=files,
        files_below=files_below,
        max_file_bytes=max_file_bytes,
        row_numbers=row_numbers,
    )
