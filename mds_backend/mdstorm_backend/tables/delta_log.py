"""Read the log of a Delta table with delta-rs, or raise errors that explain why not."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend import errors
from mdstorm_backend.base.optional import require
from mdstorm_backend.tables import snapshot
from mdstorm_backend.tables.snapshot import AsOf, DeadRows, TableField, TableSnapshot

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


def read_log(shown: str, url: str, options: dict[str, str], as_of: AsOf) -> TableSnapshot:
    """Read the live files and rows of a version of a table.

    Parameters
    ----------
    shown : str
        The URL of the table, for messages.
    url : str
        The URL for delta-rs.
    options : dict of str to str
        The storage options of delta-rs.
    as_of : AsOf
        The version; for a time before the oldest version, the oldest one is read.

    Raises
    ------
    DatasetNotFoundError, UnsupportedTableError, CorruptDatasetError, CredentialsError, StorageError
        See `open_delta`.
    """
    table = _opened(shown, url, options, as_of)
    version = table.version()
    features = _checked_features(table, shown)
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    fields = snapshot.parse_fields(json.loads(table.schema().to_json()), mode)
    partition_columns = tuple(table.metadata().partition_columns)
    _check_partitions(fields, partition_columns, shown)
    actions = pa.table(table.get_add_actions()).sort_by("path")
    paths = actions.column("path").to_pylist()
    dead = _dead(table, shown, paths) if _VECTORS in features else {}
    nulls = _nulls(actions, fields, partition_columns)
    partitions = _rows(actions, "partition", partition_columns)
    columns = ("path", "size_bytes", "modification_time", "num_records")
    values = zip(*(actions.column(name).to_pylist() for name in columns), strict=True)
    names = [_checked_path(unquote(path), shown) for path in paths]
    files = tuple(
        snapshot.LiveFile(names[i], size, modified, rows, partitions[i], nulls[i], dead.get(path))
        for i, (path, size, modified, rows) in enumerate(values)
    )
    return TableSnapshot(shown, version, fields, partition_columns, files)


def _opened(shown: str, url: str, options: dict[str, str], as_of: AsOf) -> Any:
    delta = require("deltalake")
    try:
        if as_of.version is not None:
            try:
                if as_of.version <= _MOST_VERSIONS:
                    return delta.DeltaTable(url, version=as_of.version, storage_options=options)
                said = ""  # not tried: delta-rs would count up to it
            except delta.exceptions.DeltaError as error:
                said = plain_text(error)
            newest = delta.DeltaTable(url, storage_options=options).version()
            raise no_version(shown, as_of.version, newest, said)
        table = delta.DeltaTable(url, storage_options=options)
        if as_of.timestamp is not None:
            table.load_as_version(as_of.time)
        return table
    except errors.MDStormError:
        raise
    except delta.exceptions.DeltaError as error:
        raise not_opened(shown, error) from error
    except OSError as error:
        raise out_of_reach(shown, error) from error
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
        raise unsupported(url, f"needs {', '.join(needed)}, which is not known here")
    return features


def _check_partitions(fields: tuple[TableField, ...], columns: tuple[str, ...], url: str) -> None:
    """Raise for binary partition columns, which writers store in the log in different ways."""
    for field in fields:
        if field.name in columns and (pa.types.is_binary(field.type) or not field.is_known):
            raise unsupported(url, f"is partitioned by {field.name!r}, of type {field.type}")


def _dead(table: Any, url: str, paths: list[str]) -> dict[str, DeadRows]:
    delta = require("deltalake")
    try:
        found = _dead_rows(table.deletion_vectors())
    except (delta.exceptions.DeltaError, pa.ArrowException, OSError) as error:
        said = plain_text(error)
        if "Unsupported table features" in said:
            raise unsupported(
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


def _rows(actions: pa.Table, name: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the given fields of a struct column, as a dict per file."""
    if not columns:
        return [{} for _ in range(actions.num_rows)]
    struct = actions.column(name).combine_chunks()
    values = [pc.struct_field(struct, [column]).to_pylist() for column in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _nulls(
    actions: pa.Table, fields: tuple[TableField, ...], partition_columns: tuple[str, ...]
) -> list[dict[str, int | None]]:
    """Return the null counts of each file, without zeros; None for unknown counts."""
    found: list[dict[str, int | None]] = [{} for _ in range(actions.num_rows)]
    if not found:
        return found
    has_counts = "null_count" in actions.column_names
    struct = actions.column("null_count").combine_chunks() if has_counts else None
    known = set() if struct is None else {field.name for field in struct.type}
    for field in fields:
        if field.name in partition_columns or not field.nullable:
            continue
        if field.stored_name not in known or field.children:
            counts: list[int | None] = [None] * len(found)
        else:
            counts = pc.struct_field(struct, [field.stored_name]).to_pylist()
        for nulls, count in zip(found, counts, strict=True):
            if count != 0:
                nulls[field.name] = count
    return found


def plain_text(error: Exception) -> str:
    """Return the message of delta-rs's error in one line, without colour codes."""
    return " ".join(_COLOURS.sub("", str(error)).split())


def unsupported(url: str, what: str) -> errors.UnsupportedTableError:
    """Return the error for a table that cannot be read; `what` completes "a table that …"."""
    return errors.UnsupportedTableError(
        f"{url} is a Delta table that {what}. {snapshot.read_by_spark(url)}", url=url
    )


def no_version(url: str, version: int, newest: int, said: str) -> errors.DatasetNotFoundError:
    """Return the error for a version that does not exist, or no longer exists."""
    what = f"the newest one is {newest}"
    if version <= newest:
        what = f"its log no longer holds that one ({said}); {what}"
    return errors.DatasetNotFoundError(f"{url} has no version {version}: {what}", url=url)


def not_opened(
    url: str, error: Exception
) -> errors.UnsupportedTableError | errors.CorruptDatasetError:
    """Return the error for a log that delta-rs cannot read."""
    said = plain_text(error)
    if any(text in said for text in _REFUSALS):
        return unsupported(url, f"needs what is not known here ({said})")
    return errors.CorruptDatasetError(
        f"{url} is a Delta table whose log cannot be read ({said}). Check that _delta_log is "
        "complete, and that this machine may read it",
        url=url,
    )


def out_of_reach(url: str, error: OSError) -> errors.StorageError | errors.CredentialsError:
    """Return the error for a failure of the storage, which delta-rs only describes by a text."""
    text = plain_text(error)
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
