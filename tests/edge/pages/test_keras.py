"""The dataset of docs/how-to/keras.md has each pair once in each epoch however it is used."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.edge.pages.page_programs import program_of

ROWS = 100


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    """The names of the page, without its model, which only repeats the epoch."""
    pytest.importorskip("tensorflow")
    data, x = tmp_path / "data", np.arange(ROWS) / 100
    data.mkdir()
    pq.write_table(pa.table({"x": x, "z": 1 - x, "y": 2 * x}), data / "0.parquet")
    program = program_of("how-to/keras.md", slice(1), data, tmp_path)
    names: dict[str, Any] = {}
    exec(program.partition("model = ")[0].replace("import keras\n", ""), names)
    return names


def pairs(dataset: Any, most: int = ROWS) -> list[int]:
    """Return the rows of the first pairs, after comparing their features and labels."""
    found: list[int] = []
    for step, (features, labels) in enumerate(dataset, start=1):
        x, z = features.numpy().T
        assert np.allclose([1 - x, 2 * x], [z, labels])
        found += (100 * x).round().astype(int).tolist()
        if step == most:
            break
    return found


def test_each_epoch_has_each_pair_once_after_loops_that_are_left(page: Any) -> None:
    train = page["train"]
    assert len(train) == 10
    epochs = []
    for steps in (1, 3):
        pairs(train, steps)
        epochs.append(pairs(train))
        assert sorted(epochs[-1]) == [*range(ROWS)]
    assert sorted(pairs(train.repeat(2))) == sorted([*range(ROWS)] * 2)


def test_two_workers_share_the_pairs_in_batches_of_equal_number(page: Any) -> None:
    shares = [
        page["converter"].make_tf_dataset(
            batch_size=10,
            num_epochs=1,
            features=["x", "z"],
            labels="y",
            stack=True,
            cur_shard=rank,
            shard_count=2,
        )
        for rank in range(2)
    ]
    assert list(map(len, shares)) == [5, 5]
    assert sorted(pairs(shares[0]) + pairs(shares[1])) == [*range(ROWS)]


def test_state_of_a_callback_resumes_with_the_remaining_pairs(page: Any) -> None:
    """The callback of docs/trainers.md, while TensorFlow reads ahead."""
    options = {"batch_size": 10, "num_epochs": 1, "shuffling_queue_capacity": ROWS, "seed": 3}
    options |= {"features": ["x", "z"], "labels": "y", "stack": True}
    train, resumed = (page["converter"].make_tf_dataset(**options) for _ in range(2))
    seen = pairs(train, 4)
    resumed.load_state_dict(train.state_dict(batches=4))
    assert sorted(seen + pairs(resumed)) == [*range(ROWS)]
    assert sorted(pairs(resumed)) == [*range(ROWS)]
