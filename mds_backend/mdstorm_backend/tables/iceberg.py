"""Read the live files and rows of an Iceberg table from its metadata, with pyiceberg.

A table is a directory, or the metadata file listed in its catalog. pyiceberg parses the metadata
and assigns delete files to data files; all files are read through `Location`, like those of other
datasets.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend import errors
from mdstorm_backend.base import map_files, parse_json, require
from mdstorm_backend.catalogs import at_access_point
from mdstorm_backend.format.values.arrow_types import SparkType
from mdstorm_backend.storage import Location, bucket_of, normalize_url
from mdstorm_backend.tables import snapshot
from mdstorm_backend.tables.avro import CheckedInput, check_avro
from mdstorm_backend.tables.snapshot import AsOf, DeadRows, LiveFile, TableField, TableSnapshot

_METADATA = re.compile(r"[^/]*\.metadata\.json(\.gz)?")
#: The file in which some writers store the name of the newest metadata file. Others store its
#: number, which may be outdated, but is never ahead of the file names.
_HINT = "version-hint.text"
_NUMBER = re.compile(r"v?(\d+)")
#: Maximum size of uncompressed metadata, which may be a thousand times the size of the file.
MOST_METADATA = 256 << 20
#: Maximum number of rows in a deletion vector, which is more than nearly all data files have.
_MOST_DEAD_ROWS = 1 << 26
#: The table property with the path of the metadata, if it is outside the table's directory.
_ELSEWHERE = "write.metadata.path"
#: The start of a URL with the ARN or alias of an S3 access point in place of a bucket.
_ACCESS_POINT = re.compile(r"s3://(arn:.*?accesspoint[:/][^/]+|[^/]+-s3alias)(?=/)")
_unsupported = partial(snapshot.unsupported, kind="iceberg")
#: The version of a table that has no snapshot yet.
_EMPTY = 0
_EPOCH = datetime.fromtimestamp(0, timezone.utc)
#: Types with different names in Spark. Types unknown to Spark, such as ``time``, are unsupported.
_SPARK_NAMES = {
    "int": "integer",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "uuid": "binary",
    "fixed": "binary",
    "unknown": "null",
}


def is_iceberg(location: Location) -> bool:
    """Whether a directory is an Iceberg table."""
    return bool(_metadata_files(location))


def is_metadata(location: Location) -> bool:
    """Whether a URL points to a metadata file, judging by its name."""
    return _METADATA.fullmatch(location.url.rpartition("/")[2]) is not None


def _metadata_files(location: Location) -> list[str]:
    names = location.child("metadata").list_names()
    return [name for name in names if _METADATA.fullmatch(name)]


def open_iceberg(location: Location, as_of: AsOf) -> TableSnapshot:
    """Return the live files and rows of a snapshot of an Iceberg table.

    Parameters
    ----------
    location : Location
        The table's directory, in which the newest metadata file is used, or a metadata file.
    as_of : AsOf
        The snapshot; by default the current one.

    Raises
    ------
    MissingDependencyError, DatasetNotFoundError, UnsupportedTableError, CorruptDatasetError,
    CredentialsError, StorageError
        See `open_delta`, with snapshots for versions, and metadata for the log.
    """
    require("pyiceberg")
    try:
        check_avro()
        if is_metadata(location):
            directory, _, name = location.url.rpartition("/")
            metadata = _parsed(replace(location, url=directory), name)
            above = _above(directory, metadata)
            root = None if above is None else replace(location, url=above)
            table = root or replace(location, url=_recorded(directory, metadata))
        else:
            root = table = location
            metadata = _parsed(location.child("metadata"), _newest(location))
        return replace(_read_snapshot(table, metadata, as_of), root=root)
    except errors.MDStormError:
        raise
    except Exception as error:  # pyiceberg has no error class for files that it cannot read
        said = " ".join(str(error).split())[:300]
        if "support" in said.lower():
            raise _unsupported(location.url, f"pyiceberg does not read ({said})") from error
        raise errors.CorruptDatasetError(
            f"{location.url} is an Iceberg table whose metadata cannot be read ({said}). Check "
            "that the metadata is complete, or open another snapshot",
            url=location.url,
        ) from error


def _above(directory: str, metadata: Any) -> str | None:
    """Return the URL of the table that has the metadata directory `directory`, or None.

    It is None if the metadata is not in its table, whose recorded location is then the only one.
    """
    above, _, name = directory.rpartition("/")
    return above if name == "metadata" and _ELSEWHERE not in metadata.properties else None


def _recorded(directory: str, metadata: Any) -> str:
    """Return the URL of a table as its metadata records it; a table may have been moved."""
    return _at_point(normalize_url(metadata.location), directory, metadata)


def _at_point(url: str, opened: str, metadata: Any) -> str:
    """Route a URL in the table's bucket through the table's access point, if there is one.

    The catalog lists the metadata under an access point, but paths in the metadata contain the
    bucket.
    """
    point = _ACCESS_POINT.match(opened)
    if point is None or _ACCESS_POINT.match(url):
        return url
    other = metadata.properties.get(_ELSEWHERE, metadata.location)
    return at_access_point(url, point[1]) if bucket_of(url) == bucket_of(other) else url


def _read_snapshot(location: Location, metadata: Any, as_of: AsOf) -> TableSnapshot:
    chosen = _chosen(metadata, location.url, as_of)
    schema = metadata.schema()
    if as_of and chosen is not None:  # ignore column changes after the snapshot
        schema = next((s for s in metadata.schemas if s.schema_id == chosen.schema_id), schema)
    mapping = metadata.name_mapping()
    names = {} if mapping is None else _names(json.loads(mapping.model_dump_json()))
    struct = json.loads(schema.model_dump_json())
    fields = tuple(_field(field, names, location.url) for field in struct["fields"])
    if chosen is None:
        return TableSnapshot(location, _EMPTY, fields, (), ())
    paths = _Paths(location, metadata)
    scan = _pyiceberg("table").DataScan(metadata, paths, snapshot_id=chosen.snapshot_id)
    tasks = sorted(scan.plan_files(), key=lambda task: str(task.file.file_path))
    dead = _dead_rows(tasks, paths)
    specs = metadata.specs()
    by_id = {field.field_id: field for field in fields}
    files = []
    for file in (task.file for task in tasks):
        if file.file_format != "PARQUET" or file.key_metadata:
            kind = "encrypted" if file.key_metadata else f"as {file.file_format.value}"
            raise _unsupported(location.url, f"stores {file.file_path} {kind}")
        partition = _partition(specs[file.spec_id], file.partition, by_id, location.url)
        files.append(
            LiveFile(
                paths.relative(file.file_path),
                file.file_size_in_bytes,
                0,
                file.record_count,
                partition,
                snapshot.null_counts(
                    fields, partition, file.null_value_counts or {}, lambda field: field.field_id
                ),
                dead.get(file.file_path, snapshot.NO_ROWS),
            )
        )
    columns = set.intersection(*(set(file.partition) for file in files)) if files else set()
    partitioned = tuple(field.name for field in fields if field.name in columns)
    return TableSnapshot(location, chosen.snapshot_id, fields, partitioned, tuple(files))


def _pyiceberg(module: str) -> Any:
    return importlib.import_module(f"pyiceberg.{module}")


def _newest(location: Location) -> str:
    """Return the newest metadata file: the one that the hint names, or the one numbered highest."""
    names = _metadata_files(location)
    try:
        hint = bytes(location.child("metadata").read(_HINT)).decode().strip().partition(".")[0]
    except FileNotFoundError:
        hint = ""
    numbers = {name: int(number[1]) for name in names if (number := _NUMBER.match(name))}
    newest = [name for name in names if name.partition(".")[0] == hint] or [
        name for name in names if numbers.get(name, -1) == max(numbers.values(), default=-1)
    ]
    if len(newest) > 1:
        raise errors.UnsupportedTableError(
            f"{location.url} is an Iceberg table with two newest metadata files, {newest[0]} and "
            f"{newest[1]}, and only its catalog records which is current: pass the URL of that "
            "file, the catalog's metadata_location",
            url=location.url,
        )
    return newest[0]


def _parsed(directory: Location, name: str) -> Any:
    """Read and parse a metadata file."""
    url = directory.file_url(name)
    try:
        content = bytes(directory.read(name))
    except FileNotFoundError as error:
        raise errors.DatasetNotFoundError(
            f"there is no metadata file at {url}. Pass the metadata_location that the catalog "
            "returns now",
            url=url,
        ) from error
    if content[:2] == b"\x1f\x8b":
        with gzip.open(io.BytesIO(content)) as file:
            content = file.read(MOST_METADATA + 1)
    if len(content) > MOST_METADATA:
        raise errors.CorruptDatasetError(
            f"{url} has more than {MOST_METADATA} bytes of metadata. Expire the table's old "
            "snapshots, or read the table with Spark",
            url=url,
        )
    raw = parse_json(content)
    version = raw["format-version"]
    if version not in (1, 2, 3):
        raise _unsupported(url, f"has format version {version}, which mdstorm does not support")
    return _pyiceberg("table.metadata").TableMetadataUtil.parse_obj(raw)


def _chosen(metadata: Any, url: str, as_of: AsOf) -> Any:
    """Return the requested snapshot; None for a table that has no snapshot yet."""
    known = {found.snapshot_id: found for found in metadata.snapshots}
    version = as_of.version
    if isinstance(version, str):
        if version not in metadata.refs:
            raise errors.DatasetNotFoundError(
                f"{url} has no branch or tag {version!r}: it has "
                f"{', '.join(sorted(metadata.refs)) or 'none'}",
                url=url,
            )
        return known[metadata.refs[version].snapshot_id]
    if version is not None:
        if version not in known and (known or version != _EMPTY):
            raise errors.DatasetNotFoundError(
                f"{url} has no snapshot {version}: the newest ones are {list(known)[-5:]}",
                url=url,
            )
        return known.get(version)
    if as_of.timestamp is None:
        return metadata.current_snapshot()
    wanted = (as_of.time - _EPOCH) // timedelta(milliseconds=1)
    log = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= wanted]
    if not log or log[-1].snapshot_id not in known:
        oldest = min((each.timestamp_ms for each in known.values()), default=0)
        since = _EPOCH + timedelta(milliseconds=oldest)
        raise errors.DatasetNotFoundError(
            f"{url} has no snapshot as old as {as_of}: the oldest remaining one is from {since}",
            url=url,
        )
    return known[log[-1].snapshot_id]


class _Paths:
    """Locates and reads a table's files; serves as pyiceberg's ``FileIO``.

    Paths in metadata are absolute. Paths inside the table are resolved relative to it, so that a
    table that was moved or copied, or has a different URL here, can be read.
    """

    def __init__(self, table: Location, metadata: Any) -> None:
        self._table = table
        self._metadata = metadata
        self._known_as = metadata.location.rstrip("/") + "/"

    def relative(self, path: str) -> str:
        """Return a path relative to the table, or the URL of a file that is elsewhere."""
        url = f"{self._table.url}/"
        if path.startswith(self._known_as):
            path = url + path[len(self._known_as) :]
        else:
            path = _at_point(Location.of(path).url, url, self._metadata)
        inside = path.removeprefix(url)
        if ".." in inside.split("/") or "\0" in inside or path.split("/")[:3] != url.split("/")[:3]:
            raise errors.CorruptDatasetError(
                f"{self._table.url} is an Iceberg table whose metadata lists the file {path!r}, "
                "which is outside of its storage. Restore the metadata, or open another snapshot",
                url=self._table.url,
            )
        return inside

    def new_input(self, path: str) -> CheckedInput:
        """Return an object like pyiceberg's ``InputFile``."""
        return CheckedInput(path, self.read(path))

    def read(self, path: str) -> bytes:
        """Read a file that is listed in the metadata."""
        directory, name = self._table, self.relative(path)
        if "://" in name:
            url, _, name = name.rpartition("/")
            directory = replace(directory, url=url)
        return bytes(directory.read(name))


