"""Executor side of the probe: write one small file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mdstorm_backend.storage import Location

PROBE_NAME = "probe"


def write_probe(
    batches: Iterator[pa.RecordBatch], *, url: str, storage_options: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Write the file.

    Yields
    ------
    pyarrow.RecordBatch
        One text: what went wrong, or nothing.
    """
    for _ in batches:
        pass
    location = Location(url, storage_options)
    refused = ""
    try:
        location.write(PROBE_NAME, [b"Executors can write here.\n"])
    except FileNotFoundError as error:
        refused = f"the directory that the driver has made is not there on executors: {error}"
    except Exception as error:  # whatever a storage raises, it cannot be written to
        refused = f"{type(error).__name__}: {error}"
    yield pa.RecordBatch.from_arrays([pa.array([refused], pa.string())], names=["report"])
