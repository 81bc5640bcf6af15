"""Open a Delta table with delta-rs: find the live files and rows of a version."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import parse_json, require
from mdstorm_backend.storage import Location
from mdstorm_backend.storage.urls import means_expiry, scrub
from mdstorm_backend.tables import snapshot
from mdstorm_backend.tables.delta_options import of_delta_rs
from mdstorm_backend.tables.snapshot import AsOf, DeadRows, TableField, TableSnapshot

_LOG = "_delta_log"
_VECTORS = "deletionVectors"
#: Reader features that delta-rs or this package handles. Columns of type variant are left out.
_KNOWN_FEATURES = frozenset(
    (
        *("columnMapping", _VECTORS, "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
        *("typeWidening", "typeWidening-preview"),
        *("variantType", "variantType-preview", "variantShredding-preview"),
    )
)
#: Fields to read from the log's actions that add files; some logs lack the last two.
_SAID = ("path", "size_bytes", "modification_time", "num_records", "partition", "null_count")
#: A version number that no real table reaches.
_MOST_VERSIONS = 10_000_000

#: Parts of stores' error messages about missing or wrong credentials.
_DENIALS = ("401", "403", "redential", "Forbidden", "Denied", "Unauth")

#: Parts of delta-rs's error messages about tables that need unsupported features.
_REFUSALS = ("not supported", "Unknown feature", "Unsupported")

#: The reader feature of tables whose newest commits only their catalog knows.
_OF_CATALOG = "catalogManaged"

#: Part of delta-rs's error message about a partition value of another type than its column.
_MISFIT = "Failed to parse value"

#: Part of delta-rs's error message in a forked child of a process that has used it.
_FORKED = "Forked process detected"

#: Terminal colour codes.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ID = "delta.columnMapping.id"
_STORED_NAME = "delta.columnMapping.physicalName"


def is_delta(location: Location) -> bool:
    """Whether a directory is a Delta table."""
    return location.child(_LOG).describe() is not None


def open_delta(location: Location, as_of: AsOf) -> TableSnapshot:
    """Return the live files and rows of a version of a Delta table.

    Parameters
    ----------
    location : Location
        The directory of the table.
    as_of : AsOf
        The version to open.

    Raises
    ------
    MissingDependencyError
        If the deltalake library is not installed.
    DatasetNotFoundError
        If the table has no such version.
    UnsupportedTableError
        If the table needs an unsupported feature, or is on an unsupported storage.
    CorruptDatasetError
        If its log cannot be read.
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    require("deltalake")
    return location.repeat_after_expiry(lambda: _open_snapshot(location, as_of))


def _open_snapshot(location: Location, as_of: AsOf) -> TableSnapshot:
    url = location.url
    table = _open_table(location, as_of)
    version, metadata = table.version(), table.metadata()
    features = _checked_features(table, location)
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    fields = tuple(_field(field, mode) for field in json.loads(table.schema().to_json())["fields"])
    columns = tuple(metadata.partition_columns)
    for field in fields:
        # Writers differ in how they store binary partition values in the log.
        if field.name in columns and (pa.types.is_binary(field.type) or not field.is_known):
            raise snapshot.unsupported(
                url, f"is partitioned by {field.name!r}, of type {field.type}"
            )
    actions = pa.table(table.get_add_actions()).sort_by("path")
    try:
        rows = actions.select([name for name in _SAID if name in actions.column_names]).to_pylist()
    except OverflowError as error:
        raise snapshot.unsupported(
            url, f"has a partition value that is not in the years 1 to 9999 ({error})"
        ) from error
    dead = _dead(table, url, [row["path"] for row in rows]) if _VECTORS in features else {}
    files = tuple(
        snapshot.LiveFile(
            _checked_path(unquote(row["path"]), url),
            row["size_bytes"],
            row["modification_time"],
            row["num_records"],
            row["partition"] if columns else {},
            snapshot.null_counts(
                fields, columns, row.get("null_count") or {}, lambda field: field.stored_name
            ),
            dead.get(row["path"], snapshot.NO_ROWS),
        )
        for row in rows
    )
    if as_of.timestamp is not None:
        # For a time before the oldest version, delta-rs opens the oldest version.
        committed = _committed(location, version)
        if committed is not None and as_of.time < committed:
            raise errors.DatasetNotFoundError(
                f"{url} has no version as old as {as_of}: the oldest remaining version, "
                f"{version}, was written at {committed.isoformat()}",
                url=url,
            )
    return TableSnapshot(location, version, fields, columns, files, root=location)


