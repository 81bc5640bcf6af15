"""Datasets in `golden`, which were written by MosaicML Streaming 0.13.0.

Each has an `expected.json` with every value's type, content and stored bytes. mdstorm must read
these values, and write the same bytes.
"""

import hashlib
import io
import json
import shutil
from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdstorm_backend import MDSWriter, merge_index, open_dataset
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.errors import UnsafeTypeError
from mdstorm_backend.format.compression import decompress

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name for path in GOLDEN.iterdir())
MERGED = ["merged", "merged_lexicographic"]
#: A dataset with 63-dimensional arrays, which NumPy 1 does not support.
NEEDS_NUMPY_2 = "ndarray_dynamic"
#: The largest allowed difference in a pixel between JPEG decoders.
TOLERANCE = 4
#: Bytes per pixel in the Pillow modes whose pixels are read as stored.
CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
WIDER = {"I;16": np.uint16, "I": np.int32, "F": np.float32}


class Golden:
    """A dataset and its expected contents."""

    def __init__(self, name: str) -> None:
        self.expected: dict[str, Any] = json.loads((GOLDEN / name / "expected.json").read_text())
        self.directory = GOLDEN / name / ("train" if name == "split_train" else ".")
        self.dataset = open_dataset(str(self.directory), allow_unsafe_types=True)
        self.encodings: dict[str, str] = self.expected["columns_given_to_writer"]
        self.samples: list[dict[str, Any]] = self.expected.get("samples", [])


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest) -> Golden:
    if request.param == NEEDS_NUMPY_2 and np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("NumPy 1 supports at most 32 dimensions")
    return Golden(request.param)


def check_value(found: Any, entry: dict[str, Any], check_image: Callable[..., None]) -> None:
    kind = entry["type"]
    if kind == "ndarray":
        assert isinstance(found, np.ndarray)
        assert (found.dtype.name, list(found.shape)) == (entry["dtype"], entry["shape"])
        assert hashlib.sha256(found.tobytes()).hexdigest() == entry["sha256"]
        assert found.flags.writeable
    elif kind == "image":
        check_image(found, entry)
    elif isinstance(found, np.generic):
        # Numbers stored as text are read as 64-bit values in a batch.
        expected: Any = np.array(
            entry["value"], {"int": "int64", "float": "float64"}.get(kind, kind)
        )[()]
        assert (type(found), repr(found)) == (type(expected), repr(expected))
    else:
        if kind == "bytes":
            expected = b64decode(entry["value_b64"])
        elif kind in ("decimal", "int", "float"):
            expected = {"decimal": Decimal, "int": int, "float": float}[kind](entry["value"])
        else:
            assert kind in ("str", "json", "none")
            expected = entry["value"]
        assert (type(found), repr(found)) == (type(expected), repr(expected))


def check_pixels(found: Any, entry: dict[str, Any]) -> None:
    """Check that the pixels match those that Pillow decodes from the written bytes."""
    from PIL import Image

    expected = np.asarray(Image.open(io.BytesIO(b64decode(entry["encoded_b64"]))))
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= TOLERANCE


def check_image(found: Any, entry: dict[str, Any]) -> None:
    assert type(found).__name__ == entry["class"].rpartition(".")[2]
    assert list(found.size) == entry["size_wh"]
    if (found.format, found.mode, entry["mode"]) == ("PNG", "I", "I;16"):
        found = found.convert("I;16")  # old versions of Pillow read 16-bit PNGs as 32-bit
        found.format = "PNG"
    assert (found.mode, found.format) == (entry["mode"], entry["format"])
    if entry["decoder_dependent"]:
        check_pixels(np.asarray(found), entry)
    else:
        assert found.tobytes() == b64decode(entry["pixels_b64"])


def check_batch_image(found: Any, entry: dict[str, Any]) -> None:
    assert isinstance(found, np.ndarray)
    assert found.flags.writeable
    width, height = entry["size_wh"]
    assert found.shape[:2] == (height, width)
    if entry["decoder_dependent"]:
        check_pixels(found, entry)
    elif entry["mode"] in CHANNELS or entry["mode"] in WIDER:
        assert found.size == width * height * CHANNELS.get(entry["mode"], 1)
        assert found.dtype == WIDER.get(entry["mode"], np.uint8)
        assert found.tobytes() == b64decode(entry["pixels_b64"])
    else:
        assert found.dtype == np.uint8
        assert found.ndim == (2 if entry["mode"] == "1" else found.ndim)


