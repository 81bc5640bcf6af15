"""Datasets in `golden`, written once by MosaicML Streaming 0.13.0.

The `expected.json` of each says what was written: for every value its type, its content and the
bytes that stand for it. These tests need nothing but the files.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdstorm_backend import open_dataset
from mdstorm_backend.dataset import Dataset
from mdstorm_backend.encodings import parse_encoding
from mdstorm_backend.errors import UnsupportedEncodingError

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name for path in GOLDEN.iterdir())

#: Columns that this version does not decode, with what it says of them.
REFUSED = {
    ("bytes_passthrough", "a"): "encoding 'ndarray'",
    ("bytes_passthrough", "p"): "encoding 'png'",
    ("images_png", "p"): "encoding 'png'",
    ("ndarray_dtype", "m"): "arrays of 2 dimensions",
    ("pickle", "x"): "encoding 'pkl'",
    ("varlen", "sf"): "encoding 'str_float'",
    ("varlen", "si"): "encoding 'str_int'",
}


#: Datasets with nothing to compare.
WITHOUT_VALUES = {"images_png", "pickle", "zero_samples"}


class Golden:
    """A dataset and what is known of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dataset: Dataset = open_dataset(str(GOLDEN / name))
        self.expected: dict[str, Any] = json.loads((GOLDEN / name / "expected.json").read_text())
        self.encodings: dict[str, str] = self.expected["columns_given_to_writer"]
        self.columns = sorted(n for n in self.encodings if (name, n) not in REFUSED)


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)


def identity(value: Any, encoding: str) -> Any:
    """Return what makes a decoded value equal to an expected one: type and bytes."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.shape or encoding.startswith("ndarray"):
            return value.dtype.name, list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()
        return value.dtype.name, value.tobytes()
    return type(value), value if isinstance(value, bytes) else value.encode()


def expected_identity(entry: dict[str, Any], encoding: str) -> Any:
    if entry["type"] == "ndarray":
        return entry["dtype"], entry["shape"], entry["sha256"]
    stored = b64decode(entry["encoded_b64"])
    if (dtype := parse_encoding(encoding).dtype) is not None:
        return dtype.name, stored
    # Without a Spark type, JSON and decimals are delivered as their text.
    return bytes if encoding == "bytes" else str, stored


def test_dataset_has_the_written_samples_and_columns(golden: Golden) -> None:
    assert len(golden.dataset) == golden.expected["num_samples"]
    assert len(golden.dataset.index.shards) == golden.expected["num_shards"]
    if golden.expected["num_samples"]:
        assert golden.dataset.schema.names == tuple(sorted(golden.encodings))


@pytest.mark.parametrize("golden", sorted({*NAMES} - WITHOUT_VALUES), indirect=True)
def test_every_value_is_the_written_one(golden: Golden) -> None:
    expected = [
        [expected_identity(sample[name], golden.encodings[name]) for name in golden.columns]
        for sample in golden.expected["samples"]
    ]
    found = []
    for batch in golden.dataset.batches(7, columns=golden.columns):
        found += [
            [identity(v, golden.encodings[n]) for n, v in zip(golden.columns, row, strict=True)]
            for row in zip(*batch.values(), strict=True)
        ]
    assert found == expected


@pytest.mark.parametrize(("name", "column"), REFUSED)
def test_columns_that_cannot_be_decoded_are_refused_by_name(name: str, column: str) -> None:
    dataset = Golden(name).dataset
    with pytest.raises(UnsupportedEncodingError, match=f"'{column}'.*{REFUSED[name, column]}"):
        list(dataset.batches(1, columns=[column]))
    with pytest.raises(UnsupportedEncodingError, match=re.escape("columns=[…]")):
        dataset[0]


def test_first_shard_may_be_full_to_the_byte() -> None:
    shards = Golden("exact_fit").dataset.index.shards
    assert shards[0].raw_data.bytes == shards[0].size_limit


def test_a_dataset_without_samples_opens_and_is_empty() -> None:
    dataset = Golden("zero_samples").dataset
    assert len(dataset) == 0
    assert dataset.schema.names == ()
    with pytest.warns(UserWarning, match="No matching data"):
        assert dataset.to_table().num_rows == 0