def _committed(location: Location, version: int) -> datetime | None:
    """Return the time at which a version was written; None if its log does not record it."""
    try:
        lines = bytes(location.child(_LOG).read(f"{version:020}.json")).splitlines()
    except location.absences:
        return None
    notes = [note for line in lines if (note := parse_json(line).get("commitInfo"))]
    times = [note.get("inCommitTimestamp") or note.get("timestamp") for note in notes]
    if not times or times[0] is None:
        return None
    return datetime.fromtimestamp(times[0] / 1000, timezone.utc)


def _open_table(location: Location, as_of: AsOf) -> Any:
    """Open a version with delta-rs, or the oldest one if all are newer than the requested time."""
    delta, version, shown = require("deltalake"), as_of.version, location.url
    url, options = of_delta_rs(location)
    if isinstance(version, str):
        raise errors.InvalidArgumentError(
            f"{as_of} is the name of a branch or tag, but {shown} is a Delta table, whose versions "
            "are numbers: pass a number, or timestamp="
        )
    try:
        if version is not None:
            return _opened_version(delta, shown, url, options, version)
        table = delta.DeltaTable(url, storage_options=options)
        if as_of.timestamp is not None:
            table.load_as_version(as_of.time)
        return table
    except errors.MDStormError:
        raise
    except delta.exceptions.DeltaError as error:
        said = _plain_text(error)
        if _MISFIT in said:
            raise snapshot.unsupported(
                shown, f"has a partition value that does not fit its column ({said})"
            ) from error
        if _OF_CATALOG.lower() in said.lower().replace("-", ""):
            raise _managed_by_catalog(location) from error
        if any(text in said for text in _REFUSALS):
            raise snapshot.unsupported(shown, f"needs unsupported features ({said})") from error
        raise errors.CorruptDatasetError(
            f"{shown} is a Delta table whose log cannot be read ({said}). Check that _delta_log is "
            "complete, and that this machine may read it",
            url=shown,
        ) from error
    except OSError as error:  # a storage failure, described only by its message
        said = scrub(_plain_text(error), options)
        if refused := _refused(location, said):
            raise refused from None
        raise errors.StorageError(
            f"the log of the Delta table {shown} cannot be read ({said}). Check the network and "
            "the storage options",
            url=shown,
        ) from error
    except BaseException as error:  # a panic in Rust
        if _FORKED not in str(error):
            raise
        raise errors.UnsupportedTableError(
            f"{shown} is a Delta table, which deltalake does not open in a forked child of a "
            "process that has used it. Open it before the fork, or start processes with spawn",
            url=shown,
        ) from None


def _refused(location: Location, said: str) -> errors.CredentialsError | None:
    """Return the error for a store that denies access to a log; None for any other failure."""
    is_expired = means_expiry(said)
    if not is_expired and not any(sign in said for sign in _DENIALS):
        return None
    url, whose = location.url, location.credentials
    message = (
        f"the log of the Delta table {url} cannot be read with the credentials in use ({said}). "
        "deltalake uses the credentials from storage_options and the environment"
    )
    if whose is not None:
        message = whose.refusal(url, said)
    return errors.CredentialsError(message, url=url, is_expired=is_expired)


def _opened_version(delta: Any, shown: str, url: str, options: dict[str, str], version: int) -> Any:
    said = ""
    if version <= _MOST_VERSIONS:  # delta-rs counts up to it, which may take long
        try:
            return delta.DeltaTable(url, version=version, storage_options=options)
        except delta.exceptions.DeltaError as error:
            said = _plain_text(error)
    newest = delta.DeltaTable(url, storage_options=options).version()
    what = f"the newest one is {newest}"
    if version <= newest:
        what = f"its log no longer contains it ({said}); {what}"
    raise errors.DatasetNotFoundError(f"{shown} has no version {version}: {what}", url=shown)


def _managed_by_catalog(location: Location) -> errors.UnsupportedTableError:
    """Return the error for a table that may not be read by its path, with its name if known."""
    url, name = location.url, getattr(location.credentials, "name", "catalog.schema.table")
    return errors.UnsupportedTableError(
        f"{url} is a Delta table whose newest commits only its catalog knows ({_OF_CATALOG}), so "
        "deltalake cannot read it, and nothing may read it by path. With Spark, use "
        f"make_spark_converter(spark.table('{name}')), or use Delta Sharing",
        url=url,
    )


