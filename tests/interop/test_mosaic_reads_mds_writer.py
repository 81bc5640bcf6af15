"""What `MDSWriter` writes, MosaicML Streaming reads; and it writes the same bytes itself."""

import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.interop.in_mosaic.describe import describe

from mdstorm_backend import MDSWriter, merge_index

Image = pytest.importorskip("PIL.Image")

ROWS = 24
NAN = float("nan")
COMPRESSIONS = [None, "zstd:22", "zstd", "gz:0", "gz", "bz2:1", "br:0", "br:11", "snappy"]
SIMPLE = {"n": "int", "text": "str", "array": "ndarray:float32:4"}


def picture(i: int, mode: str = "RGB") -> Any:
    pixels = np.random.default_rng(i).integers(0, 256, (5 + i % 3, 7, 3), "uint8")
    return Image.fromarray(pixels).convert(mode)


def pictures(i: int) -> list[Any]:
    return [picture(j) for j in range(i % 3)]


def encoded(image: Any, format_: str) -> bytes:
    file = io.BytesIO()
    image.save(file, format=format_)
    return file.getvalue()


def image_file(i: int, format_: str) -> bytes:
    return encoded(picture(i), format_)


def opened(file: bytes) -> Any:
    return Image.open(io.BytesIO(file))


def coded(image: Any, format_: str) -> Any:
    """What is left of an image by a format."""
    return opened(encoded(image, format_))


def same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Kind:
    """A column: its encoding, the value of each row, and what becomes of it."""

    encoding: str
    value: Callable[[int], Any]
    found: Callable[[Any], Any] = same


#: Numbers, texts, JSON, pickles and arrays are among the datasets of `test_golden_bytes`.
KINDS: dict[str, Kind] = {
    "empty array": Kind("ndarray", lambda i: np.full((i % 3, 300 if i == 5 else 1), i, "int16")),
    "big-endian": Kind("ndarray", lambda i: np.array([i], ">i4"), lambda v: v.astype("<i4")),
    "pil": Kind("pil", lambda i: picture(i, ["L", "RGB", "RGBA", "1"][i % 4])),
    "png": Kind("png", picture, lambda v: coded(v, "PNG")),
    "jpeg": Kind("jpeg", picture, lambda v: coded(v, "JPEG")),
    "jpeg_array": Kind(
        "jpeg_array",
        lambda i: [image_file(j, "JPEG") for j in range(1 + i % 3)],
        lambda v: [opened(file) for file in v],
    ),
    "jpegarray": Kind(
        "jpegarray", lambda i: (image_file(i, "JPEG"),), lambda v: [opened(file) for file in v]
    ),
    "list[pil]": Kind("list[pil]", pictures),
    "list[png]": Kind("list[png]", pictures, lambda v: [coded(image, "PNG") for image in v]),
    "list[jpeg]": Kind("list[jpeg]", pictures, lambda v: [coded(image, "JPEG") for image in v]),
}


BATCH = pa.table(
    {
        "flag": pa.array([True, None]),
        "day": pa.array([date(1970, 1, 2), None]),
        "time": pa.array([datetime(1970, 1, 1, 0, 0, 1), None], pa.timestamp("ms")),
        "price": pa.array([Decimal("1.50"), None]),
        "small": pa.array([7, None], pa.uint16()),
        "half": pa.array(np.float16([0.5, -1])),
        "text": pa.array(["é", None], pa.large_string()),
        "ragged": pa.array([[1.5], None], pa.list_(pa.float64())),
        "pair": pa.array([[1, 2], [3, None]], pa.list_(pa.int16(), 2)),
        "nested": pa.array([{"a": 1}, None]),
    }
)
OF_BATCH = {
    "flag": [np.uint8(1), np.uint8(0)],
    "day": [np.int32(1), np.int32(0)],
    "time": [np.int64(1_000_000), np.int64(0)],
    "price": [Decimal("1.50"), Decimal("NaN")],
    "small": [np.uint16(7), np.uint16(0)],
    "half": [np.float16(0.5), np.float16(-1)],
    "text": ["é", ""],
    "ragged": [np.array([1.5]), np.array([NAN])],
    "pair": [np.int16([1, 2]), np.int16([3, 0])],
    "nested": [{"a": 1}, None],
}


