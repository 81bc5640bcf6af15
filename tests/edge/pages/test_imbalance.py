"""The recipes of docs/how-to/imbalance.md draw evenly however their loaders are used."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, of_tensorflow, run_blocks, some

X = np.arange(200) / 200
LABELS = (np.arange(200) % 10 == 0).astype(int)


@pytest.fixture(params=["in turns", "sorted by class"])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    order = np.argsort(LABELS, kind="stable") if request.param == "sorted by class" else slice(None)
    table = pa.table({"x": X[order], "label": LABELS[order]})
    return run_blocks("how-to/imbalance.md", slice(1), table, tmp_path)


def test_classes_come_equally_often_in_each_pass_also_after_a_break(page: Any) -> None:
    loader = page["converter"].make_torch_dataloader(50, num_epochs=1, balance="label", seed=7)
    peeked = some(loader, 1, "x")
    passes = [column(loader, "x"), column(loader, "x")]
    assert passes[0][: len(peeked)] == peeked
    assert passes[0] != passes[1]
    some(loader, 2, "x")
    for found in (*passes, column(loader, "x")):
        rare = [round(x * 200) % 10 == 0 for x in found]
        assert len(found) == 200
        assert abs(sum(rare) - 100) <= 5


def test_balanced_epoch_resumes_with_its_remaining_draws_on_two_ranks(page: Any) -> None:
    make = page["converter"].make_torch_dataloader
    options = {"batch_size": 50, "num_epochs": 1, "balance": "label", "seed": 7}
    whole = sorted(column(make(**options), "x"))
    loader = make(**options)
    seen = some(loader, 2, "x")
    for rank in range(2):
        share = make(cur_shard=rank, shard_count=2, **options)
        share.load_state_dict(loader.state_dict())
        seen += column(share, "x")
    assert sorted(seen) == whole


def test_each_of_two_ranks_has_balanced_batches(page: Any) -> None:
    make = page["converter"].make_torch_dataloader
    for rank in range(2):
        loader = make(20, num_epochs=1, balance="label", seed=7, cur_shard=rank, shard_count=2)
        batches = [batch["label"].float().mean().item() for batch in loader]
        assert len(batches) == 5
        assert min(batches) >= 0.2
        assert max(batches) <= 0.8


def test_array_of_weights_leaves_out_rows_of_weight_zero_in_each_pass(tmp_path: Path) -> None:
    table = pa.table({"x": X, "label": LABELS})
    names = run_blocks("how-to/imbalance.md", slice(2), table, tmp_path)
    loader = names["loader"]
    for _ in range(2):
        assert some(loader, 2, "x")
        found = column(loader, "x")
        assert len(found) == 300
        assert min(found) >= 50 / 200


def test_tensorflow_draws_the_classes_equally_often_in_each_loop(tmp_path: Path) -> None:
    table = pa.table({"x": X, "label": LABELS})
    names = run_blocks("how-to/imbalance.md", slice(1), table, tmp_path)
    dataset = names["converter"].make_tf_dataset(50, num_epochs=1, balance="label", seed=7)
    some(of_tensorflow(dataset), 2, "x")
    for _ in range(2):
        found = column(of_tensorflow(dataset), "label")
        assert len(found) == 200
        assert abs(sum(found) - 100) <= 5