def _names(mapping: list[dict[str, Any]]) -> dict[int, tuple[str, ...]]:
    """Return the names that fields have in files without field ids, by field id."""
    found = {}
    for field in mapping:
        if "field-id" in field:
            found[field["field-id"]] = tuple(field["names"])
        found |= _names(field.get("fields") or [])
    return found


def _field(field: Mapping[str, Any], names: Mapping[int, tuple[str, ...]], url: str) -> TableField:
    name, type_ = field["name"], field["type"]
    if field.get("initial-default") is not None:
        raise _unsupported(url, f"has a default value for column {name!r} in older files")
    kind = type_["type"] if isinstance(type_, Mapping) else type_
    parts = type_["fields"] if kind == "struct" else []
    for part in {"list": ("element",), "map": ("key", "value")}.get(kind, ()):
        parts.append({"id": type_[f"{part}-id"], "name": part, "type": type_[part]})
    children = tuple(_field(part, names, url) for part in parts)
    id_, nullable = int(field["id"]), not field.get("required")
    type_of_values = snapshot.type_of_values(_spark_type(type_))
    return TableField(name, type_of_values, name, id_, nullable, children, names.get(id_, ()))


def _spark_type(type_: Any) -> SparkType:
    """Return a type of Iceberg as Spark's JSON; a type unknown to Spark keeps its name."""
    if isinstance(type_, str):
        return _SPARK_NAMES.get(type_.partition("[")[0], type_)
    if type_["type"] == "struct":
        fields = [{"name": f["name"], "type": _spark_type(f["type"])} for f in type_["fields"]]
        return {"type": "struct", "fields": fields}
    if type_["type"] == "list":
        return {"type": "array", "elementType": _spark_type(type_["element"])}
    parts = {f"{part}Type": _spark_type(type_[part]) for part in ("key", "value")}
    return {"type": "map", **parts}


