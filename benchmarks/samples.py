"""Write the sample datasets for the engine benchmarks with MosaicML Streaming.

    python samples.py FOLDER

Runs in the `mosaic` environment created by `make_environments.sh`, so that both libraries read
exactly the same files. Where programs are only started, mdstorm writes them.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sizes import SMALLEST, size

BLOBS = size(20_000, 300)
BLOB_BYTES = 3_000
RAGGED = size(20_000, 300)
RAGGED_MEAN = 200
TEXTS = size(50_000, 300)
TEXT_COLUMNS = 10
TEXT_LENGTH = 20
IMAGES = size(4_096, 8)
IMAGE_SIDE = 224
DISTINCT_IMAGES = size(64, 4)
NUMBERS = size(20_000, 300)
NUMBER_COLUMNS = 26
SHARDS = size(10_000, 20)
SAMPLES_PER_SHARD = 8
STORED = size(40_000, 300)
STORED_SHARD_BYTES = 2 << 20


def blobs(count: int = BLOBS) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(1)
    for _ in range(count):
        yield {"blob": rng.bytes(BLOB_BYTES)}


def ragged() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(2)
    for length in rng.integers(1, 2 * RAGGED_MEAN, RAGGED):
        yield {"values": rng.random(length, np.float32)}


def texts() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(3)
    letters = rng.integers(ord("a"), ord("z") + 1, (TEXTS, TEXT_COLUMNS * TEXT_LENGTH), np.uint8)
    for row in letters:
        text = row.tobytes().decode("ascii")
        yield {
            f"text_{i}": text[i * TEXT_LENGTH : (i + 1) * TEXT_LENGTH] for i in range(TEXT_COLUMNS)
        }


def pictures() -> Iterator[Any]:
    """Yield pictures with smooth shapes and some noise, which compress like photographs."""
    rng = np.random.default_rng(4)
    y, x = np.mgrid[:IMAGE_SIDE, :IMAGE_SIDE][..., None] / IMAGE_SIDE
    for _ in range(DISTINCT_IMAGES):
        waves = np.sin(rng.uniform(4, 30, 3) * x + rng.uniform(4, 30, 3) * y)
        noise = rng.normal(0, 6, (IMAGE_SIDE, IMAGE_SIDE, 3))
        yield np.clip(128 + 90 * waves + noise, 0, 255).astype(np.uint8)


def images() -> Iterator[dict[str, Any]]:
    """Yield the pictures as JPEG files, again and again."""
    from PIL import Image

    files = []
    for pixels in pictures():
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    for i in range(IMAGES):
        yield {"image": files[i % DISTINCT_IMAGES], "label": i}


def numbers() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(5)
    for row in rng.integers(0, 1000, (NUMBERS, NUMBER_COLUMNS), np.int32):
        yield {f"c{i:02}": value for i, value in enumerate(row)}


def small_shards() -> Iterator[dict[str, Any]]:
    for i in range(SHARDS * SAMPLES_PER_SHARD):
        yield {"id": i}


def write(
    folder: Path, name: str, columns: dict[str, str], rows: Iterable[Any], **options: Any
) -> None:
    """Write one dataset."""
    if SMALLEST:
        from mdstorm_backend import MDSWriter
    else:
        from streaming import MDSWriter

    with MDSWriter(columns=columns, out=str(folder / name), **options) as writer:
        for row in rows:
            writer.write(row)


def main() -> None:
    folder = Path(sys.argv[1])
    write(folder, "blobs", {"blob": "bytes"}, blobs())
    write(folder, "ragged", {"values": "ndarray:float32"}, ragged())
    write(folder, "texts", {f"text_{i}": "str" for i in range(TEXT_COLUMNS)}, texts())
    write(folder, "images", {"image": "jpeg", "label": "int"}, images())
    write(folder, "numbers", {f"c{i:02}": "int32" for i in range(NUMBER_COLUMNS)}, numbers())
    write(folder, "stored", {"blob": "bytes"}, blobs(STORED), size_limit=STORED_SHARD_BYTES)
    # The limit leaves room for the header and for `SAMPLES_PER_SHARD` eight-byte samples with
    # their offsets.
    header = len(
        '{"column_encodings": ["int"], "column_names": ["id"], "column_sizes": [8], "compression": '
        'null, "format": "mds", "hashes": [], "size_limit": 999, "version": 2}'
    )
    limit = 8 + header + SAMPLES_PER_SHARD * (8 + 4)
    write(folder, "small_shards", {"id": "int"}, small_shards(), size_limit=limit)


if __name__ == "__main__":
    main()
