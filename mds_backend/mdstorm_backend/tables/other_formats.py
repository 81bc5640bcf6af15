"""Say what is at a URL where an MDS dataset was looked for."""

from __future__ import annotations

import shlex
from contextlib import suppress

from mdstorm_backend.errors import MDStormError
from mdstorm_backend.storage import Location
from mdstorm_backend.tables.delta import is_delta
from mdstorm_backend.tables.layouts import unread_message, unread_table

_MAGIC = b"PAR1"
#: Parquet, also with the ending that older tools write.
_FILES = "*.par*q*"
#: Partitions inside of partitions: `year=2024/month=5`.
_PARTITIONS = "*=*"
_MOST_LEVELS = 8
#: A file of metadata alone, which Petastorm writes beside the data.
_METADATA = "_common_metadata"


def other_format(location: Location) -> str | None:
    """Return what is at a location and which command helps; None if it is nothing that is known.

    Only names are listed, those of one partition at each level; a failure of the storage is not an
    error: whoever asks has one already.

    Parameters
    ----------
    location : Location
        Where no index of MDS was found.
    """
    with suppress(MDStormError, OSError):
        if kind := unread_table(location):
            return (
                f"there is no MDS dataset at {location.url}: {unread_message(kind, location.url)}"
            )
        found = _kind(location)
        if found is not None:
            kind, reader = found
            return (
                f"there is no MDS dataset at {location.url}, but {kind}. Convert it with: mdstorm "
                f"convert {shlex.quote(location.url)} DST; or read it where it is with "
                f"mdstorm.{reader}({location.url!r})"
            )
    return None


def _kind(location: Location) -> tuple[str, str] | None:
    described = location.describe()
    if described is None:
        return None
    if described.get("type") == "file":
        return ("a Parquet file", "make_batch_reader") if _is_parquet_file(location) else None
    if is_delta(location):
        return "a Delta table", "make_batch_reader"
    if not _holds_parquet(location):
        return None
    if location.exists(_METADATA):
        return f"Parquet files with {_METADATA}, as Petastorm writes them", "make_reader"
    return "Parquet files", "make_batch_reader"


def _is_parquet_file(location: Location) -> bool:
    directory, _, name = location.url.rpartition("/")
    around = Location(directory, location.storage_options, location.filesystem)
    return around.read_range(name, 0, len(_MAGIC)) == _MAGIC


def _holds_parquet(location: Location) -> bool:
    for _ in range(_MOST_LEVELS):
        if location.list_matches(_FILES):
            return True
        partitions = location.list_matches(_PARTITIONS)
        if not partitions:
            return False
        location = location.child(partitions[0])
    return False
