"""MosaicML Streaming reads files written by `MDSWriter`, and writes the same bytes itself."""

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
from tests.contract.interop.in_mosaic.describe import describe
from tests.unit.mds_backend.format import own_classes

from mdstorm_backend import MDSWriter, merge_index, open_dataset
from mdstorm_backend.streaming.base.format.mds.encodings import _encodings

Image = pytest.importorskip("PIL.Image")

ROWS = 24
COMPRESSIONS = [None, "zstd:22", "zstd", "gz:0", "gz", "bz2:1", "br:0", "br:11", "snappy"]
SIMPLE = {"n": "int", "text": "str", "array": "ndarray:float32:4"}


def picture(i: int, mode: str = "RGB") -> Any:
    pixels = np.random.default_rng(i).integers(0, 256, (5 + i % 3, 7, 3), "uint8")
    return Image.fromarray(pixels).convert(mode)


def pictures(i: int) -> list[Any]:
    return [picture(j) for j in range(i % 3)]


def file_of(image: Any, format_: str) -> bytes:
    file = io.BytesIO()
    image.save(file, format=format_)
    return file.getvalue()


def opened(*files: bytes) -> list[Any]:
    return [Image.open(io.BytesIO(file)) for file in files]


def coded(format_: str, *images: Any) -> list[Any]:
    """Encode images in a format, and return the images decoded from the result."""
    return opened(*(file_of(image, format_) for image in images))


@dataclass(frozen=True)
class Kind:
    """A column: its encoding, the value of each row, and the value read back."""

    encoding: str
    value: Callable[[int], Any]
    found: Callable[[Any], Any] = lambda value: value


#: Numbers, strings, JSON, pickles and arrays are covered by `test_golden_datasets`.
KINDS: dict[str, Kind] = {
    "empty array": Kind("ndarray", lambda i: np.full((i % 3, 300 if i == 5 else 1), i, "int16")),
    "big-endian": Kind("ndarray", lambda i: np.array([i], ">i4"), lambda v: v.astype("<i4")),
    "pil": Kind("pil", lambda i: picture(i, ["L", "RGB", "RGBA", "1"][i % 4])),
    "png": Kind("png", picture, lambda v: coded("PNG", v)[0]),
    "jpeg": Kind("jpeg", picture, lambda v: coded("JPEG", v)[0]),
    "jpeg_array": Kind(
        "jpeg_array",
        lambda i: [file_of(picture(j), "JPEG") for j in range(1 + i % 3)],
        lambda v: opened(*v),
    ),
    "jpegarray": Kind("jpegarray", lambda i: (file_of(picture(i), "JPEG"),), lambda v: opened(*v)),
    "list[pil]": Kind("list[pil]", pictures),
    "list[png]": Kind("list[png]", pictures, lambda v: coded("PNG", *v)),
    "list[jpeg]": Kind("list[jpeg]", pictures, lambda v: coded("JPEG", *v)),
}


#: Columns of an Arrow batch, and the values that are read back.
BATCH: dict[str, tuple[pa.Array, list[Any]]] = {
    "flag": (pa.array([True, None]), [np.uint8(1), np.uint8(0)]),
    "day": (pa.array([date(1970, 1, 2), None]), [np.int32(1), np.int32(0)]),
    "time": (
        pa.array([datetime(1970, 1, 1, 0, 0, 1), None], pa.timestamp("ms")),
        [np.int64(1_000_000), np.int64(0)],
    ),
    "price": (pa.array([Decimal("1.50"), None]), [Decimal("1.50"), Decimal("NaN")]),
    "small": (pa.array([7, None], pa.uint16()), [np.uint16(7), np.uint16(0)]),
    "half": (pa.array(np.float16([0.5, -1])), [np.float16(0.5), np.float16(-1)]),
    "text": (pa.array(["é", None], pa.large_string()), ["é", ""]),
    "ragged": (
        pa.array([[1.5], None], pa.list_(pa.float64())),
        [np.array([1.5]), np.array([float("nan")])],
    ),
    "pair": (
        pa.array([[1, 2], [3, None]], pa.list_(pa.int16(), 2)),
        [np.int16([1, 2]), np.int16([3, 0])],
    ),
    "nested": (pa.array([{"a": 1}, None]), [{"a": 1}, None]),
}


def simple_sample(i: int) -> dict[str, Any]:
    return {"n": i, "text": f"sample {i % 3}", "array": np.full(4, i, "float32")}


