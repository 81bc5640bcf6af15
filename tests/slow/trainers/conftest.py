"""Datasets that the programs train on, and frameworks' global state."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.kit.small_datasets import write_dataset

#: A prime number, so that no number of ranks and no batch size divides it.
ROWS = 1_009


@pytest.fixture(autouse=True)
def own_state() -> Iterator[None]:
    """Reset Accelerate's global state, of which Hugging Face's Trainer also makes one.

    Otherwise forks for other tests would inherit it.
    """
    yield
    if (state := sys.modules.get("accelerate.state")) is not None:
        state.AcceleratorState._reset_state(reset_partial_state=True)


#: A multiple of 126, the size of a global batch of two ranks with 63 rows each.
EVEN_ROWS = 1_008


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path to a dataset of `ROWS` rows in several shards, with row numbers, features and labels."""
    return written(tmp_path_factory.mktemp("trainers") / "data", ROWS)


@pytest.fixture(scope="session")
def even_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path to a similar dataset of `EVEN_ROWS` rows."""
    return written(tmp_path_factory.mktemp("trainers") / "even", EVEN_ROWS)


@pytest.fixture(scope="session")
def few_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path to a similar dataset of 5 rows."""
    return written(tmp_path_factory.mktemp("trainers") / "few", 5)


def written(directory: Path, rows: int) -> str:
    """Write a dataset with row numbers, features and labels, and return its path."""
    number = np.arange(rows)
    columns = {
        "number": number,
        "x": (number / rows).astype(np.float32),
        "label": number % 2,
        "text": [f"row {n}" for n in number],
    }
    fields = {"number": "long", "x": "float", "label": "long", "text": "string"}
    return write_dataset(directory, columns, fields, shard_size=8_000).url
