"""Unsigned integers become signed ones in all loaders: PyTorch cannot calculate with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from mdstorm import TransformSpec, convert, make_batch_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader, InMemBatchedDataLoader
from mdstorm.spark import make_spark_converter

WIDER = {"u8": torch.uint8, "u16": torch.int32, "u32": torch.int64}


@pytest.fixture(params=["Parquet", "MDS"])
def url(request: Any, tmp_path: Path) -> str:
    numbers = {
        f"u{bits}": pa.array([0, 2**bits - 1], pa.from_numpy_dtype(np.dtype(f"uint{bits}")))
        for bits in (8, 16, 32)
    }
    lists = {
        f"{name}s": pa.array([v.to_pylist()] * 2, pa.list_(v.type)) for name, v in numbers.items()
    }
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.table(numbers | lists), tmp_path / "parquet" / "a.parquet")
    source = (tmp_path / "parquet").as_uri()
    if request.param == "Parquet":
        return source
    convert(source, f"{source}-mds", progress=False)
    return f"{source}-mds"


def of_converter(url: str, **options: Any) -> Any:
    with make_spark_converter(url).make_torch_dataloader(2, num_epochs=1, **options) as loader:
        return next(iter(loader))


def with_transform(url: str) -> Any:
    return of_converter(url, transform_spec=TransformSpec(lambda frame: frame, keeps_rows=True))


def of_reader(url: str, kind: Any = BatchedDataLoader) -> Any:
    with kind(make_batch_reader(url, num_epochs=1), 2) as loader:
        return next(iter(loader))


LOADERS: dict[str, Callable[[str], Any]] = {
    "converter": of_converter,
    "transform": with_transform,
    "BatchedDataLoader": of_reader,
    "DataLoader": lambda url: of_reader(url, kind=DataLoader),
    "in memory": lambda url: in_memory(make_batch_reader(url, num_epochs=1)),
}


def in_memory(reader: Any) -> Any:
    return next(iter(InMemBatchedDataLoader(reader, 2, rows_capacity=2)))


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_unsigned_integers_become_signed(url: str, load: Callable[[str], Any]) -> None:
    batch = load(url)
    assert {name: batch[name].dtype for name in WIDER} == WIDER
    assert {name: batch[f"{name}s"].dtype for name in WIDER} == WIDER
    for name in WIDER:
        assert sorted((batch[name].to(torch.int64) + 1).tolist()) == [1, 2 ** int(name[1:])]
        assert (batch[name] + 0).dtype == WIDER[name]


def test_unsigned_integers_become_signed_in_tensorflow(url: str) -> None:
    pytest.importorskip("tensorflow")
    with make_spark_converter(url).make_tf_dataset(2, num_epochs=1) as dataset:
        batch = next(iter(dataset))
    found = {name: getattr(batch, name).dtype.name for name in WIDER}
    assert found == {"u8": "uint8", "u16": "int32", "u32": "int64"}
    assert {name: getattr(batch, f"{name}s").dtype.name for name in WIDER} == found
