"""Test whether Spark executors can write to a directory."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mdstorm_backend.spark.executor import REPORT_SCHEMA, make_task
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import unwritable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "probe"


def why_not_writable(session: SparkSession, location: Location) -> str:
    """Let an executor write a small file, and check that this process sees it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Of either kind; runs a job of one task.
    location : Location
        The directory.

    Returns
    -------
    str
        Why executors cannot write there; empty if they can.

    Raises
    ------
    WriteError
        If this process cannot write there either.
    """
    directory = location.child(f"_mdstorm_probe_{secrets.token_hex(8)}")
    arguments = {"url": directory.url, "storage_options": directory.storage_options}
    task = make_task(arguments, (__name__, "write_probe"))
    try:
        directory.make_directory()  # as the driver does for a dataset
    except OSError as error:
        raise unwritable(location, error) from error
    try:
        rows = session.range(0, 1, 1, 1).mapInArrow(task, REPORT_SCHEMA).collect()
        if refused := rows[0]["report"]:
            return str(refused)
        if not directory.exists(_NAME):
            return "what an executor wrote there cannot be seen from the driver"
        return ""
    finally:
        with suppress(OSError):
            directory.remove(_NAME)
            directory.remove_directory_if_empty()


def write_probe(
    batches: Iterator[pa.RecordBatch], *, url: str, storage_options: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Write the file; runs on an executor.

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
        location.write(_NAME, [b"Executors can write here.\n"])
    except Exception as error:  # whatever a storage raises, it cannot be written to
        refused = f"{type(error).__name__}: {error}"
    yield pa.RecordBatch.from_arrays([pa.array([refused], pa.string())], names=["report"])
