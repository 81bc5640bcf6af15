"""Avro files that claim more records than they contain, or decompress to too many bytes."""

import zlib
from pathlib import Path

import pyarrow as pa
import pytest
import tests.kit.iceberg_tables as tables
from tests.kit.parquet_files import open_parquet

from mdstorm_backend.errors import CorruptDatasetError


def _varint(number: int) -> bytes:
    number, found = number << 1, b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def _bomb(bits: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(bits >> 20)) + packer.flush()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("count", "size", "most", "said"),
    [
        (1 << 60, 8, None, "claims to have 1152921504606846976"),
        (5, 3 << 20, 2 << 20, "more than 2097152 bytes"),
        pytest.param(5, 300 << 20, None, "more than 268435456 bytes", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("files", ["snap-*.avro", "*-m0.avro"])
def test_oversized_manifest_block_raises_corrupt_dataset_error(
    tmp_path: Path,
    count: int,
    size: int,
    most: int | None,
    said: str,
    files: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if most is not None:
        monkeypatch.setattr("mdstorm_backend.tables.avro._MOST_BLOCK", most)
    table = tables.catalog(tmp_path).create_table("n.t", pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [1, 2, 3]}))
    path = tables.path_of(table)
    (file,) = (path / "metadata").glob(files)
    content = file.read_bytes()
    sync = content[-16:]
    header = content[: content.index(sync) + 16].replace(b"\x08null", b"\x0edeflate")
    block = _bomb(size) if size > 8 else zlib.compress(bytes(size))[2:-4]
    file.write_bytes(header + _varint(count) + _varint(len(block)) + block + sync)
    with pytest.raises(CorruptDatasetError, match=said):
        open_parquet(str(path))
