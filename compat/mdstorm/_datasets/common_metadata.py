"""Read and write ``_common_metadata``, the metadata file of a Parquet dataset."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm._datasets.metadata_keys import COMMON_METADATA
from mdstorm.errors import ArgumentTypeError
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.storage import Location

_ARROW_KEY = b"ARROW:schema"


def location_of(dataset: Any) -> Location:
    """Return the directory of a dataset that we or pyarrow opened.

    Raises
    ------
    ArgumentTypeError
        If it is something else.
    """
    if isinstance(dataset, ParquetDataset):
        return dataset.location
    # Not by its class: older versions of pyarrow have two.
    if not hasattr(dataset, "fragments") or not dataset.files:
        raise ArgumentTypeError(
            "expected a ParquetDataset of mdstorm or pyarrow with at least one file, found "
            f"{type(dataset).__name__}"
        )
    directories = [posixpath.dirname(str(path)) for path in dataset.files]
    root = posixpath.commonpath(directories)
    while "=" in posixpath.basename(root):  # all files are in one partition
        root = posixpath.dirname(root)
    return Location.of(root, filesystem=dataset.filesystem)


def common_metadata_of(dataset: Any) -> Mapping[bytes, bytes]:
    """Return the keys and values of a dataset's ``_common_metadata``; {} if it has none."""
    if isinstance(dataset, ParquetDataset):
        return dataset.common_metadata
    return _read(location_of(dataset))[1]


def add_metadata(dataset: Any, entries: Mapping[bytes, bytes]) -> None:
    """Add entries to ``_common_metadata``, replacing those with the same keys.

    Parameters
    ----------
    dataset : ParquetDataset or pyarrow.parquet.ParquetDataset
        The dataset. Its schema is written where there is no such file.
    entries : mapping of bytes to bytes
        The entries.
    """
    location = location_of(dataset)
    schema, metadata = _read(location)
    if schema is None:
        ours = isinstance(dataset, ParquetDataset)
        schema = dataset.arrow_schema if ours else dataset.schema
    # Arrow adds its own description of the schema.
    kept = {key: value for key, value in metadata.items() if key != _ARROW_KEY}
    file = BytesIO()
    pq.write_metadata(schema.with_metadata({**kept, **entries}), file)
    location.write(COMMON_METADATA, [file.getvalue()])


def _read(location: Location) -> tuple[pa.Schema | None, dict[bytes, bytes]]:
    try:
        content = location.read(COMMON_METADATA)
    except (FileNotFoundError, NotADirectoryError):
        return None, {}
    footer = pq.read_metadata(pa.BufferReader(pa.py_buffer(content)))
    # Not from the schema of pyarrow, which leaves out what it has taken from there.
    return footer.schema.to_arrow_schema().remove_metadata(), dict(footer.metadata or {})
