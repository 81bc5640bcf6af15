"""The dataset that the programs train on."""

from pathlib import Path

import numpy as np
import pytest
from tests.mds_backend.small_datasets import write_dataset

#: A prime number: no number of ranks and no batch size divides it.
ROWS = 1_009


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of a dataset of `ROWS` rows in several shards: their numbers, features and labels."""
    directory: Path = tmp_path_factory.mktemp("trainers") / "data"
    number = np.arange(ROWS)
    columns = {
        "number": number,
        "x": (number / ROWS).astype(np.float32),
        "label": number % 2,
        "text": [f"row {n}" for n in number],
    }
    fields = {"number": "long", "x": "float", "label": "long", "text": "string"}
    return write_dataset(directory, columns, fields, shard_size=8_000).url
