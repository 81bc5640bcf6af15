"""Datasets in `golden`, written once by MosaicML Streaming 0.13.0.

The `expected.json` of each says what was written: for every value its type, its content and the
bytes that stand for it. These tests need nothing but the files.
"""

import hashlib
import io
import json
from base64 import b64decode
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdstorm_backend import open_dataset
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import UnsafeTypeError

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name for path in GOLDEN.iterdir())
WITH_SAMPLES = [name for name in NAMES if name != "zero_samples"]

#: Arrays of 63 dimensions are among its values.
NEEDS_NUMPY_2 = "ndarray_dynamic"

#: What JPEG decoders may make differently of one pixel.
TOLERANCE = 4


class Golden:
    """A dataset and what is known of it."""

    def __init__(self, name: str) -> None:
        self.directory = GOLDEN / name
        self.expected: dict[str, Any] = json.loads((self.directory / "expected.json").read_text())
        split = "train" if name == "split_train" else ""
        self.dataset: Dataset = open_dataset(str(self.directory / split), allow_unsafe_types=True)
        self.encodings: dict[str, str] = self.expected["columns_given_to_writer"]

    @property
    def samples(self) -> list[dict[str, Any]]:
        samples: list[dict[str, Any]] = self.expected["samples"]
        return samples


@pytest.fixture(params=WITH_SAMPLES)
def golden(request: pytest.FixtureRequest) -> Golden:
    if request.param == NEEDS_NUMPY_2 and np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("NumPy 1 has arrays of 32 dimensions at most")
    return Golden(request.param)


def check_array(found: Any, entry: dict[str, Any]) -> None:
    assert isinstance(found, np.ndarray)
    assert found.dtype.name == entry["dtype"]
    assert list(found.shape) == entry["shape"]
    assert hashlib.sha256(found.tobytes()).hexdigest() == entry["sha256"]
    assert found.flags.writeable


def own_pixels(entry: dict[str, Any]) -> np.ndarray:
    """What Pillow makes of the bytes that were written."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(b64decode(entry["encoded_b64"]))))


def check_image(found: Any, entry: dict[str, Any]) -> None:
    assert type(found).__name__ == entry["class"].rpartition(".")[2]
    assert list(found.size) == entry["size_wh"]
    if (found.format, found.mode, entry["mode"]) == ("PNG", "I", "I;16"):
        found = found.convert("I;16")  # older Pillows widen it
        found.format = "PNG"
    assert found.mode == entry["mode"]
    assert found.format == entry["format"]
    if entry["decoder_dependent"]:
        check_pixels(np.asarray(found), own_pixels(entry))
    else:
        assert found.tobytes() == b64decode(entry["pixels_b64"])


def check_pixels(found: Any, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= TOLERANCE


def check_object(found: Any, entry: dict[str, Any]) -> None:
    """Compare what both samples and batches have as a Python object, text or bytes."""
    kind = entry["type"]
    if kind == "bytes":
        expected: Any = b64decode(entry["value_b64"])
    elif kind == "decimal":
        expected = Decimal(entry["value"])
    elif kind in ("int", "float"):
        expected = {"int": int, "float": float}[kind](entry["value"])
    else:
        assert kind in ("str", "json", "none")
        expected = entry["value"]
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)


def check_sample_value(found: Any, entry: dict[str, Any]) -> None:
    if entry["type"] == "ndarray":
        check_array(found, entry)
    elif entry["type"] == "image":
        check_image(found, entry)
    elif "bytes_b64" in entry:
        assert type(found) is getattr(np, entry["type"])
        assert found.tobytes() == b64decode(entry["bytes_b64"])
    else:
        check_object(found, entry)


def check_batch_value(found: Any, entry: dict[str, Any]) -> None:
    if entry["type"] == "ndarray":
        check_array(found, entry)
    elif entry["type"] == "image":
        check_batch_image(found, entry)
    elif isinstance(found, np.generic):
        # Numbers that are stored as text are 64 bits wide in a batch.
        dtype = {"int": "int64", "float": "float64"}.get(entry["type"], entry["type"])
        expected = np.array(entry["value"], dtype)[()]
        assert (type(found), repr(found)) == (type(expected), repr(expected))
    else:
        check_object(found, entry)


#: How many bytes a pixel has where a mode is delivered as it is stored.
CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
WIDER = {"I;16": np.uint16, "I": np.int32, "F": np.float32}


def check_batch_image(found: Any, entry: dict[str, Any]) -> None:
    assert isinstance(found, np.ndarray)
    assert found.flags.writeable
    width, height = entry["size_wh"]
    assert found.shape[:2] == (height, width)
    if entry["decoder_dependent"]:
        check_pixels(found, own_pixels(entry))
    elif entry["mode"] in CHANNELS:
        assert found.size == width * height * CHANNELS[entry["mode"]]
        assert found.tobytes() == b64decode(entry["pixels_b64"])
    elif entry["mode"] in WIDER:
        assert found.dtype == WIDER[entry["mode"]]
        assert found.tobytes() == b64decode(entry["pixels_b64"])
    else:
        assert found.dtype == np.uint8
        assert found.shape[2:] == (() if entry["mode"] == "1" else found.shape[2:])


@pytest.mark.parametrize("golden", NAMES, indirect=True)
def test_dataset_has_the_written_samples_and_columns(golden: Golden) -> None:
    assert len(golden.dataset) == golden.expected["num_samples"]
    assert len(golden.dataset.index.shards) == golden.expected["num_shards"]
    if golden.expected["num_samples"]:
        assert golden.dataset.schema.names == tuple(sorted(golden.encodings))


def test_every_sample_is_the_written_one(golden: Golden) -> None:
    for number, expected in enumerate(golden.samples):
        sample = golden.dataset[number]
        assert list(sample) == sorted(golden.encodings)
        for name, entry in expected.items():
            check_sample_value(sample[name], entry)


@pytest.mark.parametrize("batch_size", [1, 7])
def test_every_value_of_a_batch_is_the_written_one(golden: Golden, batch_size: int) -> None:
    names = sorted(golden.encodings)
    number = 0
    for batch in golden.dataset.batches(batch_size):
        assert list(batch) == names
        for values in zip(*batch.values(), strict=True):
            for name, value in zip(names, values, strict=True):
                check_batch_value(value, golden.samples[number][name])
            number += 1
    assert number == len(golden.samples)


def test_arrow_has_what_is_stored_of_images_and_pickles() -> None:
    for name, column in (("images_jpeg", "p"), ("images_pil", "p"), ("pickle", "x")):
        golden = Golden(name)
        table = golden.dataset.to_table()
        stored = [b64decode(sample[column]["encoded_b64"]) for sample in golden.samples]
        assert table[column].to_pylist() == stored


def test_pickles_are_not_loaded_unless_allowed_by_name() -> None:
    dataset = open_dataset(str(GOLDEN / "pickle"))
    with pytest.raises(UnsafeTypeError, match=r"'x'.*allow_unsafe_types=True"):
        dataset[0]
    with pytest.raises(UnsafeTypeError, match=r"'x'.*allow_unsafe_types=True"):
        list(dataset.batches(1))


def test_a_dataset_without_samples_opens_and_is_empty() -> None:
    dataset = Golden("zero_samples").dataset
    assert len(dataset) == 0
    assert dataset.schema.names == ()
    with pytest.warns(UserWarning, match="No matching data"):
        assert dataset.to_table().num_rows == 0
