"""Open a Delta table with delta-rs: find the live files and rows of a version."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from operator import attrgetter
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.base.optional import require
from mdstorm_backend.storage import Location
from mdstorm_backend.storage.filesystems import options_in_use
from mdstorm_backend.tables import snapshot
from mdstorm_backend.tables.snapshot import AsOf, DeadRows, TableField, TableSnapshot

_LOG = "_delta_log"
_VECTORS = "deletionVectors"
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|/")
#: Reader features that delta-rs or this package handles. Columns of type variant are left out.
_KNOWN_FEATURES = frozenset(
    {
        "columnMapping",
        _VECTORS,
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)

#: More than the versions of any table.
_MOST_VERSIONS = 10_000_000

#: Texts in storages' errors about missing or wrong credentials.
_DENIALS = ("401", "403", "redential", "Forbidden", "Denied", "Unauth")

#: Texts in delta-rs's errors about tables that need unsupported features.
_REFUSALS = ("not supported", "Unknown feature", "catalog-managed", "Unsupported")

#: Text in delta-rs's error in a forked child of a process that has used it.
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
        If the library deltalake is not installed.
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
    url = location.url
    table = _opened(url, *of_delta_rs(location), as_of)
    version = table.version()
    features = _checked_features(table, url)
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    fields = _parse_fields(json.loads(table.schema().to_json()), mode)
    partition_columns = tuple(table.metadata().partition_columns)
    _check_partitions(fields, partition_columns, url)
    actions = pa.table(table.get_add_actions()).sort_by("path")
    paths = actions.column("path").to_pylist()
    dead = _dead(table, url, paths) if _VECTORS in features else {}
    counts: list[dict[str, int | None]] = [{} for _ in paths]
    if "null_count" in actions.column_names:
        counts = [row or {} for row in actions.column("null_count").to_pylist()]
    stored = attrgetter("stored_name")
    nulls = [snapshot.null_counts(fields, partition_columns, row, stored) for row in counts]
    partitions: list[dict[str, Any]] = [{} for _ in paths]
    if partition_columns:
        partitions = actions.column("partition").to_pylist()
    columns = ("path", "size_bytes", "modification_time", "num_records")
    values = zip(*(actions.column(name).to_pylist() for name in columns), strict=True)
    names = [_checked_path(unquote(path), url) for path in paths]
    files = tuple(
        snapshot.LiveFile(names[i], size, modified, rows, partitions[i], nulls[i], dead.get(path))
        for i, (path, size, modified, rows) in enumerate(values)
    )
    if as_of.timestamp is not None:
        _check_not_before(location, version, as_of)
    return TableSnapshot(url, version, fields, partition_columns, files)


def _check_not_before(location: Location, version: int, as_of: AsOf) -> None:
    """Raise for a time before the oldest version, for which delta-rs opens the oldest one."""
    committed = _committed(location, version)
    if committed is not None and as_of.time < committed:
        raise errors.DatasetNotFoundError(
            f"{location.url} has no version as old as {as_of}: the oldest version that is left, "
            f"{version}, was written at {committed.isoformat()}",
            url=location.url,
        )


def _committed(location: Location, version: int) -> datetime | None:
    """Return the time at which a version was written; None if its log does not record it."""
    try:
        lines = bytes(location.child(_LOG).read(f"{version:020}.json")).splitlines()
    except FileNotFoundError:
        return None
    notes = [note for line in lines if (note := parse_json(line).get("commitInfo"))]
    times = [note.get("inCommitTimestamp") or note.get("timestamp") for note in notes]
    if not times or times[0] is None:
        return None
    return datetime.fromtimestamp(times[0] / 1000, timezone.utc)


def check_as_of(as_of: AsOf | None, url: str) -> None:
    """Check that no version is requested, for files that are not a table.

    Raises
    ------
    InvalidArgumentError
        If `as_of` chooses a version.
    """
    if as_of:
        raise errors.InvalidArgumentError(
            f"{as_of} chooses a version of a table, and {url} is no table of Delta or Iceberg: "
            "leave it out"
        )


def _opened(shown: str, url: str, options: dict[str, str], as_of: AsOf) -> Any:
    """Open a version with delta-rs, by its URL; errors name the URL `shown`.

    For a time before the oldest version, the oldest one is opened.
    """
    delta = require("deltalake")
    try:
        if as_of.version is not None:
            try:
                if as_of.version <= _MOST_VERSIONS:
                    return delta.DeltaTable(url, version=as_of.version, storage_options=options)
                said = ""  # not tried: delta-rs would count up to it
            except delta.exceptions.DeltaError as error:
                said = _plain_text(error)
            newest = delta.DeltaTable(url, storage_options=options).version()
            raise _no_version(shown, as_of.version, newest, said)
        table = delta.DeltaTable(url, storage_options=options)
        if as_of.timestamp is not None:
            table.load_as_version(as_of.time)
        return table
    except errors.MDStormError:
        raise
    except delta.exceptions.DeltaError as error:
        raise _not_opened(shown, error) from error
    except OSError as error:
        raise _out_of_reach(shown, error) from error
    except BaseException as error:  # a panic of Rust
        if _FORKED not in str(error):
            raise
        raise errors.UnsupportedTableError(
            f"{shown} is a Delta table, which deltalake does not open in a forked child of a "
            "process that has used it. Open it before the fork, or start processes by spawn",
            url=shown,
        ) from None


def _checked_features(table: Any, url: str) -> frozenset[str]:
    protocol = table.protocol()
    features = frozenset(protocol.reader_features or ())
    unknown = sorted(features - _KNOWN_FEATURES)
    if unknown or protocol.min_reader_version > 3:
        needed = unknown or [f"reader version {protocol.min_reader_version}"]
        raise snapshot.unsupported(url, f"needs {', '.join(needed)}, which is not known here")
    return features


def _check_partitions(fields: tuple[TableField, ...], columns: tuple[str, ...], url: str) -> None:
    """Raise for binary partition columns, which writers store in the log in different ways."""
    for field in fields:
        if field.name in columns and (pa.types.is_binary(field.type) or not field.is_known):
            raise snapshot.unsupported(
                url, f"is partitioned by {field.name!r}, of type {field.type}"
            )


def _dead(table: Any, url: str, paths: list[str]) -> dict[str, DeadRows]:
    delta = require("deltalake")
    try:
        found = _dead_rows(table.deletion_vectors())
    except (delta.exceptions.DeltaError, pa.ArrowException, OSError) as error:
        said = _plain_text(error)
        if "Unsupported table features" in said:
            raise snapshot.unsupported(
                url,
                f"has deletion vectors together with what the library cannot read ({said}). "
                "Spark's ALTER TABLE … DROP FEATURE removes such a feature",
            ) from error
        raise errors.CorruptDatasetError(
            f"{url} is a Delta table whose deletion vectors cannot be read ({said}). Restore what "
            "is missing, or open another version",
            url=url,
        ) from error
    root = table.table_uri.rstrip("/")
    urls = (path if is_absolute(path) else f"{root}/{path}" for path in paths)
    dead = {
        path: found.pop(of_file)
        for path, of_file in zip(paths, map(unquote, urls), strict=True)
        if of_file in found
    }
    if found:
        raise errors.CorruptDatasetError(
            f"{url} has a deletion vector for {min(found)}, which is not one of its live files. "
            "Open another version",
            url=url,
        )
    return dead


def _dead_rows(vectors: Any) -> dict[str, DeadRows]:
    """Return the dead rows of files that have any, by the file's percent-decoded URL.

    Parameters
    ----------
    vectors : object
        Result of ``deltalake.DeltaTable.deletion_vectors``: a stream of URLs and lists of booleans,
        one per row of the file, False for a dead row.
    """
    found: dict[str, DeadRows] = {}
    for batch in pa.table(vectors).to_batches():
        lists = batch.column("selection_vector")
        bounds = np.concatenate([[0], np.cumsum(np.asarray(lists.value_lengths()))])
        alive = lists.flatten().to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
        dead = np.flatnonzero(~alive).astype(np.int64, copy=False)
        cuts = np.searchsorted(dead, bounds)
        for i, url in enumerate(batch.column("filepath").to_pylist()):
            found[unquote(url)] = dead[cuts[i] : cuts[i + 1]] - bounds[i]
    return found


def _checked_path(path: str, url: str) -> str:
    """Return the path; raise for a relative path that leads out of the table."""
    if "\0" in path or (not is_absolute(path) and ".." in path.split("/")):
        raise errors.CorruptDatasetError(
            f"{url} is a Delta table whose log names the file {path!r}, which is outside of it. "
            "Restore the log, or open another version",
            url=url,
        )
    return path


def is_absolute(path: str) -> bool:
    """Whether a path in a log is absolute, as in a shallow clone."""
    return _ABSOLUTE.match(path) is not None


def _plain_text(error: Exception) -> str:
    """Return the message of delta-rs's error in one line, without colour codes."""
    return " ".join(_COLOURS.sub("", str(error)).split())


