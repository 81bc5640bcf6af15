"""Shards and datasets as other writers create them, without mdstorm's metadata."""

import json
import struct
from pathlib import Path

import numpy as np

from mdstorm_backend import open_dataset
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.format.index import FileInfo, Index, ShardInfo
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.read.mds_shard import MDSShard

URL = "file:///data/x.mds"

#: The encoding of each column, and the size of its values (None if it varies).
Encodings = dict[str, tuple[str, int | None]]

_HEADER = b'{"format": "mds"}'


def shard_bytes(samples: list[bytes]) -> bytes:
    offsets = np.cumsum([8 + 4 * len(samples) + len(_HEADER), *map(len, samples)])
    words = np.array([len(samples), *offsets], "<u4").tobytes()
    return words + _HEADER + b"".join(samples)


def shard_info(content: bytes, encodings: Encodings, samples: int, name: str) -> ShardInfo:
    texts = tuple(text for text, _ in encodings.values())
    sizes = tuple(size for _, size in encodings.values())
    return ShardInfo(tuple(encodings), texts, sizes, samples, FileInfo(name, len(content), {}))


def foreign_shard(
    samples: list[bytes], encodings: Encodings, *, allow_unsafe_types: bool = False
) -> MDSShard:
    """Make an in-memory shard from encoded samples."""
    content = shard_bytes(samples)
    info = shard_info(content, encodings, len(samples), "x.mds")
    schema = Schema.from_shards([info]).opened(URL, allow_unsafe_types=allow_unsafe_types)
    return MDSShard(content, info, schema, url=URL)


def variable(*values: bytes) -> bytes:
    """Encode a sample of variable-size values."""
    return struct.pack(f"<{len(values)}I", *map(len, values)) + b"".join(values)


def foreign_dataset(
    directory: Path, shards: list[tuple[list[bytes], Encodings]], **options: bool
) -> Dataset:
    """Write a dataset from encoded samples, and open it."""
    infos = []
    for number, (samples, encodings) in enumerate(shards):
        content = shard_bytes(samples)
        name = f"shard.{number:05}.mds"
        (directory / name).write_bytes(content)
        infos.append(shard_info(content, encodings, len(samples), name))
    (directory / "index.json").write_bytes(Index(tuple(infos), {}).to_bytes())
    assert json.loads((directory / "index.json").read_text())["version"] == 2
    return open_dataset(str(directory), **options)  # type: ignore[arg-type]
