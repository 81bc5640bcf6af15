"""Test whether Spark executors, and this process, can write to a directory."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mdstorm_backend.errors import CredentialsError, MissingDependencyError, StorageError
from mdstorm_backend.executors.tasks import PROBE_NAME, REPORT_SCHEMA, make_task, write_probe
from mdstorm_backend.spark.reports import collect_reports
from mdstorm_backend.spark.session import short_reason
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import unwritable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DRIVER_NAME = "driver"


def check_driver_writes(location: Location) -> None:
    """Let this process write a small file, and remove it.

    Raises
    ------
    CredentialsError, StorageError
        If the storage refuses it. What its library raised is not chained: the message says it.
    WriteError
        If it cannot be written on a disk of this machine.
    """
    with _probe_directory(location):
        pass


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
        Why executors cannot write there, in one line; empty if they can. A job that fails is a
        reason like any other: the session may refuse Python code.

    Raises
    ------
    CredentialsError, StorageError, WriteError
        If this process cannot write there either; no job has run then.
    MissingDependencyError
        If Python on the executors lacks mdstorm or what it needs.
    """
    with _probe_directory(location) as directory:
        arguments = {"url": directory.url, "storage_options": directory.storage_options}
        task = make_task(write_probe, arguments)
        try:
            mapped = session.range(0, 1, 1, 1).mapInArrow(task, REPORT_SCHEMA)
            (refused,) = collect_reports(mapped)
        except MissingDependencyError:
            raise
        except Exception as error:  # each kind of session raises errors of its own
            return short_reason(error)
        if refused:
            return refused
        if not directory.exists(PROBE_NAME):
            return "what an executor wrote there cannot be seen from the driver"
        return ""


@contextmanager
def _probe_directory(location: Location) -> Iterator[Location]:
    """Make a directory that this process can write to, and remove it at the end."""
    directory = location.child(f"_mdstorm_probe_{secrets.token_hex(8)}")
    try:
        directory.make_directory()  # as the driver does for a dataset
        directory.write(_DRIVER_NAME, [b"The driver can write here.\n"])
    except (CredentialsError, StorageError) as error:
        raise error from None
    except OSError as error:
        _remove(directory)
        raise unwritable(location, error) from None
    try:
        yield directory
    finally:
        _remove(directory)


def _remove(directory: Location) -> None:
    with suppress(OSError):
        directory.remove(_DRIVER_NAME)
        directory.remove(PROBE_NAME)
        directory.remove_directory_if_empty()
