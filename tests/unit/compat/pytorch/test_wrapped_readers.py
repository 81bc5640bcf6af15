"""PyTorch's own `DataLoader` does not accept readers and loaders as datasets."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.kit.readers import batch_reader, write_parquet

from mdstorm.pytorch import BatchedDataLoader, DataLoader


@pytest.fixture
def reader(tmp_path: Path) -> Any:
    with batch_reader(write_parquet(tmp_path, {"a": range(6)})) as reader:
        yield reader


@pytest.mark.parametrize("shuffle", [False, True])
def test_torch_loader_over_reader_error_names_the_loader_to_use(reader: Any, shuffle: bool) -> None:
    with pytest.raises(TypeError, match=r"Reader has no len\(\).*mdstorm\.pytorch\.DataLoader"):
        next(iter(torch.utils.data.DataLoader(reader, shuffle=shuffle)))
    assert reader
    assert len(list(reader)) == 2


@pytest.mark.parametrize("make", [DataLoader, BatchedDataLoader])
def test_torch_loader_over_loader_raises_error_with_remedy(reader: Any, make: Any) -> None:
    loader = make(reader, batch_size=3)
    with pytest.raises(TypeError, match=r"has no len\(\).*iterate over the loader itself"):
        next(iter(torch.utils.data.DataLoader(loader)))
    assert loader
    assert len(list(loader)) == 2