def _partition(
    spec: Any, values: Any, fields: Mapping[int | None, TableField], url: str
) -> dict[str, Any]:
    """Return the columns with identity partitions and their values, which files need not store."""
    columns = {}
    for place, part in enumerate(spec.fields):
        field = fields.get(part.source_id)
        if str(part.transform) == "identity" and field is not None and field.is_known:
            value = values[place]
            value = value.bytes if isinstance(value, UUID) else value
            try:
                columns[field.name] = pa.scalar(value, field.type).as_py()
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                raise _unsupported(
                    url,
                    f"has the partition value {value!r}, which does not fit its column "
                    f"{field.name!r} of type {field.type} ({error})",
                ) from error
    return columns


def _dead_rows(tasks: list[Any], paths: _Paths) -> dict[str, DeadRows]:
    """Return the positions that delete files remove from data files, by data file path."""
    deletes = {delete.file_path: delete for task in tasks for delete in task.delete_files}
    positions = map_files(
        lambda delete: _positions(paths.read(delete.file_path), delete), list(deletes.values())
    )
    of_file = dict(zip(deletes, positions, strict=True))
    by_path = {}
    for task in tasks:
        path = task.file.file_path
        parts = [of_file[delete.file_path].get(path) for delete in task.delete_files]
        if some := [part for part in parts if part is not None]:
            by_path[path] = np.unique(np.concatenate(some))
            if (by_path[path] < 0).any():
                raise ValueError(f"a delete file lists a negative row number in {path}")
    return by_path


