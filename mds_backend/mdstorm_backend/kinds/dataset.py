"""`open_dataset`, which opens data of any kind as rows by number."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mdstorm_backend.base import suggests_keywords
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets import SampleDataset, with_added
from mdstorm_backend.kinds.opening import open_stored
from mdstorm_backend.storage import MAX_FILE_BYTES, FilesBelow
from mdstorm_backend.tables import AsOf


@suggests_keywords
def open_dataset(
    source: Any,
    *,
    storage_options: dict[str, Any] | None = None,
    cache: CacheOptions | None = None,
    allow_unsafe_types: bool = False,
    version: int | str | None = None,
    timestamp: str | datetime | None = None,
    files: Mapping[str, str] | None = None,
    files_below: FilesBelow | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
    row_numbers: str | None = None,
) -> SampleDataset:
    """Open data as rows by number, with the values and types of the engine.

    `mdstorm.open_dataset` also decodes the fields of datasets that Petastorm wrote.

    Parameters
    ----------
    source : str, path, list of them, or a table of pyiceberg or deltalake
        An MDS dataset, some of its shards, Parquet files, or a Delta or Iceberg table; see
        `mdstorm.open_dataset`.
    storage_options : dict, optional
        Options for the fsspec file system.
    cache : CacheOptions, optional
        How compressed and remote shards, which cannot be mapped in place, are copied to this
        machine.
    allow_unsafe_types : bool
        Whether to unpickle columns with the encoding ``pkl``. Whoever wrote them can run code on
        this machine.
    version, timestamp : optional
        The version of a table, as in `mdstorm.make_batch_reader`; by default the newest one.
    files, files_below, max_file_bytes
        Columns to add that have the content of files: see `StreamingDataset`.
    row_numbers : str, optional
        Name of a column to add, which has the numbers of the rows.

    Returns
    -------
    SampleDataset
        The dataset; an MDS dataset is a `Dataset`.

    Raises
    ------
    DatasetNotFoundError
        If there are no data.
    CorruptDatasetError
        If the data cannot be read.

    Examples
    --------
    >>> from mdstorm_backend import MDSWriter
    >>> with MDSWriter(out="/tmp/opened", columns={"x": "int"}) as writer:
    ...     writer.write({"x": 7})
    >>> dataset = open_dataset("/tmp/opened")
    >>> len(dataset), dataset[0]
    (1, {'x': 7})
    >>> [batch["x"].tolist() for batch in dataset.batches(10)]
    [[7]]
    """
    dataset = open_stored(
        source,
        storage_options=storage_options,
        as_of=AsOf(version, timestamp),
        cache=cache,
        allow_unsafe_types=allow_unsafe_types,
    )
    return with_added(
        dataset,
        files=files,
        files_below=files_below,
        max_file_bytes=max_file_bytes,
        row_numbers=row_numbers,
    )
