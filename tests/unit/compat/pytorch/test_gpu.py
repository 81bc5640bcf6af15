"""A `transform_fn` that copies columns to a GPU, as Petastorm's documentation suggests."""

from functools import partial
from typing import Any

import pytest
import torch
from tests.kit.readers import batch_reader, rows, with_either

from mdstorm.pytorch import BatchedDataLoader, InMemBatchedDataLoader

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

ON_GPU = partial(torch.as_tensor, device="cuda")


@with_either
@pytest.mark.parametrize("capacity", [0, 100])
def test_transform_fn_may_copy_columns_to_the_gpu(
    thousand: str, reader: Any, capacity: int
) -> None:
    loader = BatchedDataLoader(reader(thousand, num_epochs=2), 64, ON_GPU, capacity)
    batches = list(loader)
    assert all(value.is_cuda for batch in batches for value in batch.values())
    assert sorted(rows(batches)) == sorted([*range(1000)] * 2)


@pytest.mark.parametrize("shuffle", [False, True])
def test_rows_in_memory_may_be_on_the_gpu(thousand: str, shuffle: bool) -> None:
    loader = InMemBatchedDataLoader(
        batch_reader(thousand), 64, ON_GPU, num_epochs=2, rows_capacity=1000, shuffle=shuffle
    )
    batches = list(loader)
    assert all(value.is_cuda for batch in batches for value in batch.values())
    assert sorted(rows(batches)) == sorted([*range(1000)] * 2)