def test_samples_and_batches_contain_the_written_values(golden: Golden) -> None:
    dataset, names = golden.dataset, sorted(golden.encodings)
    assert len(dataset) == len(golden.samples) == golden.expected["num_samples"]
    assert len(dataset.index.shards) == golden.expected["num_shards"]
    if not golden.samples:
        assert dataset.schema.names == ()
        with pytest.warns(UserWarning, match="No matching data"):
            assert dataset.to_table().num_rows == 0
        return
    assert dataset.schema.names == tuple(names)
    for number, expected in enumerate(golden.samples):
        assert list(dataset[number]) == names
        for name, entry in expected.items():
            check_value(dataset[number][name], entry, check_image)
    for batch_size in (1, 7):
        rows = iter(golden.samples)
        for batch in dataset.batches(batch_size):
            assert list(batch) == names
            for values in zip(*batch.values(), strict=True):
                expected = next(rows)
                for name, value in zip(names, values, strict=True):
                    check_value(value, expected[name], check_batch_image)
        assert next(rows, None) is None


def test_arrow_batches_contain_images_and_pickles_as_stored() -> None:
    for name, column in (("images_jpeg", "p"), ("images_pil", "p"), ("pickle", "x")):
        golden = Golden(name)
        table = golden.dataset.to_table()
        stored = [b64decode(sample[column]["encoded_b64"]) for sample in golden.samples]
        assert table[column].to_pylist() == stored


def test_pickles_are_not_loaded_unless_unsafe_types_are_allowed() -> None:
    dataset = open_dataset(str(GOLDEN / "pickle"))
    for read in (lambda: dataset[0], lambda: list(dataset.batches(1))):
        with pytest.raises(UnsafeTypeError, match=r"'x'.*allow_unsafe_types=True"):
            read()


def given_samples(golden: Golden) -> list[dict[str, Any]]:
    """Return the samples as they were passed to the writer."""
    # Pillow's decoding depends on its version; the stored bytes do not.
    files = [name for name, text in golden.encodings.items() if text in ("png", "jpeg")]
    stored = [{n: b64decode(s[n]["encoded_b64"]) for n in files} for s in golden.samples]
    if len(files) == len(golden.encodings):
        return stored
    return [{**golden.dataset[i], **found} for i, found in enumerate(stored)]


@pytest.mark.parametrize("golden", [n for n in NAMES if n not in MERGED], indirect=True)
def test_writer_reproduces_mosaicml_streaming_files(golden: Golden, tmp_path: Path) -> None:
    if {"png", "jpeg", "pil"} & set(golden.encodings.values()):
        pytest.importorskip("PIL")
    with MDSWriter(
        columns=golden.encodings, out=str(tmp_path), **golden.expected["writer_kwargs"]
    ) as writer:
        for sample in given_samples(golden):
            writer.write(sample)
    index, wanted = (
        json.loads((where / "index.json").read_bytes()) for where in (tmp_path, golden.directory)
    )
    names = {path.name for path in golden.directory.iterdir()} - {"expected.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    if not any(shard["compression"] for shard in wanted["shards"]):
        for name in names:
            assert (tmp_path / name).read_bytes() == (golden.directory / name).read_bytes()
        return
    for found, shard in zip(index["shards"], wanted["shards"], strict=True):
        # The compressed bytes depend on the libraries' versions; the decompressed bytes do not.
        assert unpacked(tmp_path, found) == unpacked(golden.directory, shard)
        assert found["zip_data"]["basename"] == shard["zip_data"]["basename"]
        assert {**found, "zip_data": None} == {**shard, "zip_data": None}


def unpacked(directory: Path, shard: dict[str, Any]) -> bytes:
    data = (directory / shard["zip_data"]["basename"]).read_bytes()
    return bytes(decompress(shard["compression"], data, shard["raw_data"]["bytes"]))


@pytest.mark.parametrize("name", MERGED)
@pytest.mark.parametrize("form", ["root", "list"])
def test_merged_index_equals_mosaicml_streaming_index(name: str, form: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(GOLDEN / name, root)
    expected = (root / "index.json").read_bytes()
    (root / "index.json").unlink()
    if form == "root":
        merge_index(str(root))
    else:
        merge_index(sorted(str(path) for path in root.glob("*/index.json")), str(root))
    assert (root / "index.json").read_bytes() == expected


@pytest.mark.long
def test_each_library_uses_shards_downloaded_by_the_other(
    tmp_path: Path, run_in_mosaic: Any
) -> None:
    names = ("multi_shard", "compression_zstd", "compression_gz")
    remotes = [Path(shutil.copytree(GOLDEN / n, tmp_path / "remote" / n)) for n in names]

    def rows(number: int, caches: str) -> str:
        """Return all rows of a dataset, and download the shards missing from `caches`."""
        options = CacheOptions(directory=str(tmp_path / caches / str(number)))
        return repr(open_dataset(str(remotes[number]), cache=options)[:])

    theirs = run_in_mosaic("read.py", tmp_path / "mosaic", *remotes)
    ours = [rows(number, "ours") for number in range(len(names))]
    for path in (tmp_path / "remote").rglob("*"):
        if path.is_file() and path.name != "index.json":
            path.unlink()
    assert run_in_mosaic("read.py", tmp_path / "ours", *remotes) == theirs
    assert [rows(number, "mosaic") for number in range(len(names))] == ours
