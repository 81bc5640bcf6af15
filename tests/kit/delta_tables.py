"""Delta tables for the tests, with features that delta-rs cannot write.

Their logs and deletion vectors are written by hand, following the Delta protocol.
"""

import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.storage import Location

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377
_VERSION = b"\x01"
_COOKIE = 12346
#: Roaring containers with more values than this are stored as bitmaps.
_MOST_LISTED = 4096


def protocol(*features: str) -> dict[str, Any]:
    """Return the action that lists the features that readers must support."""
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": list(features),
        }
    }


OLD_PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
WITH_VECTORS = protocol("deletionVectors")


def field(name: str, type_: Any, **metadata: Any) -> dict[str, Any]:
    """Return a field of a schema or struct."""
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def mapped(name: str, type_: Any, id_: int, stored: str) -> dict[str, Any]:
    """Return a field that is called `stored` in the files."""
    numbered = {"delta.columnMapping.id": id_, "delta.columnMapping.physicalName": stored}
    return field(name, type_, **numbered)


def struct_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def metadata(
    fields: Sequence[dict[str, Any]], partition_columns: Sequence[str] = (), **conf: str
) -> dict[str, Any]:
    """Return the action that describes a table's columns."""
    return {
        "metaData": {
            "id": str(uuid.UUID(int=1)),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(struct_of(*fields)),
            "partitionColumns": list(partition_columns),
            "configuration": conf,
            "createdTime": 1,
        }
    }


def commit(table: Path, *actions: Mapping[str, Any]) -> int:
    """Write a table's next version, and return its number."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = max((int(path.name[:20]) for path in log.glob("*.json")), default=-1) + 1
    text = "\n".join(map(json.dumps, actions))
    (log / f"{version:020}.json").write_text(text, encoding="utf-8")
    return version


def add(
    table: Path,
    name: str,
    rows: pa.Table,
    *,
    partition: Mapping[str, str | None] | None = None,
    dead: Iterable[int] = (),
    counted: bool = True,
    nulls: Mapping[str, int] | None = None,
    row_group_size: int | None = None,
    int96: bool = False,
) -> dict[str, Any]:
    """Write a file, and return the action that adds it to the table."""
    path = table / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, row_group_size=row_group_size, use_deprecated_int96_timestamps=int96)
    action: dict[str, Any] = {
        "path": quote(name),
        "partitionValues": dict(partition or {}),
        "size": path.stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
    }
    if counted:
        stats = {"numRecords": rows.num_rows, **({"nullCount": nulls} if nulls else {})}
        action["stats"] = json.dumps(stats)
    dead = list(dead)
    if dead:
        action["deletionVector"] = inline_vector(dead)
    return {"add": action}


def live_files(table: Path) -> dict[str, dict[str, Any]]:
    """Return the descriptions of the live files in a log without checkpoints, by path."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((table / "_delta_log").glob("*.json")):
        actions = list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
        for action in actions:
            if "remove" in action:
                found.pop(action["remove"]["path"], None)
        found |= {one["add"]["path"]: one["add"] for one in actions if "add" in one}
    return found


def kill(table: Path, dead: Mapping[str, Iterable[int]], *, inline: bool = False) -> int:
    """Delete rows with new deletion vectors; `dead` lists each file's deleted rows, old and new."""
    actions: list[dict[str, Any]] = [WITH_VECTORS]
    files = live_files(table)
    for path, rows in dead.items():
        add_ = {key: value for key, value in files[path].items() if value is not None}
        removed = {key: add_[key] for key in ("path", "partitionValues", "size")}
        if "deletionVector" in add_:
            removed["deletionVector"] = add_["deletionVector"]
        stats = json.loads(add_["stats"]) | {"tightBounds": False}
        vector = inline_vector(rows) if inline else stored_vector(table, rows)
        actions += [
            {"remove": {**removed, "dataChange": True, "deletionTimestamp": 1}},
            {"add": {**add_, "stats": json.dumps(stats), "deletionVector": vector}},
        ]
    return commit(table, *actions)


def inline_vector(rows: Iterable[int]) -> dict[str, Any]:
    """Return the description of a deletion vector that is stored in the log."""
    bitmap, described = _bitmap(rows)
    content = bitmap + b"\0" * (-len(bitmap) % 4)
    return {"storageType": "i", "pathOrInlineDv": _z85(content), **described}


def stored_vector(table: Path, rows: Iterable[int]) -> dict[str, Any]:
    """Write a deletion vector to a file, and return its description."""
    (bitmap, described), id_ = _bitmap(rows), uuid.uuid4()
    checksum = struct.pack(">I", zlib.crc32(bitmap))
    content = _VERSION + struct.pack(">I", len(bitmap)) + bitmap + checksum
    (table / f"deletion_vector_{id_}.bin").write_bytes(content)
    return {"storageType": "u", "pathOrInlineDv": _z85(id_.bytes), "offset": 1, **described}


def _bitmap(dead: Iterable[int]) -> tuple[bytes, dict[str, int]]:
    """Encode rows as Delta's magic number followed by a 64-bit portable Roaring bitmap."""
    rows = np.array(sorted(set(dead)), np.uint64)
    high = rows >> np.uint64(32)
    parts = [struct.pack("<IQ", _MAGIC, len(np.unique(high)))]
    for key in np.unique(high):
        low = (rows[high == key] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        parts += [struct.pack("<I", key), _bitmap_of_32(low)]
    bitmap = b"".join(parts)
    return bitmap, {"sizeInBytes": len(bitmap), "cardinality": len(rows)}


def _bitmap_of_32(values: npt.NDArray[np.uint32]) -> bytes:
    keys = np.unique(values >> 16)
    lows = [(values[values >> 16 == key] & 0xFFFF).astype("<u2") for key in keys]
    bodies = [low.tobytes() if len(low) <= _MOST_LISTED else _bits(low) for low in lows]
    header = struct.pack("<II", _COOKIE, len(keys)) + b"".join(
        struct.pack("<HH", key, len(low) - 1) for key, low in zip(keys, lows, strict=True)
    )
    begin = len(header) + 4 * len(keys)
    offsets = np.cumsum([begin, *(len(body) for body in bodies[:-1])]).astype("<u4")
    return header + offsets.tobytes() + b"".join(bodies)


def _bits(low: npt.NDArray[Any]) -> bytes:
    bits = np.zeros(1 << 16, np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _z85(content: bytes) -> str:
    digits = []
    for (number,) in struct.iter_unpack(">I", content):
        digits += [_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(digits)


def two_versions(table: Path) -> Path:
    """Write a table whose version 0 has five rows, and whose version 1 has rows 1, 2 and 4."""
    fields = metadata([field("k", "string"), field("id", "long")], ["k"])
    rows = pa.table({"id": range(5)})
    commit(table, WITH_VECTORS, fields, add(table, "k=a/f.parquet", rows, partition={"k": "a"}))
    kill(table, {"k%3Da/f.parquet": [0, 3]})
    return table


def put_table(location: Location, folder: Path) -> None:
    """Copy a Delta table to the store, with two versions that each delete a row."""
    table = folder / "table"
    rows = pa.table({"n": range(5)})
    fields = metadata([field("n", "long")])
    commit(table, WITH_VECTORS, fields, add(table, "a b/f.parquet", rows, dead=[0]))
    kill(table, {"a%20b/f.parquet": [0, 3]})
    for path in table.rglob("*"):
        if path.is_file():
            location.write(str(path.relative_to(table)), [path.read_bytes()])