def write_simple(out: Path, rows: range = range(ROWS), **options: Any) -> None:
    with MDSWriter(columns=SIMPLE, out=out, size_limit=500, **options) as writer:
        for i in rows:
            writer.write(simple_sample(i))


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("datasets")
    written = {name: parent / name for name in ("all", "batch", "merged")}
    columns = {name: kind.encoding for name, kind in KINDS.items()}
    with MDSWriter(columns=columns, out=written["all"], size_limit="40kb") as writer:
        for i in range(ROWS):
            writer.write({name: kind.value(i) for name, kind in KINDS.items()})
    with MDSWriter(out=written["batch"]) as writer:
        writer.write_batch(pa.table({name: given for name, (given, _) in BATCH.items()}))
    for compression in COMPRESSIONS:
        name = str(compression)
        written[name] = parent / name.replace(":", "-")
        write_simple(written[name], compression=compression, hashes=["sha1", "xxh64"])
    for number, name in enumerate(("a/p0", "a/p1", "b/p0")):
        rows = range(number * 8, number * 8 + 8)
        write_simple(written["merged"] / name, rows, compression=COMPRESSIONS[number])
    merge_index(written["merged"] / "a")
    merge_index(written["merged"])
    return written


@pytest.mark.parametrize("reader", ["StreamingDataset", "LocalDataset"])
@pytest.mark.parametrize("name", KINDS)
def test_mosaic_reads_the_values_of_every_encoding(read: Any, reader: str, name: str) -> None:
    kind = KINDS[name]
    expected = [describe(kind.found(kind.value(i))) for i in range(ROWS)]
    assert [sample[name] for sample in read["all"][reader]] == expected
    assert len(read["all"]["samples_per_shard"]) > 2


@pytest.mark.parametrize("name", BATCH)
def test_mosaic_reads_values_written_as_batches(read: Any, name: str) -> None:
    found = [sample[name] for sample in read["batch"]["StreamingDataset"]]
    assert found == [describe(value) for value in BATCH[name][1]]


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
def test_mosaic_writes_same_bytes_as_mds_writer_for_random_sizes(
    run_in_mosaic: Any, tmp_path: Path
) -> None:
    chance = random.Random(5)
    settings = []
    for _ in range(40):
        largest = chance.choice([1, 50, 400])
        sizes = [chance.randint(0, largest) for _ in range(chance.randint(0, 60))]
        limit = chance.choice([None, 0, 700, 1000, "1kb", "1.5kb", chance.randint(500, 3000)])
        hashes = chance.choice([None, ["md5"], ["sha1", "xxh3_64"]])
        settings.append([limit, hashes, sizes])
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings))
    assert run_in_mosaic("write_sizes.py", tmp_path / "theirs", file) == len(settings)
    compared = 0
    for number, (limit, hashes, sizes) in enumerate(settings):
        ours, theirs = tmp_path / "ours" / str(number), tmp_path / "theirs" / str(number)
        columns = {"v": "bytes", "n": "int32", "a": "str"}
        with MDSWriter(columns=columns, out=ours, size_limit=limit, hashes=hashes) as writer:
            for i, size in enumerate(sizes):
                writer.write({"v": bytes(size), "n": i, "a": "é" * (i % 3)})
        index = json.loads((theirs / "index.json").read_text())
        if any(shard["samples"] == 0 for shard in index["shards"]):
            continue  # only MosaicML Streaming writes an empty shard before a large sample
        assert contents(ours) == contents(theirs)
        compared += 1
    assert compared > 30


def test_user_defined_encodings_have_same_bytes_and_values_in_both_libraries(
    run_in_mosaic: Any, tmp_path: Path
) -> None:
    theirs = run_in_mosaic("own_encodings.py", Path(own_classes.__file__).parent, tmp_path / "m")
    with pytest.MonkeyPatch.context() as patch:
        for name, kind in own_classes.OWN.items():
            patch.setitem(_encodings, name, kind)
        for name, columns in own_classes.LAYOUTS.items():
            encodings = {column: own_classes.COLUMNS[column] for column in columns}
            out = tmp_path / name
            with MDSWriter(columns=encodings, out=str(out), size_limit=500) as writer:
                for i in range(40):
                    writer.write({column: own_classes.sample(i)[column] for column in columns})
            assert contents(out) == contents(tmp_path / "m" / name)
            assert str(open_dataset(str(tmp_path / "m" / name))[7]) == theirs[name]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
