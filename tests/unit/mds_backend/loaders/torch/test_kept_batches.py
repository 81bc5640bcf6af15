"""Batches that users keep in any form do not change while later batches are read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.kit.loaders import torch_loader
from tests.kit.small_datasets import write_dataset

from mdstorm_backend import Dataset
from mdstorm_backend.read import reader

ROWS, BATCH, PASSES = 2_000, 100, 2
NAMES = [f"x{i}" for i in range(6)]
#: Forms in which users may keep a tensor.
FORMS = {
    "tensor": lambda tensor: tensor,
    "slice": lambda tensor: tensor[3:7],
    "every second": lambda tensor: tensor[::2],
    "numpy": lambda tensor: tensor.numpy(),
    "slice of numpy": lambda tensor: tensor.numpy()[1:5],
    "dlpack": lambda tensor: np.from_dlpack(tensor),
    "tensor of dlpack": lambda tensor: torch.from_dlpack(tensor),
    "storage": lambda tensor: tensor.untyped_storage(),
    "memoryview": lambda tensor: memoryview(tensor.numpy()),
    "arrow": lambda tensor: pa.py_buffer(tensor.numpy()),
    "detached": lambda tensor: tensor.detach().view(-1),
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    columns: dict[str, Any] = {
        name: np.arange(ROWS, dtype=np.int64) * 7 + i for i, name in enumerate(NAMES)
    }
    columns["word"] = [f"w{n}" for n in range(ROWS)]
    fields = {**dict.fromkeys(NAMES, "long"), "word": "string"}
    directory: Path = tmp_path_factory.mktemp("kept")
    return write_dataset(directory, columns, fields, shard_size=10_000)


@pytest.fixture(autouse=True)
def many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BLOCK_ROWS", 4 * BATCH)


def copy_of(kept: Any) -> bytes:
    if isinstance(kept, torch.UntypedStorage):
        return torch.tensor([], dtype=torch.uint8).set_(kept).numpy().tobytes()
    if isinstance(kept, torch.Tensor):
        return kept.numpy().tobytes()
    return kept.to_pybytes() if isinstance(kept, pa.Buffer) else np.asarray(kept).tobytes()


def kept_of(loader: Any) -> Iterator[tuple[Any, bytes]]:
    """Yield one tensor from each batch, in alternating forms, with a copy of its values."""
    forms = list(FORMS.values())
    number = 0
    for _ in range(PASSES):
        for batch in loader:
            tensors = [value for value in batch.values() if isinstance(value, torch.Tensor)]
            kept = forms[number % len(forms)](tensors[number % len(tensors)])
            number += 1
            yield kept, copy_of(kept)


IN_ORDER: dict[str, Any] = {}
SHUFFLED = {"seed": 1, "shuffle_shards": True, "window": 1_000}


@pytest.mark.matrix
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shuffle", [IN_ORDER, SHUFFLED], ids=["in order", "shuffled"])
@pytest.mark.parametrize("columns", [NAMES, [*NAMES, "word"]], ids=["records", "with strings"])
def test_kept_batch_parts_do_not_change_in_later_passes(
    dataset: Dataset, columns: list[str], shuffle: dict[str, Any], num_workers: int
) -> None:
    options = {"columns": columns, "shuffle": shuffle, "num_workers": num_workers}
    kept = list(kept_of(torch_loader(dataset, batch_size=BATCH, **options)))
    assert len(kept) == PASSES * ROWS // BATCH
    assert all(copy_of(one) == values for one, values in kept)


def test_kept_columns_do_not_change_while_other_columns_are_freed(
    dataset: Dataset,
) -> None:
    loader = torch_loader(dataset, batch_size=BATCH, columns=NAMES)
    kept = [batch["x5"].numpy() for _ in range(PASSES) for batch in loader]
    assert np.concatenate(kept).tolist() == [n * 7 + 5 for n in range(ROWS)] * PASSES
