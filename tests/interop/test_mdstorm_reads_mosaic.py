"""What MosaicML Streaming writes, mdstorm reads as it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.interop.in_mosaic.describe import describe

from mdstorm_backend import open_dataset
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.read.late import LateDecoder

COMPRESSIONS = ["none", "zstd", "zstd:19", "gz", "gz:1", "bz2", "snappy", "br"]

Samples = list[dict[str, str]]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mosaic")


@pytest.fixture(scope="module")
def written(run_in_mosaic: Any, parent: Path) -> Samples:
    """Write the samples once with each compression, and return what Mosaic reads of them."""
    samples: Samples = run_in_mosaic("write.py", parent, *COMPRESSIONS)
    return samples


@pytest.fixture
def dataset(written: Samples, parent: Path, request: pytest.FixtureRequest) -> Dataset:
    directory = parent / getattr(request, "param", "none")
    return open_dataset(str(directory), allow_unsafe_types=True)


@pytest.mark.parametrize("dataset", COMPRESSIONS, indirect=True)
def test_every_sample_is_the_one_that_mosaic_reads(dataset: Dataset, written: Samples) -> None:
    assert len(dataset.index.shards) > 2
    assert len(dataset) == len(written)
    for number, expected in enumerate(written):
        sample = dataset[number]
        assert list(sample) == sorted(expected)
        assert {name: describe(value) for name, value in sample.items()} == expected


def objects(dataset: Dataset, batch: pa.RecordBatch, name: str) -> list[Any]:
    """The values of a batch as a sample has them, from what Arrow keeps."""
    column = dataset.schema[name]
    return list(LateDecoder(column)(batch[name], as_="object"))


def of_batch(dataset: Dataset, name: str, value: Any) -> str:
    """Describe a value of a batch as that of a sample: there, some integers have 64 bits."""
    is_python = dataset.schema[name].encoding in ("int", "str_int", "str_float")
    return describe(value.item() if is_python and isinstance(value, np.generic) else value)


@pytest.mark.parametrize("dataset", COMPRESSIONS, indirect=True)
def test_every_value_of_a_batch_is_the_one_that_mosaic_reads(
    dataset: Dataset, written: Samples
) -> None:
    plain = [c.name for c in dataset.schema if not c.is_late]
    late = [c.name for c in dataset.schema if c.is_late]
    assert len(late) > 8
    found: list[dict[str, str]] = []
    # Batches that begin and end within shards.
    for batch in dataset.batches(7, columns=plain):
        rows = zip(*batch.values(), strict=True)
        found += [{n: of_batch(dataset, n, v) for n, v in zip(plain, r, strict=True)} for r in rows]
    assert found == [{name: sample[name] for name in plain} for sample in written]
    row = 0
    for arrow in dataset.batches(7, columns=late, format="arrow"):
        for values in zip(*(objects(dataset, arrow, name) for name in late), strict=True):
            for name, value in zip(late, values, strict=True):
                assert describe(value) == written[row][name]
            row += 1
    assert row == len(written)


def test_arrow_and_pandas_hold_the_same(dataset: Dataset) -> None:
    of_many_kinds = {"table", "any ndarray", "str_int"}
    names = [c.name for c in dataset.schema if not c.is_late and c.name not in of_many_kinds]
    (batch,) = dataset.batches(len(dataset), columns=names)
    table, frame = dataset.to_table(names), dataset.to_pandas(names)
    for name, values in batch.items():
        assert table[name].to_pylist() == [plain(value) for value in values]
        assert [plain(value) for value in frame[name]] == [plain(value) for value in values]


def plain(value: Any) -> Any:
    return value.reshape(-1).tolist() if isinstance(value, np.ndarray) else value