def _no_version(url: str, version: int, newest: int, said: str) -> errors.DatasetNotFoundError:
    """Return the error for a version that does not exist, or no longer exists."""
    what = f"the newest one is {newest}"
    if version <= newest:
        what = f"its log no longer holds that one ({said}); {what}"
    return errors.DatasetNotFoundError(f"{url} has no version {version}: {what}", url=url)


def _not_opened(
    url: str, error: Exception
) -> errors.UnsupportedTableError | errors.CorruptDatasetError:
    """Return the error for a log that delta-rs cannot read."""
    said = _plain_text(error)
    if any(text in said for text in _REFUSALS):
        return snapshot.unsupported(url, f"needs what is not known here ({said})")
    return errors.CorruptDatasetError(
        f"{url} is a Delta table whose log cannot be read ({said}). Check that _delta_log is "
        "complete, and that this machine may read it",
        url=url,
    )


def _out_of_reach(url: str, error: OSError) -> errors.StorageError | errors.CredentialsError:
    """Return the error for a failure of the storage, which delta-rs only describes by a text."""
    text = _plain_text(error)
    if any(sign in text for sign in _DENIALS):
        return errors.CredentialsError(
            f"the log of the Delta table {url} cannot be read with the credentials in use "
            f"({text}). deltalake uses the credentials of storage_options and of the environment",
            url=url,
        )
    return errors.StorageError(
        f"the log of the Delta table {url} cannot be read ({text}). Check the network and the "
        "storage options",
        url=url,
    )