def rows_of_vector(blob: bytes) -> DeadRows:
    """Return the positions in a deletion vector (length, magic number, bitmaps and checksum).

    A few bytes can encode billions of rows, and pyiceberg would list them all.
    """
    from pyroaring import BitMap64

    found = BitMap64.deserialize(blob[8 : 4 + int.from_bytes(blob[:4], "big")])
    if len(found) > _MOST_DEAD_ROWS:
        raise ValueError(f"a deletion vector has {len(found)} rows, more than {_MOST_DEAD_ROWS}")
    return np.fromiter(found, np.int64, len(found))


def _positions(content: bytes, delete: Any) -> dict[str, DeadRows]:
    """Return the positions in a delete file, by data file path."""
    if delete.key_metadata:
        raise ValueError("encrypted delete files are not supported")
    if delete.file_format == "PUFFIN":
        puffin = _pyiceberg("table.puffin").PuffinFile(content)
        return {
            blob.properties["referenced-data-file"]: rows_of_vector(puffin.get_blob_payload(blob))
            for blob in puffin.footer.blobs
        }
    if delete.file_format != "PARQUET":
        raise ValueError(f"delete files like {delete.file_path} are not supported")
    table = pq.read_table(pa.BufferReader(content), columns=["file_path", "pos"])
    if table.num_rows != delete.record_count:
        raise ValueError(f"{delete.file_path} does not hold {delete.record_count} rows")
    if not table.num_rows:
        return {}
    paths = pa.concat_arrays(table["file_path"].chunks).dictionary_encode()
    numbers = paths.indices.to_numpy()
    order = np.argsort(numbers, kind="stable")
    cuts = np.searchsorted(numbers[order], np.arange(1, len(paths.dictionary)))
    rows = table["pos"].to_numpy().astype(np.int64)[order]
    return dict(zip(paths.dictionary.to_pylist(), np.split(rows, cuts), strict=True))
