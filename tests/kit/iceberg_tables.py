"""Iceberg tables for the tests, including kinds of files that pyiceberg does not write.

pyiceberg deletes rows by rewriting files. This module writes position deletes and deletion vectors
as specified by Iceberg, and commits them with pyiceberg's manifests and catalog.
"""

import json
import struct
import time
import uuid
import zlib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if find_spec("pyiceberg") is None or tuple(map(int, pa.__version__.split(".")[:1])) < (18,):
    pytest.skip("needs pyiceberg, and pyarrow 18 or newer", allow_module_level=True)

from pyiceberg import manifest as m
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyroaring import BitMap64

_PATH, _POS = 2147483546, 2147483545
_MAGIC = bytes.fromhex("d1d33964")


def catalog(folder: Path) -> SqlCatalog:
    """Return an SQLite catalog whose tables are in directories under ``folder/n``."""
    found = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    found.create_namespace("n")
    return found


def path_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def live_files(table: Table) -> dict[str, tuple[int, Record]]:
    """Return the number of rows and the partition of each live file, by path."""
    tasks = table.scan().plan_files()
    return {task.file.file_path: (task.file.record_count, task.file.partition) for task in tasks}


def delete_file(
    path: str,
    content: bytes,
    rows: int,
    partition: Record,
    kind: m.DataFileContent = m.DataFileContent.POSITION_DELETES,
    **more: Any,
) -> m.DataFile:
    """Write a delete file, and return its description."""
    Path(path.removeprefix("file://")).write_bytes(content)
    kinds = {".puffin": m.FileFormat.PUFFIN, ".orc": m.FileFormat.ORC}
    described = {
        "content": kind,
        "file_path": path,
        "file_format": kinds.get(Path(path).suffix, m.FileFormat.PARQUET),
        "partition": partition,
        "record_count": rows,
        "file_size_in_bytes": len(content),
        **more,
    }
    return m.DataFile.from_args(**described)


def positions(
    table: Table, dead: Mapping[str, Iterable[int]], partition: Record | None = None
) -> m.DataFile:
    """Write a file of position deletes."""
    rows = sorted((path, pos) for path, found in dead.items() for pos in found)
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_PATH)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(_POS)}),
        ]
    )
    columns = [[row[i] for row in rows] for i in range(2)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema), sink)
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    return delete_file(path, sink.getvalue().to_pybytes(), len(rows), partition or Record())


def vectors(
    table: Table, dead: Mapping[str, Iterable[int]], partition: Record | None = None
) -> m.DataFile:
    """Write deletion vectors to a Puffin file."""
    content, blobs = b"PFA1", []
    for path, rows in dead.items():
        vector = _MAGIC + BitMap64(sorted(rows)).serialize()
        blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(list(rows)))},
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs}).encode()
    content += b"PFA1" + footer + struct.pack("<I", len(footer)) + b"\0\0\0\0PFA1"
    path = f"{table.location()}/data/{uuid.uuid4()}.puffin"
    return delete_file(
        path, content, sum(map(len, map(list, dead.values()))), partition or Record()
    )


class _DeleteManifest(m.ManifestWriterV2):
    def content(self) -> m.ManifestContent:
        return m.ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def commit(table: Table, *deletes: m.DataFile) -> None:
    """Commit a snapshot that adds delete files."""
    metadata, io = table.metadata, table.io
    number, id_ = metadata.next_sequence_number(), uuid.uuid4().int >> 66
    before = table.current_snapshot()
    place = f"{table.location()}/metadata"
    listed = io.new_output(f"{place}/{uuid.uuid4()}-m0.avro")
    with _DeleteManifest(metadata.spec(), metadata.schema(), listed, id_, "null") as writer:
        for file in deletes:
            status = m.ManifestEntryStatus.ADDED
            writer.add_entry(
                m.ManifestEntry.from_args(status=status, snapshot_id=id_, data_file=file)
            )
    target = io.new_output(f"{place}/snap-{id_}.avro")
    with m.write_manifest_list(2, target, id_, before.snapshot_id, number, "null") as lists:
        lists.add_manifests([writer.to_manifest_file(), *before.manifests(io)])
    snapshot = Snapshot(
        snapshot_id=id_,
        parent_snapshot_id=before.snapshot_id,
        sequence_number=number,
        timestamp_ms=max(int(time.time() * 1000), before.timestamp_ms + 1),
        manifest_list=target.location,
        summary=Summary(Operation.DELETE),
        schema_id=metadata.current_schema_id,
    )
    head = SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=id_)
    table._do_commit((AddSnapshotUpdate(snapshot=snapshot), head), ())


def newest_metadata(table: Table) -> Path:
    return Path(table.metadata_location.removeprefix("file://"))


def write_metadata(table: Table, **changes: Any) -> Path:
    """Write a copy of the newest metadata with some changes, under the next version number."""
    newest = newest_metadata(table)
    changed = json.loads(newest.read_text()) | changes
    target = newest.parent / f"{int(newest.name[:5]) + 1:05}-{uuid.uuid4()}.metadata.json"
    target.write_text(json.dumps(changed))
    return target