def _parse_fields(schema: Mapping[str, Any], mode: str) -> tuple[TableField, ...]:
    """Return the columns of the schema of a Delta table.

    Parameters
    ----------
    schema : mapping
        The schema as parsed from the JSON of the log.
    mode : str
        The table's column mapping: ``"none"``, ``"name"`` or ``"id"``.
    """
    return tuple(_field(field, mode) for field in schema["fields"])


def _field(field: Mapping[str, Any], mode: str) -> TableField:
    metadata = field.get("metadata") or {}
    name = str(field["name"])
    stored = str(metadata.get(_STORED_NAME, name)) if mode != "none" else name
    id_ = int(metadata[_ID]) if mode == "id" and _ID in metadata else None
    return _typed(name, field["type"], mode, stored, id_, bool(field.get("nullable", True)))


def _typed(
    name: str, type_: Any, mode: str, stored: str, id_: int | None, nullable: bool
) -> TableField:
    kind = type_["type"] if isinstance(type_, Mapping) else type_
    children: tuple[TableField, ...] = ()
    if kind == "struct":
        children = _parse_fields(type_, mode)
    elif kind == "array":
        element = _typed("element", type_["elementType"], mode, "element", None, True)
        children = (element,)
    elif kind == "map":
        children = (
            _typed("key", type_["keyType"], mode, "key", None, False),
            _typed("value", type_["valueType"], mode, "value", None, True),
        )
    return TableField(name, snapshot.nested_type(kind, children), stored, id_, nullable, children)