def write_all(out: Path) -> None:
    columns = {name: kind.encoding for name, kind in KINDS.items()}
    with MDSWriter(columns=columns, out=out, size_limit="40kb") as writer:
        for i in range(ROWS):
            writer.write({name: kind.value(i) for name, kind in KINDS.items()})


def simple_sample(i: int) -> dict[str, Any]:
    return {"n": i, "text": f"sample {i % 3}", "array": np.full(4, i, "float32")}


def write_simple(out: Path, rows: range = range(ROWS), **options: Any) -> None:
    with MDSWriter(columns=SIMPLE, out=out, size_limit=500, **options) as writer:
        for i in rows:
            writer.write(simple_sample(i))


def write_merged(out: Path) -> None:
    for number, name in enumerate(("a/p0", "a/p1", "b/p0")):
        rows = range(number * 8, number * 8 + 8)
        write_simple(out / name, rows, compression=COMPRESSIONS[number])
    merge_index(out / "a")
    merge_index(out)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("datasets")
    written = {"all": parent / "all", "batch": parent / "batch"}
    write_all(written["all"])
    with MDSWriter(out=written["batch"]) as writer:
        writer.write_batch(BATCH)
    for compression in COMPRESSIONS:
        name = str(compression)
        written[name] = parent / name.replace(":", "-")
        write_simple(written[name], compression=compression, hashes=["sha1", "xxh64"])
    written["merged"] = parent / "merged"
    write_merged(written["merged"])
    return written


@pytest.mark.parametrize("reader", ["StreamingDataset", "LocalDataset"])
@pytest.mark.parametrize("name", KINDS)
def test_mosaic_finds_the_values_of_every_encoding(read: Any, reader: str, name: str) -> None:
    kind = KINDS[name]
    expected = [describe(kind.found(kind.value(i))) for i in range(ROWS)]
    assert [sample[name] for sample in read["all"][reader]] == expected


def test_the_samples_came_from_several_shards(read: Any) -> None:
    assert len(read["all"]["samples_per_shard"]) > 2


@pytest.mark.parametrize("name", OF_BATCH)
def test_mosaic_finds_the_values_of_batches(read: Any, name: str) -> None:
    found = [sample[name] for sample in read["batch"]["StreamingDataset"]]
    assert found == [describe(value) for value in OF_BATCH[name]]


@pytest.mark.parametrize("name", [*map(str, COMPRESSIONS), "merged"])
def test_mosaic_reads_compressed_and_merged_shards(read: Any, name: str) -> None:
    expected = [
        {name: describe(value) for name, value in sorted(simple_sample(i).items())}
        for i in range(ROWS)
    ]
    assert read[name]["StreamingDataset"] == expected
    assert read[name]["LocalDataset"] == expected
    assert len(read[name]["samples_per_shard"]) > 1


@pytest.mark.long
def test_mosaic_writes_the_same_bytes_for_any_sizes(run_in_mosaic: Any, tmp_path: Path) -> None:
    chance = random.Random(5)
    settings = []
    for _ in range(40):
        largest = chance.choice([1, 50, 400])
        sizes = [chance.randint(0, largest) for _ in range(chance.randint(0, 60))]
        limit = chance.choice([None, 0, 700, 1000, "1kb", "1.5kb", chance.randint(500, 3000)])
        hashes = chance.choice([None, ["md5"], ["sha1", "xxh3_64"]])
        settings.append([limit, hashes, sizes])
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert run_in_mosaic("write_sizes.py", tmp_path / "theirs", tmp_path / "settings.json") == len(
        settings
    )
    compared = 0
    for number, (limit, hashes, sizes) in enumerate(settings):
        ours, theirs = tmp_path / "ours" / str(number), tmp_path / "theirs" / str(number)
        columns = {"v": "bytes", "n": "int32", "a": "str"}
        with MDSWriter(columns=columns, out=ours, size_limit=limit, hashes=hashes) as writer:
            for i, size in enumerate(sizes):
                writer.write({"v": bytes(size), "n": i, "a": "é" * (i % 3)})
        index = json.loads((theirs / "index.json").read_text())
        if any(shard["samples"] == 0 for shard in index["shards"]):
            continue  # the empty shard before a large first sample, which is not written here
        assert contents(ours) == contents(theirs)
        compared += 1
    assert compared > 30


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
