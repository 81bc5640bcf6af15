"""What MosaicML Streaming writes, mdstorm reads."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.interop.in_mosaic.describe import describe

from mdstorm_backend import open_dataset
from mdstorm_backend.dataset import Dataset
from mdstorm_backend.errors import UnsupportedEncodingError

COMPRESSIONS = ["none", "zstd", "zstd:19", "gz", "gz:1", "bz2", "snappy", "br"]
#: Their encodings are named in `in_mosaic/write.py`.
OPAQUE = ["a pickle", "any ndarray"]

Samples = list[dict[str, str]]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mosaic")


@pytest.fixture(scope="module")
def written(run_in_mosaic: Any, parent: Path) -> Samples:
    """Write the samples once with each compression, and return them."""
    samples: Samples = run_in_mosaic("write.py", parent, *COMPRESSIONS)
    return samples


@pytest.fixture
def dataset(written: Samples, parent: Path, request: pytest.FixtureRequest) -> Dataset:
    return open_dataset(str(parent / getattr(request, "param", "none")))


def decodable(dataset: Dataset) -> list[str]:
    return [name for name in dataset.schema.names if name not in OPAQUE]


def as_given(dataset: Dataset, name: str, value: Any) -> str:
    """Describe a value as what the writer was given for it.

    Without a Spark type, JSON and decimals are delivered as their text and integers as int64.
    """
    kind = dataset.schema[name].encoding
    if kind == "json":
        return describe(json.loads(value))
    if kind == "str_decimal":
        return describe(Decimal(value))
    return describe(int(value) if kind == "int" else value)


@pytest.mark.parametrize("dataset", COMPRESSIONS, indirect=True)
def test_every_value_comes_back(dataset: Dataset, written: Samples) -> None:
    names = decodable(dataset)
    assert len(dataset.index.shards) > 2
    found: list[dict[str, str]] = []
    # Batches that begin and end within shards.
    for batch in dataset.batches(7, columns=names):
        rows = zip(*batch.values(), strict=True)
        found += [{n: as_given(dataset, n, v) for n, v in zip(names, r, strict=True)} for r in rows]
    assert found == [{name: sample[name] for name in names} for sample in written]


def test_arrow_and_pandas_hold_the_same(dataset: Dataset) -> None:
    names = decodable(dataset)
    (batch,) = dataset.batches(len(dataset), columns=names)
    table, frame = dataset.to_table(names), dataset.to_pandas(names)
    for name, values in batch.items():
        assert table[name].to_pylist() == [plain(value) for value in values]
        assert [plain(value) for value in frame[name]] == [plain(value) for value in values]


def plain(value: Any) -> Any:
    return value.reshape(-1).tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(("name", "encoding"), [("a pickle", "pkl"), ("any ndarray", "ndarray")])
def test_what_cannot_be_decoded_is_refused_by_name(
    dataset: Dataset, name: str, encoding: str
) -> None:
    message = re.escape(f"column {name!r} has encoding {encoding!r}")
    with pytest.raises(UnsupportedEncodingError, match=message):
        next(dataset.batches(1, columns=["int", name]))
    with pytest.raises(UnsupportedEncodingError, match="column 'a"):
        dataset[0]