#: Options of fsspec's file systems, and their names in delta-rs.
_S3 = {
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "requester_pays": "AWS_REQUEST_PAYER",
    "anon": "AWS_SKIP_SIGNATURE",
}
_AZURE = {
    "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
    "tenant_id": "AZURE_STORAGE_TENANT_ID",
    "client_id": "AZURE_STORAGE_CLIENT_ID",
    "client_secret": "AZURE_STORAGE_CLIENT_SECRET",
    "AccountName": "AZURE_STORAGE_ACCOUNT_NAME",
    "AccountKey": "AZURE_STORAGE_ACCOUNT_KEY",
    "BlobEndpoint": "AZURE_STORAGE_ENDPOINT",
    "SharedAccessSignature": "AZURE_STORAGE_SAS_TOKEN",
}


def of_delta_rs(location: Location) -> tuple[str, dict[str, str]]:
    """Return the URL and the storage options of a table for delta-rs.

    Raises
    ------
    UnsupportedTableError
        If delta-rs does not support the table's storage.
    """
    if location.filesystem is not None:
        raise errors.UnsupportedTableError(
            f"{location.url} is a Delta table, whose log cannot be read through filesystem=: "
            "leave it out, and pass storage_options if the storage needs them",
            url=location.url,
        )
    if location.url.startswith("file:///"):
        if not location.is_in_file_tree:
            raise errors.UnsupportedTableError(
                f"{location.url} is a Delta table on a Databricks mount that this machine does not "
                "have: read it on Databricks, or by the URL of its storage",
                url=location.url,
            )
        if "%" in location.path:
            raise errors.UnsupportedTableError(
                f"{location.url} is a Delta table in a directory with '%' in its name, which "
                "deltalake decodes: rename the directory",
                url=location.url,
            )
        return f"file://{quote(location.path)}", {}
    scheme, options = options_in_use(location.url, location.storage_options)
    rest = location.url.partition("://")[2]
    if scheme in ("s3", "s3a"):
        return f"s3://{rest}", _renamed({**options.get("client_kwargs", {}), **options}, _S3)
    if scheme in ("abfs", "abfss", "az"):
        return location.url, _of_azure(options)
    if scheme in ("gs", "gcs"):
        return f"gs://{rest}", _of_google(options)
    raise errors.UnsupportedTableError(
        f"{location.url} is a Delta table, which can be read only on local disks and mounts, S3, "
        f"Azure and Google Cloud Storage. {snapshot.read_by_spark(location.url)}",
        url=location.url,
    )


def _of_azure(options: Mapping[str, Any]) -> dict[str, str]:
    connection = str(options.get("connection_string") or "")
    parts = dict(part.split("=", 1) for part in connection.split(";") if "=" in part)
    return _renamed({**parts, **options}, _AZURE)


def _of_google(options: Mapping[str, Any]) -> dict[str, str]:
    token = options.get("token")
    if token == "anon":
        return {"GOOGLE_SKIP_SIGNATURE": "true"}
    if isinstance(token, Mapping):
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(dict(token))}
    if isinstance(token, str) and token.endswith(".json"):
        return {"GOOGLE_SERVICE_ACCOUNT": token}
    return {}


def _renamed(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are set and known to delta-rs, by its names for them."""
    found = {
        name: "true" if options[key] is True else str(options[key])
        for key, name in names.items()
        if options.get(key) not in (None, False, "")
    }
    endpoints = ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT")
    if any(found.get(name, "").startswith("http://") for name in endpoints):
        found["ALLOW_HTTP"] = "true"
    return found