def _checked_features(table: Any, location: Location) -> frozenset[str]:
    protocol, url = table.protocol(), location.url
    features = frozenset(protocol.reader_features or ())
    if _OF_CATALOG in features:
        raise _managed_by_catalog(location)
    unknown = sorted(features - _KNOWN_FEATURES)
    if unknown or protocol.min_reader_version > 3:
        needed = unknown or [f"reader version {protocol.min_reader_version}"]
        raise snapshot.unsupported(
            url, f"needs {', '.join(needed)}, which mdstorm does not support"
        )
    return features


def _dead(table: Any, url: str, paths: list[str]) -> dict[str, DeadRows]:
    delta = require("deltalake")
    try:
        dead_rows = _dead_rows(table.deletion_vectors())
    except (delta.exceptions.DeltaError, pa.ArrowException, OSError) as error:
        said = _plain_text(error)
        if "Unsupported table features" in said:
            raise snapshot.unsupported(
                url,
                f"has deletion vectors and features that the library cannot read ({said}). "
                "Spark's ALTER TABLE … DROP FEATURE removes such a feature",
            ) from error
        raise errors.CorruptDatasetError(
            f"{url} is a Delta table whose deletion vectors cannot be read ({said}). Restore the "
            "missing files, or open another version",
            url=url,
        ) from error
    root = table.table_uri.rstrip("/")
    of_file = {unquote(p if snapshot.is_absolute(p) else f"{root}/{p}"): p for p in paths}
    if strange := dead_rows.keys() - of_file.keys():
        raise errors.CorruptDatasetError(
            f"{url} has a deletion vector for {min(strange)}, which is not one of its live files. "
            "Open another version",
            url=url,
        )
    return {of_file[name]: rows for name, rows in dead_rows.items()}


def _dead_rows(vectors: Any) -> dict[str, DeadRows]:
    """Return the dead rows of each file that has any, by its percent-decoded URL.

    Parameters
    ----------
    vectors : object
        Result of ``deltalake.DeltaTable.deletion_vectors``: a stream of URLs and lists of booleans,
        one per row of the file, False for a dead row.
    """
    by_file: dict[str, DeadRows] = {}
    for batch in pa.table(vectors).to_batches():
        lists = batch.column("selection_vector")
        bounds = np.concatenate([[0], np.cumsum(np.asarray(lists.value_lengths()))])
        alive = lists.flatten().to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
        dead = np.flatnonzero(~alive).astype(np.int64, copy=False)
        cuts = np.searchsorted(dead, bounds)
        for i, url in enumerate(batch.column("filepath").to_pylist()):
            by_file[unquote(url)] = dead[cuts[i] : cuts[i + 1]] - bounds[i]
    return by_file


def _checked_path(path: str, url: str) -> str:
    """Return the path; raise an error for a relative path that leads outside the table."""
    if "\0" in path or (not snapshot.is_absolute(path) and ".." in path.split("/")):
        raise errors.CorruptDatasetError(
            f"{url} is a Delta table whose log lists the file {path!r}, which is outside of it. "
            "Restore the log, or open another version",
            url=url,
        )
    return path


def _plain_text(error: Exception) -> str:
    """Return the message of a delta-rs error on one line, without colour codes."""
    return " ".join(_COLOURS.sub("", str(error)).split())


def _field(field: Mapping[str, Any], mode: str) -> TableField:
    """Return a column of a Delta table's schema, or a field nested in a column.

    Parameters
    ----------
    field : mapping
        The column as parsed from the JSON of the log.
    mode : str
        The table's column mapping: ``"none"``, ``"name"`` or ``"id"``.
    """
    name, type_, metadata = str(field["name"]), field["type"], field.get("metadata") or {}
    stored = str(metadata.get(_STORED_NAME, name)) if mode != "none" else name
    id_ = int(metadata[_ID]) if mode == "id" and _ID in metadata else None
    kind = type_["type"] if isinstance(type_, Mapping) else type_
    parts = type_["fields"] if kind == "struct" else []
    for part in {"array": ("element",), "map": ("key", "value")}.get(kind, ()):
        parts.append({"name": part, "type": type_[f"{part}Type"], "nullable": part != "key"})
    children = tuple(_field(part, mode) for part in parts)
    nullable = bool(field.get("nullable", True))
    return TableField(name, snapshot.type_of_values(type_), stored, id_, nullable, children)
